/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the wrapper. Everything is passed to the store below unchanged; jobs that the store
 * reports as ready are pushed. */
#include "backend/dispatch/impl.h"

#include <string.h>

#include "backend/fanout.h"
#include "base/check.h"
#include "base/mem.h"

#define TICK_MS 250
#define EVENTS_AT_ONCE 64
#define READY_EVENTS                                                                               \
    (1ull << EVENT_ENQUEUED | 1ull << EVENT_READY | 1ull << EVENT_RETRIED |                        \
     1ull << EVENT_CRASHED | 1ull << EVENT_RELEASED | 1ull << EVENT_REQUEUED |                     \
     1ull << EVENT_PATCHED | 1ull << EVENT_UNBLOCKED)
#define EVENTS_WANTED (READY_EVENTS | 1ull << EVENT_QUEUE_DELETED)

static int dispatch_submit(struct backend *b, const struct op *ops, size_t count,
                           backend_reply_fn fn, void *ctx);

static struct dispatch *dispatch_of(const struct backend *b)
{
    CHECK(b->ops->submit == dispatch_submit);
    return (struct dispatch *)(uintptr_t)b;
}

int64_t dispatch_ms(void)
{
    return (int64_t)(clock_ns() / 1000000);
}

/* --- jobs that have become ready --- */

static void take_events(struct dispatch *d)
{
    struct backend_event events[EVENTS_AT_ONCE];
    uint64_t oldest;
    size_t n;
    if (backend_events_missed(d->inner, d->seen))
        d->pass_now = true;
    do {
        n = backend_events(d->inner, d->seen, EVENTS_WANTED, events, EVENTS_AT_ONCE, &oldest);
        for (size_t i = 0; i < n; i++) {
            const struct backend_event *e = &events[i];
            d->seen = e->id;
            if (e->kind == EVENT_QUEUE_DELETED && e->queue.len)
                push_forget(d, e->queue);
            else if (e->state == STATE_READY && e->queue.len)
                push_add(d, e->queue, (struct job_ref){.seq = e->seq, .hi = e->id_hi});
        }
    } while (n == EVENTS_AT_ONCE);
    d->seen = backend_events_last(d->inner);
    pushes_wake(d);
}

static void news_cb(void *ctx)
{
    struct dispatch *d = ctx;
    take_events(d);
    if (d->news)
        d->news(d->news_ctx);
}

static void answer_settle_calls(struct dispatch *d)
{
    if (d->settle_calls.first && pushes_idle(d))
        settle_calls_end(&d->settle_calls, 0);
}

void dispatch_after(struct dispatch *d)
{
    if (d->closing)
        return;
    pushes_wake(d);
    pass_wake(d);
    answer_settle_calls(d);
}

#define LEADER_TTL_MS 10000
#define SHOWN_PER_TTL 5

/* Shows the leader at the key that the document names, for people and monitoring; the lease itself
 * is in the store. When a node is no longer the leader, it lets the key expire. */
static void show_leader(struct dispatch *d)
{
    const char *key = d->config.leader_key;
    int64_t ttl = d->config.leader_ttl_ms ? d->config.leader_ttl_ms : LEADER_TTL_MS;
    struct backend_cluster cluster;
    if (!key || !*key || !backend_leads(d->inner) ||
        dispatch_ms() - d->shown_ms < ttl / SHOWN_PER_TTL)
        return;
    d->shown_ms = dispatch_ms();
    backend_cluster(d->inner, &cluster);
    for (size_t i = 0; i < LIST_SERVER_COUNT; i++)
        list_server_show_leader(&d->servers[i], key, cluster.leader_epoch, ttl);
}

static void timer_cb(uv_timer_t *timer)
{
    struct dispatch *d = timer->data;
    show_leader(d);
    for (size_t i = 0; i < LIST_SERVER_COUNT; i++)
        if (redis_conn_down(d->servers[i].conn))
            redis_conn_open(d->servers[i].conn);
    dispatch_after(d);
}

/* --- the slots --- */

static int dispatch_submit(struct backend *b, const struct op *ops, size_t count,
                           backend_reply_fn fn, void *ctx)
{
    return backend_submit(dispatch_of(b)->inner, ops, count, fn, ctx);
}

static int dispatch_watch(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
                          struct backend_watch **ret)
{
    return backend_watch(dispatch_of(b)->inner, queue, fn, ctx, ret);
}

static void dispatch_unwatch(struct backend *b, struct backend_watch *w)
{
    backend_unwatch(dispatch_of(b)->inner, w);
}

static bool dispatch_leads(const struct backend *b)
{
    return backend_leads(dispatch_of(b)->inner);
}

static unsigned dispatch_caps(const struct backend *b)
{
    return backend_caps(dispatch_of(b)->inner);
}

static void dispatch_figures(const struct backend *b, struct backend_figures *ret)
{
    const struct dispatch *d = dispatch_of(b);
    backend_figures(d->inner, ret);
    ret->dispatches = true;
    ret->dispatch_pushed = d->pushed;
    ret->dispatch_failed = d->failed;
    for (size_t i = 0; i < LIST_SERVER_COUNT; i++)
        ret->dispatch_up[i] = list_server_up(&d->servers[i]);
}

static void dispatch_cluster(const struct backend *b, struct backend_cluster *ret)
{
    backend_cluster(dispatch_of(b)->inner, ret);
}

static int64_t dispatch_clock_offset(const struct backend *b)
{
    return backend_clock_offset(dispatch_of(b)->inner);
}

static size_t dispatch_events(const struct backend *b, uint64_t after, uint64_t kinds,
                              struct backend_event *out, size_t max, uint64_t *ret_oldest)
{
    return backend_events(dispatch_of(b)->inner, after, kinds, out, max, ret_oldest);
}

static uint64_t dispatch_events_last(const struct backend *b)
{
    return backend_events_last(dispatch_of(b)->inner);
}

static void dispatch_on_news(struct backend *b, backend_news_fn fn, void *ctx)
{
    struct dispatch *d = dispatch_of(b);
    d->news = fn;
    d->news_ctx = ctx;
}

static void settled_cb(void *ctx)
{
    struct settle_call *one = ctx;
    struct dispatch *d = one->owner;
    one->worked = true;
    take_events(d);
    answer_settle_calls(d);
}

static int dispatch_settle(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct dispatch *d = dispatch_of(b);
    struct settle_call *one = d->closing ? NULL : settle_calls_add(&d->settle_calls, d, fn, ctx);
    if (!one)
        return d->closing ? -ERR_CLOSED : -ERR_NOMEM;
    int err = backend_settle(d->inner, settled_cb, one);
    if (err)
        settle_calls_drop(&d->settle_calls, one);
    return err;
}

/* --- closing --- */

static void part_closed(struct dispatch *d)
{
    backend_closed_fn fn = d->closed;
    void *ctx = d->closed_ctx;
    if (--d->handles > 0)
        return;
    settle_calls_end_all(&d->settle_calls);
    pass_cancel(d);
    map64_done(&d->busy);
    map64_done(&d->suspects);
    mem_free(d->urgent);
    mem_free(d);
    if (fn)
        fn(ctx);
}

static void timer_closed_cb(uv_handle_t *handle)
{
    part_closed(handle->data);
}

static void inner_closed_cb(void *ctx)
{
    part_closed(ctx);
}

/* Jobs whose push is not confirmed stay pending, for the leader. */
static void dispatch_close(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct dispatch *d = dispatch_of(b);
    d->closing = true;
    d->closed = fn;
    d->closed_ctx = ctx;
    d->handles = 2;
    for (size_t i = 0; i < LIST_SERVER_COUNT; i++)
        list_server_close(&d->servers[i]);
    pass_cancel(d);
    uv_close((uv_handle_t *)&d->timer, timer_closed_cb);
    backend_close(d->inner, inner_closed_cb, d);
}

/* --- opening --- */

static int copy_urgent(struct dispatch *d, const struct dispatch_config *c)
{
    size_t bytes = 0;
    for (size_t i = 0; i < c->urgent_count; i++)
        bytes += c->urgent[i].len;
    d->urgent = mem_alloc(c->urgent_count * sizeof *d->urgent + bytes + 1);
    if (!d->urgent)
        return -ERR_NOMEM;
    char *at = (char *)(d->urgent + c->urgent_count);
    for (size_t i = 0; i < c->urgent_count; i++) {
        memcpy(at, c->urgent[i].at, c->urgent[i].len);
        d->urgent[i] = span_of(at, c->urgent[i].len);
        at += c->urgent[i].len;
    }
    d->urgent_count = c->urgent_count;
    return 0;
}

static void fill_ops(struct dispatch *d)
{
    snprintf(d->kind, sizeof d->kind, "%s+redis", backend_kind(d->inner));
    d->ops = (struct backend_ops){.kind = d->kind,
                                  .submit = dispatch_submit,
                                  .watch = dispatch_watch,
                                  .unwatch = dispatch_unwatch,
                                  .caps = dispatch_caps,
                                  .leads = dispatch_leads,
                                  .figures = dispatch_figures,
                                  .cluster = dispatch_cluster,
                                  .clock_offset = dispatch_clock_offset,
                                  .events = dispatch_events,
                                  .events_last = dispatch_events_last,
                                  .on_news = dispatch_on_news,
                                  .settle = dispatch_settle,
                                  .close = dispatch_close};
    d->base.ops = &d->ops;
}

int backend_open_dispatch(struct backend *inner, const struct backend_config *config,
                          const struct dispatch_config *dispatch, struct backend **ret,
                          struct err_note *note)
{
    struct dispatch *d = mem_zalloc(sizeof *d);
    if (!d) {
        backend_close(inner, fanout_ignore_closed_cb, NULL);
        return -ERR_NOMEM;
    }
    d->inner = inner;
    d->config = *config;
    d->interval_ms = dispatch->interval_ms;
    d->batch = dispatch->batch;
    d->pass_now = true;
    d->timer.data = d;
    map64_init(&d->busy);
    map64_init(&d->suspects);
    fill_ops(d);
    CHECK(uv_timer_init(config->loop, &d->timer) == 0);
    d->servers[LIST_SERVER_HIGH] = (struct list_server){.d = d, .name = "high"};
    d->servers[LIST_SERVER_LOW] = (struct list_server){.d = d, .name = "low"};
    int err = copy_urgent(d, dispatch);
    if (!err)
        err = list_server_open(&d->servers[LIST_SERVER_HIGH], dispatch->high, note);
    if (!err)
        err = list_server_open(&d->servers[LIST_SERVER_LOW], dispatch->low, note);
    if (err) {
        dispatch_close(&d->base, NULL, NULL);
        return err;
    }
    d->seen = backend_events_last(inner);
    backend_on_news(inner, news_cb, d);
    CHECK(uv_timer_start(&d->timer, timer_cb, 0, TICK_MS) == 0);
    *ret = &d->base;
    return 0;
}
