/* SPDX-License-Identifier: Apache-2.0 */
/* How many queues a store may have; the same rule for every store. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct queue_limits {
    uint64_t max;         /* 0 = LIMIT_QUEUES */
    uint64_t implied_max; /* 0 = LIMIT_QUEUES_IMPLIED */
};

/* Whether a store that has `count` queues may have another. One that is implied (created because a
 * producer named it, not because it was defined) leaves the room beyond implied_max to those that
 * are defined: no producer can use up all names. */
bool queue_has_room(const struct queue_limits *limits, uint64_t count, bool implied);
