/* SPDX-License-Identifier: Apache-2.0 */
/* The router: one backend made of several, each keeping the queues whose names match its patterns.
 *
 * Each backend has a number from 1 to ROUTER_NUMBER_MAX that is part of the sequences of its jobs
 * (and of its queues' and notices' numbers), so that an id says where its job is whatever the
 * patterns are. A number must never change: another backend with this number, or another number
 * for a backend, would make the ids that clients hold name other jobs. The default backend has
 * number 0: its ids are the same with and without a router, and it keeps what belongs to no queue:
 * key-value store, schedules. docs/decisions/020-router.md.
 *
 * This folder may use the headers directly in src/backend, ops, core and base. It reaches the
 * stores only through backend_impl.h. */
#pragma once

#include "backend/backend.h"

#define ROUTER_NUMBER_MAX 63u

struct router_child {
    struct backend *backend;
    unsigned number;
};

struct router_route {
    const char *pattern; /* in which * stands for anything */
    unsigned number;     /* of a child */
};

/* One of the children is the default, number 0; numbers differ. The first route that matches a
 * queue's name decides. Owns the children, also on failure; copies the routes. -ERR_NOMEM. */
MUST_CHECK int backend_open_router(const struct router_child *children, unsigned child_count,
                                   const struct router_route *routes, unsigned route_count,
                                   const struct backend_config *config, struct backend **ret);
