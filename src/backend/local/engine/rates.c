/* SPDX-License-Identifier: Apache-2.0 */
/* Rate limits at enqueue (PDQ-13): so many jobs a window, by queue, group or correlation id.
 *
 * Each key has a bucket of `count` tokens that fills up evenly, one every window / count. All that
 * is kept of it is the time at which it is full again (`full_us`): a job moves that time on by one
 * token's share, and must wait while the bucket would be more than empty. A bucket that is full is
 * as good as none, so it is dropped when its turn comes.
 *
 * Buckets are no part of what is durable: after a restart every key has a full one. There are at
 * most RATES_MAX of them; beyond that the one used least lately is forgotten, which gives its key
 * at most one more burst. */
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

static struct span rate_text(const struct rate_limit *limit, const struct job_extra *x)
{
    return limit->per == RATE_GROUP         ? x->group
           : limit->per == RATE_CORRELATION ? x->correlation
                                            : (struct span){NULL, 0};
}

/* When the bucket of this key is full again, as things are; never before now, nor later than a
 * limit that was changed meanwhile allows. */
static int64_t full_us(const struct engine *e, const struct rate_claim *claim)
{
    int64_t now = e->now.mono.ms * 1000;
    uint32_t handle = (uint32_t)map128_get(&e->rate_map, claim->key);
    int64_t full = handle ? rate_at(e, handle)->full_us : now;
    return full < now ? now : full > now + claim->window_us ? now + claim->window_us : full;
}

static void claim_fill(const struct engine *e, const struct queue *q, const struct job_extra *x,
                       struct rate_claim *ret)
{
    const struct rate_limit *limit = &q->policy.enqueue_rate;
    uint64_t scope = (uint64_t)limit->per << 32 | q->number;
    int64_t window = (int64_t)limit->window_ms * 1000;
    *ret = (struct rate_claim){
        .key = hash128_scoped(e->hash_key, scope, rate_text(limit, x)),
        .share_us = window / limit->count ? window / limit->count : 1,
        .window_us = window,
    };
}

bool rates_allow(struct engine *e, const struct enqueue_plan *first, struct enqueue_plan *p,
                 size_t ahead, struct engine_reply *r)
{
    p->rate = (struct rate_claim){0};
    if (p->q->policy.enqueue_rate.count == 0 || p->want->past)
        return true;
    claim_fill(e, p->q, &p->want->extra, &p->rate);
    int64_t full = full_us(e, &p->rate) + p->rate.share_us;
    for (const struct enqueue_plan *before = first; before < p; before++)
        if (!before->answered && hash128_equal(before->rate.key, p->rate.key))
            full += p->rate.share_us;
    int64_t wait = full - e->now.mono.ms * 1000 - p->rate.window_us;
    if (wait > 0) {
        r->reply.retry_ms = (wait + 999) / 1000;
        return refuse(r, OUT_RATE_LIMIT, NULL);
    }
    if (slab_reserve(&e->rates, ahead + 1) || map128_reserve(&e->rate_map, ahead + 1))
        return refuse_nomem(r);
    return true;
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

void rates_take(struct engine *e, const struct rate_claim *claim)
{
    if (hash128_none(claim->key))
        return;
    int64_t full = full_us(e, claim) + claim->share_us;
    uint32_t handle = (uint32_t)map128_get(&e->rate_map, claim->key);
    if (handle) {
        rate_unlink(e, rate_at(e, handle));
    } else {
        rates_sweep(e);
        handle = slab_take(&e->rates);
        CHECK(handle && map128_put(&e->rate_map, claim->key, handle) == 0);
        rate_at(e, handle)->key = claim->key;
    }
    rate_at(e, handle)->full_us = full;
    rate_append(e, handle);
}

uint64_t rates_bytes(const struct engine *e)
{
    return slab_bytes(&e->rates) + map128_bytes(&e->rate_map);
}
