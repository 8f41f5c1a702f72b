/* SPDX-License-Identifier: Apache-2.0 */
/* Who works: names given with claims, when each gave a sign last, what it did. Bounded: when there
 * are NAMES_MAX, the one silent longest makes room. How many jobs each holds is the backend's to
 * say, so that it is right after a restart, too. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "broker/broker_impl.h"

#define NAMES_MAX 10000

static void list_unlink(struct workers *ws, struct worker *w)
{
    *(w->prev ? &w->prev->next : &ws->first) = w->next;
    *(w->next ? &w->next->prev : &ws->last) = w->prev;
    w->prev = w->next = NULL;
}

static void list_first(struct workers *ws, struct worker *w)
{
    w->next = ws->first;
    *(ws->first ? &ws->first->prev : &ws->last) = w;
    ws->first = w;
}

static void worker_free(struct workers *ws, struct worker *w)
{
    list_unlink(ws, w);
    map128_drop(&ws->by_name, w->key);
    ws->count--;
    mem_free(w);
}

static struct worker *worker_find(const struct broker *b, struct span name)
{
    return (struct worker *)(uintptr_t)map128_get(&b->workers.by_name,
                                                  hash128_of(b->hash_key, name));
}

static struct worker *worker_add(struct broker *b, struct span name)
{
    struct workers *ws = &b->workers;
    if (ws->count >= NAMES_MAX)
        worker_free(ws, ws->last);
    struct worker *w = mem_zalloc(sizeof(*w) + name.len);
    if (!w)
        return NULL;
    w->key = hash128_of(b->hash_key, name);
    if (map128_put(&ws->by_name, w->key, (uintptr_t)w) != 0) {
        mem_free(w);
        return NULL;
    }
    memcpy(w + 1, name.at, name.len);
    w->public.name = span_of(w + 1, name.len);
    list_first(ws, w);
    ws->count++;
    return w;
}

/* A sign of life. */
static struct worker *worker_seen(struct broker *b, struct span name)
{
    if (!name.len)
        return NULL;
    struct worker *w = worker_find(b, name);
    if (w) {
        list_unlink(&b->workers, w);
        list_first(&b->workers, w);
    } else {
        w = worker_add(b, name);
    }
    if (w)
        w->public.last_seen = broker_now(b).wall;
    return w;
}

void workers_observe(struct broker *b, const struct op *op, const struct reply *r)
{
    if (r->outcome != OUT_OK)
        return;
    bool lease = op->kind == OP_ACK || op->kind == OP_FAIL || op->kind == OP_EXTEND ||
                 op->kind == OP_RELEASE;
    struct worker *w = NULL;
    if (op->kind == OP_CLAIM)
        w = worker_seen(b, op->claim.worker);
    else if (lease)
        w = worker_seen(b, r->worker);
    if (!w || r->repeat)
        return;
    w->public.claimed += op->kind == OP_CLAIM ? r->job_count : 0;
    w->public.acked += op->kind == OP_ACK;
    w->public.failed += op->kind == OP_FAIL;
    w->public.released += op->kind == OP_RELEASE;
}

void workers_init(struct broker *b)
{
    map128_init(&b->workers.by_name);
    b->workers.since = broker_now(b).wall;
}

void workers_done(struct broker *b)
{
    while (b->workers.first)
        worker_free(&b->workers, b->workers.first);
    map128_done(&b->workers.by_name);
}

/* ---- the list ---- */

struct workers_call {
    struct broker *broker;
    broker_workers_fn fn;
    void *ctx;
};

static int by_name(const void *x, const void *y)
{
    const struct broker_worker *a = x, *b = y;
    size_t len = a->name.len < b->name.len ? a->name.len : b->name.len;
    int order = len ? memcmp(a->name.at, b->name.at, len) : 0;
    return order ? order : (a->name.len > b->name.len) - (a->name.len < b->name.len);
}

/* After a restart everybody who holds a job gets the whole time to give a sign. */
static bool is_silent(const struct broker *b, const struct broker_worker *w)
{
    int64_t seen_ms = w->last_seen.ms ? w->last_seen.ms : b->workers.since.ms;
    return w->running > 0 && broker_now(b).wall.ms - seen_ms > b->config.silent_ms;
}

/* Those that hold jobs, then those known here that hold none. */
static size_t merge(struct broker *b, const struct reply *r, struct broker_worker *out)
{
    size_t n = 0;
    for (uint32_t i = 0; i < r->worker_count; i++) {
        const struct worker *known = worker_find(b, r->workers[i].name);
        out[n] = known ? known->public : (struct broker_worker){.name = r->workers[i].name};
        out[n++].running = r->workers[i].running;
    }
    qsort(out, n, sizeof(*out), by_name);
    size_t holding = n;
    for (const struct worker *w = b->workers.first; w; w = w->next)
        if (!bsearch(&w->public, out, holding, sizeof(*out), by_name))
            out[n++] = w->public;
    for (size_t i = 0; i < n; i++)
        out[i].silent = is_silent(b, &out[i]);
    qsort(out, n, sizeof(*out), by_name);
    return n;
}

static void listed_cb(void *ctx, const struct reply *r)
{
    struct workers_call call = *(struct workers_call *)ctx;
    struct broker *b = call.broker;
    mem_free(ctx);
    if (r->outcome != OUT_OK) {
        call.fn(call.ctx, NULL, 0, -ERR_IO);
        return;
    }
    struct broker_worker *all = mem_array(r->worker_count + b->workers.count + 1, sizeof(*all));
    if (!all) {
        call.fn(call.ctx, NULL, 0, -ERR_NOMEM);
        return;
    }
    size_t n = merge(b, r, all);
    call.fn(call.ctx, all, n < NAMES_MAX ? n : NAMES_MAX, 0);
    mem_free(all);
}

int broker_workers(struct broker *b, broker_workers_fn fn, void *ctx)
{
    struct workers_call *call = mem_alloc(sizeof(*call));
    if (!call)
        return -ERR_NOMEM;
    *call = (struct workers_call){b, fn, ctx};
    struct op op = {.kind = OP_WORKERS};
    int err = broker_submit(b, &op, 1, listed_cb, call);
    if (err)
        mem_free(call);
    return err;
}

void broker_set_silent_ms(struct broker *b, uint32_t silent_ms)
{
    b->config.silent_ms = silent_ms;
}
