/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of what keepers (keeper.h) saw: C11 … C14, C19 … C22, and what C1, C3, C6 and C10 mean
 * for their jobs.
 *
 * Their queues keep everything, so the last reads show whatever became durable. A request that was
 * answered has happened; of one that was not, all parts have happened or none.
 *
 *      sees                                             does not see
 *  C11 a commit's key without its job, or its job       which of two commits without an answer
 *      without its key; a dead job without the key it   came first
 *      leaves, or a key of a job that did not die;
 *      a key that goes back to an older version
 *  C12 two jobs for one time of a schedule; an answered times fired out of turn (`now`), which are
 *      firing whose job is missing, or that the         only counted
 *      schedule has forgotten; a wrong count of jobs
 *  C13 an item that is not held while its job lives;    items of jobs that were never claimed
 *      held by two jobs; a token issued twice
 *  C14 a death without a notice, a notice without a     whether a delivery came too late
 *      death, two notices of one death; a notice that
 *      left the outbox though no client removed it
 *  C19 a job that is done without what it handed off;   hand-offs of several jobs
 *      a next job or key without that job's end; two
 *      next jobs of one ack
 *  C20 a job that starts before those on which it       whether a parent's end was durable
 *      depends have ended as declared, or again after   when the job started
 *      its end; a rule that was not followed; a part
 *      of a batch
 *  C21 a start beyond max_running or                    leases whose end was requested, even if the
 *      max_running_per_group, counted by leases that    request had no effect; a slot that is lost
 *      surely live, or beyond claim_rate                (C10: the jobs do not end)
 *  C22 a group that waits for more than two jobs of     the order of jobs that were retried or
 *      another one; a job that waits while one          delayed, and order under limits of groups
 *      starts that is younger for its priority */
#pragma once

#include "sim/checker/checker.h"
#include "sim/clients/keeper.h"

/* Notes the first violation in *ret, if there is one. */
void keeps_check(const struct history *h, struct violation *ret);

/* ---- inside ---------------------------------------------------------------------------------- */

struct keeps {
    const struct history *h;
    size_t drained;              /* entry; the last reads follow */
    const struct hist_job **end; /* every job of the keepers as it is in the end, by sequence */
    size_t end_count, end_room;
    struct pool pool;
    struct violation *bad;
};

void keeps_blame(struct keeps *k, enum check check, uint64_t seq, size_t entry, const char *format,
                 ...) __attribute__((format(printf, 5, 6)));
const struct hist_job *keeps_job(const struct keeps *k, uint64_t seq); /* in the end; NULL = none */
bool keeps_ok(const struct hist_entry *e, enum op_kind kind);          /* answered with success */
/* It was answered in a way that says it did not happen. */
bool keeps_refused(const struct hist_entry *e);

/* What the last reads showed of the key of a commit or hand-off; NULL = it was not read. */
const struct hist_kv *keeps_key(const struct keeps *k, enum keeper_key kind, uint32_t number);
/* The job with this payload in the end, and how many there are; NULL = none. */
const struct hist_job *keeps_job_with(const struct keeps *k, struct span payload, unsigned *count);

void keeps_keys(struct keeps *k);         /* keeps_keys.c: C11 */
void keeps_schedules(struct keeps *k);    /* keeps_schedules.c: C12 */
void keeps_items(struct keeps *k);        /* keeps_items.c: C13 */
void keeps_notices(struct keeps *k);      /* keeps_notices.c: C14 */
void keeps_handoffs(struct keeps *k);     /* keeps_handoffs.c: C19 */
void keeps_dependencies(struct keeps *k); /* keeps_dependencies.c: C20 */
void keeps_limits(struct keeps *k);       /* keeps_limits.c: C21 */
void keeps_turns(struct keeps *k);        /* keeps_turns.c: C22 */
