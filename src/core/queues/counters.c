/* SPDX-License-Identifier: Apache-2.0 */
#include "core/queues/counters.h"

#include "core/records/record.h"

/* A clock that was set back gives no time. */
static uint64_t ms_between(struct wall_time from, struct wall_time to)
{
    return to.ms > from.ms ? (uint64_t)(to.ms - from.ms) : 0;
}

struct counter_target {
    uint64_t *of, *also; /* also: NULL = none */
};

static void add(struct counter_target to, enum counter counter, uint64_t n)
{
    to.of[counter] += n;
    if (to.also)
        to.also[counter] += n;
}

/* An attempt that did not end with an ack. */
static bool add_attempt(struct counter_target to, uint8_t reason, uint8_t error_kind,
                        uint64_t ran_ms)
{
    bool failed =
        reason == REASON_FAILED || reason == REASON_REJECTED || reason == REASON_TIMED_OUT;
    bool crashed = reason == REASON_LEASE_EXPIRED || reason == REASON_CRASH_LOOP;
    bool released = reason == REASON_RELEASED;
    if (failed)
        add(to, error_kind == ERROR_BUSINESS ? COUNTER_FAILED_BUSINESS : COUNTER_FAILED_APP, 1);
    if (crashed)
        add(to, COUNTER_CRASHED, 1);
    if (failed || crashed)
        add(to, COUNTER_FAILED_MS, ran_ms);
    if (released)
        add(to, COUNTER_RELEASED, 1);
    return failed || crashed || released;
}

static void add_dead(struct counter_target to, const struct rec_job_dead *r,
                     const struct job *before)
{
    bool ran = before->state == STATE_RUNNING;
    add_attempt(to, r->reason, r->error_kind, ms_between(before->since, r->at));
    add(to, COUNTER_DIED, 1);
    add(to, COUNTER_DIED_MS, ms_between(ran ? before->since : id_time(before->id_hi), r->at));
}

bool counters_add_record(uint64_t *of, uint64_t *also, const struct record *r,
                         const struct job *before)
{
    struct counter_target to = {of, also};
    if (r->kind == REC_JOB_NEW) {
        add(to, COUNTER_ENQUEUED, 1);
    } else if (r->kind == REC_JOB_CLAIMED) {
        add(to, COUNTER_CLAIMED, 1);
        if (before->state == STATE_READY)
            add(to, COUNTER_WAITED_MS, ms_between(before->since, r->job_claimed.at));
    } else if (r->kind == REC_JOB_DONE) {
        add(to, COUNTER_ACKED, 1);
        add(to, COUNTER_DONE_MS, ms_between(before->since, r->job_done.at));
    } else if (r->kind == REC_JOB_BACK) {
        const struct rec_job_back *b = &r->job_back;
        return add_attempt(to, b->reason, b->error_kind, ms_between(before->since, b->at));
    } else if (r->kind == REC_JOB_DEAD) {
        add_dead(to, &r->job_dead, before);
    } else if (r->kind == REC_JOB_CANCELLED) {
        add(to, COUNTER_CANCELLED, 1);
    } else {
        return false;
    }
    return true;
}
