/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that follow the machine unless the settings name them: memory of connections, and how
 * many connections there may be. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

struct resources {
    uint64_t memory_bytes; /* of the budget */
    uint32_t connections, connections_per_address;
    bool few_descriptors; /* fewer than limits.connections asks for, or than most clients expect */
};

/* Raises the limit of open files as far as the process may; gives how many there can be. */
uint64_t resources_raise_descriptors(void);

/* machine_bytes: machine_memory_bytes(). Reads nothing but its arguments. */
void resources_derive(const struct config_limits *limits, uint64_t descriptors,
                      uint64_t machine_bytes, struct resources *ret);
