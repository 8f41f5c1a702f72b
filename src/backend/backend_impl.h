/* SPDX-License-Identifier: Apache-2.0 */
/* The backend interface, for implementers: each store has one const table, with the contract on
 * each slot.
 *
 * A backend embeds struct backend as its first member and downcasts with its own checked function.
 * A wrapper (router, failover, dispatch) is a backend that owns another one. */
#pragma once

#include "backend/backend.h"

struct backend_ops {
    const char *kind;

    /* Takes ops in order. Must not call fn before it returns. Each op gets exactly one reply, on
     * the loop thread, even if the backend is closed meanwhile. Ops belong to the caller and stay
     * valid until their reply. Returns 0, or -ERR_… if no op was taken. */
    int (*submit)(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn,
                  void *ctx);

    /* After it returns, each job that becomes ready in the queue causes at least one later call of
     * fn on the loop thread, never from inside watch or submit. */
    int (*watch)(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
                 struct backend_watch **ret);

    /* No signal after it returns. */
    void (*unwatch)(struct backend *b, struct backend_watch *w);

    unsigned (*caps)(const struct backend *b);
    bool (*leads)(const struct backend *b); /* NULL = always */
    bool own_outbox; /* it has notices that this node delivers whether it leads or not */
    void (*figures)(const struct backend *b, struct backend_figures *ret);
    /* *ret is zeroed except for `up`. NULL = the backend knows nothing about nodes. */
    void (*cluster)(const struct backend *b, struct backend_cluster *ret);
    /* The backend with this index behind it, ordered by number; NULL = no more. A NULL slot means
     * that the backend is one itself. */
    const struct backend *(*part)(const struct backend *b, unsigned index, unsigned *ret_number);
    int64_t (*clock_offset)(const struct backend *b); /* NULL = it uses the clock of the config */

    /* See backend.h. Positions only increase; an event that was returned once is returned unchanged
     * as long as it is stored. max may be 0; out is then NULL. */
    size_t (*events)(const struct backend *b, uint64_t after, uint64_t kinds,
                     struct backend_event *out, size_t max, uint64_t *ret_oldest);
    uint64_t (*events_last)(const struct backend *b);
    /* Replaces the listener; NULL = none. fn is not called from inside on_news, submit or settle,
     * nor for events that were durable before. */
    void (*on_news)(struct backend *b, backend_news_fn fn, void *ctx);

    /* Works until nothing is due at the present time of the clock and the resulting changes are
     * durable and signalled (watch); then calls fn exactly once, on the loop thread, never before
     * it returns. Several calls may be outstanding; close calls their fn. */
    int (*settle)(struct backend *b, backend_closed_fn fn, void *ctx);

    /* See backend.h. Either all four are set or none: a backend with NULL slots has no files. Close
     * ends what is running and calls back. */
    int (*backup)(struct backend *b, const struct backup_request *request, struct err_note *note);
    void (*backup_cancel)(struct backend *b);
    int (*compact)(struct backend *b, const struct compact_request *request, struct err_note *note);
    void (*compact_cancel)(struct backend *b);

    /* Refuses new submits, replies to everything that was taken, frees everything, then calls fn;
     * never before it returns. */
    void (*close)(struct backend *b, backend_closed_fn fn, void *ctx);
};

struct backend {
    const struct backend_ops *ops;
};

/* Adds the figures of another backend. Figures that cannot be summed (epoch, last commit) stay
 * unchanged. */
void figures_add(struct backend_figures *to, const struct backend_figures *from);

/* Constructors; they get the part of the URL after the scheme. */
MUST_CHECK int backend_open_local(const char *dir, const struct backend_config *config,
                                  struct backend **ret, struct err_note *note);
MUST_CHECK int backend_open_memory(const struct backend_config *config, struct backend **ret,
                                   struct err_note *note);

#ifdef HF_TEST_HOOKS
/* Test builds: opens a URL that starts with the prefix of a wrapper (tests/wrappers/open.c).
 * *ret_known says whether it does; otherwise nothing else is done. */
MUST_CHECK int backend_open_wrapped(const char *url, const struct backend_config *config,
                                    bool *ret_known, struct backend **ret, struct err_note *note);
/* Test builds: the same as the backend's own submit, but each reply passes reply_guard
 * (tests/wrappers/reply_guard.c) before `fn` gets it. */
MUST_CHECK int backend_submit_guarded(struct backend *b, const struct op *ops, size_t count,
                                      backend_reply_fn fn, void *ctx);
#endif
