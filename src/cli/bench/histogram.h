/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of durations in buckets that grow with the value: a quantile is off by at most 1/64. */
#pragma once

#include <stdint.h>

#define BENCH_SUB_BITS 5 /* 32 buckets for each doubling */
#define BENCH_BUCKETS ((64 - BENCH_SUB_BITS + 1) << BENCH_SUB_BITS)

struct bench_histogram {
    uint64_t counts[BENCH_BUCKETS];
    uint64_t total;
    uint64_t max;
};

void bench_histogram_add(struct bench_histogram *h, uint64_t value);
void bench_histogram_merge(struct bench_histogram *into, const struct bench_histogram *from);
/* The value that `percent` of the added ones do not exceed; 0 when none was added. */
uint64_t bench_histogram_at(const struct bench_histogram *h, double percent);
