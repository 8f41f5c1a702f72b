/* SPDX-License-Identifier: Apache-2.0 */
/* The outstanding calls of backend_settle, in the order in which they came. For backends. */
#pragma once

#include "backend/backend.h"

struct settle {
    backend_closed_fn fn;
    void *ctx;
    void *owner;
    bool worked;       /* what was due has been done … */
    uint64_t position; /* … and this is its last record */
    struct settle *next;
};

struct settles {
    struct settle *first;
};

/* NULL if there is no memory. */
struct settle *settles_add(struct settles *s, void *owner, backend_closed_fn fn, void *ctx);
/* Removes a call that was never started. */
void settles_drop(struct settles *s, struct settle *one);
/* Removes the calls that have worked and whose position is at most `upto`, then calls them back in
 * order. A settle that a callback starts waits for the next call of this function. */
void settles_end(struct settles *s, uint64_t upto);
/* Ends all of them, because the backend closes. */
void settles_end_all(struct settles *s);
