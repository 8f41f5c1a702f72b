/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: put, pause, delete. fire.c has what they create. */
#include "core/limits.h"
#include "ops/replies.h"
#include "ops/schedules/schedule_rules.h"

static bool put_allowed(struct ops *o, const struct op_schedule *want,
                        const struct schedule_base *s, struct reply *r)
{
    struct err_note note;
    enum outcome out = schedule_put_right(want, s != NULL, o->store->schedule_count(o), &note);
    if (out == OUT_INVALID)
        return reply_invalid(o, r, &note);
    return out == OUT_OK || reply_refuse(r, out, NULL);
}

/* A trigger whose job becomes, through a chain of triggers, one of its own items would never
 * end. Most jobs go to a queue from which no trigger takes items. */
static bool ring_free(struct ops *o, const struct op_schedule *want, struct reply *r)
{
    const struct schedule_flow *flows;
    size_t count;
    bool ring = false, taken = false;
    if (!want->spec || want->spec->kind != SCHEDULE_QUEUE)
        return true;
    struct schedule_flow more = {want->spec->source, want->spec->queue};
    if (!o->store->schedule_flows(o, want->name, &flows, &count))
        return reply_nomem(o, r);
    for (size_t i = 0; i < count && !taken; i++)
        taken = span_equal(flows[i].source, more.queue);
    if (taken && schedule_ring(flows, count, &more, o->memory, &ring) != 0)
        return reply_nomem(o, r);
    return !ring || reply_refuse(r, OUT_INVALID, SCHEDULE_RING_NOTE);
}

static bool put_texts(struct ops *o, const struct op_schedule *want, struct rec_schedule_put *put,
                      struct reply *r)
{
    struct err_note note;
    if (want->has_owner)
        put->owner = want->owner;
    if (want->has_note)
        put->note = want->note;
    if (want->has_attributes)
        put->attributes = want->attributes;
    return schedule_texts_right(put->owner, put->note, put->attributes, &note) == 0 ||
           reply_invalid(o, r, &note);
}

static bool put_spec(struct ops *o, const struct schedule_spec *spec, struct rec_schedule_put *put)
{
    if (!spec)
        return true;
    buf_clear(&o->scratch);
    if (schedule_encode(spec, &o->scratch) != 0)
        return false;
    put->spec = text_keep(o, buf_span(&o->scratch));
    return put->spec.at != NULL;
}

static void commit(struct ops *o, struct schedule_base *s, const struct rec_schedule_put *put,
                   const struct schedule_spec *spec, struct reply *r)
{
    struct schedule_base *now = o->store->schedule_put(o, s, put, spec);
    if (!now) {
        reply_nomem(o, r);
        return;
    }
    r->created = !s;
    o->store->schedule_show(o, now, r);
}

void ops_schedule_put(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_schedule *want = &op->schedule;
    struct schedule_base *s = o->store->schedule_find(o, want->name);
    struct rec_schedule_put put = {.created_at = o->now, .name = want->name};
    if (!put_allowed(o, want, s, r) || !ring_free(o, want, r))
        return;
    if (s)
        o->store->schedule_read(o, s, &put);
    else
        put.schedule = o->store->schedule_number(o);
    if (put.schedule == 0) { /* numbers are not used again */
        reply_refuse(r, OUT_SERVER_FULL, NULL);
        return;
    }
    put.updated_at = o->now;
    if (want->has_paused)
        put.paused = want->paused;
    if (!put_texts(o, want, &put, r))
        return;
    schedule_restart(want, &put.state);
    if (put_spec(o, want->spec, &put))
        commit(o, s, &put, want->spec, r);
    else
        reply_nomem(o, r);
}

void ops_schedule_pause(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_schedule *want = &op->schedule;
    struct schedule_base *s = o->store->schedule_find(o, want->name);
    struct rec_schedule_put put;
    if (!s) {
        reply_refuse(r, OUT_NO_SCHEDULE, NULL);
        return;
    }
    if (want->next_at.ms < 0 || want->next_at.ms > LIMIT_WALL_MS) {
        reply_refuse(r, OUT_INVALID, "next_at must be a time before the year 10000");
        return;
    }
    o->store->schedule_read(o, s, &put);
    put.paused = want->paused;
    put.updated_at = o->now;
    if (!want->paused)
        schedule_restart(want, &put.state);
    commit(o, s, &put, NULL, r);
}

void ops_schedule_delete(struct ops *o, const struct op *op, struct reply *r)
{
    struct schedule_base *s = o->store->schedule_find(o, op->schedule.name);
    if (!s)
        reply_refuse(r, OUT_NO_SCHEDULE, NULL);
    else if (!o->store->schedule_delete(o, s))
        reply_nomem(o, r);
}
