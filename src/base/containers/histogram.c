/* SPDX-License-Identifier: Apache-2.0 */
#include "base/containers/histogram.h"

static unsigned bucket_of(uint64_t value)
{
    if (value <= 1)
        return 0;
    unsigned bits = 64 - (unsigned)__builtin_clzll(value - 1);
    return bits < HISTOGRAM_BUCKETS ? bits : HISTOGRAM_BUCKETS - 1;
}

void histogram_add(struct histogram *h, uint64_t value)
{
    h->count++;
    h->sum += value;
    h->bucket[bucket_of(value)]++;
}

uint64_t histogram_quantile(const struct histogram *h, double q)
{
    uint64_t seen = 0;
    if (h->count == 0)
        return 0;
    double wanted = (q > 0 ? q < 1 ? q : 1 : 0) * (double)h->count;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
        seen += h->bucket[i];
        if (seen > 0 && (double)seen >= wanted)
            return UINT64_C(1) << i;
    }
    return UINT64_MAX;
}
