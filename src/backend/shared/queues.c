/* SPDX-License-Identifier: Apache-2.0 */
/* Queues: made, changed, paused, purged, deleted. Each of these has its unit to itself, with the
 * queue locked against all others; an enqueue that makes its queue has not. */
#include "backend/shared/shared.h"
#include "core/validate.h"

#define UNTIL_WRONG "until must be a time before the year 10000, or nothing"

bool unit_queue_room(const struct unit *u, size_t ahead, bool implied)
{
    return queue_has_room(&u->s->config.queue_limits, u->queues_there + u->number_next + ahead,
                          implied);
}

struct wqueue *unit_queue_make(struct unit *u, struct span name, const struct queue_policy *policy)
{
    if (u->number_next >= u->number_count) {
        u->short_of_numbers = true; /* it was known when the unit began, and went: begin anew */
        return NULL;
    }
    /* Claims and events tell it when whoever made the queue has long been answered. */
    const char *copy = arena_copy(&u->arena, name.at, name.len);
    u->nomem |= !copy;
    struct wqueue *q =
        copy ? unit_queue_add(u, u->numbers[u->number_next++], span_of(copy, name.len)) : NULL;
    if (!q)
        return NULL;
    q->policy = *policy;
    q->created_at = q->updated_at = u->now;
    q->put = q->counted = true;
    u->records++;
    known_learn(u->s, q);
    unit_tell_queue(u, EVENT_QUEUE_CREATED, q, 0);
    return q;
}

/* Those it would change are asked for as they are now; nothing is written before all is right. */
static bool texts_right(struct unit *u, const struct op_queue *want, struct turn *t)
{
    struct err_note note;
    if ((want->has_owner && validate_text("owner", want->owner, LIMIT_LABEL_BYTES, &note) != 0) ||
        (want->has_note && validate_text("note", want->note, LIMIT_NOTE_BYTES, &note) != 0) ||
        (want->has_attributes &&
         validate_text("attributes", want->attributes, LIMIT_NOTE_BYTES, &note) != 0))
        return unit_refuse_note(u, t, &note);
    return true;
}

static bool put_allowed(struct unit *u, const struct op_queue *want, const struct wqueue *q,
                        struct turn *t)
{
    struct err_note note;
    if (q && want->must_create)
        return unit_refuse(t, OUT_EXISTS, NULL);
    if (!q && want->must_exist)
        return unit_refuse(t, OUT_NO_QUEUE, NULL);
    if (!q && validate_queue_name(want->name, &note) != 0)
        return unit_refuse_note(u, t, &note);
    if (!q && !unit_queue_room(u, 0, want->implied))
        return unit_refuse(t, OUT_QUEUES_FULL, NULL);
    if (want->policy && policy_check(want->policy, &note) != 0)
        return unit_refuse_note(u, t, &note);
    if (want->has_until && (want->until.ms < 0 || want->until.ms > LIMIT_WALL_MS))
        return unit_refuse(t, OUT_INVALID, UNTIL_WRONG);
    return texts_right(u, want, t);
}

static bool shared_shown(struct unit *u, struct turn *t)
{
    if (u->sharer_count == 0)
        return true;
    t->reply.jobs = u->sharers;
    t->reply.job_count = u->sharer_count;
    t->reply.seq = u->sharers[0].job.seq;
    t->reply.id_hi = u->sharers[0].job.id_hi;
    t->reply.state = u->sharers[0].job.state;
    t->reply.count = u->sharers_beyond;
    return unit_refuse(t, OUT_DUPLICATE, NULL);
}

static bool widens(uint8_t from, uint8_t to)
{
    return from != to && to != UNIQUE_NONE && !(from == UNIQUE_KEPT && to == UNIQUE_LIVE);
}

bool unit_queue_widens(const struct unit *u, const struct wqueue **ret_queue)
{
    const struct turn *t = &u->turns[0];
    if (u->count != 1 || t->op->kind != OP_QUEUE_PUT || !t->op->queue.policy)
        return false;
    *ret_queue = unit_queue_named(u, t->op->queue.name);
    return *ret_queue &&
           widens((*ret_queue)->policy.unique_scope, t->op->queue.policy->unique_scope);
}

/* A new scope makes other jobs hold their keys, or fewer. */
static void rescope(struct unit *u, struct wqueue *q, uint8_t from)
{
    if (from != q->policy.unique_scope)
        u->rescoped = q;
}

void work_queue_put(struct unit *u, struct turn *t)
{
    const struct op_queue *want = &t->op->queue;
    struct wqueue *q = unit_queue_named(u, want->name);
    bool created = !q;
    if (!put_allowed(u, want, q, t) || (q && !shared_shown(u, t)))
        return;
    uint8_t scope = q ? q->policy.unique_scope : 0;
    if (!q)
        q = unit_queue_make(u, want->name, want->policy ? want->policy : &u->s->limits.policy);
    else
        unit_tell_queue(u, EVENT_QUEUE_CHANGED, q, 0);
    if (!q)
        return;
    if (want->policy)
        q->policy = *want->policy;
    q->updated_at = u->now;
    q->put = true;
    if (want->has_owner)
        q->owner = want->owner;
    if (want->has_note)
        q->note = want->note;
    if (want->has_attributes)
        q->attributes = want->attributes;
    if (want->has_until)
        q->paused_until = want->until;
    if (!created)
        rescope(u, q, scope);
    q->wake = !unit_queue_paused(u, q);
    u->records++;
    u->s->trim_wanted = true;
    known_learn(u->s, q);
    unit_depth(u, q);
    t->reply.created = created;
}

/* The queue the operation names; NULL: there is none, and the reply says so. */
static struct wqueue *queue_asked(struct unit *u, struct turn *t)
{
    struct wqueue *q = unit_queue_named(u, t->op->queue.name);
    if (!q)
        unit_refuse(t, OUT_NO_QUEUE, NULL);
    return q;
}

void work_pause(struct unit *u, struct turn *t)
{
    struct wqueue *q = queue_asked(u, t);
    if (!q)
        return;
    if (t->op->queue.until.ms < 0 || t->op->queue.until.ms > LIMIT_WALL_MS) {
        unit_refuse(t, OUT_INVALID, UNTIL_WRONG);
        return;
    }
    q->paused_until = t->op->queue.until;
    q->updated_at = u->now;
    q->put = true;
    q->wake = !unit_queue_paused(u, q);
    u->records++;
    unit_tell_queue(u, unit_queue_paused(u, q) ? EVENT_QUEUE_PAUSED : EVENT_QUEUE_RESUMED, q, 0);
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

void work_purge(struct unit *u, struct turn *t)
{
    struct wqueue *q = queue_asked(u, t);
    if (!q)
        return;
    uint64_t n =
        unit_queue_state_count(q, STATE_READY) + unit_queue_state_count(q, STATE_SCHEDULED);
    if (n == 0)
        return;
    q->generation++;
    q->put = q->purged = true;
    uncount(q, STATES_WAITING);
    q->adds[SUM_REMOVED] += (int64_t)n;
    u->records++;
    u->s->tick_wanted = true;
    t->reply.count = n;
    unit_tell_queue(u, EVENT_QUEUE_PURGED, q, n);
}

void work_queue_delete(struct unit *u, struct turn *t)
{
    const struct op_queue *want = &t->op->queue;
    struct wqueue *q = queue_asked(u, t);
    if (!q)
        return;
    for (uint8_t s = STATE_SCHEDULED; s < (uint8_t)STATE_COUNT; s++)
        t->reply.count += unit_queue_state_count(q, s);
    if (want->only_empty &&
        (t->reply.count > 0 || (want->has_owner && !span_equal(want->owner, q->owner)))) {
        unit_refuse(t, OUT_ILLEGAL, NULL);
        return;
    }
    uncount(q, STATES_ALL);
    q->gone = q->ended = true;
    u->records++;
    u->s->tick_wanted = true;
    known_forget(u->s, q->name);
    unit_tell_queue(u, EVENT_QUEUE_DELETED, q, t->reply.count);
}

void work_accept_clock(struct unit *u, struct turn *t)
{
    (void)u, (void)t; /* the store's clock is nobody's to suspect */
}
