/* SPDX-License-Identifier: Apache-2.0 */
/* The model's inside, shared by its files. */
#pragma once

#include "sim/model/model.h"

#define MODEL_REQUEUE_FROM                                                                         \
    (STATE_BIT(STATE_SCHEDULED) | STATE_BIT(STATE_DEAD) | STATE_BIT(STATE_CANCELLED))

struct model_rules {
    uint32_t lease_ms, timeout_ms, max_attempts, max_crashes;
    uint8_t lease_end;
    const struct backoff *backoff;
};

/* ---- model.c --------------------------------------------------------------------------------- */
int64_t model_lease_time(const struct model *m);      /* less the time the process stood still */
bool model_ever(const struct model *m, uint64_t seq); /* there is, or was, such a job */
struct model_queue *model_queue_named(struct model *m, struct span name);
struct model_queue *model_queue_make(struct model *m, struct span name);
struct model_queue *model_queue_of(struct model *m, const struct model_job *j);
uint32_t model_queue_index(const struct model *m, const struct model_queue *q);
/* The job that holds this unique key; NULL = none. */
struct model_job *model_key_holder(struct model *m, const struct model_queue *q, struct span key);
void model_enter(struct model *m, struct model_job *j, uint8_t state, uint8_t reason);
/* Ready, or scheduled when run_at is still to come. */
void model_wait_until(struct model *m, struct model_job *j, int64_t run_at, uint8_t reason);
void model_back_off(struct model *m, struct model_job *j, uint32_t number, uint8_t reason);
struct model_rules model_rules_for(struct model *m, const struct model_job *j);
void model_die(struct model *m, struct model_job *j, uint8_t reason);
/* The lease ran out, or (lost) its connection is gone. */
void model_lease_end(struct model *m, struct model_job *j, bool lost);
void model_failed(struct model *m, struct model_job *j, uint8_t reason); /* an attempt did */
bool model_request_cancel(struct model *m, struct model_job *j); /* false: it was cancelled */
void model_drop(struct model *m, struct model_job *j);
/* Fills in the reply of the op at work; j may be NULL. */
void model_say(struct model *m, enum outcome outcome, const struct model_job *j);

/* ---- model_limits.c: limits at the claim, turns of groups, ageing ---------------------------- */
bool model_limited(const struct queue_policy *p);
/* What the queue hands out next; NULL = nothing now. */
struct model_job *model_next(struct model *m, uint32_t queue);
/* Its place among the next jobs of other queues: higher first, then by sequence. */
int64_t model_rank(const struct model *m, const struct model_job *j);
/* Whether the limits let it start, whatever comes before it. */
bool model_may_start(struct model *m, const struct model_job *j);
/* Its lease begins; was_next: it was model_next, and takes its group's turn. */
void model_started(struct model *m, const struct model_job *j, bool was_next);
void model_joins(struct model *m, const struct model_job *j); /* it is ready, from now on */
void model_limits_change(struct model *m, uint32_t queue, const struct queue_policy *before);
void model_limits_forget(struct model *m, uint32_t queue);
void model_limits_boot(struct model *m);
/* Ready jobs that wait for a slot of their queue, or of their group. */
void model_limits_count(struct model *m, uint32_t queue, struct queue_counts *ret);

/* ---- used across the other files ------------------------------------------------------------- */
bool model_key_over(const struct model *m, const struct model_key *k);
bool model_expired(const struct model *m, const struct model_job *j);
bool model_before(const struct model_job *a, const struct model_job *b); /* in claim order */
void model_remember(struct model *m, const struct model_job *j, enum op_kind kind);
void model_cancel_job(struct model *m, struct model_job *j);
bool model_requeue_job(struct model *m, struct model_job *j, int64_t delay_ms);

/* ---- one function an operation --------------------------------------------------------------- */
typedef void model_fn(struct model *m, const struct op *o);
model_fn model_op_enqueue, model_op_claim, model_op_ack, model_op_fail, model_op_extend,
    model_op_release, model_op_progress, model_op_log, model_op_step, model_op_release_claim,
    model_op_cancel, model_op_requeue, model_op_patch, model_op_remove, model_op_get,
    model_op_queue_put, model_op_queue_delete, model_op_purge, model_op_pause, model_op_queue_get,
    model_op_peek, model_op_bulk;
