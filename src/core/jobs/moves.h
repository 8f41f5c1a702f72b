/* SPDX-License-Identifier: Apache-2.0 */
/* The rules: one decide_ function for each transition computes its result (a record), and one
 * apply_ function changes a job accordingly. Nothing else changes a job.
 *
 * decide_ functions are pure except for the random numbers of the jitter; they assume that the
 * caller has checked token and state (move_starts_from). apply_ functions check the state again,
 * because records also come from disk, and return -ERR_CORRUPT for a move that the table does not
 * allow. */
#pragma once

#include "core/jobs/job.h"
#include "core/queues/policy.h"
#include "core/records/record.h"

/* The queue's policy, overridden by the job's own options. */
struct job_rules {
    uint32_t lease_ms;
    uint32_t timeout_ms; /* 0 = no limit */
    uint32_t max_attempts;
    uint32_t max_crashes; /* 0 = no limit */
    enum lease_end lease_end;
    const struct backoff *backoff;
};

/* options may be NULL. The result points into policy and options. */
void rules_of(const struct queue_policy *policy, const struct job_options *options,
              struct job_rules *ret);

struct fail_request {
    struct span error;
    uint8_t error_kind;
    bool no_retry;           /* dead at once, reason rejected */
    bool timed_out;          /* the server decided, because it took too long; reason timed_out */
    bool damaged;            /* dead at once, reason damaged: no worker got it, uncounted */
    bool has_run_at;         /* the worker gave a time: overrides the back-off, not max_attempts */
    struct wall_time run_at; /* absolute */
};

/* REC_JOB_BACK or REC_JOB_DEAD. generation is the queue's. */
void decide_fail(const struct job *j, const struct job_rules *rules, const struct fail_request *f,
                 uint32_t generation, struct wall_time now, struct random *random,
                 struct record *ret);
/* The lease expired, or (lost) the connection that it was bound to was lost: then even under
 * "requeue" the back-off applies from the second crash on. Under "fail" the record's error text is
 * written to `text`, which must be valid as long as the record. */
#define LEASE_END_TEXT_BYTES 40
void decide_lease_end(const struct job *j, const struct job_rules *rules, bool lost,
                      uint32_t generation, struct wall_time now, struct random *random,
                      char text[LEASE_END_TEXT_BYTES], struct record *ret);
/* The attempt took longer than timeout_ms: it counts as a failed one. The text as above. */
#define TIMEOUT_TEXT_BYTES LEASE_END_TEXT_BYTES
void decide_timeout(const struct job *j, const struct job_rules *rules, uint32_t timeout_ms,
                    uint32_t generation, struct wall_time now, struct random *random,
                    char text[TIMEOUT_TEXT_BYTES], struct record *ret);
/* REC_JOB_CANCELLED: by request, or because a lease ended in any way after a cancel was
 * requested. */
void decide_cancelled(const struct job *j, enum job_reason reason, struct wall_time now,
                      struct record *ret);
/* The job that held its lease has ended in this state (none = it was removed) without ending it:
 * this is a failed attempt or, if the policy ends the job with the lease, a dead job. The text as
 * above. */
#define LEFT_TEXT_BYTES 96
void decide_left(const struct job *j, const struct job_rules *rules, struct job_ref holder,
                 enum job_state holder_state, uint32_t generation, struct wall_time now,
                 struct random *random, char text[LEFT_TEXT_BYTES], struct record *ret);
/* Uncounted. run_at 0 = at once. */
void decide_release(const struct job *j, struct wall_time run_at, uint32_t generation,
                    struct wall_time now, struct record *ret);
void decide_requeue(const struct job *j, struct wall_time run_at, uint32_t generation,
                    struct wall_time now, struct record *ret);
void decide_expire(const struct job *j, struct wall_time now, struct record *ret);
/* REC_JOB_UNBLOCKED: its dependencies have ended; its run_at still holds. */
void decide_unblock(const struct job *j, struct wall_time now, struct record *ret);
/* A dependency has failed, and the job does not run in spite of it: REC_JOB_CANCELLED, or
 * REC_JOB_DEAD with `dead`. */
void decide_dependency_failed(const struct job *j, bool dead, struct wall_time now,
                              struct record *ret);

/* Whether the record changes only the error text: see rec_job_back. */
bool back_repeats(const struct job *j, const struct rec_job_back *r);
bool dead_repeats(const struct job *j, const struct rec_job_dead *r);

MUST_CHECK int apply_ready(struct job *j, const struct rec_job_ready *r);
MUST_CHECK int apply_unblocked(struct job *j, const struct rec_job_unblocked *r);
MUST_CHECK int apply_claimed(struct job *j, const struct rec_job_claimed *r);
MUST_CHECK int apply_extended(struct job *j, const struct rec_job_extended *r);
/* Progress, log and steps are not part of the job. An imported job has them in any state. */
MUST_CHECK int apply_reported(const struct job *j);
/* The limits are in its lease. */
MUST_CHECK int apply_cancel_requested(const struct job *j, const struct rec_job_cancel_requested *r,
                                      struct lease_limits *limits);
MUST_CHECK int apply_priority(struct job *j, const struct rec_job_priority *r);
MUST_CHECK int apply_back(struct job *j, const struct rec_job_back *r);
MUST_CHECK int apply_done(struct job *j, const struct rec_job_done *r);
MUST_CHECK int apply_dead(struct job *j, const struct rec_job_dead *r);
MUST_CHECK int apply_cancelled(struct job *j, const struct rec_job_cancelled *r);
MUST_CHECK int apply_requeued(struct job *j, const struct rec_job_requeued *r);
MUST_CHECK int apply_patched(struct job *j, const struct rec_job_patched *r);
MUST_CHECK int apply_noted(struct job *j, const struct rec_job_noted *r);
