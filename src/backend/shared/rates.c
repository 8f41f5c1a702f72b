/* SPDX-License-Identifier: Apache-2.0 */
/* Rate limits at enqueue (PDQ-13): so many jobs a window, by queue, group or correlation id.
 *
 * Each key has a bucket of `count` tokens that fills up evenly; all that is kept of it is the time
 * at which it is full again. Buckets are this node's alone, and live in its memory: where several
 * nodes take enqueues for one key, each of them lets the limit through. */
#include "backend/shared/shared.h"

#define RATES_MAX 100000 /* beyond it all are forgotten, which gives each key one more burst */

static struct span rate_text(const struct rate_limit *limit, const struct job_extra *x)
{
    return limit->per == RATE_GROUP         ? x->group
           : limit->per == RATE_CORRELATION ? x->correlation
                                            : (struct span){NULL, 0};
}

/* Never before now, nor later than a limit that was changed meanwhile allows. */
static int64_t full_us(const struct shared *s, const struct rate_claim *c, int64_t now_us)
{
    int64_t full = (int64_t)map128_get(&s->rates, c->key);
    return full < now_us ? now_us : full > now_us + c->window_us ? now_us + c->window_us : full;
}

bool unit_rates_allow(struct unit *u, const struct wqueue *q, const struct op_enqueue *want,
                      struct turn *t, struct rate_claim *ret)
{
    const struct rate_limit *limit = &q->policy.enqueue_rate;
    int64_t now_us = u->now.ms * 1000, window = (int64_t)limit->window_ms * 1000;
    *ret = (struct rate_claim){.share_us = 0};
    if (limit->count == 0 || want->past)
        return true;
    uint64_t scope = (uint64_t)limit->per << 32 | q->number;
    struct rate_claim c = {
        .key = hash128_scoped(u->s->facts.hash_key, scope, rate_text(limit, &want->extra)),
        .share_us = window / limit->count ? window / limit->count : 1,
        .window_us = window,
    };
    int64_t full = full_us(u->s, &c, now_us) + c.share_us;
    for (const struct rate_claim *before = u->rates; before; before = before->next)
        if (hash128_equal(before->key, c.key))
            full += c.share_us;
    int64_t wait = full - now_us - window;
    if (wait > 0) {
        t->reply.retry_ms = (wait + 999) / 1000;
        return unit_refuse(t, OUT_RATE_LIMIT, NULL);
    }
    *ret = c;
    return true;
}

void unit_rates_add(struct unit *u, const struct rate_claim *claim)
{
    struct rate_claim *c = claim->share_us ? unit_alloc(u, sizeof *c) : NULL;
    if (!c)
        return;
    *c = *claim;
    c->next = u->rates;
    u->rates = c;
}

void unit_rates_take(struct unit *u)
{
    struct shared *s = u->s;
    for (const struct rate_claim *c = u->rates; c; c = c->next) {
        if (map128_count(&s->rates) >= RATES_MAX) {
            map128_done(&s->rates);
            map128_init(&s->rates);
        }
        int64_t full = full_us(s, c, u->now.ms * 1000) + c->share_us;
        if (map128_put(&s->rates, c->key, (uint64_t)full) != 0)
            return; /* no memory: this one was free */
    }
}
