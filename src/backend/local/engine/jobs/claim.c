/* SPDX-License-Identifier: Apache-2.0 */
/* Claims, as far as the engine has a part in them: the next job of a queue, and its lease. */
#include "backend/local/engine/engine_impl.h"

#define LOOKS_MAX (4 * LIMIT_SLICE) /* stale and expired jobs one claim walks through */
/* Fewer resident jobs are in the caches anyway. Test builds look ahead always, to have it tested.
 */
#ifdef HF_TEST_HOOKS
#define COLD_JOBS 1
#else
#define COLD_JOBS 32768
#endif

struct live *claim_top(struct engine *e, struct queue *q, struct heap_entry *ret, int *err)
{
    struct heap *order = &q->ready;
    if (q->flow && !limits_open(e, q))
        return NULL;
    for (size_t looks = 0;; looks++) {
        if (q->flow)
            order = limits_next(e, q);
        if (!order || !heap_top(order, ret))
            return NULL;
        if (looks == LOOKS_MAX) { /* the rest after other work */
            queues_wake(e, q);
            return NULL;
        }
        if (!valid_ready(e, *ret)) {
            heap_pop(order, ret);
            if (q->flow)
                limits_stale(e, q);
            continue;
        }
        uint64_t seq = DEFECT(&e->config, DEFECT_NEWEST_FIRST) ? LIMIT_SEQ - ret->seq : ret->seq;
        struct live *l = jobs_by_seq(e, seq, NULL);
        if (!jobs_expired(e, l, e->now.wall))
            return l;
        /* A job that has expired becomes dead here, before it reaches a worker. */
        if (!ops_job_expired(&e->ops, &l->job)) {
            *err = -ERR_NOMEM;
            return NULL;
        }
    }
}

static int lease_reserve(struct engine *e, const struct op_claim *want)
{
    int err = slab_reserve(&e->leases, 1);
    if (!err)
        err = heap_reserve(&e->leases_end, 1);
    if (!err && want->worker.len)
        err = names_reserve(e, 1);
    if (!err && want->nonce)
        err = map64_reserve(&e->nonces, 1);
    return err;
}

int claim_reserve(struct engine *e, const struct live *l, const struct op_claim *want,
                  const struct record *rec)
{
    int err = lease_reserve(e, want);
    if (!err && want->one.seq && !dependencies_secure(e, l->job.seq))
        err = -ERR_NOMEM;
    return err ? err : jobs_reserve(e, queue_of(e, l), 0, 1, record_bytes_max(rec));
}

/* The queue's name as a text that outlives it; taken from the op where it stands there. */
static struct span name_for_view(const struct op_claim *want, struct engine *e,
                                 const struct queue *q)
{
    struct span name = span_of(q->name, q->name_len);
    for (uint32_t i = 0; i < want->queue_count; i++)
        if (span_equal(want->queues[i], name))
            return want->queues[i];
    const char *copy = arena_copy(&e->out->arena, q->name, q->name_len);
    return copy ? span_of(copy, q->name_len) : (struct span){NULL, 0};
}

static void ask_neighbours(const struct engine *e, const struct live *l)
{
    if (l->prev)
        mem_ask(&live_at(e, l->prev)->next);
    if (l->next)
        mem_ask(&live_at(e, l->next)->prev);
}

/* With a long backlog the next jobs are not in any cache. A job is prefetched in stages while it
 * moves up the heap: its place in the map of the directory, its place in the page, its record,
 * its neighbours in the list. Each stage begins one claim after the one before, when the earlier
 * data has arrived. */
static void look_ahead(struct engine *e, struct queue *q)
{
    struct heap_entry entry;
    uint32_t handle;
    if (e->jobs.used < COLD_JOBS)
        return;
    if (heap_top(&q->ready, &entry) && (handle = seqdir_get(&e->dir, entry.seq)) != 0)
        ask_neighbours(e, live_at(e, handle));
    if (heap_risen(&q->ready, 1, &entry) && (handle = seqdir_get(&e->dir, entry.seq)) != 0)
        live_ask(e, handle);
    if (heap_risen(&q->ready, 2, &entry))
        seqdir_ask_page(&e->dir, entry.seq);
    if (heap_risen(&q->ready, 3, &entry))
        seqdir_ask_map(&e->dir, entry.seq);
    joblist_scout(e, &q->lists[STATE_DONE]);
}

void claim_finish(struct engine *e, struct live *l, const struct op_claim *want,
                  struct job_view *view)
{
    struct queue *q = queue_of(e, l);
    struct lease *lease = lease_at(e, l->lease);
    struct heap_entry top;
    if (e->config.leases_wait)
        leases_enter(e, lease, lease_now(e, e->now) + lease_first_ms(lease));
    else
        leases_arm(e, lease);
    if (want->nonce)
        lease_set_nonce(e, l->lease, want->nonce);
    view->outcome_counts = outcome_counts_of(e, l);
    view->expires_at = more_of(e, l).expires_at;
    view->queue = name_for_view(want, e, q);
    view->by_due = q->policy.by_due;
    if (q->flow) {
        limits_claimed(e, q, l, want->one.seq != 0);
    } else if (!want->one.seq) { /* it was the next of its queue */
        heap_pop(&q->ready, &top);
        look_ahead(e, q);
    }
}
