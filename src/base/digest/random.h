/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded pseudo-random numbers (for jitter, simulation, tests) and real ones (for keys, ids). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct random {
    uint64_t state[4];
};

void random_seed(struct random *r, uint64_t seed);
uint64_t random_next(struct random *r);
uint64_t random_below(struct random *r, uint64_t limit); /* 0 … limit-1, unbiased; limit > 0 */
int64_t random_between(struct random *r, int64_t low, int64_t high); /* both included */
int random_chance(struct random *r, unsigned percent);

/* From the kernel; -ERR_IO when it has none to give. */
MUST_CHECK int random_bytes(void *out, size_t len);
