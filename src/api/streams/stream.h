/* SPDX-License-Identifier: Apache-2.0 */
/* src/api/streams has the server-sent streams of all APIs. It may use http, broker, core and base.
 *
 * Server-sent streams of all APIs: frames, pings, flow control and the end.
 *
 * A stream is in its exchange's arena and ends once: because the client closed the connection,
 * the broker or the API drains, or there was no memory for a frame. Its source is a listener of
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
    uv_timer_t tick;          /* runs while there are streams */
    uint64_t listening;       /* open streams other than those of jobs */
    bool draining;            /* new ones are refused */
};
void stream_list_init(struct stream_list *ss, uv_loop_t *loop, struct broker *b, const char *ping);
/* The next tick runs in one of the next loop iterations. */
void stream_list_soon(struct stream_list *ss);
/* Ends all streams; new ones are refused. */
void stream_list_drain(struct stream_list *ss);

struct stream {
    struct stream_list *in;
    struct http_exchange *x;
    struct stream *prev, *next; /* of the API's list */
    uint64_t written_ms;        /* loop time of the last frame */
    bool broken;                /* a frame could not be built: the stream ends at the next tick */
    struct buf frame;           /* scratch */
    struct event_feed *feed;    /* of a stream of events; NULL for other streams */
    struct broker_listener *listener;
    struct broker_stream *jobs; /* one of the two is set, unless the stream follows the feed */
};

/* NULL after the exchange was answered: HEAD, draining, or no memory. */
struct stream *stream_new(struct stream_list *ss, struct http_exchange *x);
/* Open a stream of claimed jobs, or of events without a feed. The stream becomes the context of
 * the callbacks. Answers the exchange if the source cannot be opened. */
void stream_jobs(struct stream_list *ss, struct http_exchange *x,
                 struct broker_stream_config config);
void stream_listen(struct stream_list *ss, struct http_exchange *x,
                   struct broker_listener_config config);
/* `ended` of a source: ends the stream that is its context. */
void stream_ended_cb(void *ctx);
/* Begins the answer. The source must be set. */
void stream_begin(struct stream *s);
/* Ends the stream and frees s. lost: the client closed the connection. */
void stream_end(struct stream *s, bool lost);

/* The same in a buffer, without a stream; sse_end returns 0 or the error of the writer. */
void sse_begin(struct buf *out, const char *event, const char *id, struct json_writer *w);
MUST_CHECK int sse_end(struct buf *out, struct json_writer *w);
/* Sends the contents of s->frame, which is empty afterwards. */
bool stream_send(struct stream *s);

/* A frame in three steps: begin returns a writer for the data; send folds line breaks between
 * JSON tokens into spaces and sends. id may be NULL. false: the frame was not accepted; the
 * source is resumed when there is room. */
void stream_frame_begin(struct stream *s, const char *event, const char *id, struct json_writer *w);
bool stream_frame_send(struct stream *s, struct json_writer *w);
