/* SPDX-License-Identifier: Apache-2.0 */
/* A backend without jobs: it records the operations and replies as the test says. For tests of
 * wrappers, which must treat all backends alike.
 *
 * Replies and everything they point to are overwritten as soon as their callback returns, so that
 * the test detects a wrapper that keeps a pointer. */
#pragma once

#include "backend/backend_impl.h"

#define FAKE_OPS_MAX 4096

struct fake_pending {
    const struct op *op;
    backend_reply_fn fn;
    void *ctx;
    bool answered;
};

struct fake_backend {
    struct backend base;
    uv_idle_t idle;
    struct op seen[FAKE_OPS_MAX]; /* every accepted op, in order */
    struct fake_pending pending[FAKE_OPS_MAX];
    size_t count;
    bool manual;    /* nothing is answered until fake_answer or close */
    bool backwards; /* the replies of one iteration come in reverse order */
    bool empty;     /* claims find nothing */
    bool watching;
    backend_signal_fn signal_fn;
    void *signal_ctx;
    int submit_rc; /* < 0: every submit is refused with it */
    enum outcome outcome;
    uint64_t events_last;   /* it keeps events 1 … this */
    uint64_t events_oldest; /* … but for those before this one; 0 = all */
    backend_news_fn news_fn;
    void *news_ctx;
    backend_closed_fn settle_fn; /* the one settle under way; NULL = none */
    void *settle_ctx;
    uint64_t tokens; /* counter of the last token given out */
    backend_closed_fn closed_fn;
    void *closed_ctx;
    bool *gone; /* set when it is closed; may be NULL */
};

struct fake_backend *fake_new(uv_loop_t *loop, bool *gone);
void fake_answer(struct fake_backend *f, size_t index); /* the index-th accepted op */
void fake_signal(struct fake_backend *f);               /* to the only watch, if there is one */
void fake_settled(struct fake_backend *f); /* answers the settle, if one is under way */
size_t fake_count(const struct fake_backend *f, enum op_kind kind);
