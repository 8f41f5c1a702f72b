/* SPDX-License-Identifier: Apache-2.0 */
/* Several operations of one request: submitted together, answered in order after the last reply.
 * A request for one job is a batch of one that is answered without the list.
 *
 * A reply is valid only during its callback, so the item keeps what the answer needs. */
#pragma once

#include "api/v1/v1_impl.h"

struct batch_item {
    struct problem problem; /* code NONE = success */
    uint64_t seq, id_hi, replaced_seq;
    enum job_state state;
    bool created, repeat, relaxed, spooled, cancels;
    struct wall_time run_at;
    struct lease_news lease;               /* extend, cancel */
    const struct kv_commit_reply *handoff; /* ack; NULL = none */
};

struct batch;
typedef void (*batch_write_fn)(const struct batch *b, struct json_writer *w,
                               const struct batch_item *item);

struct batch {
    struct native *n;
    struct http_exchange *x;
    struct arena *arena;
    bool many;
    batch_write_fn write; /* writes the members of a successful item */
    size_t count;
    struct batch_item *items;
    struct op *ops; /* room for two per item; op.tag is the item */
    size_t op_count;
    size_t waiting; /* replies still to come */
};

/* Allocated in the exchange's arena; NULL after out of memory was answered. count ≥ 1. */
struct batch *batch_new(struct native *n, struct http_exchange *x, size_t count, bool many,
                        batch_write_fn write);
/* Adds an operation for item `item`; all zero except kind and tag. */
struct op *batch_op(struct batch *b, size_t item, enum op_kind kind);
/* Refuses this item without an operation; the problem is copied. Its operations are dropped if
 * they were added last. */
void batch_refuse(struct batch *b, size_t item, const struct problem *p);
/* Submits the batch and answers after the last reply. */
void batch_submit(struct batch *b);
