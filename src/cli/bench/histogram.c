/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/histogram.h"

#include <math.h>
#include <stddef.h>

#define SUB ((uint64_t)1 << BENCH_SUB_BITS)

/* Values below SUB have one bucket each; above, the five bits after the highest one select one
 * of the buckets of its power of two. */
static size_t bucket_of(uint64_t value)
{
    if (value < SUB)
        return (size_t)value;
    unsigned shift = 63 - (unsigned)__builtin_clzll(value) - BENCH_SUB_BITS;
    return (size_t)(((uint64_t)(shift + 1) << BENCH_SUB_BITS) + (value >> shift) - SUB);
}

static uint64_t bucket_middle(size_t bucket)
{
    if (bucket < SUB)
        return bucket;
    unsigned shift = (unsigned)(bucket >> BENCH_SUB_BITS) - 1;
    uint64_t low = (SUB + (bucket & (SUB - 1))) << shift;
    return low + (((uint64_t)1 << shift) >> 1);
}

void bench_histogram_add(struct bench_histogram *h, uint64_t value)
{
    h->counts[bucket_of(value)]++;
    h->total++;
    if (value > h->max)
        h->max = value;
}

void bench_histogram_merge(struct bench_histogram *into, const struct bench_histogram *from)
{
    for (size_t i = 0; i < BENCH_BUCKETS; i++)
        into->counts[i] += from->counts[i];
    into->total += from->total;
    if (from->max > into->max)
        into->max = from->max;
}

uint64_t bench_histogram_at(const struct bench_histogram *h, double percent)
{
    uint64_t rank = (uint64_t)ceil((double)h->total * percent / 100);
    uint64_t seen = 0;
    for (size_t i = 0; i < BENCH_BUCKETS && h->total > 0; i++) {
        seen += h->counts[i];
        if (seen >= rank && seen > 0) {
            uint64_t value = bucket_middle(i);
            return value < h->max ? value : h->max;
        }
    }
    return h->max;
}
