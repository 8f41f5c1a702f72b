/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: put, pause, delete. Each has its unit to itself; the store has locked the schedule's
 * row, and for a put all others that may put one, so that their number and rings hold across nodes.
 */
#include "backend/shared/shared.h"

struct wschedule *unit_schedule(const struct unit *u, struct span name)
{
    for (size_t i = 0; i < u->schedule_count; i++)
        if (!u->schedules[i]->gone && span_equal(u->schedules[i]->name, name))
            return u->schedules[i];
    return NULL;
}

static struct wschedule *schedule_new(struct unit *u)
{
    struct wschedule *s = unit_alloc(u, sizeof *s);
    if (!s || !unit_room(u, &u->schedules, &u->schedule_room, u->schedule_count,
                         sizeof(struct wschedule *)))
        return NULL;
    u->schedules[u->schedule_count++] = s;
    return s;
}

struct wschedule *unit_schedule_add(struct unit *u, const struct wschedule *loaded, int *ret_err)
{
    struct wschedule *s = schedule_new(u);
    *ret_err = s ? 0 : -ERR_NOMEM;
    if (!s)
        return NULL;
    *s = *loaded;
    s->last_seq = s->state.seq;
    *ret_err = schedule_decode(s->text, &s->spec);
    return *ret_err ? NULL : s;
}

/* --- views --- */

static bool last_lives(const struct unit *u, const struct wschedule *s)
{
    const struct row *r = unit_row(u, s->state.seq);
    if (r)
        return unit_row_there(r) && (STATE_BIT(r->job.state) & STATES_LIVE);
    return s->state.seq == s->last_seq && s->last_live;
}

struct schedule_view unit_schedule_view(const struct unit *u, const struct wschedule *s)
{
    return (struct schedule_view){
        .number = s->number,
        .name = s->name,
        .owner = s->owner,
        .note = s->note,
        .attributes = s->attributes,
        .paused = s->paused,
        .created_at = s->created_at,
        .updated_at = s->updated_at,
        .state = s->state,
        .last_live = last_lives(u, s),
        .spec = s->spec,
    };
}

void unit_schedule_show(struct unit *u, const struct wschedule *s, struct turn *t)
{
    struct schedule_view *view = unit_alloc(u, sizeof *view);
    if (!view)
        return;
    *view = unit_schedule_view(u, s);
    t->reply.schedules = view;
    t->reply.schedule_count = 1;
}

/* --- put --- */

static bool put_allowed(struct unit *u, const struct op_schedule *want, const struct wschedule *s,
                        struct turn *t)
{
    struct err_note note;
    bool ring = false;
    enum outcome out = schedule_put_right(want, s != NULL, u->schedules_there, &note);
    if (out != OUT_OK)
        return out == OUT_INVALID ? unit_refuse_note(u, t, &note) : unit_refuse(t, out, NULL);
    if (!want->spec || want->spec->kind != SCHEDULE_QUEUE)
        return true;
    struct schedule_flow more = {want->spec->source, want->spec->queue};
    if (schedule_ring(u->flows, u->flow_count, &more, &u->arena, &ring) != 0)
        u->nomem = true;
    return !ring || unit_refuse(t, OUT_INVALID, SCHEDULE_RING_NOTE);
}

static bool put_texts(struct unit *u, const struct op_schedule *want, struct wschedule *s,
                      struct turn *t)
{
    struct err_note note;
    if (want->has_owner)
        s->owner = want->owner;
    if (want->has_note)
        s->note = want->note;
    if (want->has_attributes)
        s->attributes = want->attributes;
    return schedule_texts_right(s->owner, s->note, s->attributes, &note) == 0 ||
           unit_refuse_note(u, t, &note);
}

static void put_spec(struct unit *u, const struct schedule_spec *spec, struct wschedule *s)
{
    struct buf b;
    buf_init(&b);
    const char *copy = schedule_encode(spec, &b) == 0 ? arena_copy(&u->arena, b.data, b.len) : NULL;
    s->text = span_of(copy, copy ? b.len : 0);
    u->nomem |= !copy;
    buf_done(&b);
    s->spec = *spec;
}

void work_schedule_put(struct unit *u, struct turn *t)
{
    const struct op_schedule *want = &t->op->schedule;
    struct wschedule *s = unit_schedule(u, want->name), next;
    if (!put_allowed(u, want, s, t))
        return;
    next = s ? *s
             : (struct wschedule){
                   .number = u->schedule_number, .name = want->name, .created_at = u->now};
    if (!put_texts(u, want, &next, t))
        return;
    next.updated_at = u->now;
    if (want->has_paused)
        next.paused = want->paused;
    schedule_begin_anew(want, &next.state);
    if (want->spec)
        put_spec(u, want->spec, &next);
    t->reply.created = !s;
    if (!s)
        s = schedule_new(u);
    if (!s)
        return;
    *s = next;
    s->put = true;
    u->records++;
    unit_schedule_show(u, s, t);
}

void work_schedule_pause(struct unit *u, struct turn *t)
{
    const struct op_schedule *want = &t->op->schedule;
    struct wschedule *s = unit_schedule(u, want->name);
    if (!s) {
        unit_refuse(t, OUT_NO_SCHEDULE, NULL);
        return;
    }
    if (want->next_at.ms < 0 || want->next_at.ms > LIMIT_WALL_MS) {
        unit_refuse(t, OUT_INVALID, "next_at must be a time before the year 10000");
        return;
    }
    s->paused = want->paused;
    s->updated_at = u->now;
    if (!want->paused)
        schedule_begin_anew(want, &s->state);
    s->put = true;
    u->records++;
    unit_schedule_show(u, s, t);
}

void work_schedule_delete(struct unit *u, struct turn *t)
{
    struct wschedule *s = unit_schedule(u, t->op->schedule.name);
    if (!s) {
        unit_refuse(t, OUT_NO_SCHEDULE, NULL);
        return;
    }
    s->gone = true;
    u->records++;
}

bool unit_schedules_changed(const struct unit *u)
{
    for (size_t i = 0; i < u->schedule_count; i++)
        if (u->schedules[i]->put || u->schedules[i]->moved || u->schedules[i]->gone)
            return true;
    return false;
}
