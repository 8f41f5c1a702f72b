/* SPDX-License-Identifier: Apache-2.0 */
/* A loop, a backend on a manual clock, and a broker over it; and callers that write down what they
 * are told. */
#pragma once

#include "broker/broker.h"

struct broker_rig {
    uv_loop_t loop;
    struct clock_manual clock;
    struct backend *backend;
    struct broker *broker;
    bool broker_closed, backend_closed;
};

/* url: "memory:", "fault+memory:"; NULL = the backend given. */
void broker_rig_init(struct broker_rig *r, const char *url);
void broker_rig_init_with(struct broker_rig *r, struct backend *backend);
void broker_rig_loop(struct broker_rig *r); /* only the loop and the clock */
void broker_rig_done(struct broker_rig *r);
/* Turns of the loop until *flag, or nothing comes any more (then the test fails). */
void broker_rig_until(struct broker_rig *r, const bool *flag);
void broker_rig_turns(struct broker_rig *r, unsigned turns);
void broker_rig_advance(struct broker_rig *r, int64_t ms);

/* The last answer a caller got. */
struct told {
    bool yes;
    unsigned times;
    enum outcome outcome;
    uint64_t tag, seq;
    enum job_state state;
    uint32_t job_count;
    struct broker_held held[16]; /* of a claim */
    struct job job;              /* the first */
    int64_t waited_ms, ran_ms;
    char worker[32];
    uint64_t by_state[STATE_COUNT]; /* of the first queue */
};
void told_cb(void *ctx, const struct reply *reply);

/* Each submits one op and turns the loop until it is answered. */
struct told do_enqueue(struct broker_rig *r, const char *queue, const char *payload);
struct told do_op(struct broker_rig *r, const struct op *op);
struct told do_ack(struct broker_rig *r, struct broker_held held);
struct told do_get(struct broker_rig *r, uint64_t seq);
struct told do_claim_now(struct broker_rig *r, const char *queue);
/* Begins a claim of one queue; the caller turns the loop. */
struct broker_claim *do_claim_wait(struct broker_rig *r, const char *queue, uint32_t wait_ms,
                                   struct told *told);
struct op do_enqueue_op(const char *queue, const char *payload);
