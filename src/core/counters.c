/* SPDX-License-Identifier: Apache-2.0 */
#include "core/counters.h"

#include "core/records/record.h"

/* A clock that was set back gives no time. */
static uint64_t ms_between(struct wall_time from, struct wall_time to)
{
    return to.ms > from.ms ? (uint64_t)(to.ms - from.ms) : 0;
}

/* An attempt that did not end with an ack. */
static bool add_attempt(uint64_t *of, uint8_t reason, uint8_t error_kind, uint64_t ran_ms)
{
    bool failed =
        reason == REASON_FAILED || reason == REASON_REJECTED || reason == REASON_TIMED_OUT;
    bool crashed = reason == REASON_LEASE_EXPIRED || reason == REASON_CRASH_LOOP;
    bool released = reason == REASON_RELEASED;
    of[COUNTER_FAILED_APP] += failed && error_kind != ERROR_BUSINESS;
    of[COUNTER_FAILED_BUSINESS] += failed && error_kind == ERROR_BUSINESS;
    of[COUNTER_CRASHED] += crashed;
    of[COUNTER_RELEASED] += released;
    of[COUNTER_FAILED_MS] += failed || crashed ? ran_ms : 0;
    return failed || crashed || released;
}

static void add_dead(uint64_t *of, const struct rec_job_dead *r, const struct job *before)
{
    bool ran = before->state == STATE_RUNNING;
    add_attempt(of, r->reason, r->error_kind, ms_between(before->since, r->at));
    of[COUNTER_DIED]++;
    of[COUNTER_DIED_MS] += ms_between(ran ? before->since : id_time(before->id_hi), r->at);
}

bool counters_add_record(uint64_t *of, const struct record *r, const struct job *before)
{
    if (r->kind == REC_JOB_NEW) {
        of[COUNTER_ENQUEUED]++;
    } else if (r->kind == REC_JOB_CLAIMED) {
        of[COUNTER_CLAIMED]++;
        if (before->state == STATE_READY)
            of[COUNTER_WAITED_MS] += ms_between(before->since, r->job_claimed.at);
    } else if (r->kind == REC_JOB_DONE) {
        of[COUNTER_ACKED]++;
        of[COUNTER_DONE_MS] += ms_between(before->since, r->job_done.at);
    } else if (r->kind == REC_JOB_BACK) {
        const struct rec_job_back *b = &r->job_back;
        return add_attempt(of, b->reason, b->error_kind, ms_between(before->since, b->at));
    } else if (r->kind == REC_JOB_DEAD) {
        add_dead(of, &r->job_dead, before);
    } else if (r->kind == REC_JOB_CANCELLED) {
        of[COUNTER_CANCELLED]++;
    } else {
        return false;
    }
    return true;
}
