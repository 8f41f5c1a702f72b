/* SPDX-License-Identifier: Apache-2.0 */
/* Failover: a shared store (the primary) and a durable spool of this node's own, which works while
 * the primary does not answer.
 *
 * While the primary is away, plain enqueues go to the spool, claims are served from it, and what
 * was claimed there ends there. An enqueue with a unique or idempotency key, and anything about a
 * job that the primary holds, is OUT_UNAVAILABLE with a sentence: nobody could keep the promise.
 * When the primary is back, the jobs of the spool flow back to it, each once, under the ids they
 * have. docs/decisions/021-failover.md. */
#pragma once

#include "backend/backend.h"

struct failover_setup {
    const char *kind; /* of the primary, for people: "redis" */
    /* Opens the primary on the loop thread; may block as long as a server that answers needs. */
    int (*open)(void *ctx, struct backend **ret, struct err_note *note);
    /* Whether anybody listens there; blocks up to health_ms. Called on the loop thread at the
     * start, on another one later. */
    bool (*reachable)(void *ctx);
    void (*done)(void *ctx); /* the last call; may be NULL */
    void *ctx;
    uint32_t health_ms; /* the primary counts as gone when it does not answer for so long; ≥ 1 */
};

/* Owns the spool, also on failure; done is called either way. A primary that nobody listens for is
 * no error, one that cannot be used (password, version …) is: the note says why. */
MUST_CHECK int backend_open_failover(struct backend *spool, const struct failover_setup *setup,
                                     const struct backend_config *config, struct backend **ret,
                                     struct err_note *note);

/* The same for addresses: the spool is a store on this machine. */
MUST_CHECK int backend_open_failover_urls(const char *primary, const char *spool,
                                          uint32_t health_ms, const struct backend_config *config,
                                          struct backend **ret, struct err_note *note);
