/* SPDX-License-Identifier: Apache-2.0 */
/* Several operations asked for by one request: submitted together, answered in order when the last
 * reply has come. A request for one job is a batch of one that is answered without the list.
 *
 * A reply lives only while it is delivered, so what the answer needs of it is kept in the item. */
#pragma once

#include "api/v1/v1_impl.h"

struct batch_item {
    struct problem problem; /* code NONE = it went well */
    uint64_t seq, id_hi, replaced_seq;
    enum job_state state;
    bool created, repeat, relaxed, spooled, cancels;
    struct wall_time run_at;
    struct lease_news lease; /* extend, cancel */
};

struct batch;
typedef void (*batch_write_fn)(const struct batch *b, struct json_writer *w,
                               const struct batch_item *item);

struct batch {
    struct native *n;
    struct http_exchange *x;
    struct arena *arena;
    bool many;
    batch_write_fn write; /* the members of one item that went well */
    size_t count;
    struct batch_item *items;
    struct op *ops; /* room for two an item; op.tag is the item */
    size_t op_count;
    size_t waiting; /* replies still to come */
};

/* In the exchange's arena; NULL after answering that there is no memory. count ≥ 1. */
struct batch *batch_new(struct native *n, struct http_exchange *x, size_t count, bool many,
                        batch_write_fn write);
/* The next operation, for item `item`; zero-filled but for kind and tag. */
struct op *batch_op(struct batch *b, size_t item, enum op_kind kind);
/* This item is refused without asking; the problem is copied. Operations it had are dropped when
 * they were the last added. */
void batch_refuse(struct batch *b, size_t item, const struct problem *p);
/* Submits and, at the end, answers. */
void batch_submit(struct batch *b);
