/* SPDX-License-Identifier: Apache-2.0 */
/* Limits at the claim in a unit: what of core/queues/claim_limits.h concerns the rows and groups
 * that were loaded.
 *
 * A unit with claims loads what their queues use (struct wqueue), and of a queue whose jobs are
 * ordered by group or age the first groups that can start a job, each with its first ready jobs
 * (struct wgroup). Groups in which the unit changes a job, but that were not loaded, are known by
 * their key only: the store finds out their place when it stores the unit.
 *
 * A claim that finds nothing although there may be a job that was not loaded (starved) causes a
 * signal, so that it is tried again. */
#include "backend/shared/limits.h"

#include "backend/shared/shared.h"

bool claim_ordered(const struct queue_policy *p)
{
    return claim_grouped(p) || p->ageing_ms > 0;
}

bool claim_order_equal(const struct queue_policy *a, const struct queue_policy *b)
{
    return claim_grouped(a) == claim_grouped(b) && a->fair == b->fair &&
           a->ageing_ms == b->ageing_ms;
}

static struct hash128 group_hash(const struct unit *u, const struct wqueue *q, struct span key)
{
    struct hash128 h = hash128_of(u->s->facts.hash_key, key);
    h.hi ^= (uint64_t)q->number << 32;
    return h;
}

static struct wgroup *group_find(const struct unit *u, const struct wqueue *q, struct span key)
{
    uint64_t at = map128_get(&u->group_map, group_hash(u, q, key));
    return at ? u->groups[at - 1] : NULL;
}

struct wgroup *unit_group_add(struct unit *u, struct wqueue *q, struct span key)
{
    struct wgroup *g = group_find(u, q, key);
    if (g)
        return g;
    g = unit_alloc(u, sizeof *g);
    if (!g || !unit_room(u, &u->groups, &u->group_room, u->group_count, sizeof(struct wgroup *)) ||
        map128_put(&u->group_map, group_hash(u, q, key), u->group_count + 1) != 0) {
        u->nomem = true;
        return NULL;
    }
    g->q = q;
    g->key = key;
    g->known = q->limits_new;
    heap_init(&g->ready);
    u->groups[u->group_count++] = g;
    g->next = q->groups;
    q->groups = g;
    return g;
}

struct wgroup *unit_group_of(struct unit *u, const struct row *r)
{
    bool grouped = claim_grouped(&r->q->policy);
    return unit_group_add(u, r->q, grouped ? r->extra.group : SPAN_LITERAL(""));
}

void unit_groups_reset(struct unit *u)
{
    for (size_t i = 0; i < u->group_count; i++)
        heap_done(&u->groups[i]->ready);
    if (u->group_count == 0)
        return;
    map128_done(&u->group_map);
    map128_init(&u->group_map);
    u->group_count = 0;
}

static struct heap_entry place_of(const struct row *r)
{
    int64_t priority = claim_priority(&r->q->policy, r->job.priority, r->job.since);
    return (struct heap_entry){heap_order_desc(priority), r->job.seq};
}

/* --- what changes with a job --- */

static void add_ready(struct unit *u, struct wgroup *g, const struct row *r)
{
    if (!g->waits)
        g->round = claim_round_join(g->q->round);
    g->waits = true;
    if (g->known && heap_push(&g->ready, place_of(r)) != 0)
        u->nomem = true;
}

void unit_group_claimable(struct unit *u, struct wgroup *g, struct row *r)
{
    if (r->job.state != STATE_READY)
        return;
    if (heap_push(&g->ready, place_of(r)) != 0)
        u->nomem = true;
    g->q->ready_loaded++;
}

static void use_add(struct claim_use *use, int64_t n)
{
    use->running = n < 0 && use->running == 0 ? 0 : use->running + (uint64_t)n;
}

void unit_limits_moved(struct unit *u, struct row *r, uint8_t before, uint8_t after)
{
    struct wqueue *q = r->q;
    bool taken = r->taken && before == STATE_READY && after == STATE_RUNNING;
    if (!claim_limited(&q->policy) || taken) {
        r->taken = false; /* an item: it has its slot */
        return;
    }
    int64_t slots = (after == STATE_RUNNING) - (before == STATE_RUNNING);
    use_add(&q->use, slots);
    q->slots += slots;
    q->wake |= slots < 0;
    if (!claim_ordered(&q->policy))
        return;
    /* A claim that found only jobs like this one may now find those behind them. */
    q->wake |= before == STATE_READY && after != STATE_RUNNING;
    struct wgroup *g = unit_group_of(u, r);
    if (!g)
        return;
    use_add(&g->use, slots);
    g->slots += slots;
    g->touched = true;
    if (after == STATE_READY)
        add_ready(u, g, r);
}

static void take_tokens(struct unit *u, struct wqueue *q, struct wgroup *g)
{
    const struct rate_limit *rate = &q->policy.claim_rate;
    if (rate->count == 0 || (rate->per == RATE_GROUP && !g))
        return;
    struct claim_use *use = rate->per == RATE_GROUP ? &g->use : &q->use;
    use->full_us = claim_token_take(rate, use->full_us, u->rate_now_us);
    q->limits_used |= rate->per != RATE_GROUP;
}

/* Called after apply_claimed and before unit_limits_moved, which ends what an item has taken. */
void unit_limits_started(struct unit *u, const struct row *r)
{
    struct wqueue *q = r->q;
    struct wgroup *g = NULL;
    if (!claim_limited(&q->policy) || r->taken)
        return;
    if (claim_ordered(&q->policy) && !(g = unit_group_of(u, r)))
        return;
    take_tokens(u, q, g);
    if (q->policy.fair == FAIR_GROUP) {
        claim_round_serve(&q->round, &g->round);
        q->limits_used = true;
    }
    if (g)
        g->served = g->touched = true;
}

/* --- claims --- */

/* What was not loaded must be: the unit begins again. */
static bool known(struct unit *u, const struct wqueue *q)
{
    bool yes = q->limits_known || q->limits_new;
    u->short_of_limits |= !yes;
    return yes;
}

bool unit_limits_expected(struct unit *u)
{
    for (size_t i = 0; i < u->name_count; i++) {
        const struct wqueue *q = u->names[i].ordered ? unit_queue_named(u, u->names[i].name) : NULL;
        if (q && !claim_ordered(&q->policy))
            return false;
    }
    return true;
}

static void retry_at(struct wqueue *q, int64_t at_us)
{
    if (at_us > 0 && (q->retry_us == 0 || at_us < q->retry_us))
        q->retry_us = at_us;
}

/* The best ready row of the group; stale entries go. */
static struct row *group_top(const struct unit *u, struct wgroup *g, struct heap_entry *ret)
{
    while (heap_top(&g->ready, ret)) {
        struct row *r = unit_row(u, ret->seq);
        bool there = r && unit_row_there(r) && r->job.state == STATE_READY && !r->taken &&
                     place_of(r).order == ret->order;
        if (there && !(r->extra.expires_at.ms && r->extra.expires_at.ms <= u->now.ms))
            return r;
        heap_pop(&g->ready, ret);
    }
    return NULL;
}

/* Whether the group may start a job. If it may not, it leaves the open groups of the store. */
static bool group_open(const struct unit *u, struct wgroup *g)
{
    int64_t at_us;
    enum claim_block block = claim_group_block(&g->q->policy, &g->use, u->rate_now_us, &at_us);
    g->touched |= block != CLAIM_FREE;
    retry_at(g->q, at_us);
    return block == CLAIM_FREE;
}

/* The group whose job is next, among those that were loaded. */
static struct row *group_next(struct unit *u, struct wqueue *q, struct heap_entry *ret_order,
                              bool *ret_more)
{
    struct row *best = NULL;
    struct claim_place first = {0};
    *ret_more = q->groups_more;
    for (struct wgroup *g = q->groups; g; g = g->next) {
        struct heap_entry order;
        struct row *r = g->known ? group_top(u, g, &order) : NULL;
        *ret_more |= !g->known || (!r && g->more);
        if (!r || !group_open(u, g))
            continue;
        struct claim_place place = {heap_desc_of(order.order), g->round, order.seq};
        if (best && !claim_place_before(&place, &first))
            continue;
        best = r;
        first = place;
        *ret_order = order;
    }
    return best;
}

bool unit_limited_next(struct unit *u, struct wqueue *q, struct heap_entry *ret_order,
                       struct row **ret)
{
    int64_t at_us;
    bool more = false;
    *ret = NULL;
    if (!known(u, q))
        return false;
    enum claim_block block = claim_queue_block(&q->policy, &q->use, u->rate_now_us, &at_us);
    retry_at(q, at_us);
    if (block != CLAIM_FREE)
        return true;
    if (claim_ordered(&q->policy)) {
        *ret = group_next(u, q, ret_order, &more);
    } else {
        *ret = unit_claim_top(u, q, ret_order);
        more = !*ret && unit_claim_more(u, q);
    }
    q->starved |= !*ret && more;
    return *ret || !more;
}

/* How many ready jobs a claim can get at most, of those that were loaded. */
uint64_t unit_limited_count(const struct wqueue *q)
{
    uint64_t count = q->ready.len;
    for (const struct wgroup *g = q->groups; g; g = g->next)
        count += g->ready.len;
    return count;
}

enum claim_block unit_claim_room(struct ops *o, const struct queue_state *state,
                                 const struct job *j, int64_t *ret_at_us)
{
    struct unit *u = unit_of(o);
    struct wqueue *q = queue_from(state);
    const struct row *r = unit_row(u, j->seq);
    *ret_at_us = 0;
    if (!known(u, q))
        return CLAIM_QUEUE_LIMIT; /* not replied: the unit begins again */
    enum claim_block block = claim_queue_block(&q->policy, &q->use, u->rate_now_us, ret_at_us);
    if (block != CLAIM_FREE || !claim_grouped(&q->policy))
        return block;
    struct wgroup *g = unit_group_of(u, r);
    if (!g || !g->known) {
        u->short_of_limits = true;
        return CLAIM_GROUP_LIMIT;
    }
    return claim_group_block(&q->policy, &g->use, u->rate_now_us, ret_at_us);
}

/* --- items of a trigger, whose leases begin when all of them were found --- */

static struct heap *heap_of(struct unit *u, const struct row *r)
{
    struct wgroup *g = claim_ordered(&r->q->policy) ? unit_group_of(u, r) : NULL;
    return g ? &g->ready : &r->q->ready;
}

static struct claim_use *bucket_of(struct unit *u, const struct row *r)
{
    struct wqueue *q = r->q;
    struct wgroup *g = q->policy.claim_rate.per == RATE_GROUP ? unit_group_of(u, r) : NULL;
    return g ? &g->use : &q->use;
}

void unit_limited_take(struct unit *u, struct wqueue *q)
{
    struct heap_entry order;
    struct row *r;
    if (!unit_limited_next(u, q, &order, &r) || !r)
        return;
    heap_pop(heap_of(u, r), &order);
    r->full_us_before = bucket_of(u, r)->full_us;
    unit_limits_moved(u, r, STATE_READY, STATE_RUNNING);
    unit_limits_started(u, r);
    r->taken = true;
}

void unit_limited_return(struct unit *u, struct row *r)
{
    struct claim_use *use = bucket_of(u, r);
    r->taken = false;
    if (r->full_us_before < use->full_us)
        use->full_us = r->full_us_before;
    unit_limits_moved(u, r, STATE_RUNNING, STATE_READY);
    if (!claim_ordered(&r->q->policy) && heap_push(&r->q->ready, place_of(r)) != 0)
        u->nomem = true;
}

/* --- what the store writes --- */

int64_t unit_group_wait_us(const struct unit *u, const struct wgroup *g)
{
    const struct rate_limit *rate = &g->q->policy.claim_rate;
    if (!g->known || rate->count == 0 || rate->per != RATE_GROUP)
        return 0;
    int64_t at_us = claim_token_at_us(rate, g->use.full_us, u->rate_now_us);
    return at_us > u->rate_now_us ? at_us : 0;
}

/* Jobs that wait for a token of the queue, or of a group that has started one. */
static void tokens_awaited(const struct unit *u, struct wqueue *q)
{
    int64_t at_us;
    (void)claim_queue_block(&q->policy, &q->use, u->rate_now_us, &at_us);
    retry_at(q, at_us);
    for (const struct wgroup *g = q->groups; g; g = g->next)
        retry_at(q, unit_group_wait_us(u, g));
}

void unit_limits_committed(struct unit *u)
{
    for (size_t i = 0; i < u->queue_count; i++) {
        struct wqueue *q = u->queues[i];
        q->wake |= q->starved;
        if (q->gone || !(q->limits_known || q->limits_new))
            continue;
        if (q->policy.claim_rate.count)
            tokens_awaited(u, q);
        if (q->retry_us > 0)
            shared_watches_wake_at(u->s, q->name, (q->retry_us + 999) / 1000);
    }
}

/* --- what is shown --- */

void unit_limited_view(const struct wqueue *q, struct wall_time now, uint64_t busy,
                       uint64_t waiting, struct queue_counts *c)
{
    int64_t at_us;
    enum claim_block block = claim_queue_block(&q->policy, &q->use, now.ms * 1000, &at_us);
    if (block != CLAIM_FREE) {
        c->limited[block] = c->by_state[STATE_READY];
        return;
    }
    c->limited[CLAIM_GROUP_LIMIT] = busy;
    c->limited[CLAIM_RATE] = waiting;
}
