/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of backend_settle that wait for their answer, in the order they came. For backends. */
#pragma once

#include "backend/backend.h"

struct settle {
    backend_closed_fn fn;
    void *ctx;
    void *owner;
    bool worked;       /* what was due has been done … */
    uint64_t position; /* … with this record as the last */
    struct settle *next;
};

struct settles {
    struct settle *first;
};

/* NULL when there is no memory. */
struct settle *settles_add(struct settles *s, void *owner, backend_closed_fn fn, void *ctx);
/* Takes one back that was never begun. */
void settles_drop(struct settles *s, struct settle *one);
/* Takes those off that have worked and whose position is at most `upto`, then calls them, in order;
 * what they settle in turn waits for the next time. */
void settles_end(struct settles *s, uint64_t upto);
/* All of them: the backend closes. */
void settles_end_all(struct settles *s);
