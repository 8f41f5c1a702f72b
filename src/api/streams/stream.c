/* SPDX-License-Identifier: Apache-2.0 */
#include "api/streams/stream.h"

#include <string.h>

#include "api/streams/event_feed.h"
#include "base/check.h"

#define PING_MS 15000
#define TICK_MS 1000

static void tick_cb(uv_timer_t *timer);

/* ---- the API's list ---- */

static void list_add(struct stream *s)
{
    struct stream_list *ss = s->in;
    s->next = ss->first;
    if (s->next)
        s->next->prev = s;
    ss->first = s;
    if (!s->next)
        CHECK(uv_timer_start(&ss->tick, tick_cb, TICK_MS, TICK_MS) == 0);
}

static void list_drop(struct stream *s)
{
    *(s->prev ? &s->prev->next : &s->in->first) = s->next;
    if (s->next)
        s->next->prev = s->prev;
    if (!s->in->first)
        CHECK(uv_timer_stop(&s->in->tick) == 0);
}

/* ---- begin and end ---- */

void stream_list_init(struct stream_list *ss, uv_loop_t *loop, struct broker *b, const char *ping)
{
    *ss = (struct stream_list){.loop = loop, .broker = b, .ping = ping};
    CHECK(uv_timer_init(loop, &ss->tick) == 0);
    ss->tick.data = ss;
}

struct stream *stream_new(struct stream_list *ss, struct http_exchange *x)
{
    struct problem draining = {.code = PROBLEM_DRAINING,
                               .detail = "the server is shutting down; connect again soon"};
    if (http_request(x)->method == HTTP_HEAD) {
        http_answer(x, 200, "text/event-stream");
        return NULL;
    }
    if (ss->draining || broker_draining(ss->broker)) {
        problem_answer(x, &draining);
        return NULL;
    }
    struct stream *s = arena_array(http_request(x)->arena, 1, sizeof *s);
    if (!s) {
        answer_error(x, -ERR_NOMEM);
        return NULL;
    }
    *s = (struct stream){.in = ss, .x = x, .written_ms = uv_now(ss->loop)};
    buf_init(&s->frame);
    return s;
}

static void client_closed_cb(void *ctx)
{
    stream_end(ctx, true);
}

static void room_cb(void *ctx)
{
    struct stream *s = ctx;
    if (s->feed)
        event_stream_room(s);
    else if (s->listener)
        broker_listener_resume(s->listener);
    else
        broker_stream_resume(s->jobs);
}

void stream_begin(struct stream *s)
{
    list_add(s);
    s->in->listening += !s->jobs;
    http_watch(s->x, client_closed_cb, NULL, s);
    http_stream(s->x);
    http_stream_on_room(s->x, room_cb, s);
}

void stream_end(struct stream *s, bool lost)
{
    list_drop(s);
    s->in->listening -= !s->jobs;
    buf_done(&s->frame);
    if (s->feed)
        event_stream_leave(s);
    else if (s->listener)
        broker_listener_close(s->listener);
    else
        broker_stream_close(s->jobs, lost);
    http_watch(s->x, NULL, NULL, NULL);
    http_stream_on_room(s->x, NULL, NULL);
    http_stream_end(s->x);
    if (s->feed)
        event_stream_release(s);
}

void stream_ended_cb(void *ctx)
{
    stream_end(ctx, false);
}

static void opened(struct stream *s, int err)
{
    if (err < 0)
        answer_error(s->x, err);
    else
        stream_begin(s);
}

void stream_jobs(struct stream_list *ss, struct http_exchange *x,
                 struct broker_stream_config config)
{
    struct stream *s = stream_new(ss, x);
    if (!s)
        return;
    config.ended = stream_ended_cb;
    config.ctx = s;
    opened(s, broker_stream_open(ss->broker, &config, &s->jobs));
}

void stream_listen(struct stream_list *ss, struct http_exchange *x,
                   struct broker_listener_config config)
{
    struct stream *s = stream_new(ss, x);
    if (!s)
        return;
    config.ended = stream_ended_cb;
    config.ctx = s;
    opened(s, broker_listen(ss->broker, &config, &s->listener));
}

/* ---- frames ---- */

void sse_begin(struct buf *out, const char *event, const char *id, struct json_writer *w)
{
    buf_clear(out);
    json_writer_init(w, out);
    w->error = id ? buf_printf(out, "event: %s\nid: %s\ndata: ", event, id)
                  : buf_printf(out, "event: %s\ndata: ", event);
}

void stream_frame_begin(struct stream *s, const char *event, const char *id, struct json_writer *w)
{
    sse_begin(&s->frame, event, id, w);
}

/* JSON has raw line breaks only between tokens, where a space means the same; in the data of an
 * event, a line break would end the field. Line breaks of the frame's head are before `from`. */
static void join_lines(struct buf *b, size_t from)
{
    for (size_t i = from; i < b->len; i++) {
        if (b->data[i] == '\n' || b->data[i] == '\r')
            b->data[i] = ' ';
    }
}

static size_t data_begin(const struct buf *b)
{
    static const char mark[] = "\ndata: ";
    const char *at = memmem(b->data, b->len, mark, sizeof mark - 1);
    return (size_t)(at - b->data) + sizeof mark - 1;
}

int sse_end(struct buf *out, struct json_writer *w)
{
    int err = json_writer_finish(w);
    if (err == 0) {
        join_lines(out, data_begin(out));
        err = buf_append(out, "\n\n", 2);
    }
    return err;
}

bool stream_frame_send(struct stream *s, struct json_writer *w)
{
    if (sse_end(&s->frame, w) < 0) {
        s->broken = true;
        return false;
    }
    return stream_send(s);
}

bool stream_send(struct stream *s)
{
    if (!http_stream_take(s->x, &s->frame))
        return false;
    s->written_ms = uv_now(s->in->loop);
    return true;
}

/* ---- time ---- */

static void ping(struct stream *s)
{
    uint64_t now = uv_now(s->in->loop), last = s->written_ms;
    if (s->feed && event_stream_written_ms(s) > last)
        last = event_stream_written_ms(s);
    if (now - last < PING_MS || http_stream_waiting(s->x) > 0)
        return;
    if (http_stream_write(s->x, span_text(s->in->ping)))
        s->written_ms = now;
}

static void tick_cb(uv_timer_t *timer)
{
    struct stream_list *ss = timer->data;
    struct stream *next;
    event_feeds_tick(ss);
    for (struct stream *s = ss->first; s; s = next) {
        next = s->next;
        if (s->broken)
            stream_end(s, false);
        else
            ping(s);
    }
}

/* 1 ms: with 0 ms the loop would call it again before it writes anything. */
void stream_list_soon(struct stream_list *ss)
{
    CHECK(uv_timer_start(&ss->tick, tick_cb, 1, TICK_MS) == 0);
}

void stream_list_drain(struct stream_list *ss)
{
    ss->draining = true;
    while (ss->first)
        stream_end(ss->first, false);
}
