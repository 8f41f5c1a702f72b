/* SPDX-License-Identifier: Apache-2.0 */
/* The lease that a report of its holder is about (leases.c). */
#pragma once

#include "ops/ops.h"

struct held {
    struct job *j;
    const struct queue_state *q;
    struct lease_state lease;
};

/* Whether the lease goes on after this report. */
static inline bool held_goes_on(enum op_kind kind)
{
    return kind == OP_EXTEND || kind == OP_PROGRESS || kind == OP_LOG || kind == OP_STEP;
}

/* The job whose lease the operation names. NULL: the reply says why not, or repeats an earlier one.
 */
struct job *held_job(struct ops *o, const struct op *op, struct held *h, struct reply *r);
/* The reply says who held the lease, and for how long. False: no memory, as it then says. */
bool held_name_holder(struct ops *o, const struct held *h, struct reply *r);
/* The report took effect. */
void held_finish(const struct held *h, struct reply *r);
/* Acks the job, by the record `done`, with this hand-off in one commit, or refuses both
 * (handoff.c).
 */
void handoff_commit(struct ops *o, const struct op_kv_commit *want, const struct held *h,
                    const struct record *done, struct reply *r);
/* The ack is repeated: names the jobs of its hand-off that are still known. */
void handoff_repeat(struct ops *o, const struct op_kv_commit *want, struct reply *r);
/* Commits the records of a report after which the lease goes on (progress.c). */
void held_commit(struct ops *o, const struct held *h, const struct record *recs, size_t count,
                 struct reply *r);
/* How much is left of the lease after this extension. */
void held_left(const struct held *h, const struct record *extended, struct reply *r);
/* The record of a lease that is extended by `lease_ms`, 0 = as long as before. False: the reply
 * says why not. *ret_any is false for a lease without an end. */
bool held_extension(const struct held *h, uint32_t lease_ms, struct record *ret, bool *ret_any,
                    struct reply *r);
