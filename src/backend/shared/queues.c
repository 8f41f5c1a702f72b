/* SPDX-License-Identifier: Apache-2.0 */
/* Queues: made, changed, paused, purged, deleted. Each of these has its unit to itself, with the
 * queue locked against all others; an enqueue that makes its queue has not. */
#include "backend/shared/shared.h"
#include "ops/replies.h"

bool unit_queue_room(const struct unit *u, size_t ahead, bool implied)
{
    return queue_has_room(&u->s->config.queue_limits, u->queues_there + u->number_next + ahead,
                          implied);
}

struct wqueue *unit_queue_make(struct unit *u, struct span name, const struct queue_policy *policy)
{
    if (u->number_next >= u->number_count) {
        u->short_of_numbers = true; /* it was known when the unit began, and is gone: begin again */
        return NULL;
    }
    /* Claims and events need the name after the request that created the queue has ended. */
    const char *copy = arena_copy(&u->arena, name.at, name.len);
    u->nomem |= !copy;
    struct wqueue *q =
        copy ? unit_queue_add(u, u->numbers[u->number_next++], span_of(copy, name.len)) : NULL;
    if (!q)
        return NULL;
    q->policy = *policy;
    q->created_at = q->updated_at = u->now;
    q->put = q->counted = q->limits_new = true;
    u->records++;
    queue_cache_learn(u->s, q);
    unit_tell_queue(u, EVENT_QUEUE_CREATED, q, 0);
    return q;
}

bool unit_queue_widens(const struct unit *u, const struct wqueue **ret_queue)
{
    const struct turn *t = &u->turns[0];
    if (u->count != 1 || t->op->kind != OP_QUEUE_PUT || !t->op->queue.policy)
        return false;
    *ret_queue = unit_queue_named(u, t->op->queue.name);
    return *ret_queue &&
           unique_widens((*ret_queue)->policy.unique_scope, t->op->queue.policy->unique_scope);
}

/* --- for the operations of src/ops --- */

uint64_t unit_queue_count(const struct ops *o, const struct queue_state *q, unsigned states)
{
    uint64_t count = 0;
    (void)o;
    for (uint8_t s = STATE_SCHEDULED; s < (uint8_t)STATE_COUNT; s++)
        count += STATE_BIT(s) & states ? unit_queue_state_count(queue_from(q), s) : 0;
    return count;
}

void unit_queue_read(const struct ops *o, const struct queue_state *state,
                     struct rec_queue_put *ret)
{
    const struct wqueue *q = queue_from(state);
    (void)o;
    *ret = (struct rec_queue_put){
        .queue = q->number,
        .generation = q->generation,
        .created_at = q->created_at,
        .updated_at = q->updated_at,
        .paused_until = q->paused_until,
        .name = q->name,
        .owner = q->owner,
        .note = q->note,
        .attributes = q->attributes,
    };
}

bool unit_scope_waits(const struct ops *o, const struct queue_state *q, uint8_t to)
{
    (void)o, (void)q, (void)to;
    return false;
}

bool unit_keys_shared(struct ops *o, const struct queue_state *q, struct reply *r)
{
    const struct unit *u = unit_of(o);
    (void)q;
    if (u->sharer_count == 0)
        return false;
    reply_about(r, &u->sharers[0].job);
    r->jobs = u->sharers;
    r->job_count = u->sharer_count;
    r->job_total = u->sharers_beyond;
    return true;
}

static bool claim_rate_equal(const struct rate_limit *a, const struct rate_limit *b)
{
    return a->per == b->per && a->count == b->count && a->window_ms == b->window_ms;
}

/* A new scope makes other jobs hold their keys, or fewer. */
bool unit_queue_put(struct ops *o, const struct queue_state *state, struct rec_queue_put *put,
                    const struct queue_policy *policy, enum queue_change change)
{
    static const uint8_t events[] = {[QUEUE_CHANGED] = EVENT_QUEUE_CHANGED,
                                     [QUEUE_PAUSED] = EVENT_QUEUE_PAUSED,
                                     [QUEUE_RESUMED] = EVENT_QUEUE_RESUMED};
    struct unit *u = unit_of(o);
    struct wqueue *q = state ? queue_from(state) : unit_queue_make(u, put->name, policy);
    if (!q)
        return false;
    if (state)
        unit_tell_queue(u, events[change], q, 0);
    if (q->policy.unique_scope != policy->unique_scope)
        u->rescoped = q;
    q->rate_changed = !claim_rate_equal(&q->policy.claim_rate, &policy->claim_rate);
    q->policy = *policy;
    q->owner = put->owner;
    q->note = put->note;
    q->attributes = put->attributes;
    q->paused_until = put->paused_until;
    q->updated_at = put->updated_at;
    q->put = true;
    q->wake = !unit_queue_paused(u, q);
    u->records++;
    u->s->trim_wanted = true;
    queue_cache_learn(u->s, q);
    unit_depth(u, q);
    return true;
}

/* What is counted of jobs in these states is counted no more. */
static void uncount(struct wqueue *q, unsigned states)
{
    for (uint8_t s = STATE_SCHEDULED; s < (uint8_t)STATE_COUNT; s++)
        if (STATE_BIT(s) & states)
            q->adds[s - 1] = -q->sums[s - 1];
    if (STATE_BIT(STATE_READY) & states)
        q->adds[SUM_URGENT] = -q->sums[SUM_URGENT];
}

bool unit_queue_commit(struct ops *o, const struct queue_state *state, const struct record *rec,
                       uint64_t count)
{
    struct unit *u = unit_of(o);
    struct wqueue *q = queue_from(state);
    if (rec->kind == REC_PURGED) {
        q->generation = rec->purged.generation;
        q->put = q->purged = true;
        uncount(q, STATES_WAITING);
        q->adds[SUM_REMOVED] += (int64_t)count;
        unit_tell_queue(u, EVENT_QUEUE_PURGED, q, count);
    } else {
        uncount(q, STATES_ALL);
        q->gone = q->ended = true;
        queue_cache_forget(u->s, q->name);
        unit_tell_queue(u, EVENT_QUEUE_DELETED, q, count);
    }
    u->records++;
    u->s->tick_wanted = true;
    return true;
}

void work_accept_clock(struct unit *u, struct turn *t)
{
    (void)u, (void)t; /* the clock of the store is never suspect */
}
