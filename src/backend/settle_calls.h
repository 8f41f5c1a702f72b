/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of backend_settle that have not been answered yet, in order. For backends. */
#pragma once

#include "backend/backend.h"

struct settle_call {
    backend_closed_fn fn;
    void *ctx;
    void *owner;
    bool worked;       /* what was due has been done … */
    uint64_t position; /* … and this is its last record */
    struct settle_call *next;
};

struct settle_calls {
    struct settle_call *first;
};

/* NULL if there is no memory. */
struct settle_call *settle_calls_add(struct settle_calls *s, void *owner, backend_closed_fn fn,
                                     void *ctx);
/* Removes a call that was never started. */
void settle_calls_drop(struct settle_calls *s, struct settle_call *one);
/* Removes the calls that have worked and whose position is at most `upto`, then calls them back in
 * order. A settle that a callback starts waits for the next call of this function. */
void settle_calls_end(struct settle_calls *s, uint64_t upto);
/* Ends all of them, because the backend closes. */
void settle_calls_end_all(struct settle_calls *s);
