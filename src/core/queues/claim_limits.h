/* SPDX-License-Identifier: Apache-2.0 */
/* What a claim may start now, and in which order: the rules behind the policy members max_running,
 * max_running_per_group, claim_rate, fair and ageing_ms. They are the same for every store.
 *
 * Slots. A running job occupies one slot of its queue and one of its group, as long as its lease
 * exists. The numbers of running jobs come from the leases themselves, so a slot cannot leak: a
 * process that was killed, a restart and a change of the policy need no repair. A lease that a
 * trigger's job holds counts like any other, and so does one that was started before the limit was
 * lowered. All jobs without a group are one group.
 *
 * Rate. A queue, or each group, has a bucket of `count` tokens that fills evenly over the window; a
 * claim takes one token for each job. A bucket is one number, the time at which it is full again,
 * in the clock of the rate limits at enqueue. A release or a failure gives no token back.
 *
 * Order. Jobs start by (priority, sequence). With ageing_ms a job counts as one priority higher for
 * each such period that it has been ready. All jobs of a queue rise together, so their order among
 * themselves never changes: claim_priority is a constant of the job while it is ready. by_due,
 * which is an order by age, too, cannot be combined with it.
 *
 * Fairness. Groups take turns in rounds. Each group with a ready job has the number of the round in
 * which it may start the next one; among the groups whose first job has the highest priority, the
 * lowest round comes first. A group that gets its first ready job joins the next round: being idle
 * earns no credit, and forgetting an idle group costs it nothing. A group that was kept back (by a
 * slot, a token, or jobs of higher priority) keeps its round and is served once before the others;
 * then it joins the next round like them. Thus a group waits for at most one job of each of the
 * groups that were ready when it joined, as long as its own limits allow it a job.
 *
 * What a store must provide (struct ops_store, ops/ops.h):
 *   - ready_next returns the first job, in this order, of a queue that has a free slot and a token,
 *     whose group has both, too. A group that has not is passed over, however many ready jobs it
 *     has, without looking at them.
 *   - lease_start and items_prepare/commit take the tokens and count the slots in the same
 *     transaction that starts the lease, so that two nodes cannot share one slot.
 *   - claim_room answers for a single job, for claims by id.
 *   - A watch of the queue (backend.h) signals when a ready job that could not start can start:
 *     a lease has ended, a token is there, or the policy has changed.
 *   - queue_view.limited says how many ready jobs wait, and for what.
 * Rounds and buckets need not be durable. */
#pragma once

#include "base/system/clock.h"
#include "core/queues/policy.h"

/* Why a ready job cannot start now. A claim reports the first that applies. */
enum claim_block {
    CLAIM_FREE = 0,
    CLAIM_QUEUE_LIMIT, /* max_running */
    CLAIM_GROUP_LIMIT, /* max_running_per_group */
    CLAIM_RATE,        /* claim_rate, of the queue or of the group */
    CLAIM_BLOCK_COUNT
};
/* "queue_limit", "group_limit", "claim_rate"; "" for CLAIM_FREE. */
const char *claim_block_name(enum claim_block block);

/* Whether the policy has any member of this file: only then is there more to decide than (priority,
 * sequence). */
bool claim_limited(const struct queue_policy *p);
/* Whether the order or the limits depend on the groups of the jobs. */
bool claim_grouped(const struct queue_policy *p);

/* What a queue, or a group, uses of its limits. */
struct claim_use {
    uint64_t running; /* leases */
    int64_t full_us;  /* of its bucket; 0 = it is full */
};

/* Whether the queue, or the group, blocks a job now. *ret_at_us: CLAIM_RATE: when the next token is
 * there; otherwise 0. */
enum claim_block claim_queue_block(const struct queue_policy *p, const struct claim_use *use,
                                   int64_t now_us, int64_t *ret_at_us);
enum claim_block claim_group_block(const struct queue_policy *p, const struct claim_use *use,
                                   int64_t now_us, int64_t *ret_at_us);

/* --- the bucket of a rate --- */

/* When the next token is there; ≤ now_us: it is there. */
int64_t claim_token_at_us(const struct rate_limit *rate, int64_t full_us, int64_t now_us);
/* The bucket after a token was taken. More may be taken than there are: the next comes later. */
int64_t claim_token_take(const struct rate_limit *rate, int64_t full_us, int64_t now_us);

/* One that was taken is given back: its job did not start. */
int64_t claim_token_give(const struct rate_limit *rate, int64_t full_us);

/* --- the order of jobs --- */

/* Takes the place of the priority in the order of a queue: higher first, then by sequence.
 * ready_since: job.since of a ready job. */
int64_t claim_priority(const struct queue_policy *p, int64_t priority,
                       struct wall_time ready_since);
/* The same now, so that it compares with the priorities of other queues. */
int64_t claim_priority_now(const struct queue_policy *p, int64_t claim_priority,
                           struct wall_time now);

/* --- fairness --- */

/* The round of a group that gets its first ready job; queue_round: see claim_round_serve. */
uint64_t claim_round_join(uint64_t queue_round);
/* A job of the group starts: *queue_round, which begins at 0 and never falls, is the highest round
 * of which a group was served. */
void claim_round_serve(uint64_t *queue_round, uint64_t *group_round);

/* The place of a group among those of its queue that have a ready job and may start it. */
struct claim_place {
    int64_t priority; /* claim_priority of its first job */
    uint64_t round;   /* 0 unless the queue is fair */
    uint64_t seq;     /* of its first job */
};
/* Whether the first of the two comes first. */
static inline bool claim_place_before(const struct claim_place *a, const struct claim_place *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->round != b->round ? a->round < b->round : a->seq < b->seq;
}
