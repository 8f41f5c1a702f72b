/* SPDX-License-Identifier: Apache-2.0 */
/* Leases that jobs hold. The items that a trigger of a queue takes are leased to the job that it
 * creates, without an end, while that job is scheduled, ready or running. A worker may end them one
 * by one with their tokens. When the job has ended for any reason, the remaining items fail by the
 * policy of their own queue, in slices of the following ticks. After a crash, the start of the
 * server finds what was left.
 *
 * A held lease uses the chain of nonces, but in a separate map: its nonce is the sequence of the
 * job. It is never in the heap of leases that end. */
#include "backend/local/engine/engine_impl.h"

#define NO_HOLDER_MS 30000 /* the lease of an item whose link is lost: a damaged store */

int holds_reserve(struct engine *e)
{
    size_t need = map64_count(&e->holds) + 1;
    if (e->loose_room < need) {
        uint64_t *grown = mem_regrow(e->loose, need * 2, sizeof(*grown));
        if (!grown)
            return -ERR_NOMEM;
        e->loose = grown;
        e->loose_room = need * 2;
    }
    return map64_reserve(&e->holds, 1);
}

int holds_link(struct engine *e, uint64_t item, uint64_t job)
{
    const struct live *l = jobs_by_seq(e, item, NULL);
    if (!l || !l->lease || lease_at(e, l->lease)->lease_ms != 0 || lease_at(e, l->lease)->nonce)
        return -ERR_CORRUPT;
    uint32_t head = map64_get(&e->holds, job);
    int err = head ? 0 : holds_reserve(e);
    if (err)
        return err;
    struct lease *lease = lease_at(e, l->lease);
    lease->held = true;
    lease->nonce = job;
    lease->nonce_prev = 0;
    lease->nonce_next = head;
    if (head)
        lease_at(e, head)->nonce_prev = l->lease;
    e->held++;
    return map64_put(&e->holds, job, l->lease);
}

int holds_apply_linked(struct engine *e, const struct rec_job_linked *r)
{
    struct span list = r->items;
    uint64_t previous = 0, item;
    int err = 0;
    for (uint32_t i = 0; !err && i < r->count; i++) {
        err = record_seq_next(&list, &previous, &item);
        if (!err)
            err = holds_link(e, item, r->seq);
    }
    return err;
}

void holds_unlink(struct engine *e, uint32_t handle)
{
    struct lease *l = lease_at(e, handle);
    leases_unchain(e, &e->holds, handle);
    l->held = false;
    l->nonce = 0;
    l->nonce_prev = l->nonce_next = 0;
    e->held--;
}

/* Memory exists for every job that holds items. A job that ended twice uses it up too early; the
 * next tick then searches all jobs. */
void holds_job_ended(struct engine *e, uint64_t seq)
{
    if (!map64_get(&e->holds, seq))
        return;
    if (e->loose_count == e->loose_room)
        e->loose_unknown = true;
    else
        e->loose[e->loose_count++] = seq;
}

static bool holder_lives(struct engine *e, uint64_t seq)
{
    const struct live *holder = jobs_find(e, (struct job_ref){seq, 0}, NULL);
    return holder && state_lives(holder->job.state);
}

/* All jobs that hold items and have ended. A job with many items appears once for each of them,
 * unless they are adjacent; the second time it holds nothing. */
static void loose_find(struct engine *e)
{
    e->loose_unknown = false;
    for (size_t n = 0; n < e->queue_total; n++) {
        const struct queue *q = e->queues[n];
        uint32_t at = q && !q->gone ? q->lists[STATE_RUNNING].head : 0;
        for (; at; at = live_at(e, at)->next) {
            const struct lease *lease = lease_at(e, live_at(e, at)->lease);
            bool told = e->loose_count > 0 && e->loose[e->loose_count - 1] == lease->nonce;
            if (lease->held && !told && !holder_lives(e, lease->nonce))
                holds_job_ended(e, lease->nonce);
        }
    }
}

/* A lease without an end that no job holds would never end. */
static void adopt_orphans(struct engine *e)
{
    for (size_t n = 0; n < e->queue_total; n++) {
        const struct queue *q = e->queues[n];
        uint32_t at = q && !q->gone ? q->lists[STATE_RUNNING].head : 0;
        for (; at; at = live_at(e, at)->next) {
            struct lease *lease = lease_at(e, live_at(e, at)->lease);
            if (lease->lease_ms != 0 || lease->held)
                continue;
            if (lease->until <= lease_now(e, e->now) + NO_HOLDER_MS)
                continue; /* a requested cancel ends it sooner */
            lease->until = lease_now(e, e->now) + NO_HOLDER_MS;
            leases_enter(e, lease, lease->until);
        }
    }
}

static void defect_forget(struct engine *e)
{
    for (size_t n = 0; n < e->queue_total; n++) {
        uint32_t at = e->queues[n] ? e->queues[n]->lists[STATE_RUNNING].head : 0;
        for (; at; at = live_at(e, at)->next)
            if (lease_at(e, live_at(e, at)->lease)->held)
                holds_unlink(e, live_at(e, at)->lease);
    }
}

void holds_boot(struct engine *e)
{
    if (DEFECT(&e->config, DEFECT_HOLDS_FORGOTTEN))
        defect_forget(e);
    adopt_orphans(e);
    if (e->held)
        loose_find(e);
}

/* --- ending them --- */

static bool item_left(struct engine *e, struct live *l, const struct live *holder)
{
    struct job_ref ref = {holder ? holder->job.seq : 0, holder ? holder->job.id_hi : 0};
    return ops_item_left(&e->ops, &l->job, ref, holder ? holder->job.state : STATE_NONE);
}

/* Items of one ended job. False: memory is short, or the budget is used up. */
static bool let_go(struct engine *e, uint64_t seq, size_t budget, size_t *done)
{
    const struct live *holder = jobs_find(e, (struct job_ref){seq, 0}, NULL);
    uint32_t handle;
    if (holder && state_lives(holder->job.state))
        return true; /* requeued meanwhile */
    while ((handle = map64_get(&e->holds, seq)) != 0) {
        struct live *l = live_at(e, lease_at(e, handle)->job);
        if (*done >= budget)
            return false;
        ++*done;
        if (jobs_purged(e, l))
            holds_unlink(e, handle); /* the slice that removes the item ends its lease */
        else if (!item_left(e, l, holder))
            return false;
    }
    return true;
}

size_t tick_holds(struct engine *e, size_t budget)
{
    size_t done = 0;
    while (e->loose_count > 0) {
        uint64_t seq =
            e->loose[--e->loose_count]; /* an item may be a job with items, and join in */
        if (!let_go(e, seq, budget, &done)) {
            holds_job_ended(e, seq);
            break;
        }
    }
    if (e->loose_count == 0 && e->loose_unknown)
        loose_find(e);
    return done;
}

const char *holds_wrong(const struct engine *e, const struct live *l)
{
    const struct lease *lease = lease_at(e, l->lease);
    if (lease->held && lease->lease_ms != 0)
        return "is held by a job, but its lease has an end";
    if (lease->held && lease->until != lease->limit)
        return "is held by a job, but its lease would run out";
    if (lease->held && !map64_get(&e->holds, lease->nonce))
        return "is held by a job that does not know of it";
    return NULL;
}
