/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets of the rate limits at enqueue (ops/jobs/rates.c). A full bucket is the same as no bucket,
 * so it is dropped when it is the least recently used one. After a restart every key has a full
 * bucket. There are at most RATES_MAX buckets; beyond that the least recently used one is
 * forgotten, which allows its key at most one more burst. */
#include "backend/local/engine/engine_impl.h"

#define SWEEP 2 /* full buckets dropped for each new one, so that they do not stay for ever */

static struct rate *rate_at(const struct engine *e, uint32_t handle)
{
    return slab_at(&e->rates, handle);
}

static void rate_unlink(struct engine *e, struct rate *b)
{
    if (b->prev)
        rate_at(e, b->prev)->next = b->next;
    else
        e->rate_first = b->next;
    if (b->next)
        rate_at(e, b->next)->prev = b->prev;
    else
        e->rate_last = b->prev;
    b->prev = b->next = 0;
}

static void rate_append(struct engine *e, uint32_t handle)
{
    rate_at(e, handle)->prev = e->rate_last;
    if (e->rate_last)
        rate_at(e, e->rate_last)->next = handle;
    else
        e->rate_first = handle;
    e->rate_last = handle;
}

static void rate_drop(struct engine *e, uint32_t handle)
{
    struct rate *b = rate_at(e, handle);
    rate_unlink(e, b);
    map128_drop(&e->rate_map, b->key);
    slab_give(&e->rates, handle);
}

int64_t rates_full_us(const struct engine *e, const struct rate_share *share)
{
    uint32_t handle = (uint32_t)map128_get(&e->rate_map, share->key);
    return handle ? rate_at(e, handle)->full_us : 0;
}

int rates_reserve(struct engine *e, size_t count)
{
    int err = slab_reserve(&e->rates, count);
    return err ? err : map128_reserve(&e->rate_map, count);
}

static void rates_sweep(struct engine *e)
{
    int64_t now = e->now.mono.ms * 1000;
    for (int i = 0; i < SWEEP && e->rate_first; i++) {
        if (rate_at(e, e->rate_first)->full_us > now && e->rates.used < RATES_MAX)
            return;
        rate_drop(e, e->rate_first);
    }
}

void rates_take(struct engine *e, const struct rate_share *share)
{
    int64_t kept = rates_full_us(e, share);
    int64_t full = rate_full_us(kept, e->ops.rate_now_us, share->window_us) + share->share_us;
    uint32_t handle = (uint32_t)map128_get(&e->rate_map, share->key);
    if (handle) {
        rate_unlink(e, rate_at(e, handle));
    } else {
        rates_sweep(e);
        handle = slab_take(&e->rates);
        CHECK(handle && map128_put(&e->rate_map, share->key, handle) == 0);
        rate_at(e, handle)->key = share->key;
    }
    rate_at(e, handle)->full_us = full;
    rate_append(e, handle);
}

uint64_t rates_bytes(const struct engine *e)
{
    return slab_bytes(&e->rates) + map128_bytes(&e->rate_map);
}
