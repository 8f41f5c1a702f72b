/* SPDX-License-Identifier: Apache-2.0 */
/* Rate limits at enqueue (PDQ-13): a number of jobs per window, by queue, group or correlation id.
 *
 * Each key has a bucket of `count` tokens that fills evenly, one every window / count. Only the
 * time at which it is full again is kept: a job moves that time on by one token's share, and is
 * refused while the bucket would be more than empty. A key without a bucket has a full one. Buckets
 * are not durable, and on shared stores each node has its own. */
#include "ops/jobs/enqueue.h"
#include "ops/replies.h"

static struct span rate_text(const struct enqueue_plan *p)
{
    const struct job_extra *x = &p->want->extra;
    uint8_t per = p->policy->enqueue_rate.per;
    return per == RATE_GROUP         ? x->group
           : per == RATE_CORRELATION ? x->correlation
                                     : (struct span){NULL, 0};
}

static struct hash128 rate_key(const struct ops *o, const struct enqueue_plan *p)
{
    uint64_t scope = (uint64_t)p->policy->enqueue_rate.per << 32 | p->q->number;
    return hash128_scoped(o->hash_key, scope, rate_text(p));
}

int64_t rate_full_us(int64_t kept_us, int64_t now_us, int64_t window_us)
{
    if (kept_us < now_us)
        return now_us;
    return kept_us > now_us + window_us ? now_us + window_us : kept_us;
}

static bool same_bucket(const struct enqueue_plan *a, const struct enqueue_plan *b)
{
    bool same_queue = a->q ? a->q == b->q : !b->q && span_equal(a->want->queue, b->want->queue);
    return !a->answered && a->rate.share_us && same_queue && span_equal(rate_text(a), rate_text(b));
}

bool rate_allows(struct ops *o, struct enqueue_plan *plans, size_t index)
{
    struct enqueue_plan *p = &plans[index];
    const struct rate_limit *limit = &p->policy->enqueue_rate;
    if (limit->count == 0 || p->want->past)
        return true;
    int64_t window = (int64_t)limit->window_ms * 1000;
    p->rate.window_us = window;
    p->rate.share_us = window / limit->count ? window / limit->count : 1;
    int64_t full = o->rate_now_us;
    if (p->q) {
        p->rate.key = rate_key(o, p);
        full = rate_full_us(o->store->rate_full_us(o, &p->rate), o->rate_now_us, window);
    }
    full += p->rate.share_us;
    for (size_t i = 0; i < index; i++)
        if (same_bucket(&plans[i], p))
            full += p->rate.share_us;
    int64_t wait = full - o->rate_now_us - window;
    if (wait <= 0)
        return true;
    p->reply->retry_ms = (wait + 999) / 1000;
    return reply_refuse(p->reply, OUT_RATE_LIMIT, NULL);
}

void rate_use(struct ops *o, struct enqueue_plan *p)
{
    if (!p->rate.share_us)
        return;
    if (hash128_none(p->rate.key))
        p->rate.key = rate_key(o, p);
    o->store->rate_take(o, &p->rate);
}
