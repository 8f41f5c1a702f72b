/* SPDX-License-Identifier: Apache-2.0 */
/* The schedules of a unit. A put, pause or delete has its unit to itself; the store has locked the
 * schedule's row, and for a put all others that may put one, so that their number and rings hold
 * across nodes. */
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

/* --- changes --- */

struct wschedule *unit_schedule_put(struct unit *u, struct wschedule *s,
                                    const struct rec_schedule_put *put,
                                    const struct schedule_spec *spec)
{
    if (!s)
        s = schedule_new(u);
    if (!s)
        return NULL;
    s->number = put->schedule;
    s->paused = put->paused;
    s->created_at = put->created_at;
    s->updated_at = put->updated_at;
    s->state = put->state;
    s->name = put->name;
    s->owner = put->owner;
    s->note = put->note;
    s->attributes = put->attributes;
    s->text = put->spec;
    if (spec)
        s->spec = *spec;
    s->put = true;
    u->records++;
    return s;
}

bool unit_schedules_changed(const struct unit *u)
{
    for (size_t i = 0; i < u->schedule_count; i++)
        if (u->schedules[i]->put || u->schedules[i]->moved || u->schedules[i]->gone)
            return true;
    return false;
}
