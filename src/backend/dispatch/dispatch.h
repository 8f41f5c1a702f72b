/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch: the ids of ready jobs are pushed to lists in Redis, for workers that wait there.
 *
 * The store below stays the record. A job that becomes ready is pending until Redis has confirmed
 * that its id is in a list; then it is marked as dispatched. A worker that takes an id from a list
 * claims that job here, which succeeds once: an id that is in a list twice, or whose job was
 * claimed in another way, is refused. Claims that name queues work as before, without Redis.
 *
 * This folder may use the headers directly in src/backend, ops, core and base, and the connections
 * of redis/. It reaches the store below only through backend_impl.h. */
#pragma once

#include "backend/backend_impl.h"

struct dispatch_config {
    const char *high, *low;    /* URLs: redis:// or rediss:// */
    const struct span *urgent; /* queues whose jobs go to high; * matches anything */
    size_t urgent_count;
    int64_t interval_ms; /* how often the leader searches for pending jobs and lost ids */
    uint32_t batch;      /* pending jobs that it reads at once */
};

/* Owns inner, also on failure; config has `dispatches` set. Redis need not be reachable yet: jobs
 * are pending until it is. -ERR_INVALID with a note: a URL is wrong. */
MUST_CHECK int backend_open_dispatch(struct backend *inner, const struct backend_config *config,
                                     const struct dispatch_config *dispatch, struct backend **ret,
                                     struct err_note *note);
