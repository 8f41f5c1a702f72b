/* SPDX-License-Identifier: Apache-2.0 */
/* Ops over several children: which is asked next, and for what. */
#include "backend/router/impl.h"
#include "core/limits.h"

/* The children in their order from c->first on, once each. */
static bool next_in_turn(struct router_call *c)
{
    struct router *r = router_of_call(c);
    if (c->turns >= r->child_count)
        return false;
    c->child = &r->children[(c->first + c->turns++) % r->child_count];
    return true;
}

static bool all_next(struct router_call *c, const struct reply *last)
{
    (void)last;
    c->base.inner = *c->base.op;
    return next_in_turn(c);
}

static bool on_anyway(const struct router_call *c, enum outcome outcome)
{
    (void)c, (void)outcome;
    return true;
}

/* A store without this part of the interface has nothing to add. */
static bool on_without_part(const struct router_call *c, enum outcome outcome)
{
    return outcome == OUT_INVALID && c->child->number != 0;
}

/* --- claims --- */

/* The queues of the claim that are the child's; 0 = none, or no memory. */
static uint32_t queues_of(struct router_call *c, const struct child *child)
{
    const struct op_claim *want = &c->base.op->claim;
    struct router *r = router_of_call(c);
    struct span *queues = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < want->queue_count; i++) {
        if (router_child_of(r, want->queues[i]) != child)
            continue;
        if (!queues)
            queues = arena_array(&c->base.arena, want->queue_count, sizeof *queues);
        if (!queues)
            return 0;
        queues[n++] = want->queues[i];
    }
    c->base.inner = *c->base.op;
    c->base.inner.claim.queues = queues;
    c->base.inner.claim.queue_count = n;
    c->base.inner.claim.count = want->count - (uint32_t)c->got;
    return n;
}

/* Within a child by (priority, sequence); among children in turn, and the rest from the others. */
static bool claim_next(struct router_call *c, const struct reply *last)
{
    struct child *before = c->child;
    for (uint32_t i = 0; last && i < last->job_count; i++)
        c->bytes += last->jobs[i].has_body ? last->jobs[i].payload.len : 0;
    c->got += last ? last->job_count : 0;
    if (last && (c->got >= c->base.op->claim.count || c->bytes >= LIMIT_ANSWER_BYTES))
        return false;
    while (next_in_turn(c)) {
        if (queues_of(c, c->child) > 0)
            return true;
    }
    c->child = before;
    return false;
}

/* After OUT_UNKNOWN the caller gives the whole claim back, so nothing more is taken for it. */
static bool claim_goes_on(const struct router_call *c, enum outcome outcome)
{
    (void)c;
    return outcome != OUT_UNKNOWN;
}

const struct gather gather_claim = {claim_next, claim_goes_on, merge_claim};
const struct gather gather_release_claim = {all_next, on_anyway, merge_changed};

/* --- lists: all of one child, then all of the next, since sequences are compared --- */

/* What of [min, max] (0 = open) the child can have; false = nothing. */
static bool window_in(const struct child *child, uint64_t *min, uint64_t *max)
{
    uint64_t base = (uint64_t)child->number << SLOT_SHIFT, end = base + SEQ_INNER_MAX;
    if ((*min && *min > end) || (*max && *max < base))
        return false;
    *min = *min > base ? *min - base : 0;
    *max = *max && *max < end ? *max - base : 0;
    return true;
}

/* The cursor as the child counts; false = it lies beyond all that the child has. */
static bool cursor_in(const struct child *child, uint64_t after, bool newest_first, uint64_t *ret)
{
    uint64_t place = newest_first ? after - 1 : after;
    *ret = 0;
    if (after == 0)
        return true;
    unsigned slot = router_slot(place);
    if (slot == child->number)
        *ret = router_seq_in(place) + (newest_first ? 1 : 0);
    return newest_first ? slot >= child->number : slot <= child->number;
}

static bool list_wants(const struct router_call *c, const struct child *child, struct op_list *ret)
{
    *ret = c->base.op->list;
    if (c->only && child != c->only)
        return false;
    if (c->only && ret->filter.queue >> QUEUE_SHIFT == child->number)
        ret->filter.queue &= QUEUE_INNER_MAX;
    return window_in(child, &ret->filter.seq_min, &ret->filter.seq_max) &&
           cursor_in(child, c->base.op->list.after, ret->newest_first, &ret->after);
}

struct child *router_list_child(const struct router_call *c, const struct child *from,
                                struct op_list *ret)
{
    struct router *r = router_of_call(c);
    bool down = c->base.op->list.newest_first;
    struct op_list wants;
    for (unsigned i = 0; i < r->child_count; i++) {
        struct child *child = &r->children[down ? r->child_count - 1 - i : i];
        if (from && (down ? child->index >= from->index : child->index <= from->index))
            continue;
        if (!list_wants(c, child, ret ? ret : &wants))
            continue;
        return child;
    }
    return NULL;
}

static uint32_t list_limit(const struct router_call *c)
{
    uint32_t limit = c->base.op->list.limit;
    return limit > 0 && limit < LIMIT_BATCH ? limit : LIMIT_BATCH;
}

static bool list_next(struct router_call *c, const struct reply *last)
{
    struct op_list wants;
    c->got += last ? last->job_count : 0;
    if (last && (last->cursor || c->got >= list_limit(c)))
        return false;
    struct child *child = router_list_child(c, last ? c->child : NULL, &wants);
    if (!child && last)
        return false;
    c->base.inner = *c->base.op;
    if (child)
        c->base.inner.list = wants;
    else /* no store can have what is asked for: the filter finds nothing in any of them */
        child = &router_of_call(c)->children[0];
    if (last)
        c->base.inner.list.limit = list_limit(c) - (uint32_t)c->got;
    c->child = child;
    return true;
}

const struct gather gather_list = {list_next, NULL, merge_list};

/* --- the rest --- */

static bool is_partial(const struct op *op)
{
    return op->kind == OP_QUEUE_LIST   ? op->queue.partial
           : op->kind == OP_ALERT_LIST ? op->alert.partial
                                       : op->breakers.partial;
}

static bool would_answer(const struct child *child)
{
    return child->backend && backend_answers(child->backend);
}

/* A partial list does not wait for a child that would not answer. */
static bool parts_next(struct router_call *c, const struct reply *last)
{
    struct child *before = c->child;
    c->base.inner = *c->base.op;
    while (next_in_turn(c)) {
        if (!is_partial(c->base.op) || would_answer(c->child))
            return true;
        c->passed_over |= router_bit(c->child);
    }
    c->child = last ? before : &router_of_call(c)->children[0]; /* none would: one says why */
    return !last;
}

static bool queues_go_on(const struct router_call *c, enum outcome outcome)
{
    return outcome == OUT_UNAVAILABLE && is_partial(c->base.op);
}

static bool parts_go_on(const struct router_call *c, enum outcome outcome)
{
    return queues_go_on(c, outcome) || on_without_part(c, outcome);
}

const struct gather gather_queues = {parts_next, queues_go_on, merge_queues};
const struct gather gather_breakers = {parts_next, parts_go_on, merge_breakers};
const struct gather gather_workers = {all_next, NULL, merge_workers};
const struct gather gather_exceptions = {all_next, NULL, merge_exceptions};
const struct gather gather_accept_clock = {all_next, NULL, merge_accept_clock};

/* The default backend decides whether the rule may be put; the others follow. */
static bool alert_put_next(struct router_call *c, const struct reply *last)
{
    c->base.inner = *c->base.op;
    if (last)
        c->base.inner.alert.must_create = c->base.inner.alert.must_exist = false;
    return next_in_turn(c);
}

static bool alert_delete_goes_on(const struct router_call *c, enum outcome outcome)
{
    return outcome == OUT_NOT_FOUND || on_without_part(c, outcome);
}

const struct gather gather_alert_put = {alert_put_next, on_without_part, merge_first};
const struct gather gather_alert_delete = {all_next, alert_delete_goes_on, merge_any};
const struct gather gather_alerts = {parts_next, parts_go_on, merge_alerts};

static bool mine_of(struct router_call *c, const struct child *child)
{
    const struct op_notice_take *want = &c->base.op->notice_take;
    uint64_t *mine =
        want->mine_count > 0 ? arena_array(&c->base.arena, want->mine_count, sizeof *mine) : NULL;
    uint32_t n = 0;
    if (want->mine_count > 0 && !mine)
        return false;
    for (uint32_t i = 0; i < want->mine_count; i++) {
        if (router_slot(want->mine[i]) == child->number)
            mine[n++] = router_seq_in(want->mine[i]);
    }
    c->base.inner.notice_take.mine = mine;
    c->base.inner.notice_take.mine_count = n;
    return true;
}

/* Each store's notices are delivered by the node that leads there. */
static bool next_to_give(struct router_call *c)
{
    while (next_in_turn(c)) {
        if (!would_answer(c->child))
            c->passed_over |= router_bit(c->child);
        else if (backend_leads_any(c->child->backend))
            return true;
    }
    return false;
}

static bool notice_take_next(struct router_call *c, const struct reply *last)
{
    struct router *r = router_of_call(c);
    struct child *before = c->child;
    if (!last)
        c->first = r->turn++ % r->child_count;
    c->got += last ? last->notice_count : 0;
    if (c->got >= c->base.op->notice_take.limit && last)
        return false;
    bool more = next_to_give(c);
    if (!more && !last) { /* none would: one says why */
        c->child = &r->children[0];
        more = true;
    }
    c->base.inner = *c->base.op;
    c->base.inner.notice_take.limit = c->base.op->notice_take.limit - (uint32_t)c->got;
    if (more && mine_of(c, c->child))
        return true;
    c->child = before;
    return false;
}

/* After OUT_UNKNOWN the caller has all that was given let go. */
static bool notice_take_goes_on(const struct router_call *c, enum outcome outcome)
{
    return outcome == OUT_UNAVAILABLE || on_without_part(c, outcome);
}

const struct gather gather_notice_take = {notice_take_next, notice_take_goes_on, merge_notices_due};

static bool notices_next(struct router_call *c, const struct reply *last)
{
    uint32_t limit = c->base.op->notice.limit > 0 ? c->base.op->notice.limit : LIMIT_BATCH;
    struct child *before = c->child;
    c->got += last ? last->notice_count : 0;
    if (last && (last->notice_cursor || c->got >= limit))
        return false;
    c->base.inner = *c->base.op;
    c->base.inner.notice.limit = limit - (uint32_t)c->got;
    while (next_in_turn(c)) {
        if (cursor_in(c->child, c->base.op->notice.after, false, &c->base.inner.notice.after))
            return true;
    }
    c->child = before;
    if (last)
        return false;
    c->child = &router_of_call(c)->children[0]; /* beyond all: any store that is asked has none */
    return true;
}

const struct gather gather_notices = {notices_next, on_without_part, merge_notices};

/* A schedule's queue may have been routed elsewhere since it was put: its job would lie where
 * no client claims it. */
static bool fire_next(struct router_call *c, const struct reply *last)
{
    struct router *r = router_of_call(c);
    c->child = &r->children[0];
    if (c->turns++ == 0) {
        c->base.inner = (struct op){
            .kind = OP_SCHEDULE_GET,
            .schedule = {.name = c->base.op->schedule.name, .number = c->base.op->schedule.number}};
        return true;
    }
    if (c->turns > 2)
        return false;
    const struct schedule_spec *spec = last->schedule_count > 0 ? &last->schedules[0].spec : NULL;
    if (spec && (router_child_of(r, spec->queue) != c->child ||
                 router_child_of(r, spec->source) != c->child)) {
        c->note = "schedules and the queue of this one are kept by different backends, which "
                  "cannot commit together: route the queue to the default backend, or delete the "
                  "schedule";
        return false;
    }
    c->base.inner = *c->base.op;
    return true;
}

const struct gather gather_fire = {fire_next, NULL, merge_last};
