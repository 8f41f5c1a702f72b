/* SPDX-License-Identifier: Apache-2.0 */
/* Fan-out: what the wrappers that own several stores (router, failover) have in common. It splits a
 * batch, passes each store its operations in one submit, and gives each operation its reply.
 *
 * An operation becomes a call. The owner's plan() says which store gets it and fills `inner`. When
 * that store has replied, the owner's replied() either delivers a reply (fanout_deliver), or
 * changes `store` and `inner` and submits the call again (fanout_ask). A call without a store, and
 * one that its store did not take, goes to not_taken() in the next iteration of the loop, because a
 * submit must not call back before it returns.
 *
 * Order. The operations of one batch that go to the same store at first keep their order there. A
 * call that is submitted again is submitted alone, so there is no order between stores. */
#pragma once

#include <limits.h>

#include "backend/backend_impl.h"
#include "base/containers/arena.h"

#define FANOUT_NO_STORE UINT_MAX

struct fanout;
struct fanout_batch;

/* The owner's call begins with this. */
struct fanout_call {
    struct fanout_batch *batch;
    const struct op *op;      /* the caller's */
    struct op inner;          /* as the store gets it */
    unsigned store;           /* index of the store that gets it; FANOUT_NO_STORE = none */
    struct arena arena;       /* of the reply; freed after it was delivered */
    struct fanout_call *next; /* in the list for the next iteration */
};

struct fanout_owner {
    size_t call_bytes; /* of the owner's call */
    /* NULL = the store is not open. */
    struct backend *(*store)(const struct fanout *f, unsigned index);
    /* Fills inner and returns the index of the store, or FANOUT_NO_STORE. The rest of the call is
     * zero. */
    unsigned (*plan)(struct fanout_call *c);
    void (*replied)(struct fanout_call *c, const struct reply *reply);
    void (*not_taken)(struct fanout_call *c);
    void (*call_done)(struct fanout_call *c); /* frees what the owner added; may be NULL */
    /* Called once in each iteration that fanout_wake or a call without a store requested. */
    void (*iteration)(struct fanout *f);
};

struct fanout {
    const struct fanout_owner *owner;
    void *ctx; /* the wrapper */
    unsigned store_count;
    unsigned open;  /* stores that are not closed; the owner counts them */
    bool closing;   /* set by the owner: no further calls are accepted */
    uv_idle_t idle; /* active while there is work for the next iteration; data is the fan-out */
    struct fanout_call *later, **later_end;
};

/* The owner closes f->idle when fanout_is_done returns true. */
void fanout_init(struct fanout *f, const struct fanout_owner *owner, void *ctx,
                 unsigned store_count, uv_loop_t *loop);
/* True when the owner is closing, all stores are closed, and all calls have their replies. */
bool fanout_is_done(const struct fanout *f);
void fanout_wake(struct fanout *f);

/* As backend_submit. After one store has taken its part, the batch cannot be refused any more:
 * operations that another store does not take go to not_taken(). */
MUST_CHECK int fanout_submit(struct fanout *f, const struct op *ops, size_t count,
                             backend_reply_fn fn, void *ctx);
/* Passes c->inner to c->store. -ERR_CLOSED, or the error of the store: it was not taken. */
MUST_CHECK int fanout_ask(struct fanout_call *c);
/* Ends the call; its batch may be freed. */
void fanout_deliver(struct fanout_call *c, const struct reply *reply);
/* There is no memory for the reply, so its content is lost. */
void fanout_deliver_lost(struct fanout_call *c);
/* The owner of the fan-out that the call belongs to. */
void *fanout_ctx(const struct fanout_call *c);

/* As backend_settle, for the stores whose bits (1 << index) are set. */
MUST_CHECK int fanout_settle(struct fanout *f, uint64_t stores, backend_closed_fn fn, void *ctx);

/* Converts the numbers of a store to those that callers see. */
struct fanout_numbers {
    uint64_t (*seq)(const void *store, uint64_t seq);      /* of jobs and notices; 0 stays 0 */
    uint32_t (*queue)(const void *store, uint32_t number); /* NULL = they are the same */
    const void *store;
};
/* Arrays that change are copied into the arena. Returns 0 or -ERR_NOMEM. */
MUST_CHECK int fanout_renumber(struct reply *reply, const struct fanout_numbers *numbers,
                               struct arena *a);

/* For callers that close a store and do not wait for it. */
void fanout_ignore_closed_cb(void *ctx);
