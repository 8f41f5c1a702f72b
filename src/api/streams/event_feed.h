/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of events that many clients listen to: all streams with the same filter share one
 * listener and one feed (http.h), so an event is read, encoded and held once for all of them.
 *
 * A stream that begins in the past, or that was too slow for the feed, catches up with its own
 * listener, and follows the feed again when both have delivered the same events. */
#pragma once

#include "api/streams/stream.h"

/* The data of an event as JSON. */
typedef void (*event_write_fn)(struct json_writer *w, const struct broker_event *e);
typedef const char *(*event_name_fn)(const struct broker_event *e);

struct event_format {
    event_name_fn name;
    event_write_fn write;
};

struct event_filter {
    struct span queue; /* empty = all */
    uint64_t kinds;    /* 0 = all */
};

/* Answers x with a stream of events. resume: begin after `after`, else with the next event. The
 * format is the same for all streams of a list. */
void event_stream(struct stream_list *ss, struct http_exchange *x,
                  const struct event_format *format, const struct event_filter *filter, bool resume,
                  uint64_t after);

/* For stream.c. */
void event_stream_room(struct stream *s);                 /* there is room again */
void event_stream_leave(struct stream *s);                /* before its exchange ends */
void event_stream_release(struct stream *s);              /* after that */
void event_feeds_tick(struct stream_list *ss);            /* once a second */
uint64_t event_stream_written_ms(const struct stream *s); /* loop time of its feed's last frame */
