/* SPDX-License-Identifier: Apache-2.0 */
/* The router: taking batches apart, answering, opening and closing. See impl.h. */
#include "backend/router/router.h"

#include <stdlib.h>

#include "backend/reply_copy.h"
#include "backend/router/impl.h"
#include "base/check.h"
#include "base/mem.h"

#define EPOCH_SHIFT 40

static int router_submit(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn,
                         void *ctx);
static void take_answer(struct router_call *c, const struct reply *reply);
static void close_further(struct router *r);

static struct router *router_of(const struct backend *b)
{
    CHECK(b->ops->submit == router_submit);
    return (struct router *)b;
}

/* --- answering --- */

static struct router_call *call_of(struct fanout_call *c)
{
    return (struct router_call *)c;
}

static void call_done(struct fanout_call *base)
{
    for (struct answer *at = call_of(base)->answers; at; at = at->next)
        mem_free(at->own);
}

static void deliver_refused(struct router_call *c)
{
    struct reply refused = {.outcome = OUT_INVALID, .note = c->note};
    if (!c->note) {
        refused.outcome = OUT_UNAVAILABLE;
        refused.note = "no memory for the request";
    }
    fanout_deliver(&c->base, &refused);
}

static void not_taken(struct fanout_call *base)
{
    struct router_call *c = call_of(base);
    struct reply reply = {
        .kind = c->base.inner.kind, .outcome = OUT_UNAVAILABLE, .note = "the backend took nothing"};
    if (base->store == FANOUT_NO_STORE)
        deliver_refused(c);
    else
        take_answer(c, &reply);
}

/* --- answers of the children --- */

static void replied(struct fanout_call *base, const struct reply *reply)
{
    take_answer(call_of(base), reply);
}

static void ask_next(struct router_call *c)
{
    struct reply reply = {
        .kind = c->base.inner.kind, .outcome = OUT_UNAVAILABLE, .note = "the backend is closing"};
    c->base.store = c->child->index;
    if (fanout_ask(&c->base) != 0)
        take_answer(c, &reply);
}

/* Keeps the answer for the merge; a copy when others are still to come. */
static int keep_answer(struct router_call *c, struct child *from, const struct reply *reply,
                       bool copy)
{
    struct answer *a = arena_array(&c->base.arena, 1, sizeof *a);
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

static void finish(struct router_call *c)
{
    struct reply merged = {.outcome = OUT_OK};
    if (c->note)
        deliver_refused(c);
    else if (c->gather->merge(c, &merged) != 0)
        fanout_deliver_lost(&c->base);
    else
        fanout_deliver(&c->base, &merged);
}

static void gather_answer(struct router_call *c, const struct reply *reply)
{
    struct child *from = c->child;
    bool on =
        reply->outcome == OUT_OK || (c->gather->goes_on && c->gather->goes_on(c, reply->outcome));
    if (!on) {
        fanout_deliver(&c->base, reply);
        return;
    }
    bool more = c->gather->next(c, reply);
    if (keep_answer(c, from, reply, more) != 0)
        fanout_deliver_lost(&c->base);
    else if (more)
        ask_next(c);
    else
        finish(c);
}

static void take_answer(struct router_call *c, const struct reply *reply)
{
    struct reply outside = *reply;
    if (router_reply_out(c->child, &outside, &c->base.arena) != 0) {
        fanout_deliver_lost(&c->base);
    } else if (c->gather) {
        gather_answer(c, &outside);
    } else {
        if (c->base.op->kind == OP_KV_LIST)
            outside.kv_as_of += router_position_besides(c);
        fanout_deliver(&c->base, &outside);
    }
}

/* --- taking a batch --- */

static unsigned plan(struct fanout_call *base)
{
    struct router_call *c = call_of(base);
    router_plan(fanout_ctx(base), c);
    return c->note || !c->child ? FANOUT_NO_STORE : c->child->index;
}

static struct backend *store_at(const struct fanout *f, unsigned index)
{
    const struct router *r = f->ctx;
    return r->children[index].backend;
}

static void iteration(struct fanout *f)
{
    close_further(f->ctx);
}

static const struct fanout_owner owner = {.call_bytes = sizeof(struct router_call),
                                          .store = store_at,
                                          .plan = plan,
                                          .replied = replied,
                                          .not_taken = not_taken,
                                          .call_done = call_done,
                                          .iteration = iteration};

static int router_submit(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn,
                         void *ctx)
{
    return fanout_submit(&router_of(b)->fanout, ops, count, fn, ctx);
}

/* --- watching --- */

static int router_watch(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
                        struct backend_watch **ret)
{
    struct router *r = router_of(b);
    struct router_watch *w = r->fanout.closing ? NULL : mem_zalloc(sizeof *w);
    if (!w)
        return r->fanout.closing ? -ERR_CLOSED : -ERR_NOMEM;
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

static uint64_t event_seq(const void *ctx, unsigned source, uint64_t seq)
{
    const struct router *r = ctx;
    return router_seq_out(&r->children[source], seq);
}

static size_t router_events(const struct backend *b, uint64_t after, uint64_t kinds,
                            struct backend_event *out, size_t max, uint64_t *ret_oldest)
{
    return event_merge_read(&router_of(b)->events, after, kinds, out, max, ret_oldest);
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
    return caps & ~(unsigned)(CAP_STRICT_ORDER | CAP_CHANGES | CAP_WHOLE_JOBS | CAP_DEPENDENCIES);
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

/* Schedules and conditions are handled by the leader of the default backend. */
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

static int router_settle(struct backend *b, backend_closed_fn fn, void *ctx)
{
    return fanout_settle(&router_of(b)->fanout, UINT64_MAX, fn, ctx);
}

/* --- maintenance: of each store by itself --- */

static int router_backup(struct backend *b, const struct backup_request *request,
                         struct err_note *note)
{
    (void)b, (void)request;
    return err_note_set(note, -ERR_INVALID,
                        "the jobs of this server are distributed over several backends: back up "
                        "each backend with its own tools");
}

static int router_compact(struct backend *b, const struct compact_request *request,
                          struct err_note *note)
{
    (void)b, (void)request;
    return err_note_set(note, -ERR_INVALID,
                        "the jobs of this server are distributed over several backends: compact "
                        "each backend with its own tools");
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
    struct fanout *f = handle->data;
    struct router *r = f->ctx;
    backend_closed_fn fn = r->closed_fn;
    void *ctx = r->closed_ctx;
    router_free(r);
    fn(ctx);
}

/* The children have answered all they had; what waits for the next turn is answered then. */
static void close_further(struct router *r)
{
    if (r->finished || !fanout_is_done(&r->fanout))
        return;
    r->finished = true;
    uv_close((uv_handle_t *)&r->fanout.idle, idle_closed_cb);
}

static void child_closed_cb(void *ctx)
{
    struct child *child = ctx;
    child->backend = NULL;
    child->router->fanout.open--;
    close_further(child->router);
}

static void router_close(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct router *r = router_of(b);
    CHECK(!r->fanout.closing);
    r->fanout.closing = true;
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
    r->child_count = r->fanout.open = count;
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
    int err =
        event_merge_init(&r->events, r->child_count, (uint32_t)(last >> EPOCH_SHIFT), event_seq, r);
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
            backend_close(children[i].backend, fanout_ignore_closed_cb, NULL);
        if (r)
            router_free(r);
        return err;
    }
    fill_ops(r);
    fanout_init(&r->fanout, &owner, r, child_count, config->loop);
    *ret = &r->base;
    return 0;
}
