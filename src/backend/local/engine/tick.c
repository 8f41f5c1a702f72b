/* SPDX-License-Identifier: Apache-2.0 */
/* What happens because of time: leases end, jobs become due or expire, retention, the slices of
 * purges and bulk actions. A tick checks a bounded number of entries, whether or not they result
 * in a record, because heaps contain stale entries and clients decide how many. If some are
 * left, the next tick is due at once. */
#include "backend/local/engine/engine_impl.h"

static int64_t order_ms(uint64_t order)
{
    return (int64_t)(order ^ (UINT64_C(1) << 63));
}

static size_t tick_leases(struct engine *e, size_t budget)
{
    int64_t now = lease_now(e, e->now);
    size_t looked = 0;
    struct heap_entry top;
    for (; looked < budget && heap_top(&e->leases_end, &top) && order_ms(top.order) <= now;
         looked++) {
        struct lease *lease = lease_at(e, (uint32_t)top.seq);
        if (lease->until > now) { /* extended meanwhile, or not begun */
            leases_enter(e, lease,
                         lease->until != NEVER_MS ? lease->until : now + lease_first_ms(lease));
        } else if (jobs_purged(e, live_at(e, lease->job))) {
            heap_remove(&e->leases_end, lease->place); /* the slice that removes the job ends it */
            lease->place = SIZE_MAX;
        } else if (!ops_lease_ended(&e->ops, &live_at(e, lease->job)->job)) {
            break;
        }
    }
    return looked;
}

static size_t promote_queue(struct engine *e, struct queue *q, size_t budget)
{
    size_t looked = 0;
    struct heap_entry top;
    int64_t now = e->now.wall.ms + (DEFECT(&e->config, DEFECT_PROMOTE_EARLY) ? 50 : 0);
    for (; looked < budget && heap_top(&q->due, &top); looked++) {
        bool valid = valid_due(e, top);
        if (valid && order_ms(top.order) > now)
            break;
        if (valid) {
            struct record rec = {
                .kind = REC_JOB_READY,
                .job_ready = {.seq = top.seq, .at = e->now.wall},
            };
            if (jobs_reserve(e, q, 0, 1, record_bytes_max(&rec)) != 0)
                break;
            engine_emit(e, &rec);
        }
        heap_pop(&q->due, &top);
    }
    return looked;
}

/* Removes the queue that is due next from a heap of queues; NULL when none is due, or when
 * *looked, the number of stale entries, has reached the budget. */
static struct queue *queue_due(struct engine *e, struct heap *heap, int64_t now, size_t budget,
                               size_t *looked)
{
    struct heap_entry top;
    while (*looked < budget && heap_top(heap, &top) && order_ms(top.order) <= now) {
        heap_pop(heap, &top);
        struct queue *q = queue_at(e, (uint32_t)top.seq);
        if (q && !q->gone) {
            if (heap == &e->due_queues && q->due_armed == top.order)
                return q;
            if (heap == &e->prune_queues && q->prune_armed == top.order)
                return q;
            if (heap == &e->resume_queues && heap_order_of(q->paused_until.ms) == top.order)
                return q;
        }
        ++*looked;
    }
    return NULL;
}

static size_t tick_promote(struct engine *e, size_t budget)
{
    size_t done = 0;
    struct queue *q;
    int64_t now = e->now.wall.ms + (DEFECT(&e->config, DEFECT_PROMOTE_EARLY) ? 50 : 0);
    while (heap_reserve(&e->due_queues, 1) == 0 &&
           (q = queue_due(e, &e->due_queues, now, budget, &done)) != NULL) {
        struct heap_entry top;
        q->due_armed = UINT64_MAX;
        size_t n = promote_queue(e, q, budget - done);
        done += n ? n : 1;
        if (heap_top(&q->due, &top))
            queues_arm(&e->due_queues, &q->due_armed, q->number, order_ms(top.order));
        if (n == 0 && q->due_armed != UINT64_MAX && order_ms(q->due_armed) <= now)
            break; /* memory is short */
    }
    return done;
}

static size_t tick_expire(struct engine *e, size_t budget)
{
    size_t done = 0;
    struct heap_entry top;
    for (; done < budget && !e->clock_suspect && heap_top(&e->expiries, &top) &&
           order_ms(top.order) <= e->now.wall.ms;
         done++) {
        struct live *l = valid_expiry(e, top) ? jobs_by_seq(e, top.seq, NULL) : NULL;
        if (l && !ops_job_expired(&e->ops, &l->job))
            break;
        heap_pop(&e->expiries, &top);
    }
    return done;
}

/* --- retention --- */

/* Adds the jobs of a list that the queue does not keep, the oldest, to the list in scratch. */
static size_t collect_old(struct engine *e, const struct joblist *list, struct retention keep,
                          size_t budget, uint64_t *previous)
{
    size_t n = 0;
    uint32_t at = list->head;
    while (at && n < budget) {
        const struct live *l = live_at(e, at);
        if (!retention_over(keep, list->count - n, l->job.since, e->now.wall, !e->clock_suspect) ||
            !dependencies_secure(e, l->job.seq))
            break;
        if (record_seq_append(&e->scratch, previous, l->job.seq) != 0)
            break;
        n++;
        at = l->next;
    }
    return n;
}

/* Emits one record that removes what scratch lists. False: no memory, try again later. */
static bool emit_gone(struct engine *e, size_t count)
{
    struct record rec = {
        .kind = REC_JOBS_GONE,
        .jobs_gone = {.count = (uint32_t)count, .seqs = buf_span(&e->scratch)},
    };
    if (emit_reserve(e, record_bytes_max(&rec)) != 0)
        return false;
    engine_emit(e, &rec);
    return true;
}

static size_t prune_queue(struct engine *e, struct queue *q, size_t budget)
{
    static const uint8_t states[] = {STATE_DONE, STATE_CANCELLED, STATE_DEAD};
    uint64_t previous = 0;
    size_t n = 0;
    buf_clear(&e->scratch);
    for (size_t i = 0; i < sizeof(states); i++)
        n += collect_old(e, &q->lists[states[i]], retention_of(&q->policy, states[i]), budget - n,
                         &previous);
    return n > 0 && emit_gone(e, n) ? n : 0;
}

size_t tick_trim(struct engine *e, size_t budget)
{
    size_t done = 0;
    while (e->trim_count > 0 && done < budget) {
        struct queue *q = queue_at(e, e->trims[e->trim_count - 1]);
        size_t n = q->gone ? 0 : prune_queue(e, q, budget - done);
        done += n;
        if (done >= budget)
            break;
        e->trim_count--;
        q->trimming = false;
    }
    return done;
}

static size_t tick_prune(struct engine *e, size_t budget)
{
    size_t done = 0;
    struct queue *q;
    while (!e->clock_suspect && heap_reserve(&e->prune_queues, 3) == 0 &&
           (q = queue_due(e, &e->prune_queues, e->now.wall.ms, budget, &done)) != NULL) {
        q->prune_armed = UINT64_MAX;
        size_t n = prune_queue(e, q, budget - done);
        done += n ? n : 1;
        queues_arm_prune(e, q);
        if (n == 0 && q->prune_armed != UINT64_MAX && order_ms(q->prune_armed) <= e->now.wall.ms)
            break; /* memory is short */
    }
    return done;
}

static size_t tick_keys(struct engine *e, size_t budget)
{
    const struct key *k = NULL;
    size_t n = 0;
    for (uint32_t at = e->key_first; at && n < budget; at = k->next) {
        k = slab_at(&e->keys, at);
        if (k->expires_at.ms > e->now.wall.ms || e->clock_suspect)
            break;
        n++;
    }
    return n > 0 && keys_emit_gone(e, slab_at(&e->keys, e->key_first), n) ? n : 0;
}

/* --- purged jobs and deleted queues, in slices --- */

static size_t remove_purged(struct engine *e, struct queue *q, size_t budget)
{
    uint64_t previous = 0;
    size_t n = 0;
    buf_clear(&e->scratch);
    for (uint32_t at = q->purging.head; at && n < budget; at = live_at(e, at)->next, n++)
        if (!dependencies_secure(e, live_at(e, at)->job.seq) ||
            record_seq_append(&e->scratch, &previous, live_at(e, at)->job.seq) != 0)
            break;
    return n > 0 && emit_gone(e, n) ? n : 0;
}

static size_t tick_purging(struct engine *e, size_t budget)
{
    size_t done = 0;
    while (e->purging_count > 0 && done < budget) {
        struct queue *q = queue_at(e, e->purging_queues[e->purging_count - 1]);
        size_t n = remove_purged(e, q, budget - done);
        done += n;
        if (q->purging.head)
            break; /* the slice is full, or memory is short */
        struct record rec = {
            .kind = REC_QUEUE_END,
            .queue = {.queue = q->number, .at = e->now.wall},
        };
        if (emit_reserve(e, record_bytes_max(&rec)) != 0)
            break;
        if (q->gone) {
            engine_emit(e, &rec); /* takes it off the list */
            done++;
        } else {
            q->purging_listed = false;
            e->purging_count--;
        }
    }
    return done;
}

static void tick_resume(struct engine *e, size_t budget)
{
    struct queue *q;
    size_t looked = 0;
    while ((q = queue_due(e, &e->resume_queues, e->now.wall.ms, budget, &looked)) != NULL) {
        looked++;
        events_queue(e, EVENT_QUEUE_RESUMED, q, 0);
        if (q->lists[STATE_READY].count)
            queues_wake(e, q);
    }
}

void op_tick(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    size_t budget = e->config.slice;
    typedef size_t (*part_fn)(struct engine *, size_t);
    static const part_fn parts[] = {tick_leases,  tick_holds, tick_promote, tick_expire,
                                    tick_purging, bulk_tick,  tick_trim,    tick_prune,
                                    tick_keys,    tick_kv,    tick_tokens,  tick_sorting};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t n = parts[i](e, budget);
        budget = n < budget ? budget - n : 1; /* one kind of work must not starve the others */
    }
    tick_resume(e, e->config.slice);
    r->after = 0;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t top_in(const struct heap *h, int64_t now)
{
    struct heap_entry top;
    if (!heap_top(h, &top))
        return NEVER_MS;
    int64_t at = order_ms(top.order);
    return at <= now ? 0 : at - now;
}

int64_t engine_next_tick_ms(const struct engine *e, struct now now)
{
    if (e->purging_count || e->bulks || e->trim_count || e->loose_count || e->sorting_count ||
        e->deps.work_first)
        return 0;
    int64_t wait = top_in(&e->leases_end, lease_now(e, now));
    wait = sooner(wait, top_in(&e->due_queues, now.wall.ms));
    wait = sooner(wait, top_in(&e->resume_queues, now.wall.ms));
    wait = sooner(wait, top_in(&e->token_queues, now.mono.ms));
    if (!e->clock_suspect) {
        wait = sooner(wait, top_in(&e->expiries, now.wall.ms));
        wait = sooner(wait, top_in(&e->prune_queues, now.wall.ms));
        wait = sooner(wait, top_in(&e->kv_expiries, now.wall.ms));
        if (e->key_first) {
            const struct key *k = slab_at(&e->keys, e->key_first);
            int64_t left = k->expires_at.ms - now.wall.ms;
            wait = sooner(wait, left > 0 ? left : 0);
        }
    }
    /* While leases run, a silence longer than stall_ms would be taken for a standstill. */
    if (e->leases.used)
        wait = sooner(wait, e->config.stall_ms / 2);
    return wait;
}
