/* SPDX-License-Identifier: Apache-2.0 */
/* The router: taking batches apart, answering, opening and closing. See impl.h. */
#include "backend/router/router.h"

#include <stdlib.h>

#include "backend/reply_copy.h"
#include "backend/router/impl.h"
#include "base/check.h"
#include "base/mem.h"

#define EPOCH_SHIFT 40
#define EVENTS_AT_ONCE 64

static int router_submit(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn,
                         void *ctx);
static void idle_cb(uv_idle_t *idle);
static void take_answer(struct call *c, const struct reply *reply);
static void close_further(struct router *r);

static struct router *router_of(const struct backend *b)
{
    CHECK(b->ops->submit == router_submit);
    return (struct router *)b;
}

/* --- answering --- */

static void call_done(struct call *c)
{
    for (struct answer *at = c->answers; at; at = at->next)
        mem_free(at->own);
    arena_done(&c->arena);
}

/* Calls back; the batch may be gone afterwards. */
static void deliver(struct call *c, const struct reply *answer)
{
    struct batch *batch = c->batch;
    struct reply reply = *answer;
    reply.kind = c->op->kind;
    reply.tag = c->op->tag;
    batch->fn(batch->ctx, &reply);
    call_done(c);
    if (--batch->unanswered == 0) {
        mem_free(batch->ops);
        mem_free(batch);
    }
}

/* The answer cannot be told for want of memory, whatever it was. */
static void deliver_lost(struct call *c)
{
    struct reply lost = {.outcome = OUT_UNKNOWN};
    if (op_is_query(c->op->kind)) {
        lost.outcome = OUT_UNAVAILABLE;
        lost.note = "no memory for the answer";
    }
    deliver(c, &lost);
}

static void deliver_refused(struct call *c)
{
    struct reply refused = {.outcome = OUT_INVALID, .note = c->note};
    if (!c->note) {
        refused.outcome = OUT_UNAVAILABLE;
        refused.note = "no memory for the request";
    }
    deliver(c, &refused);
}

static void answer_later(struct router *r, struct call *c)
{
    c->next = NULL;
    *r->later_end = c;
    r->later_end = &c->next;
    uv_idle_start(&r->idle, idle_cb);
}

/* What was refused, or not taken by its child, is answered in the next turn. */
static void idle_cb(uv_idle_t *idle)
{
    struct router *r = idle->data;
    struct call *going = r->later;
    r->later = NULL;
    r->later_end = &r->later;
    uv_idle_stop(&r->idle);
    while (going) {
        struct call *c = going;
        struct reply reply = {.outcome = OUT_UNAVAILABLE, .note = "the backend took nothing"};
        going = c->next;
        if (c->note || !c->child)
            deliver_refused(c);
        else
            take_answer(c, &reply);
    }
    close_further(r);
}

/* --- answers of the children --- */

static void inner_reply_cb(void *ctx, const struct reply *reply)
{
    struct batch *batch = ctx;
    take_answer(&batch->calls[reply->tag], reply);
}

static void ask_next(struct call *c)
{
    struct reply reply = {.outcome = OUT_UNAVAILABLE, .note = "the backend is closing"};
    c->inner.tag = (uint64_t)(c - c->batch->calls);
    int err = c->batch->router->closing
                  ? -ERR_CLOSED
                  : backend_submit(c->child->backend, &c->inner, 1, inner_reply_cb, c->batch);
    if (err)
        take_answer(c, &reply);
}

/* Keeps the answer for the merge; a copy when others are still to come. */
static int keep_answer(struct call *c, struct child *from, const struct reply *reply, bool copy)
{
    struct answer *a = arena_array(&c->arena, 1, sizeof *a);
    if (!a)
        return -ERR_NOMEM;
    *a = (struct answer){.reply = reply, .from = from};
    if (copy) {
        a->own = reply_copy(reply);
        a->reply = a->own;
        if (!a->own)
            return -ERR_NOMEM;
    }
    *c->answers_end = a;
    c->answers_end = &a->next;
    return 0;
}

static void finish(struct call *c)
{
    struct reply merged = {.outcome = OUT_OK};
    if (c->note)
        deliver_refused(c);
    else if (c->gather->merge(c, &merged) != 0)
        deliver_lost(c);
    else
        deliver(c, &merged);
}

static void gather_answer(struct call *c, const struct reply *reply)
{
    struct child *from = c->child;
    bool on =
        reply->outcome == OUT_OK || (c->gather->goes_on && c->gather->goes_on(c, reply->outcome));
    if (!on) {
        deliver(c, reply);
        return;
    }
    bool more = c->gather->next(c, reply);
    if (keep_answer(c, from, reply, more) != 0)
        deliver_lost(c);
    else if (more)
        ask_next(c);
    else
        finish(c);
}

static void take_answer(struct call *c, const struct reply *reply)
{
    struct reply outside = *reply;
    if (router_reply_out(c->child, &outside, &c->arena) != 0) {
        deliver_lost(c);
    } else if (c->gather) {
        gather_answer(c, &outside);
    } else {
        if (c->op->kind == OP_KV_LIST)
            outside.as_of += router_position_besides(c);
        deliver(c, &outside);
    }
}

/* --- taking a batch --- */

static struct batch *batch_new(struct router *r, size_t count, backend_reply_fn fn, void *ctx)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, sizeof(struct call), &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct batch), &bytes))
        return NULL;
    struct batch *batch = mem_zalloc(bytes);
    struct op *ops = mem_array(count, sizeof *ops);
    if (!batch || !ops) {
        mem_free(batch);
        mem_free(ops);
        return NULL;
    }
    batch->router = r;
    batch->fn = fn;
    batch->ctx = ctx;
    batch->unanswered = count;
    batch->ops = ops;
    return batch;
}

static void plan_batch(struct batch *batch, const struct op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct call *c = &batch->calls[i];
        c->batch = batch;
        c->op = &ops[i];
        arena_init(&c->arena);
        router_plan(batch->router, c);
    }
}

/* The ops for one child, in order, from `to` on. */
static size_t fill_for(struct batch *batch, size_t count, const struct child *child, struct op *to)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        struct call *c = &batch->calls[i];
        if (c->note || c->child != child)
            continue;
        to[n] = c->inner;
        to[n++].tag = i;
    }
    return n;
}

static void forsake(struct batch *batch, const struct op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        answer_later(batch->router, &batch->calls[ops[i].tag]);
}

/* Once one child has taken its part there is no way back: what another does not take is answered
 * OUT_UNAVAILABLE, later. */
static int router_submit(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn,
                         void *ctx)
{
    struct router *r = router_of(b);
    if (r->closing)
        return -ERR_CLOSED;
    struct batch *batch = batch_new(r, count, fn, ctx);
    if (!batch)
        return -ERR_NOMEM;
    plan_batch(batch, ops, count);
    struct op *to = batch->ops;
    for (unsigned i = 0; i < r->child_count; i++) {
        size_t n = fill_for(batch, count, &r->children[i], to);
        if (backend_submit(r->children[i].backend, to, n, inner_reply_cb, batch) != 0)
            forsake(batch, to, n);
        to += n;
    }
    for (size_t i = 0; i < count; i++) {
        if (batch->calls[i].note || !batch->calls[i].child)
            answer_later(r, &batch->calls[i]);
    }
    return 0;
}

/* --- watching --- */

static int router_watch(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
                        struct backend_watch **ret)
{
    struct router *r = router_of(b);
    struct router_watch *w = r->closing ? NULL : mem_zalloc(sizeof *w);
    if (!w)
        return r->closing ? -ERR_CLOSED : -ERR_NOMEM;
    w->child = router_child_of(r, queue);
    int err = backend_watch(w->child->backend, queue, fn, ctx, &w->inner);
    if (err) {
        mem_free(w);
        return err;
    }
    w->next = r->watches;
    if (w->next)
        w->next->prev = w;
    r->watches = w;
    *ret = (struct backend_watch *)w;
    return 0;
}

static void router_unwatch(struct backend *b, struct backend_watch *handle)
{
    struct router *r = router_of(b);
    struct router_watch *w = (struct router_watch *)handle;
    if (w->child->backend)
        backend_unwatch(w->child->backend, w->inner);
    *(w->prev ? &w->prev->next : &r->watches) = w->next;
    if (w->next)
        w->next->prev = w->prev;
    mem_free(w);
}

/* --- events --- */

static size_t router_events(const struct backend *b, uint64_t after, uint64_t kinds,
                            struct backend_event *out, size_t max, uint64_t *ret_oldest)
{
    struct router *r = router_of(b);
    unsigned from[EVENTS_AT_ONCE];
    size_t n = 0, got, wanted;
    if (!out)
        return event_merge_read(&r->events, after, kinds, NULL, NULL, 0, ret_oldest);
    do {
        wanted = max - n < EVENTS_AT_ONCE ? max - n : EVENTS_AT_ONCE;
        got = event_merge_read(&r->events, after, kinds, &out[n], from, wanted, ret_oldest);
        for (size_t i = 0; i < got; i++)
            out[n + i].seq = router_seq_out(&r->children[from[i]], out[n + i].seq);
        n += got;
        after = n > 0 ? out[n - 1].id : after;
    } while (n < max && got == wanted);
    return n;
}

static uint64_t router_events_last(const struct backend *b)
{
    return event_merge_last(&router_of(b)->events);
}

static void news_cb(void *ctx)
{
    struct router *r = ctx;
    event_merge_pull(&r->events);
    if (r->news)
        r->news(r->news_ctx);
}

static void router_on_news(struct backend *b, backend_news_fn fn, void *ctx)
{
    struct router *r = router_of(b);
    r->news = fn;
    r->news_ctx = ctx;
    for (unsigned i = 0; i < r->child_count; i++) {
        if (r->children[i].backend)
            backend_on_news(r->children[i].backend, fn ? news_cb : NULL, r);
    }
}

/* --- all children at once --- */

static unsigned router_caps(const struct backend *b)
{
    const struct router *r = router_of(b);
    unsigned caps = ~0u;
    for (unsigned i = 0; i < r->child_count; i++) {
        if (r->children[i].backend)
            caps &= backend_caps(r->children[i].backend);
    }
    /* A claim over several backends has no order; marks are each backend's own; sequences are the
     * router's. */
    return caps & ~(unsigned)(CAP_STRICT_ORDER | CAP_CHANGES | CAP_WHOLE_JOBS);
}

static void router_figures(const struct backend *b, struct backend_figures *ret)
{
    const struct router *r = router_of(b);
    struct backend_figures one;
    for (unsigned i = 0; i < r->child_count; i++) {
        if (!r->children[i].backend)
            continue;
        backend_figures(r->children[i].backend, &one);
        if (i == 0)
            *ret = one;
        else
            figures_add(ret, &one);
    }
}

/* Schedules and conditions are looked after by whoever leads on the default backend. */
static bool router_leads(const struct backend *b)
{
    const struct router *r = router_of(b);
    return r->children[0].backend && backend_leads(r->children[0].backend);
}

static void router_cluster(const struct backend *b, struct backend_cluster *ret)
{
    const struct router *r = router_of(b);
    if (r->children[0].backend)
        backend_cluster(r->children[0].backend, ret);
}

static const struct backend *router_part(const struct backend *b, unsigned index,
                                         unsigned *ret_number)
{
    const struct router *r = router_of(b);
    if (index >= r->child_count)
        return NULL;
    *ret_number = r->children[index].number;
    return r->children[index].backend;
}

static int64_t router_clock_offset(const struct backend *b)
{
    const struct router *r = router_of(b);
    return r->children[0].backend ? backend_clock_offset(r->children[0].backend) : 0;
}

static void settled_cb(void *ctx)
{
    struct settle_all *s = ctx;
    if (--s->left > 0)
        return;
    s->fn(s->ctx);
    mem_free(s);
}

static int router_settle(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct router *r = router_of(b);
    struct settle_all *s = r->closing ? NULL : mem_zalloc(sizeof *s);
    int err = 0, failed = 0;
    if (!s)
        return r->closing ? -ERR_CLOSED : -ERR_NOMEM;
    *s = (struct settle_all){.fn = fn, .ctx = ctx};
    for (unsigned i = 0; i < r->child_count; i++) {
        err = backend_settle(r->children[i].backend, settled_cb, s);
        failed = err ? err : failed;
        s->left += !err;
    }
    if (s->left > 0)
        return 0;
    mem_free(s);
    return failed;
}

/* --- maintenance: of each store by itself --- */

static int router_backup(struct backend *b, const struct backup_request *request,
                         struct err_note *note)
{
    (void)b, (void)request;
    return err_note_set(note, -ERR_INVALID,
                        "the jobs of this server are spread over several backends: back up each "
                        "of them by its own means");
}

static int router_compact(struct backend *b, const struct compact_request *request,
                          struct err_note *note)
{
    (void)b, (void)request;
    return err_note_set(note, -ERR_INVALID,
                        "the jobs of this server are spread over several backends: compact each "
                        "of them by its own means");
}

static void no_cancel(struct backend *b)
{
    (void)b;
}

/* --- closing --- */

static void router_free(struct router *r)
{
    for (unsigned i = 0; r->routes && i < r->route_count; i++)
        mem_free((char *)r->routes[i].pattern);
    while (r->watches) {
        struct router_watch *w = r->watches;
        r->watches = w->next;
        mem_free(w);
    }
    mem_free(r->routes);
    mem_free(r->children);
    event_merge_done(&r->events);
    mem_free(r);
}

static void idle_closed_cb(uv_handle_t *handle)
{
    struct router *r = handle->data;
    backend_closed_fn fn = r->closed_fn;
    void *ctx = r->closed_ctx;
    router_free(r);
    fn(ctx);
}

/* The children have answered all they had; what waits for the next turn is answered then. */
static void close_further(struct router *r)
{
    if (!r->closing || r->finished || r->open > 0 || r->later)
        return;
    r->finished = true;
    uv_close((uv_handle_t *)&r->idle, idle_closed_cb);
}

static void child_closed_cb(void *ctx)
{
    struct child *child = ctx;
    child->backend = NULL;
    child->router->open--;
    close_further(child->router);
}

static void router_close(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct router *r = router_of(b);
    CHECK(!r->closing);
    r->closing = true;
    r->closed_fn = fn;
    r->closed_ctx = ctx;
    for (unsigned i = 0; i < r->child_count; i++) {
        event_merge_source(&r->events, i, NULL);
        backend_close(r->children[i].backend, child_closed_cb, &r->children[i]);
    }
}

/* --- opening --- */

static int by_number(const void *a, const void *b)
{
    const struct router_child *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static int take_children(struct router *r, const struct router_child *children, unsigned count)
{
    struct router_child *sorted = mem_copy(children, count * sizeof *children);
    r->children = mem_array(count, sizeof *r->children);
    if (!sorted || !r->children) {
        mem_free(sorted);
        return -ERR_NOMEM;
    }
    qsort(sorted, count, sizeof *sorted, by_number);
    for (unsigned i = 0; i < count; i++) {
        CHECK(sorted[i].number <= ROUTER_NUMBER_MAX);
        CHECK(i == 0 ? sorted[i].number == 0 : sorted[i].number > sorted[i - 1].number);
        r->children[i] = (struct child){r, sorted[i].backend, sorted[i].number, i};
    }
    r->child_count = r->open = count;
    mem_free(sorted);
    return 0;
}

static int take_routes(struct router *r, const struct router_route *routes, unsigned count)
{
    r->routes = mem_array(count, sizeof *r->routes);
    if (!r->routes)
        return -ERR_NOMEM;
    for (r->route_count = 0; r->route_count < count; r->route_count++) {
        const struct router_route *from = &routes[r->route_count];
        struct router_route *to = &r->routes[r->route_count];
        CHECK(router_child_by_number(r, from->number));
        *to = (struct router_route){mem_text(from->pattern, strlen(from->pattern)), from->number};
        if (!to->pattern)
            return -ERR_NOMEM;
    }
    return 0;
}

static int take_events(struct router *r)
{
    uint64_t last = backend_events_last(r->children[0].backend);
    int err = event_merge_init(&r->events, r->child_count, (uint32_t)(last >> EPOCH_SHIFT));
    for (unsigned i = 0; !err && i < r->child_count; i++)
        event_merge_source(&r->events, i, r->children[i].backend);
    return err;
}

static void fill_ops(struct router *r)
{
    snprintf(r->kind, sizeof r->kind, "router+%s", backend_kind(r->children[0].backend));
    r->ops = (struct backend_ops){.kind = r->kind,
                                  .submit = router_submit,
                                  .watch = router_watch,
                                  .unwatch = router_unwatch,
                                  .caps = router_caps,
                                  .leads = router_leads,
                                  .figures = router_figures,
                                  .cluster = router_cluster,
                                  .part = router_part,
                                  .clock_offset = router_clock_offset,
                                  .events = router_events,
                                  .events_last = router_events_last,
                                  .on_news = router_on_news,
                                  .settle = router_settle,
                                  .backup = router_backup,
                                  .backup_cancel = no_cancel,
                                  .compact = router_compact,
                                  .compact_cancel = no_cancel,
                                  .close = router_close};
    r->base.ops = &r->ops;
}

static void forsaken_cb(void *ctx)
{
    (void)ctx;
}

int backend_open_router(const struct router_child *children, unsigned child_count,
                        const struct router_route *routes, unsigned route_count,
                        const struct backend_config *config, struct backend **ret)
{
    struct router *r = mem_zalloc(sizeof *r);
    int err = r ? take_children(r, children, child_count) : -ERR_NOMEM;
    if (!err)
        err = take_routes(r, routes, route_count);
    if (!err)
        err = take_events(r);
    if (err) {
        for (unsigned i = 0; i < child_count; i++)
            backend_close(children[i].backend, forsaken_cb, NULL);
        if (r)
            router_free(r);
        return err;
    }
    fill_ops(r);
    r->later_end = &r->later;
    uv_idle_init(config->loop, &r->idle);
    r->idle.data = r;
    *ret = &r->base;
    return 0;
}
