/* SPDX-License-Identifier: Apache-2.0 */
/* Failover: a shared store (the primary) and a durable spool of this node, which works while the
 * primary does not answer.
 *
 * While the primary is unavailable, the spool takes enqueues that need nothing from the primary,
 * serves claims, and ends the jobs that were claimed from it. An operation that only the primary
 * can decide (a unique or idempotency key, a job that the primary holds, …) gets OUT_UNAVAILABLE
 * with a sentence. When the primary is available again, the jobs of the spool are moved to it, each
 * once, under the ids that they have. docs/failover.md has the table of operations,
 * docs/decisions/021-failover.md the reasons.
 *
 * This folder may use the headers directly in src/backend, ops, core and base. It reaches both
 * stores only through backend_impl.h. */
#pragma once

#include "backend/backend.h"

struct failover_setup {
    const char *kind; /* of the primary, for people: "redis" */
    /* Opens the primary on the loop thread; may block for as long as a server that answers needs.
     */
    int (*open)(void *ctx, struct backend **ret, struct err_note *note);
    /* Whether a server accepts connections there; blocks up to health_ms. Called on the loop thread
     * at the start, and on another thread later. */
    bool (*reachable)(void *ctx);
    /* Whether open would find a server that it can use: 0, or the error with its note. Blocks;
     * called on another thread. NULL = open finds out. */
    int (*check)(void *ctx, struct err_note *note);
    void (*done)(void *ctx); /* the last call; may be NULL */
    void *ctx;
    uint32_t health_ms; /* the primary counts as lost if it does not answer for this long; ≥ 1 */
    /* An alert rule on failover with this webhook is created, unless a rule of this name exists;
     * NULL or "" = none. Must stay valid until done is called. */
    const char *alert_url;
};

/* The name of the rule that alert_url creates. */
#define FAILOVER_ALERT "failover"

/* Takes ownership of the spool, also on failure; done is called in both cases. It is no error if no
 * server listens at the address of the primary, or if the server may lose jobs (ERR_UNSAFE); a
 * server that cannot be used (password, version …) is an error, and the note says why. */
MUST_CHECK int backend_open_failover(struct backend *spool, const struct failover_setup *setup,
                                     const struct backend_config *config, struct backend **ret,
                                     struct err_note *note);

/* The same for addresses: the spool is a store on this machine. alert_url as in the setup. */
MUST_CHECK int backend_open_failover_urls(const char *primary, const char *spool,
                                          uint32_t health_ms, const char *alert_url,
                                          const struct backend_config *config, struct backend **ret,
                                          struct err_note *note);
