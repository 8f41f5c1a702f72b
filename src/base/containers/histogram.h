/* SPDX-License-Identifier: Apache-2.0 */
/* How values are spread, in buckets of powers of two: a fixed size, an add that costs a few
 * instructions, a quantile that is right within a factor of two. */
#pragma once

#include <stdint.h>

#define HISTOGRAM_BUCKETS 40

/* Bucket i counts values ≤ 2^i that are above 2^(i-1) (bucket 0: 0 and 1); the last takes the rest.
 * All zero = empty. */
struct histogram {
    uint64_t count, sum;
    uint64_t bucket[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t value);
/* The upper bound of the bucket in which the share q (0 … 1, others are taken as the nearer end) of
 * all values is reached; 0 when empty. The last bucket has no bound: UINT64_MAX. */
uint64_t histogram_quantile(const struct histogram *h, double q);
