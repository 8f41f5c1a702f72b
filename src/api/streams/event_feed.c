/* SPDX-License-Identifier: Apache-2.0 */
#include "api/streams/event_feed.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

#define NUMBER_TEXT_BYTES 24
/* Bytes that are appended in one loop iteration; then the streams send, so that only slow ones
 * fall behind. */
#define FRESH_BYTES ((size_t)256 << 10)
/* For a stream that catches up: bytes that wait in its own buffer. */
#define OWN_BYTES ((uint64_t)64 << 10)

struct event_feed {
    struct stream_list *in;
    struct event_feed *prev, *next; /* of the list's */
    struct event_filter filter;     /* the name of the queue follows the struct */
    const struct event_format *format;
    struct http_feed *bytes;
    struct broker_listener *listener;
    unsigned streams; /* streams that follow the feed or will follow it */
    uint64_t written_ms;
    size_t fresh;     /* bytes since the streams could last send */
    struct buf frame; /* scratch */
};

/* ---- frames ---------------------------------------------------------------------------------- */

static int event_frame(const struct event_format *format, struct buf *out,
                       const struct broker_event *e)
{
    struct json_writer w;
    char id[NUMBER_TEXT_BYTES];
    snprintf(id, sizeof id, "%" PRIu64, e->event.id);
    sse_begin(out, format->name(e), id, &w);
    format->write(&w, e);
    return sse_end(out, &w);
}

static int gap_frame(struct buf *out, uint64_t oldest)
{
    struct json_writer w;
    char id[NUMBER_TEXT_BYTES];
    snprintf(id, sizeof id, "%" PRIu64, oldest);
    sse_begin(out, "gap", NULL, &w);
    json_write_object(&w);
    json_write_key(&w, "oldest");
    json_write_text(&w, span_text(id));
    json_write_object_end(&w);
    return sse_end(out, &w);
}

/* ---- the feed's listener --------------------------------------------------------------------- */

/* An event that cannot be encoded for lack of memory pauses the listener until the next tick. */
static void feed_append(struct event_feed *f, int err, uint64_t mark)
{
    if (err < 0)
        return;
    http_feed_append(f->bytes, buf_span(&f->frame), mark);
    f->fresh += f->frame.len;
    f->written_ms = uv_now(f->in->loop);
}

static bool feed_event_cb(void *ctx, const struct broker_event *e)
{
    struct event_feed *f = ctx;
    if (f->fresh > FRESH_BYTES) {
        stream_list_soon(f->in);
        return false;
    }
    int err = event_frame(f->format, &f->frame, e);
    feed_append(f, err, e->event.id);
    return err == 0;
}

static bool feed_gap_cb(void *ctx, uint64_t oldest)
{
    struct event_feed *f = ctx;
    int err = gap_frame(&f->frame, oldest);
    feed_append(f, err, oldest - 1);
    return err == 0;
}

/* The last stream frees the feed. */
static void feed_ended_cb(void *ctx)
{
    struct event_feed *f = ctx;
    struct stream_list *ss = f->in;
    struct stream *next;
    for (struct stream *s = ss->first; s; s = next) {
        next = s->next;
        if (s->feed != f || s->listener) /* its own listener gets the gap as well */
            continue;
        stream_end(s, false);
    }
}

/* ---- feeds ----------------------------------------------------------------------------------- */

static bool same_filter(const struct event_filter *a, const struct event_filter *b)
{
    return a->kinds == b->kinds && span_equal(a->queue, b->queue);
}

static struct event_feed *feed_find(const struct stream_list *ss, const struct event_filter *filter)
{
    struct event_feed *f = ss->feeds;
    while (f && !same_filter(&f->filter, filter))
        f = f->next;
    return f;
}

static void feed_free(struct event_feed *f)
{
    broker_listener_close(f->listener);
    http_feed_free(f->bytes);
    buf_done(&f->frame);
    mem_free(f);
}

static int feed_open(struct event_feed *f, struct http_exchange *x)
{
    struct broker_listener_config config = {.queue = f->filter.queue,
                                            .kinds = f->filter.kinds,
                                            .event = feed_event_cb,
                                            .gap = feed_gap_cb,
                                            .ended = feed_ended_cb,
                                            .ctx = f};
    int err = broker_listen(f->in->broker, &config, &f->listener);
    if (err)
        return err;
    uint64_t at;
    CHECK(broker_listener_at_rest(f->listener, &at));
    f->bytes = http_feed_new(x, at);
    return f->bytes ? 0 : -ERR_NOMEM;
}

static struct event_feed *feed_new(struct stream_list *ss, struct http_exchange *x,
                                   const struct event_format *format,
                                   const struct event_filter *filter)
{
    struct event_feed *f = mem_zalloc(sizeof *f + filter->queue.len);
    if (!f)
        return NULL;
    f->in = ss;
    f->format = format;
    f->filter = *filter;
    if (filter->queue.len)
        memcpy(f + 1, filter->queue.at, filter->queue.len);
    f->filter.queue = span_of(f + 1, filter->queue.len);
    if (feed_open(f, x) != 0) {
        feed_free(f);
        return NULL;
    }
    f->next = ss->feeds;
    if (f->next)
        f->next->prev = f;
    ss->feeds = f;
    return f;
}

static void feed_release(struct event_feed *f)
{
    if (--f->streams > 0)
        return;
    *(f->prev ? &f->prev->next : &f->in->feeds) = f->next;
    if (f->next)
        f->next->prev = f->prev;
    feed_free(f);
}

/* ---- a stream that catches up ---------------------------------------------------------------- */

static bool own_send(struct stream *s, int err)
{
    if (err == 0)
        return stream_send(s);
    s->broken = true;
    return false;
}

static bool own_event_cb(void *ctx, const struct broker_event *e)
{
    struct stream *s = ctx;
    return own_send(s, event_frame(s->feed->format, &s->frame, e));
}

static bool own_gap_cb(void *ctx, uint64_t oldest)
{
    struct stream *s = ctx;
    return own_send(s, gap_frame(&s->frame, oldest));
}

static void own_close(struct stream *s)
{
    broker_listener_close(s->listener);
    s->listener = NULL;
    buf_done(&s->frame);
    CHECK(http_stream_hold(s->x, 0));
}

/* Both have delivered the same events, so none is lost or sent twice when one takes over. */
static void own_caught_up_cb(void *ctx)
{
    struct stream *s = ctx;
    uint64_t own, shared;
    broker_listener_resume(s->feed->listener); /* the feed may be ahead of the listener */
    if (!broker_listener_at_rest(s->listener, &own) ||
        !broker_listener_at_rest(s->feed->listener, &shared) || own != shared)
        return;
    own_close(s);
    http_stream_follow(s->x, s->feed->bytes);
}

static int own_open(struct stream *s, bool resume, uint64_t after)
{
    struct broker_listener_config config = {.queue = s->feed->filter.queue,
                                            .kinds = s->feed->filter.kinds,
                                            .resume = resume,
                                            .after = after,
                                            .event = own_event_cb,
                                            .gap = own_gap_cb,
                                            .caught_up = own_caught_up_cb,
                                            .ended = stream_ended_cb,
                                            .ctx = s};
    if (!http_stream_hold(s->x, broker_listener_bytes()))
        return -ERR_NOMEM;
    return broker_listen(s->in->broker, &config, &s->listener);
}

/* ---- for stream.c ---------------------------------------------------------------------------- */

void event_stream_room(struct stream *s)
{
    uint64_t mark;
    if (s->listener)
        broker_listener_resume(s->listener);
    else if (!http_stream_follows(s->x, &mark) && own_open(s, true, mark) != 0)
        s->broken = true;
}

void event_stream_leave(struct stream *s)
{
    broker_listener_close(s->listener);
    s->listener = NULL;
}

void event_stream_release(struct stream *s)
{
    feed_release(s->feed);
    s->feed = NULL;
}

uint64_t event_stream_written_ms(const struct stream *s)
{
    return s->feed->written_ms;
}

void event_feeds_tick(struct stream_list *ss)
{
    for (struct event_feed *f = ss->feeds; f; f = f->next) {
        f->fresh = 0;
        broker_listener_resume(f->listener);
    }
}

/* ---- the request ----------------------------------------------------------------------------- */

void event_stream(struct stream_list *ss, struct http_exchange *x,
                  const struct event_format *format, const struct event_filter *filter, bool resume,
                  uint64_t after)
{
    uint64_t at;
    struct stream *s = stream_new(ss, x);
    if (!s)
        return;
    struct event_feed *f = feed_find(ss, filter);
    if (!f)
        f = feed_new(ss, x, format, filter);
    if (!f) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    f->streams++;
    s->feed = f;
    stream_begin(s);
    http_stream_bound(x, OWN_BYTES);
    broker_listener_resume(f->listener);
    if (!resume && broker_listener_at_rest(f->listener, &at))
        http_stream_follow(x, f->bytes);
    else if (own_open(s, resume, after) != 0)
        s->broken = true;
}
