/* SPDX-License-Identifier: Apache-2.0 */
/* See prefetch.h. The queues with prefetched bodies are in a small hash table; a queue whose slot
 * is taken replaces the other one. */
#include "backend/local/payloads/prefetch.h"

#include <stdlib.h>

#include "backend/local/payloads/cache.h"
#include "base/mem.h"

#define PREFETCH_JOBS 256 /* jobs read at a time */
#define QUEUES 64
#define BYTES_MAX (UINT64_C(16) << 20)
#define READ_BYTES_MAX (UINT64_C(4) << 20)
#define BODY_BYTES_MAX (64u << 10) /* a larger body is read when it is claimed */

struct prefetch_queue {
    uint32_t number; /* 0 = none */
    uint32_t left;   /* claims until the next read */
};

struct prefetch {
    struct engine *engine;
    const struct cache *first;
    struct cache *cache;
    struct prefetch_queue queues[QUEUES];
    bool reading;
    struct next_ready plan[PREFETCH_JOBS]; /* by sequence */
    uint64_t seqs[PREFETCH_JOBS];
    size_t count;
    struct arena arena; /* of one look at the claim order */
};

int prefetch_new(struct engine *e, const struct cache *first, struct prefetch **ret)
{
    struct prefetch *a = mem_zalloc(sizeof(*a));
    if (!a || cache_new(BYTES_MAX, &a->cache) != 0) {
        mem_free(a);
        return -ERR_NOMEM;
    }
    a->engine = e;
    a->first = first;
    arena_init(&a->arena);
    *ret = a;
    return 0;
}

void prefetch_free(struct prefetch *a)
{
    if (!a)
        return;
    cache_free(a->cache);
    arena_done(&a->arena);
    mem_free(a);
}

bool prefetch_get(const struct prefetch *a, uint64_t seq, struct job_extra *extra,
                  struct span *payload)
{
    return cache_get(a->cache, seq, extra, payload);
}

void prefetch_drop(struct prefetch *a, uint64_t seq)
{
    cache_drop(a->cache, seq);
}

void prefetch_hold(struct prefetch *a)
{
    cache_hold(a->cache);
}

void prefetch_release(struct prefetch *a)
{
    cache_release(a->cache);
}

static int by_seq(const void *a, const void *b)
{
    const struct next_ready *x = a, *y = b;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static bool at_hand(const struct prefetch *a, uint64_t seq)
{
    struct job_extra extra;
    struct span payload;
    return cache_get(a->cache, seq, &extra, &payload) || cache_get(a->first, seq, &extra, &payload);
}

/* Selects those that are in no cache. Returns how many jobs were examined. */
static uint32_t plan_fill(struct prefetch *a, uint32_t queue, uint64_t applied,
                          struct prefetch_plan *ret)
{
    size_t found = engine_next_ready(a->engine, queue, &a->arena, a->plan, PREFETCH_JOBS), i = 0;
    uint64_t bytes = 0;
    a->count = 0;
    for (; i < found && bytes < READ_BYTES_MAX; i++) {
        if (a->plan[i].position > applied || a->plan[i].bytes > BODY_BYTES_MAX ||
            at_hand(a, a->plan[i].seq))
            continue;
        bytes += a->plan[i].bytes;
        a->plan[a->count++] = a->plan[i];
    }
    arena_reset(&a->arena);
    qsort(a->plan, a->count, sizeof(*a->plan), by_seq);
    *ret = (struct prefetch_plan){.seqs = a->seqs, .count = a->count};
    for (size_t n = 0; n < a->count; n++)
        a->seqs[n] = a->plan[n].seq;
    return (uint32_t)i;
}

bool prefetch_claimed(struct prefetch *a, uint32_t queue, uint32_t count, bool missed,
                      uint64_t applied, struct prefetch_plan *ret)
{
    struct prefetch_queue *q = &a->queues[queue % QUEUES];
    if (q->number != queue && !missed)
        return false;
    if (q->number != queue)
        *q = (struct prefetch_queue){.number = queue};
    q->left = q->left > count ? q->left - count : 0;
    if (q->left > 0 || a->reading)
        return false;
    uint32_t reach = plan_fill(a, queue, applied, ret);
    q->left = a->count > 0 ? reach / 2 : PREFETCH_JOBS / 2;
    a->reading = a->count > 0;
    return a->reading;
}

static bool job_wanted(void *engine, uint64_t seq)
{
    return engine_job_state(engine, seq) == STATE_READY;
}

void prefetch_filled(struct prefetch *a, const struct stored_body *bodies)
{
    a->reading = false;
    for (size_t i = 0; bodies && i < a->count; i++) {
        const struct stored_body *b = &bodies[i];
        /* A damaged job is set aside when it is claimed. */
        bool sound = b->found && !b->damage && b->payload.len == a->plan[i].bytes &&
                     (a->plan[i].kind != PAYLOAD_JSON || !b->not_json);
        /* Results, errors (of a job that was requeued) and attempts are not cached; a job that was
         * changed meanwhile may have another payload. */
        if (!sound || b->extra.undelivered.len > 0 || b->error.len > 0 || b->result_kind ||
            b->started_at.ms || b->holder.seq ||
            !engine_ready_at(a->engine, a->plan[i].seq, a->plan[i].position))
            continue;
        cache_put(a->cache, a->plan[i].seq, 0, &b->extra, b->payload);
    }
    cache_applied(a->cache, UINT64_MAX, job_wanted, a->engine);
}
