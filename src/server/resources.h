/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that depend on the machine unless they are set: memory of connections, and the number
 * of connections. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

struct resources {
    uint64_t memory_bytes; /* of the budget */
    uint32_t connections, connections_per_address;
    bool few_descriptors; /* fewer than limits.connections, or than most clients expect */
};

/* Raises the limit of open files as far as possible; returns the new limit. */
uint64_t resources_raise_descriptors(void);

/* machine_bytes: machine_memory_bytes(). Depends only on its arguments. */
void resources_derive(const struct config_limits *limits, uint64_t descriptors,
                      uint64_t machine_bytes, struct resources *ret);
