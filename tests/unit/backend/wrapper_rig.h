/* SPDX-License-Identifier: Apache-2.0 */
/* A loop, a fake backend, the wrapper around it, and a caller that counts the replies. */
#pragma once

#include "unit/backend/fake_backend.h"

#define RIG_REPLIES_MAX 4096

struct rig {
    uv_loop_t loop;
    struct clock_manual clock;
    struct backend_config config;
    struct fake_backend *fake; /* owned by the wrapper */
    struct backend *b;         /* the wrapper */
    bool inside_submit, fake_gone, closed;
    struct op ops[RIG_REPLIES_MAX]; /* what was submitted; the tag is the index */
    size_t op_count;
    unsigned answers[RIG_REPLIES_MAX]; /* replies a tag got */
    enum outcome outcomes[RIG_REPLIES_MAX];
    size_t order[RIG_REPLIES_MAX]; /* tags in the order of their replies */
    size_t order_count;
    bool texts_ok; /* every text of every reply was what the fake sent */
    unsigned signals;
    backend_reply_fn also; /* called after the bookkeeping; may be NULL */
    void *also_ctx;
};

void rig_init(struct rig *r); /* loop, clock and fake; the test opens the wrapper */
void rig_done(struct rig *r); /* after rig_close; closes the loop */
/* Copies the ops to the rig, numbers them and submits them as one batch. */
int rig_submit(struct rig *r, const struct op *ops, size_t count);
void rig_turn(struct rig *r, unsigned turns);
void rig_drain(struct rig *r); /* until everything is answered */
void rig_close(struct rig *r); /* and waits for it */
void rig_reply_cb(void *ctx, const struct reply *reply);
void rig_signal_cb(void *ctx);
void rig_closed_cb(void *ctx);

struct op rig_claim(void);
struct op rig_ack(uint64_t seq);
struct op rig_get(uint64_t seq);
