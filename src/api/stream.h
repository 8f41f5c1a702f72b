/* SPDX-License-Identifier: Apache-2.0 */
/* What all server-sent streams of all APIs share: frames, pings, room, the end.
 *
 * A stream lives in its exchange's arena and ends once: because the client went, the broker or the
 * API drains, or memory for a frame was lacking. Its source is what it hears from: a listener of
 * events or a stream of claimed jobs. */
#pragma once

#include <uv.h>

#include "api/call.h"

/* The streams of one API. */
struct stream_list {
    uv_loop_t *loop;
    struct broker *broker;
    const char *ping;         /* the frame sent after 15 s of silence */
    struct stream *first;     /* open ones */
    struct event_feed *feeds; /* what streams of events share (event_feed.c) */
    uv_timer_t tick;          /* runs while there are any */
    uint64_t listening;       /* open ones that are not of jobs */
    bool draining;            /* new ones are refused */
};
void stream_list_init(struct stream_list *ss, uv_loop_t *loop, struct broker *b, const char *ping);
/* The next tick comes with one of the next turns of the loop. */
void stream_list_soon(struct stream_list *ss);
/* Ends all; new ones are refused. */
void stream_list_drain(struct stream_list *ss);

struct stream {
    struct stream_list *in;
    struct http_exchange *x;
    struct stream *prev, *next; /* of the API's list */
    uint64_t written_ms;        /* loop time of the last frame */
    bool broken;                /* a frame could not be built: ends at the next tick */
    struct buf frame;           /* scratch */
    struct event_feed *feed;    /* of a stream of events; NULL = another kind */
    struct broker_listener *listener;
    struct broker_stream *jobs; /* one of the two, unless it follows the feed */
};

/* NULL after answering: HEAD, draining, or no memory. */
struct stream *stream_new(struct stream_list *ss, struct http_exchange *x);
/* Begins the answer; the source is set. */
void stream_begin(struct stream *s);
/* Ends it; lost: the client went first. s is gone afterwards. */
void stream_end(struct stream *s, bool lost);

/* The same in a buffer, without a stream; sse_end gives 0, or the error of the writer. */
void sse_begin(struct buf *out, const char *event, const char *id, struct json_writer *w);
MUST_CHECK int sse_end(struct buf *out, struct json_writer *w);
/* Writes what s->frame holds, which is empty afterwards. */
bool stream_send(struct stream *s);

/* A frame in three steps: begin gives a writer for the data; send folds line breaks between JSON
 * tokens into spaces and writes. id may be NULL. false: it was not taken; the source is resumed
 * when there is room. */
void stream_frame_begin(struct stream *s, const char *event, const char *id, struct json_writer *w);
bool stream_frame_send(struct stream *s, struct json_writer *w);
