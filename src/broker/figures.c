/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of each queue since the start, collected from the replies. The number is limited: queues
 * beyond the first QUEUES_MAX are not counted separately (the backend's own counters include them).
 */
#include <stdlib.h>

#include "base/mem.h"
#include "broker/broker_impl.h"

#define QUEUES_MAX 10000

static struct queue_figures *figures_find(const struct broker *b, struct span queue)
{
    struct hash128 key = hash128_of(b->hash_key, queue);
    uint64_t place = map128_get(&b->figures.by_name, key);
    return place ? b->figures.list[place - 1] : NULL;
}

static struct queue_figures *figures_add(struct broker *b, struct span queue)
{
    struct figures *f = &b->figures;
    if (f->count >= QUEUES_MAX)
        return NULL;
    if (f->count == f->room) {
        size_t room = f->room ? 2 * f->room : 64;
        struct queue_figures **list = mem_regrow(f->list, room, sizeof(struct queue_figures *));
        if (!list)
            return NULL;
        f->list = list;
        f->room = room;
    }
    struct queue_figures *q = mem_zalloc(sizeof(*q) + queue.len);
    if (!q)
        return NULL;
    q->key = hash128_of(b->hash_key, queue);
    if (map128_put(&f->by_name, q->key, f->count + 1) != 0) {
        mem_free(q);
        return NULL;
    }
    memcpy(q + 1, queue.at, queue.len);
    q->public.queue = span_of(q + 1, queue.len);
    f->list[f->count++] = q;
    return q;
}

static struct queue_figures *figures_of(struct broker *b, struct span queue)
{
    if (!queue.len)
        return NULL;
    struct figures *f = &b->figures;
    if (!f->last || !span_equal(f->last->public.queue, queue)) {
        struct queue_figures *q = figures_find(b, queue);
        f->last = q ? q : figures_add(b, queue);
    }
    return f->last;
}

static void figures_drop(struct broker *b, struct span queue)
{
    struct figures *f = &b->figures;
    struct hash128 key = hash128_of(b->hash_key, queue);
    uint64_t place = map128_get(&f->by_name, key);
    if (!place)
        return;
    map128_drop(&f->by_name, key);
    f->last = NULL;
    mem_free(f->list[place - 1]);
    struct queue_figures *last = f->list[--f->count];
    if (place - 1 == f->count)
        return;
    f->list[place - 1] = last;
    /* The key exists already, so this needs no memory. */
    if (map128_put(&f->by_name, last->key, place) != 0)
        abort();
}

static uint64_t us_of(int64_t ms)
{
    return ms > 0 ? (uint64_t)ms * 1000 : 0;
}

static void observe_claim(struct broker *b, const struct reply *r)
{
    for (uint32_t i = 0; i < r->job_count; i++) {
        struct queue_figures *q = figures_of(b, r->jobs[i].queue);
        if (!q)
            continue;
        q->public.dequeued++;
        histogram_add(&q->public.waited_us, us_of(r->jobs[i].waited_ms));
    }
}

static void observe_end(struct broker *b, const struct op *op, const struct reply *r)
{
    struct queue_figures *q = figures_of(b, r->queue);
    if (!q || r->repeat)
        return;
    q->public.acked += op->kind == OP_ACK;
    q->public.failures += op->kind == OP_FAIL;
    histogram_add(&q->public.ran_us, us_of(r->ran_ms));
}

void figures_observe(struct broker *b, const struct op *op, const struct reply *r)
{
    if (r->outcome != OUT_OK)
        return;
    if (op->kind == OP_ENQUEUE && r->created) {
        struct queue_figures *q = figures_of(b, op->enqueue.queue);
        if (q)
            q->public.enqueued++;
    } else if (op->kind == OP_CLAIM) {
        observe_claim(b, r);
    } else if (op->kind == OP_ACK || op->kind == OP_FAIL) {
        observe_end(b, op, r);
    } else if (op->kind == OP_QUEUE_DELETE) {
        figures_drop(b, op->queue.name);
    }
}

void figures_init(struct broker *b)
{
    map128_init(&b->figures.by_name);
}

void figures_done(struct broker *b)
{
    struct figures *f = &b->figures;
    for (size_t i = 0; i < f->count; i++)
        mem_free(f->list[i]);
    mem_free(f->list);
    map128_done(&f->by_name);
}

void broker_queue_figures(const struct broker *b,
                          void (*fn)(void *ctx, const struct broker_queue_figures *f), void *ctx)
{
    for (size_t i = 0; i < b->figures.count; i++)
        fn(ctx, &b->figures.list[i]->public);
}

bool broker_queue_figures_of(const struct broker *b, struct span queue,
                             struct broker_queue_figures *ret)
{
    const struct queue_figures *q = figures_find(b, queue);
    if (q)
        *ret = q->public;
    return q != NULL;
}
