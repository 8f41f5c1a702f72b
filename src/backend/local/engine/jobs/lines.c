/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a queue whose claims depend on groups; jobs/limits.h explains them. */
#include "backend/local/engine/jobs/limits.h"

static struct group *group_at(const struct engine *e, uint32_t handle)
{
    return slab_at(&e->groups, handle);
}

/* Jobs of the line in this state. Those without a group are what the groups leave over. */
static uint64_t jobs_in(const struct engine *e, const struct queue *q, const struct line *l,
                        uint8_t state)
{
    if (l->group)
        return group_counted(e, group_at(e, l->group), state);
    return q->lists[state].count - q->in_groups[state];
}

struct claim_use line_use(const struct engine *e, const struct queue *q, const struct line *l)
{
    return (struct claim_use){jobs_in(e, q, l, STATE_RUNNING) + l->taken, l->full_us};
}

enum claim_block line_block(const struct engine *e, const struct queue *q, const struct line *l,
                            int64_t *ret_at_us)
{
    struct claim_use use = line_use(e, q, l);
    return claim_group_block(&q->policy, &use, e->ops.rate_now_us, ret_at_us);
}

uint32_t line_of(const struct engine *e, const struct queue *q, const struct live *l)
{
    uint32_t group = more_of(e, l).group;
    return group ? group_at(e, group)->line : q->flow->groupless;
}

static void link_line(struct engine *e, uint32_t *first, uint32_t handle)
{
    struct line *l = line_at(e, handle);
    l->prev = 0;
    l->next = *first;
    if (*first)
        line_at(e, *first)->prev = handle;
    *first = handle;
}

static void unlink_line(struct engine *e, uint32_t *first, const struct line *l)
{
    if (l->prev)
        line_at(e, l->prev)->next = l->next;
    else
        *first = l->next;
    if (l->next)
        line_at(e, l->next)->prev = l->prev;
}

/* A line keeps its group, whose bucket outlives its jobs. 0 = no memory. */
static uint32_t line_new(struct engine *e, struct queue *q, uint32_t group)
{
    uint32_t handle = slab_take(&e->lines);
    if (!handle)
        return 0;
    struct line *line = line_at(e, handle);
    *line = (struct line){.group = group, .timer = SIZE_MAX, .idle = true};
    heap_init_small(&line->ready);
    heap_count_in(&line->ready, &e->queue_bytes);
    if (group) {
        group_at(e, group)->line = handle;
        group_at(e, group)->refs++;
    } else {
        q->flow->groupless = handle;
    }
    link_line(e, &q->flow->first, handle);
    q->flow->line_count++;
    return handle;
}

uint32_t line_make(struct engine *e, struct queue *q, const struct live *l)
{
    uint32_t handle = line_of(e, q, l);
    return handle ? handle : line_new(e, q, more_of(e, l).group);
}

void lines_moved(void *engine, struct heap_entry entry, size_t index)
{
    line_at(engine, (uint32_t)entry.seq)->timer = index;
}

static void timer_drop(struct queue *q, struct line *l)
{
    if (l->timer != SIZE_MAX)
        heap_remove(&q->flow->timers, l->timer);
    l->timer = SIZE_MAX;
}

static void timer_set(struct engine *e, struct queue *q, uint32_t handle, int64_t at_us)
{
    struct line *l = line_at(e, handle);
    struct heap_entry entry = {heap_order_of(at_us), handle};
    if (l->timer != SIZE_MAX && heap_at(&q->flow->timers, l->timer).order == entry.order)
        return;
    timer_drop(q, l);
    CHECK(heap_push(&q->flow->timers, entry) == 0);
    limits_arm(e, q, at_us);
}

/* Gives up what binds it to its group and to the order. */
static void line_leave(struct engine *e, struct queue *q, uint32_t handle)
{
    struct line *l = line_at(e, handle);
    q->flow->waiting[l->block] -= l->waiting;
    l->waiting = 0;
    l->block = CLAIM_FREE;
    places_drop(e, &q->flow->places, handle);
    timer_drop(q, l);
    if (l->group)
        group_at(e, l->group)->line = 0;
    else
        q->flow->groupless = 0;
    unlink_line(e, &q->flow->first, l);
    q->flow->line_count--;
}

void line_end(struct engine *e, struct queue *q, uint32_t handle)
{
    struct line *l = line_at(e, handle);
    if (l->old)
        unlink_line(e, &q->flow->old_first, l);
    else
        line_leave(e, q, handle);
    heap_done(&l->ready);
    if (l->group)
        names_drop_group(e, l->group);
    slab_give(&e->lines, handle);
}

static void set_block(struct queue *q, struct line *l, enum claim_block block, uint64_t waiting)
{
    struct flow *f = q->flow;
    f->waiting[l->block] -= l->waiting;
    l->block = (uint8_t)block;
    l->waiting = block == CLAIM_FREE ? 0 : waiting;
    f->waiting[l->block] += l->waiting;
}

void lines_recount(struct engine *e, struct queue *q, uint32_t handle)
{
    struct line *l = line_at(e, handle);
    uint64_t ready = jobs_in(e, q, l, STATE_READY);
    l->idle |= ready == 0;
    if (l->block != CLAIM_FREE)
        set_block(q, l, (enum claim_block)l->block, ready);
}

/* A line without jobs is kept until its bucket is full. */
static void look_empty(struct engine *e, struct queue *q, uint32_t handle)
{
    struct line *l = line_at(e, handle);
    set_block(q, l, CLAIM_FREE, 0);
    places_drop(e, &q->flow->places, handle);
    bool rated = q->policy.claim_rate.count > 0 && q->policy.claim_rate.per == RATE_GROUP;
    if (rated && l->full_us > e->ops.rate_now_us)
        timer_set(e, q, handle, l->full_us);
    else if (l->taken == 0)
        line_end(e, q, handle);
}

void line_look(struct engine *e, struct queue *q, uint32_t handle)
{
    struct line *l = line_at(e, handle);
    struct heap_entry top;
    int64_t at_us;
    if (!heap_top(&l->ready, &top)) {
        look_empty(e, q, handle);
        return;
    }
    enum claim_block block = line_block(e, q, l, &at_us);
    set_block(q, l, block, block == CLAIM_FREE ? 0 : jobs_in(e, q, l, STATE_READY));
    if (block == CLAIM_RATE)
        timer_set(e, q, handle, at_us);
    else
        timer_drop(q, l);
    if (block != CLAIM_FREE) {
        places_drop(e, &q->flow->places, handle);
        return;
    }
    bool fair = q->policy.fair == FAIR_GROUP;
    struct claim_place at = {heap_desc_of(top.order), fair ? l->round : 0, top.seq};
    if (DEFECT(&e->config, DEFECT_AGE_LOST) && valid_ready(e, top))
        at.priority = jobs_by_seq(e, seq_of_ready(e, top.seq), NULL)->job.priority;
    places_put(e, &q->flow->places, handle, at);
}

static bool stale(void *e, struct heap_entry entry)
{
    return !valid_ready(e, entry);
}

bool line_add(struct engine *e, struct queue *q, const struct live *l)
{
    struct heap_entry entry = {ready_order(q, &l->job), ready_seq(e, &l->job)}, top;
    uint32_t handle = line_make(e, q, l);
    if (!handle)
        return false;
    struct line *line = line_at(e, handle);
    bool first = !heap_top(&line->ready, &top);
    if (heap_push(&line->ready, entry) != 0) {
        line_look(e, q, handle); /* a new one is not kept */
        return false;
    }
    uint64_t round = claim_round_join(q->flow->round);
    bool joins = line->idle && line->round < round;
    if (joins)
        line->round = round;
    line->idle = false;
    if (line->ready.len > 2 * jobs_in(e, q, line, STATE_READY) + 1024)
        heap_scrub(&line->ready, 8, stale, e);
    if (first || joins || entry.order < top.order ||
        (entry.order == top.order && entry.seq < top.seq))
        line_look(e, q, handle);
    return true;
}

void line_serve(struct engine *e, struct queue *q, struct line *l, bool was_next)
{
    const struct queue_policy *p = &q->policy;
    if (p->claim_rate.count > 0 && p->claim_rate.per == RATE_GROUP)
        l->full_us = claim_token_take(&p->claim_rate, l->full_us, e->ops.rate_now_us);
    if (was_next && p->fair == FAIR_GROUP && !DEFECT(&e->config, DEFECT_UNFAIR))
        claim_round_serve(&q->flow->round, &l->round);
}

void lines_due(struct engine *e, struct queue *q)
{
    struct heap_entry top;
    uint64_t now = heap_order_of(e->ops.rate_now_us);
    while (heap_top(&q->flow->timers, &top) && top.order <= now) {
        uint32_t handle = (uint32_t)top.seq;
        timer_drop(q, line_at(e, handle));
        line_look(e, q, handle);
    }
}

void lines_look_all(struct engine *e, struct queue *q)
{
    uint32_t next;
    for (uint32_t at = q->flow->first; at; at = next) {
        next = line_at(e, at)->next;
        line_look(e, q, at);
    }
}

void lines_purged(struct engine *e, struct queue *q)
{
    uint32_t next;
    for (uint32_t at = q->flow->first; at; at = next) {
        next = line_at(e, at)->next;
        heap_done(&line_at(e, at)->ready);
        line_at(e, at)->idle = true;
        line_look(e, q, at);
    }
    while (q->flow->old_first)
        line_end(e, q, q->flow->old_first);
}

/* The order ends, but not what the groups have taken of the rate. */
static void keep_bucket(struct engine *e, struct queue *q, const struct line *old)
{
    if (old->full_us <= e->ops.rate_now_us)
        return;
    uint32_t handle = line_new(e, q, old->group);
    CHECK(handle); /* lines_reserve */
    line_at(e, handle)->full_us = old->full_us;
    line_look(e, q, handle);
}

int lines_reserve(struct engine *e, const struct queue *q)
{
    return slab_reserve(&e->lines, q->flow->line_count);
}

void lines_retire(struct engine *e, struct queue *q)
{
    uint32_t next;
    for (uint32_t at = q->flow->first; at; at = next) {
        next = line_at(e, at)->next;
        line_leave(e, q, at);
        line_at(e, at)->old = true;
        link_line(e, &q->flow->old_first, at);
        keep_bucket(e, q, line_at(e, at));
    }
}

void lines_end_all(struct engine *e, struct queue *q)
{
    while (q->flow->first)
        line_end(e, q, q->flow->first);
    while (q->flow->old_first)
        line_end(e, q, q->flow->old_first);
}
