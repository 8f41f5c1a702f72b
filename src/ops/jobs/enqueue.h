/* SPDX-License-Identifier: Apache-2.0 */
/* src/ops/jobs has the operations on jobs: enqueue, claim, the reports of a lease's holder, and
 * changes without a lease. Like all of src/ops it may use core and base.
 *
 * Enqueues, one or several that belong together: first all of them are planned, which changes
 * nothing, then their jobs are created in one commit. */
#pragma once

#include "ops/ops.h"

/* A job's part of a rate limit, see rates.c. */
struct rate_share {
    struct hash128 key; /* of the bucket */
    int64_t share_us;   /* 0 = there is no limit */
    int64_t window_us;
};

struct enqueue_plan {
    const struct op_enqueue *want;
    struct reply *reply;   /* of this enqueue */
    struct queue_state *q; /* NULL: it is to be created */
    const struct queue_policy *policy;
    struct hash128 key;       /* of its idempotency key; none = it has none */
    struct job *replaced;     /* the waiting job whose place it takes */
    uint64_t replaced_seq;    /* its sequence, once it has been cancelled */
    struct job *dead;         /* the dead job that is removed for it (instead_of) */
    const struct job *ending; /* the job whose ack belongs to the commit (hand-off); NULL = none */
    bool answered;            /* the reply is that of an earlier job: nothing is created */
    struct rate_share rate;
    struct job *member_of; /* the open job that will depend on it; NULL = none */
    uint64_t *parents;     /* room for the sequences of those that it depends on */
    struct record rec;     /* the job, once it is planned; the store gives the sequence */
    struct job *job;       /* once it is created */
};

/* Checks the enqueue at `index` as far as that needs no plan: values, repeats, whether its queue
 * may be created. Those before it belong to the same commit. False: its reply says why not. */
bool enqueue_look(struct ops *o, struct enqueue_plan *plans, size_t index);
/* Plans it; those before it are planned, and all of the commit have been looked at. */
bool enqueue_plan(struct ops *o, struct enqueue_plan *plans, size_t index);
/* Creates the missing queues and reserves memory for the jobs, for `more` bytes of records, and
 * for changes of keys (or NULL) that the caller commits with them. False: no memory, or the
 * store must begin again. */
bool enqueues_prepare(struct ops *o, struct enqueue_plan *plans, size_t count,
                      const struct op_kv_commit *keys, size_t more);
/* Creates the jobs and fills in their replies. */
void enqueues_commit(struct ops *o, struct enqueue_plan *plans, size_t count);

/* --- dependencies.c --- */
/* Whether anything of that file concerns it; it is called for such enqueues only. */
static inline bool enqueue_depends(const struct op_enqueue *want)
{
    return want->depends || want->member_of.seq ||
           (want->past && want->past->state == STATE_BLOCKED);
}
/* Checks what the enqueue at `index` depends on. False: its reply says why not. */
bool dependencies_plan(struct ops *o, struct enqueue_plan *plans, size_t index);
/* The enqueue at `index` is answered with a job that exists: that job gets no new parents, so none
 * may be created for it. False: its reply says so. */
bool dependencies_answered(const struct enqueue_plan *plans, size_t index);
/* Whether the job will begin as blocked. */
bool dependencies_block(const struct op_enqueue *want);
/* Memory for the dependencies of the plans; *more grows by the bytes of their records. */
bool dependencies_prepare(struct ops *o, const struct enqueue_plan *plans, size_t count,
                          size_t *more);
/* The job at `index` has been created: what it depends on, and what depends on it, takes effect. */
void dependencies_commit(struct ops *o, struct enqueue_plan *plans, size_t index);

/* Whether the job comes from another store in a state that has ended. */
bool enqueue_comes_ended(const struct op_enqueue *want);

/* --- rates.c --- */
bool rate_allows(struct ops *o, struct enqueue_plan *plans, size_t index);
void rate_use(struct ops *o, struct enqueue_plan *p);
/* When a bucket is full again, µs: never before now, nor later than a limit that was changed
 * meanwhile allows. */
int64_t rate_full_us(int64_t kept_us, int64_t now_us, int64_t window_us);
