/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/backend/switched.h"

#include <stdlib.h>

#include "base/check.h"

/* malloc, not base/mem.h: the allocations that a test makes fail must be those of the wrapper. */
struct ask {
    struct switched *s;
    backend_reply_fn fn;
    void *ctx;
    enum op_kind kind;
    uint64_t tag;
    bool lost;
    struct ask *next;
};

struct switched {
    struct backend base;
    struct backend *inner;
    enum switched_mode mode;
    bool follows;
    uv_idle_t idle;
    struct ask *waiting, **waiting_end;
    size_t passed[OP_KIND_COUNT], met[OP_KIND_COUNT];
    bool inner_closed, closing;
    backend_closed_fn closed_fn;
    void *closed_ctx;
};

static struct switched *of(const struct backend *b)
{
    return (struct switched *)b;
}

static void answer(struct ask *a, enum outcome outcome)
{
    struct reply r = {.kind = a->kind, .tag = a->tag, .outcome = outcome};
    if (r.outcome == OUT_UNAVAILABLE)
        r.note = "switched off";
    a->fn(a->ctx, &r);
    free(a);
}

static void idle_closed_cb(uv_handle_t *handle)
{
    struct switched *s = handle->data;
    backend_closed_fn fn = s->closed_fn;
    void *ctx = s->closed_ctx;
    free(s);
    fn(ctx);
}

static void idle_cb(uv_idle_t *idle)
{
    struct switched *s = idle->data;
    struct ask *going = s->waiting;
    if (s->mode != SWITCH_SILENT || s->closing) {
        s->waiting = NULL;
        s->waiting_end = &s->waiting;
        while (going) {
            struct ask *a = going;
            going = a->next;
            answer(a, a->lost ? OUT_UNKNOWN : OUT_UNAVAILABLE);
        }
    }
    if (!s->waiting)
        uv_idle_stop(idle);
    if (s->closing && s->inner_closed && !s->waiting && !uv_is_closing((uv_handle_t *)idle))
        uv_close((uv_handle_t *)idle, idle_closed_cb);
}

static void wait_turn(struct ask *a)
{
    struct switched *s = a->s;
    a->next = NULL;
    *s->waiting_end = a;
    s->waiting_end = &a->next;
    if (s->mode != SWITCH_SILENT)
        uv_idle_start(&s->idle, idle_cb);
}

static void inner_cb(void *ctx, const struct reply *reply)
{
    struct ask *a = ctx;
    if (a->lost) {
        answer(a, OUT_UNKNOWN);
        return;
    }
    struct reply r = *reply;
    r.tag = a->tag;
    a->fn(a->ctx, &r);
    free(a);
}

static int submit(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn,
                  void *ctx)
{
    struct switched *s = of(b);
    if (s->closing)
        return -ERR_CLOSED;
    for (size_t i = 0; i < count; i++) {
        struct ask *a = calloc(1, sizeof *a);
        CHECK(a);
        *a = (struct ask){s, fn, ctx, ops[i].kind, ops[i].tag, false, NULL};
        bool losing = s->mode == SWITCH_LOST || s->mode == SWITCH_DROPPED;
        a->lost = losing && !op_is_query(ops[i].kind);
        s->met[ops[i].kind]++;
        if (s->mode == SWITCH_ON || s->mode == SWITCH_LOST || (losing && !a->lost)) {
            s->passed[ops[i].kind]++;
            CHECK(backend_submit(s->inner, &ops[i], 1, inner_cb, a) == 0);
        } else {
            wait_turn(a);
        }
    }
    return 0;
}

static int watch(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
                 struct backend_watch **ret)
{
    return backend_watch(of(b)->inner, queue, fn, ctx, ret);
}

static void unwatch(struct backend *b, struct backend_watch *w)
{
    if (!of(b)->inner_closed)
        backend_unwatch(of(b)->inner, w);
}

static unsigned caps(const struct backend *b)
{
    return backend_caps(of(b)->inner);
}

static bool leads(const struct backend *b)
{
    return !of(b)->follows;
}

static void figures(const struct backend *b, struct backend_figures *ret)
{
    if (!of(b)->inner_closed)
        backend_figures(of(b)->inner, ret);
}

static size_t events(const struct backend *b, uint64_t after, uint64_t kinds,
                     struct backend_event *out, size_t max, uint64_t *ret_oldest)
{
    return backend_events(of(b)->inner, after, kinds, out, max, ret_oldest);
}

static uint64_t events_last(const struct backend *b)
{
    return backend_events_last(of(b)->inner);
}

static void on_news(struct backend *b, backend_news_fn fn, void *ctx)
{
    backend_on_news(of(b)->inner, fn, ctx);
}

static int settle(struct backend *b, backend_closed_fn fn, void *ctx)
{
    return backend_settle(of(b)->inner, fn, ctx);
}

static void inner_closed_cb(void *ctx)
{
    struct switched *s = ctx;
    s->inner_closed = true;
    uv_idle_start(&s->idle, idle_cb);
}

static void cluster(const struct backend *b, struct backend_cluster *ret)
{
    const struct switched *s = of(b);
    backend_cluster(s->inner, ret);
    ret->up = s->mode != SWITCH_OFF && s->mode != SWITCH_SILENT;
    if (!ret->up)
        snprintf(ret->trouble, sizeof ret->trouble, "the switch is off");
}

static void close_it(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct switched *s = of(b);
    s->closing = true;
    s->closed_fn = fn;
    s->closed_ctx = ctx;
    backend_close(s->inner, inner_closed_cb, s);
}

static const struct backend_ops switched_ops = {
    .kind = "switched",
    .submit = submit,
    .watch = watch,
    .unwatch = unwatch,
    .caps = caps,
    .leads = leads,
    .figures = figures,
    .cluster = cluster,
    .events = events,
    .events_last = events_last,
    .on_news = on_news,
    .settle = settle,
    .close = close_it,
};

struct switched *switched_new(struct backend *inner, uv_loop_t *loop)
{
    struct switched *s = calloc(1, sizeof *s);
    CHECK(s);
    s->base.ops = &switched_ops;
    s->inner = inner;
    s->waiting_end = &s->waiting;
    uv_idle_init(loop, &s->idle);
    s->idle.data = s;
    return s;
}

struct backend *switched_backend(struct switched *s)
{
    return &s->base;
}

void switched_set(struct switched *s, enum switched_mode mode)
{
    s->mode = mode;
    if (s->waiting && mode != SWITCH_SILENT)
        uv_idle_start(&s->idle, idle_cb);
}

void switched_lead(struct switched *s, bool leads)
{
    s->follows = !leads;
}

size_t switched_passed(const struct switched *s, enum op_kind kind)
{
    return s->passed[kind];
}

size_t switched_met(const struct switched *s, enum op_kind kind)
{
    return s->met[kind];
}
