/* SPDX-License-Identifier: Apache-2.0 */
/* A commit of keys and enqueues in its three parts, so that an ack can hand off in the same commit:
 * it is planned, which changes nothing; memory is reserved; then it takes effect, and nothing can
 * fail any more. */
#pragma once

#include "ops/jobs/enqueue.h"

struct kv_commit {
    const struct op_kv_commit *want;
    struct reply *r;          /* a reply of OP_KV_COMMIT, which each part fills in */
    const struct job *ending; /* the job that ends in the same commit: it makes room for an enqueue,
                                 and may pass on its unique key; NULL = none */
    struct enqueue_plan *plans;
    struct reply *each;
    struct enqueued_view *views;
};

/* want, r and ending are set. False: the reply says why it is refused. */
bool kv_commit_plan(struct ops *o, struct kv_commit *c);
/* `more`: bytes of the records that the caller commits with it. False: as above; an empty new queue
 * is all that can have changed. */
bool kv_commit_prepare(struct ops *o, struct kv_commit *c, size_t more);
void kv_commit_take_effect(struct ops *o, struct kv_commit *c);
