/* SPDX-License-Identifier: Apache-2.0 */
/* The backend interface, for implementers: one const table a store, the contract on each slot.
 *
 * A backend embeds struct backend as its first member and downcasts with its own checked function.
 * A wrapper (router, failover, dispatch) is a backend that owns another one. */
#pragma once

#include "backend/backend.h"

struct backend_ops {
    const char *kind;

    /* Takes ops in order. Must not call fn before returning. Each op is replied to exactly once, on
     * the loop thread, also when the backend is closed meanwhile. Ops belong to the caller and stay
     * valid until their reply. 0, or -ERR_… with nothing taken. */
    int (*submit)(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn,
                  void *ctx);

    /* From the return on, each job that becomes ready in the queue leads to at least one later call
     * of fn on the loop thread, never from inside watch or submit. */
    int (*watch)(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
                 struct backend_watch **ret);

    /* No signal after it returns. */
    void (*unwatch)(struct backend *b, struct backend_watch *w);

    unsigned (*caps)(const struct backend *b);
    bool (*leads)(const struct backend *b); /* NULL = always */
    bool own_outbox; /* it has notices that this node delivers whether it leads or not */
    void (*figures)(const struct backend *b, struct backend_figures *ret);
    /* *ret is zeroed but for `up`. NULL = it tells nothing of nodes. */
    void (*cluster)(const struct backend *b, struct backend_cluster *ret);
    /* The index-th backend behind it, by number; NULL = no more. NULL slot = it is one itself. */
    const struct backend *(*part)(const struct backend *b, unsigned index, unsigned *ret_number);
    int64_t (*clock_offset)(const struct backend *b); /* NULL = its clock is the config's */

    /* As backend.h says. Positions only ever rise; what was given out once is given out again the
     * same while it is kept. max may be 0, out then NULL. */
    size_t (*events)(const struct backend *b, uint64_t after, uint64_t kinds,
                     struct backend_event *out, size_t max, uint64_t *ret_oldest);
    uint64_t (*events_last)(const struct backend *b);
    /* Replaces the listener; NULL = none. No call of fn from inside on_news, submit or settle, none
     * for events that were durable before. */
    void (*on_news)(struct backend *b, backend_news_fn fn, void *ctx);

    /* Works until nothing is due at the present time of the clock and what that changed is durable
     * and signalled (watch); then fn, exactly once, on the loop thread, never before returning.
     * Several may be under way. Close answers those that are. */
    int (*settle)(struct backend *b, backend_closed_fn fn, void *ctx);

    /* As backend.h says; all four or none: NULL slots are a backend with nothing on a disk of its
     * own. Close answers what is under way. */
    int (*backup)(struct backend *b, const struct backup_request *request, struct err_note *note);
    void (*backup_cancel)(struct backend *b);
    int (*compact)(struct backend *b, const struct compact_request *request, struct err_note *note);
    void (*compact_cancel)(struct backend *b);

    /* Refuses new submits, replies to all that was taken, frees everything, then fn. Never calls fn
     * before returning. */
    void (*close)(struct backend *b, backend_closed_fn fn, void *ctx);
};

struct backend {
    const struct backend_ops *ops;
};

/* Adds the figures of another backend; what is no sum (epoch, last commit) stays. */
void figures_add(struct backend_figures *to, const struct backend_figures *from);

/* Constructors; url parts after the scheme. */
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
