/* SPDX-License-Identifier: Apache-2.0 */
/* GET /metrics: how a page is created, and which requests get it.
 *
 * One page is created at a time, for all requests that arrive in the meantime. The store is asked
 * for its breakers and, LIST_QUEUES at a time, for its queues; then the page is written in slices
 * of SLICE_BYTES, one per iteration of the loop. A page that took more than one slice is expensive:
 * it is kept and answers requests for FRESH_MS after its beginning. Other pages are never kept, so
 * that small servers always show current figures. */
#include "api/v1/server/metrics_page.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

#define LIST_QUEUES 250 /* in one operation: copying them takes part of a millisecond */
#define SLICE_BYTES ((size_t)64 << 10) /* writing this much takes as long */
#define FRESH_MS 1000
#define PAGE_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* A request that waits for the page, in its exchange's arena. */
struct page_waiter {
    struct http_exchange *x;
    struct page_waiter *next;
};

struct page_making {
    struct page page;
    struct http_shared *text;
    struct op op;      /* under way */
    uint64_t begun_ms; /* loop time */
    struct now begun;
    bool sliced; /* it took more than one slice */
};

/* ---- its end ---- */

static void making_free(struct page_making *g)
{
    if (!g)
        return;
    arena_done(&g->page.arena);
    http_shared_unref(g->text);
    mem_free(g);
}

static void page_keep(struct page_maker *pm, struct page_making *g)
{
    http_shared_unref(pm->kept);
    pm->kept = NULL;
    if (!g->sliced)
        return;
    pm->kept = g->text;
    pm->kept_ms = g->begun_ms;
    pm->kept_at = g->begun;
    g->text = NULL;
}

/* Answers everyone who waits: with the page, or with the error. */
static void page_end(struct page_maker *pm, int error)
{
    struct page_making *g = pm->making;
    struct page_waiter *next;
    pm->making = NULL;
    for (struct page_waiter *w = pm->waiters; w; w = next) {
        next = w->next; /* it is freed with the exchange */
        if (error < 0)
            answer_error(w->x, error);
        else
            http_answer_shared(w->x, 200, PAGE_TYPE, g->text);
    }
    pm->waiters = NULL;
    CHECK(uv_idle_stop(&pm->idle) == 0);
    if (error == 0)
        page_keep(pm, g);
    making_free(g);
}

/* ---- its text ---- */

static void slice_cb(uv_idle_t *idle)
{
    struct page_maker *pm = idle->data;
    if (page_write(&pm->making->page, SLICE_BYTES))
        page_end(pm, pm->making->page.m.error);
}

/* Everything from the store has arrived. */
static void page_begin_text(struct page_maker *pm)
{
    struct page *p = &pm->making->page;
    const struct native *n = p->n;
    broker_backend_figures(n->broker, &p->backend);
    broker_figures(n->broker, &p->broker);
    if (n->config.http_figures)
        n->config.http_figures(n->config.http_ctx, &p->http);
    if (n->config.budget)
        p->memory = n->config.budget->figures;
    process_figures(&p->process);
    if (page_write(p, SLICE_BYTES)) {
        page_end(pm, p->m.error);
        return;
    }
    pm->making->sliced = true;
    CHECK(uv_idle_start(&pm->idle, slice_cb) == 0);
}

/* ---- what it is about ---- */

static uint64_t all_stores(const struct broker *b)
{
    struct backend_store s;
    uint64_t all = 0;
    for (unsigned i = 0; broker_store(b, i, &s); i++)
        all |= UINT64_C(1) << s.number;
    return all;
}

/* The store does not answer, or has no more queues. */
static void page_without_store(struct page_maker *pm)
{
    struct page *p = &pm->making->page;
    p->left_out |= all_stores(p->n->broker);
    page_begin_text(pm);
}

static bool text_copy(struct arena *arena, struct span text, struct span *ret)
{
    const char *copy = arena_copy(arena, text.at, text.len);
    *ret = span_of(copy, text.len);
    return copy != NULL;
}

static bool queues_take(struct page *p, const struct reply *r)
{
    struct wall_time now = broker_now(p->n->broker).wall;
    for (uint32_t i = 0; i < r->queue_count && p->queue_count < PAGE_QUEUES; i++) {
        struct page_queue *q = &p->queues[p->queue_count];
        if (!text_copy(&p->arena, r->queues[i].name, &q->name))
            return false;
        q->counts = r->queues[i].counts;
        q->waiting_count = why_counts(&r->queues[i], now, q->waiting);
        p->queue_count++;
    }
    p->left_out |= r->left_out;
    return true;
}

static void queues_ask(struct page_maker *pm);

static void queues_cb(void *ctx, const struct reply *r)
{
    struct page_maker *pm = ctx;
    struct page *p = &pm->making->page;
    if (r->outcome != OUT_OK)
        page_without_store(pm);
    else if (!queues_take(p, r))
        page_end(pm, -ERR_NOMEM);
    else if (r->queue_count == LIST_QUEUES && p->queue_count < PAGE_QUEUES)
        queues_ask(pm);
    else
        page_begin_text(pm);
}

/* Continues after the last queue that was read: each queue is listed at most once, whatever
 * changes meanwhile. */
static void queues_ask(struct page_maker *pm)
{
    struct page *p = &pm->making->page;
    struct span after = {NULL, 0};
    if (p->queue_count > 0)
        after = p->queues[p->queue_count - 1].name;
    pm->making->op = (struct op){.kind = OP_QUEUE_LIST,
                                 .queue = {.after = after, .limit = LIST_QUEUES, .partial = true}};
    if (broker_submit(p->n->broker, &pm->making->op, 1, queues_cb, pm) != 0)
        page_without_store(pm);
}

static bool breakers_take(struct page *p, const struct reply *r)
{
    uint32_t count = r->breaker_count;
    p->breakers = arena_array(&p->arena, count ? count : 1, sizeof *p->breakers);
    for (uint32_t i = 0; p->breakers && i < count; i++) {
        p->breakers[i].breaker = r->breakers[i].breaker;
        if (!text_copy(&p->arena, r->breakers[i].target, &p->breakers[i].target))
            return false;
        p->breaker_count++;
    }
    p->left_out |= r->left_out;
    return p->breakers != NULL;
}

static void breakers_cb(void *ctx, const struct reply *r)
{
    struct page_maker *pm = ctx;
    if (r->outcome != OUT_OK)
        page_without_store(pm);
    else if (!breakers_take(&pm->making->page, r))
        page_end(pm, -ERR_NOMEM);
    else
        queues_ask(pm);
}

/* ---- its beginning ---- */

static struct page_making *making_new(const struct native *n)
{
    struct page_making *g = mem_zalloc(sizeof *g);
    if (!g)
        return NULL;
    arena_init(&g->page.arena);
    g->page.n = n;
    g->page.queues = arena_array(&g->page.arena, PAGE_QUEUES, sizeof *g->page.queues);
    g->text = http_shared_new();
    if (!g->page.queues || !g->text) {
        making_free(g);
        return NULL;
    }
    g->page.m.out = &g->text->text;
    g->begun_ms = uv_now(n->config.loop);
    g->begun = broker_now(n->broker);
    return g;
}

static void page_begin(struct native *n)
{
    struct page_maker *pm = &n->pages;
    pm->making = making_new(n);
    if (!pm->making) {
        page_end(pm, -ERR_NOMEM);
        return;
    }
    /* The list of queues would wait for a full disk, or would fail with a store that is
     * unavailable, and then no page would report either of them. */
    pm->making->op = (struct op){.kind = OP_BREAKER_LIST, .breakers = {.partial = true}};
    if (!broker_answers(n->broker) ||
        broker_submit(n->broker, &pm->making->op, 1, breakers_cb, pm) != 0)
        page_without_store(pm);
}

/* By the loop's clock, which always runs, and by the broker's, which tests may move. */
static bool kept_is_fresh(const struct native *n)
{
    const struct page_maker *pm = &n->pages;
    return pm->kept && uv_now(n->config.loop) - pm->kept_ms < FRESH_MS &&
           broker_now(n->broker).mono.ms - pm->kept_at.mono.ms < FRESH_MS &&
           broker_now(n->broker).wall.ms - pm->kept_at.wall.ms < FRESH_MS;
}

void metrics_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct page_maker *pm = &n->pages;
    http_alone(x);
    if (kept_is_fresh(n)) {
        http_answer_shared(x, 200, PAGE_TYPE, pm->kept);
        return;
    }
    struct page_waiter *w = arena_array(http_request(x)->arena, 1, sizeof *w);
    if (!w) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    *w = (struct page_waiter){.x = x, .next = pm->waiters};
    pm->waiters = w;
    if (!pm->making)
        page_begin(n);
}

void pages_init(struct native *n)
{
    CHECK(uv_idle_init(n->config.loop, &n->pages.idle) == 0);
    n->pages.idle.data = &n->pages;
}

void pages_close(struct native *n, uv_close_cb closed)
{
    CHECK(!n->pages.making && !n->pages.waiters);
    http_shared_unref(n->pages.kept);
    n->pages.kept = NULL;
    uv_close((uv_handle_t *)&n->pages.idle, closed);
}
