/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/queue_limits.h"

#include "core/limits.h"

bool queue_has_room(const struct queue_limits *limits, uint64_t count, bool implied)
{
    uint64_t max = limits->max ? limits->max : LIMIT_QUEUES;
    uint64_t implied_max = limits->implied_max ? limits->implied_max : LIMIT_QUEUES_IMPLIED;
    return count < max && (!implied || count < implied_max);
}
