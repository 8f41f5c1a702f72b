/* SPDX-License-Identifier: Apache-2.0 */
/* Queues: create and change, pause, purge, delete; and the beginning of bulk actions. */
#include "core/bulk.h"
#include "core/limits.h"
#include "core/queues/claim_limits.h"
#include "core/queues/unique.h"
#include "core/validate.h"
#include "ops/replies.h"

static bool until_valid(struct wall_time until, struct reply *r)
{
    return (until.ms >= 0 && until.ms <= LIMIT_WALL_MS) ||
           reply_refuse(r, OUT_INVALID, "until must be a time before the year 10000, or nothing");
}

static bool texts_valid(struct ops *o, const struct op_queue *want, struct reply *r)
{
    struct err_note note;
    if ((want->has_owner && validate_text("owner", want->owner, LIMIT_LABEL_BYTES, &note) != 0) ||
        (want->has_note && validate_text("note", want->note, LIMIT_NOTE_BYTES, &note) != 0) ||
        (want->has_attributes &&
         validate_text("attributes", want->attributes, LIMIT_NOTE_BYTES, &note) != 0))
        return reply_invalid(o, r, &note);
    return true;
}

/* Checks that depend on the scope of unique keys; see core/queues/unique.h. */
static bool scope_allowed(struct ops *o, const struct queue_state *q, uint8_t to, struct reply *r)
{
    uint8_t from = q->policy.unique_scope;
    if (from == to)
        return true;
    if (o->store->scope_waits(o, q, to))
        return reply_refuse(r, OUT_UNAVAILABLE,
                            "purged jobs of this queue are still being removed; nothing was "
                            "changed, try again in a moment");
    if (!unique_widens(from, to) || !o->store->keys_shared(o, q, r))
        return true;
    return o->nomem ? reply_nomem(o, r) : reply_refuse(r, OUT_DUPLICATE, NULL);
}

static bool put_allowed(struct ops *o, const struct op_queue *want, const struct queue_state *q,
                        struct reply *r)
{
    struct err_note note;
    if (q && want->must_create)
        return reply_refuse(r, OUT_EXISTS, NULL);
    if (!q && want->must_exist)
        return reply_refuse(r, OUT_NO_QUEUE, NULL);
    if (!q && validate_queue_name(want->name, &note) != 0)
        return reply_invalid(o, r, &note);
    if (!q && !o->store->queue_room(o, 0, want->implied))
        return reply_refuse(r, OUT_QUEUES_FULL, NULL);
    if (want->policy && policy_check(want->policy, &note) != 0)
        return reply_invalid(o, r, &note);
    if ((want->has_until && !until_valid(want->until, r)) || !texts_valid(o, want, r))
        return false;
    return !q || !want->policy || scope_allowed(o, q, want->policy->unique_scope, r);
}

static void put_fill(const struct op_queue *want, struct rec_queue_put *put)
{
    if (want->has_owner)
        put->owner = want->owner;
    if (want->has_note)
        put->note = want->note;
    if (want->has_attributes)
        put->attributes = want->attributes;
    if (want->has_until)
        put->paused_until = want->until;
}

static bool write_queue(struct ops *o, const struct queue_state *q, struct rec_queue_put *put,
                        const struct queue_policy *policy, enum queue_change change,
                        struct reply *r)
{
    put->updated_at = o->now;
    return o->store->queue_put(o, q, put, policy, change) ||
           reply_refuse(r, OUT_UNAVAILABLE, NO_ROOM);
}

void ops_queue_put(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_queue *want = &op->queue;
    const struct queue_state *q = o->store->queue_find(o, want->name);
    struct rec_queue_put rec = {.created_at = o->now, .name = want->name};
    if (!put_allowed(o, want, q, r))
        return;
    if (q)
        o->store->queue_read(o, q, &rec);
    put_fill(want, &rec);
    const struct queue_policy *policy = want->policy ? want->policy
                                        : q          ? &q->policy
                                                     : &o->limits->policy;
    r->created = write_queue(o, q, &rec, policy, q ? QUEUE_CHANGED : QUEUE_CREATED, r) && !q;
}

/* The queue that the operation names; NULL: it does not exist, and the reply says so. */
static const struct queue_state *queue_named(struct ops *o, struct span name, struct reply *r)
{
    const struct queue_state *q = o->store->queue_find(o, name);
    if (!q)
        reply_refuse(r, OUT_NO_QUEUE, NULL);
    return q;
}

void ops_pause(struct ops *o, const struct op *op, struct reply *r)
{
    struct wall_time until = op->queue.until;
    const struct queue_state *q = queue_named(o, op->queue.name, r);
    struct rec_queue_put rec;
    if (!q || !until_valid(until, r))
        return;
    o->store->queue_read(o, q, &rec);
    rec.paused_until = until;
    (void)write_queue(o, q, &rec, &q->policy, until.ms > o->now.ms ? QUEUE_PAUSED : QUEUE_RESUMED,
                      r);
}

void ops_purge(struct ops *o, const struct op *op, struct reply *r)
{
    const struct queue_state *q = queue_named(o, op->queue.name, r);
    uint64_t count = q ? o->store->queue_count(o, q, STATES_WAITING) : 0;
    if (count == 0)
        return;
    struct record rec = {
        .kind = REC_PURGED,
        .purged = {.queue = q->number,
                   .generation = q->generation + 1,
                   .at = o->now,
                   .count = count},
    };
    if (o->store->queue_commit(o, q, &rec, count))
        r->changed = count;
    else
        reply_nomem(o, r);
}

void ops_queue_delete(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_queue *want = &op->queue;
    const struct queue_state *q = queue_named(o, want->name, r);
    struct rec_queue_put now;
    if (!q)
        return;
    o->store->queue_read(o, q, &now);
    r->changed = o->store->queue_count(o, q, STATES_ALL);
    if (want->only_empty &&
        (r->changed > 0 || (want->has_owner && !span_equal(want->owner, now.owner)))) {
        reply_refuse(r, OUT_ILLEGAL, NULL);
        return;
    }
    struct record rec = {.kind = REC_QUEUE_GONE, .queue = {.queue = q->number, .at = o->now}};
    if (!o->store->queue_commit(o, q, &rec, r->changed))
        reply_nomem(o, r);
}

void ops_bulk(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_bulk *want = &op->bulk;
    const char *wrong = bulk_refusal(want->action, want->states, want->group, want->kind);
    if (!wrong && o->store->bulk_count(o) >= BULKS_MAX)
        wrong = "64 bulk actions are already in progress; try again when one has finished";
    if (wrong) {
        reply_refuse(r, OUT_INVALID, wrong);
        return;
    }
    const struct queue_state *q = queue_named(o, want->queue, r);
    if (!q)
        return;
    struct rec_bulk_begin begin = {
        .action = want->action,
        .at = o->now,
        .queue = q->number,
        .states = bulk_states_meant((enum bulk_action)want->action, want->states),
        .group = want->group,
        .kind = want->kind,
    };
    if (!o->store->bulk_begin(o, op, &begin))
        reply_nomem(o, r);
}
