/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of retries, crashes and leases.
 *
 * How attempts are counted: a queue's lease-end policy says whether expired leases (crashes) share
 * max_attempts with failures. Under "requeue" only max_crashes limits them; under "requeue_counted"
 * both limits hold; under "fail" the first one ends the job. */
#include "core/jobs/moves.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/jobs/job_error.h"
#include "core/limits.h"
#include "core/validate.h"

void rules_of(const struct queue_policy *policy, const struct job_options *options,
              struct job_rules *ret)
{
    *ret = (struct job_rules){
        .lease_ms = policy->lease_ms,
        .timeout_ms = policy->timeout_ms,
        .max_attempts = policy->max_attempts,
        .max_crashes = policy->max_crashes,
        .lease_end = (enum lease_end)policy->lease_end,
        .backoff = &policy->backoff,
    };
    if (!options)
        return;
    if (options->lease_ms)
        ret->lease_ms = options->lease_ms;
    if (options->timeout_ms)
        ret->timeout_ms = options->timeout_ms;
    if (options->max_attempts)
        ret->max_attempts = options->max_attempts;
    if (options->max_crashes)
        ret->max_crashes = options->max_crashes;
    if (options->has_backoff)
        ret->backoff = &options->backoff;
}

/* ---- deciding ---- */

static uint16_t counted(uint16_t n)
{
    return n < UINT16_MAX ? (uint16_t)(n + 1) : n;
}

static struct wall_time wall_clamp(struct wall_time t)
{
    int64_t ms = t.ms < 0 ? 0 : t.ms > LIMIT_WALL_MS ? LIMIT_WALL_MS : t.ms;
    return (struct wall_time){ms};
}

static struct wall_time wall_after(struct wall_time now, int64_t wait_ms)
{
    return wait_ms > LIMIT_WALL_MS - now.ms ? (struct wall_time){LIMIT_WALL_MS}
                                            : (struct wall_time){now.ms + wait_ms};
}

/* With the present counters, ready at once; the caller changes what differs. */
static struct rec_job_back *back_begin(const struct job *j, enum job_reason reason,
                                       uint32_t generation, struct wall_time now,
                                       struct record *ret)
{
    ret->kind = REC_JOB_BACK;
    ret->job_back = (struct rec_job_back){
        .seq = j->seq,
        .state = STATE_READY,
        .reason = (uint8_t)reason,
        .failures = j->failures,
        .crashes = j->crashes,
        .generation = generation,
        .run_at = j->run_at,
        .at = now,
    };
    return &ret->job_back;
}

static void back_not_before(struct rec_job_back *b, struct wall_time run_at)
{
    if (run_at.ms > b->at.ms) {
        b->state = STATE_SCHEDULED;
        b->run_at = wall_clamp(run_at);
    }
}

static struct rec_job_dead *dead_begin(const struct job *j, enum job_reason reason,
                                       struct wall_time now, struct record *ret)
{
    ret->kind = REC_JOB_DEAD;
    ret->job_dead = (struct rec_job_dead){
        .seq = j->seq,
        .reason = (uint8_t)reason,
        .failures = j->failures,
        .crashes = j->crashes,
        .at = now,
    };
    return &ret->job_dead;
}

void decide_fail(const struct job *j, const struct job_rules *rules, const struct fail_request *f,
                 uint32_t generation, struct wall_time now, struct random *random,
                 struct record *ret)
{
    uint32_t used = j->failures + 1u;
    enum job_reason reason = f->timed_out ? REASON_TIMED_OUT : REASON_FAILED;
    if (rules->lease_end == LEASE_END_COUNTED)
        used += j->crashes;
    struct span error = job_error_cut(f->error);

    if (f->damaged) {
        struct rec_job_dead *dead = dead_begin(j, REASON_DAMAGED, now, ret);
        dead->error = error;
        return;
    }
    if (f->no_retry || used >= rules->max_attempts) {
        struct rec_job_dead *dead = dead_begin(j, f->no_retry ? REASON_REJECTED : reason, now, ret);
        dead->failures = counted(j->failures);
        dead->error_kind = f->error_kind;
        dead->error = error;
        return;
    }
    struct rec_job_back *back = back_begin(j, reason, generation, now, ret);
    back->failures = counted(j->failures);
    back->error_kind = f->error_kind;
    back->error = error;
    back_not_before(back, f->has_run_at
                              ? f->run_at
                              : wall_after(now, backoff_wait_ms(rules->backoff, used, random)));
}

/* "Timeout after 300s"; fractions of a second are shown only if there are any. */
static struct span timeout_text(uint32_t lease_ms, char text[LEASE_END_TEXT_BYTES])
{
    uint32_t ms = lease_ms % 1000;
    int digits = ms % 100 == 0 ? 1 : ms % 10 == 0 ? 2 : 3;
    uint32_t fraction = digits == 1 ? ms / 100 : digits == 2 ? ms / 10 : ms;
    int len =
        ms == 0
            ? snprintf(text, LEASE_END_TEXT_BYTES, "Timeout after %" PRIu32 "s", lease_ms / 1000)
            : snprintf(text, LEASE_END_TEXT_BYTES, "Timeout after %" PRIu32 ".%0*" PRIu32 "s",
                       lease_ms / 1000, digits, fraction);
    return span_of(text, (size_t)len);
}

/* Whether one more crash ends the job. */
static bool crashes_too_often(const struct job *j, const struct job_rules *rules)
{
    uint32_t crashes = j->crashes + 1u;
    if (rules->max_crashes != 0 && crashes >= rules->max_crashes)
        return true;
    return rules->lease_end == LEASE_END_COUNTED && j->failures + crashes >= rules->max_attempts;
}

/* The back-off step for one more crash; 0 = no wait. */
static uint32_t crash_step(const struct job *j, const struct job_rules *rules, bool lost)
{
    if (rules->lease_end == LEASE_END_COUNTED)
        return j->failures + j->crashes + 1u;
    return lost ? j->crashes : 0;
}

void decide_lease_end(const struct job *j, const struct job_rules *rules, bool lost,
                      uint32_t generation, struct wall_time now, struct random *random,
                      char text[LEASE_END_TEXT_BYTES], struct record *ret)
{
    if (rules->lease_end == LEASE_END_FAIL) {
        struct rec_job_dead *dead = dead_begin(j, REASON_LEASE_EXPIRED, now, ret);
        dead->crashes = counted(j->crashes);
        dead->error = lost ? SPAN_LITERAL("Connection lost") : timeout_text(rules->lease_ms, text);
    } else if (crashes_too_often(j, rules)) {
        struct rec_job_dead *dead = dead_begin(j, REASON_CRASH_LOOP, now, ret);
        dead->crashes = counted(j->crashes);
        if (rules->lease_end == LEASE_END_COUNTED)
            dead->error =
                lost ? SPAN_LITERAL("Connection lost") : timeout_text(rules->lease_ms, text);
    } else {
        struct rec_job_back *back = back_begin(j, REASON_LEASE_EXPIRED, generation, now, ret);
        back->crashes = counted(j->crashes);
        uint32_t step = crash_step(j, rules, lost);
        if (step != 0)
            back_not_before(back, wall_after(now, backoff_wait_ms(rules->backoff, step, random)));
    }
}

void decide_timeout(const struct job *j, const struct job_rules *rules, uint32_t timeout_ms,
                    uint32_t generation, struct wall_time now, struct random *random,
                    char text[TIMEOUT_TEXT_BYTES], struct record *ret)
{
    int len = snprintf(text, TIMEOUT_TEXT_BYTES, "timed out after %" PRIu32 " ms", timeout_ms);
    struct fail_request fail = {.error = span_of(text, (size_t)len), .timed_out = true};
    decide_fail(j, rules, &fail, generation, now, random, ret);
}

void decide_cancelled(const struct job *j, enum job_reason reason, struct wall_time now,
                      struct record *ret)
{
    ret->kind = REC_JOB_CANCELLED;
    ret->job_cancelled =
        (struct rec_job_cancelled){.seq = j->seq, .reason = (uint8_t)reason, .at = now};
}

static struct span left_text(struct job_ref holder, enum job_state state,
                             char text[LEFT_TEXT_BYTES])
{
    char id[ID_ULID_BYTES];
    int len;
    if (state != STATE_NONE) {
        id_ulid(id_make(holder.hi, holder.seq), id);
        len = snprintf(text, LEFT_TEXT_BYTES, "Job %s ended (%s) and left it open", id,
                       state_name(state));
    } else {
        len = snprintf(text, LEFT_TEXT_BYTES, "The job that held it was removed");
    }
    return span_of(text, (size_t)len);
}

void decide_left(const struct job *j, const struct job_rules *rules, struct job_ref holder,
                 enum job_state holder_state, uint32_t generation, struct wall_time now,
                 struct random *random, char text[LEFT_TEXT_BYTES], struct record *ret)
{
    char unused[LEASE_END_TEXT_BYTES];
    struct fail_request fail = {.error = left_text(holder, holder_state, text)};
    if (rules->lease_end != LEASE_END_FAIL) {
        decide_fail(j, rules, &fail, generation, now, random, ret);
        return;
    }
    decide_lease_end(j, rules, false, generation, now, random, unused, ret);
    ret->job_dead.error = fail.error;
}

void decide_release(const struct job *j, struct wall_time run_at, uint32_t generation,
                    struct wall_time now, struct record *ret)
{
    back_not_before(back_begin(j, REASON_RELEASED, generation, now, ret), run_at);
}

void decide_requeue(const struct job *j, struct wall_time run_at, uint32_t generation,
                    struct wall_time now, struct record *ret)
{
    ret->kind = REC_JOB_REQUEUED;
    ret->job_requeued = (struct rec_job_requeued){
        .seq = j->seq,
        .state = run_at.ms > now.ms ? STATE_SCHEDULED : STATE_READY,
        .generation = generation,
        .run_at = wall_clamp(run_at),
        .at = now,
    };
}

void decide_expire(const struct job *j, struct wall_time now, struct record *ret)
{
    dead_begin(j, REASON_EXPIRED, now, ret);
}

void decide_unblock(const struct job *j, struct wall_time now, struct record *ret)
{
    ret->kind = REC_JOB_UNBLOCKED;
    ret->job_unblocked = (struct rec_job_unblocked){
        .seq = j->seq,
        .state = j->run_at.ms > now.ms ? STATE_SCHEDULED : STATE_READY,
        .at = now,
    };
}

void decide_dependency_failed(const struct job *j, bool dead, struct wall_time now,
                              struct record *ret)
{
    if (dead)
        dead_begin(j, REASON_DEPENDENCY_FAILED, now, ret);
    else
        decide_cancelled(j, REASON_DEPENDENCY_FAILED, now, ret);
}

/* ---- applying ---- */

/* Enters a state: the only place that changes the state of a job. */
static int enter(struct job *j, enum job_move move, enum job_state to, enum job_reason reason,
                 struct wall_time at)
{
    if (!move_allowed(move, j->state, to))
        return -ERR_CORRUPT;
    j->state = (uint8_t)to;
    j->reason = (uint8_t)reason;
    j->since = at;
    j->flags &= (uint8_t)~JOB_BOUND;
    return 0;
}

int apply_ready(struct job *j, const struct rec_job_ready *r)
{
    /* The reason why it is ready again stays. */
    return enter(j, MOVE_PROMOTE, STATE_READY, j->reason, r->at);
}

int apply_unblocked(struct job *j, const struct rec_job_unblocked *r)
{
    return enter(j, MOVE_UNBLOCK, r->state, REASON_NONE, r->at);
}

int apply_claimed(struct job *j, const struct rec_job_claimed *r)
{
    /* An ordinary claim is a seizure that starts from ready. */
    int err = enter(j, MOVE_SEIZE, STATE_RUNNING, REASON_NONE, r->at);
    if (err == 0 && r->bound)
        j->flags |= JOB_BOUND;
    return err;
}

int apply_extended(struct job *j, const struct rec_job_extended *r)
{
    (void)r; /* the lease is not part of the job */
    return move_starts_from(MOVE_EXTEND, j->state) ? 0 : -ERR_CORRUPT;
}

int apply_reported(const struct job *j)
{
    return j->state != STATE_NONE ? 0 : -ERR_CORRUPT;
}

int apply_cancel_requested(const struct job *j, const struct rec_job_cancel_requested *r,
                           struct lease_limits *limits)
{
    if (!move_starts_from(MOVE_EXTEND, j->state))
        return -ERR_CORRUPT;
    limits->cancel_at = r->at;
    limits->cancel_grace_ms = r->grace_ms;
    return 0;
}

int apply_priority(struct job *j, const struct rec_job_priority *r)
{
    if (!move_starts_from(MOVE_RELEASE, j->state))
        return -ERR_CORRUPT;
    j->priority = r->priority;
    return 0;
}

bool back_repeats(const struct job *j, const struct rec_job_back *r)
{
    return (STATE_BIT(j->state) & STATES_WAITING) && r->state == j->state &&
           r->reason == j->reason && r->failures == j->failures && r->crashes == j->crashes &&
           r->generation == j->generation && r->run_at.ms == j->run_at.ms &&
           r->at.ms == j->since.ms;
}

bool dead_repeats(const struct job *j, const struct rec_job_dead *r)
{
    return j->state == STATE_DEAD && r->reason == j->reason && r->failures == j->failures &&
           r->crashes == j->crashes && r->at.ms == j->since.ms;
}

int apply_back(struct job *j, const struct rec_job_back *r)
{
    if (back_repeats(j, r))
        return 0;
    if (r->reason == REASON_NONE)
        return -ERR_CORRUPT;
    /* Fail and lease_end start from the same state, and lead to these two or to a dead job. */
    int err = enter(j, MOVE_RELEASE, r->state, r->reason, r->at);
    if (err < 0)
        return err;
    j->failures = r->failures;
    j->crashes = r->crashes;
    j->generation = r->generation;
    j->run_at = r->run_at;
    return 0;
}

int apply_done(struct job *j, const struct rec_job_done *r)
{
    return enter(j, MOVE_ACK, STATE_DONE, REASON_NONE, r->at);
}

int apply_dead(struct job *j, const struct rec_job_dead *r)
{
    if (dead_repeats(j, r))
        return 0;
    enum job_move move = r->reason == REASON_EXPIRED             ? MOVE_EXPIRE
                         : r->reason == REASON_DEPENDENCY_FAILED ? MOVE_DEPENDENCY_FAILED
                                                                 : MOVE_FAIL;
    int err = enter(j, move, STATE_DEAD, r->reason, r->at);
    if (err < 0)
        return err;
    j->failures = r->failures;
    j->crashes = r->crashes;
    return 0;
}

int apply_cancelled(struct job *j, const struct rec_job_cancelled *r)
{
    enum job_move move = r->reason == REASON_DISCARDED           ? MOVE_DISCARD
                         : r->reason == REASON_DEPENDENCY_FAILED ? MOVE_DEPENDENCY_FAILED
                                                                 : MOVE_CANCEL;
    return enter(j, move, STATE_CANCELLED, r->reason, r->at);
}

int apply_requeued(struct job *j, const struct rec_job_requeued *r)
{
    int err = enter(j, MOVE_REQUEUE, r->state, REASON_NONE, r->at);
    if (err < 0)
        return err;
    j->failures = 0;
    j->crashes = 0;
    j->generation = r->generation;
    j->run_at = r->run_at;
    return 0;
}

int apply_patched(struct job *j, const struct rec_job_patched *r)
{
    struct wall_time since = j->state == r->state ? j->since : r->at;
    int err = enter(j, MOVE_PATCH, r->state, j->reason, since);
    if (err < 0)
        return err;
    j->priority = r->priority;
    j->run_at = r->run_at;
    j->generation = r->generation;
    if (r->has_payload) {
        j->payload_kind = r->payload_kind;
        j->payload_bytes = (uint32_t)r->payload.len;
    }
    return 0;
}

int apply_noted(struct job *j, const struct rec_job_noted *r)
{
    if (j->state == STATE_NONE)
        return -ERR_CORRUPT;
    if (r->has_label || r->has_attributes)
        j->flags |= JOB_HAS_EXTRA;
    return 0;
}
