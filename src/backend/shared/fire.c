/* SPDX-License-Identifier: Apache-2.0 */
/* Firings (ops/schedules/fire.c) before anything is loaded: what their jobs will need.
 *
 * The row of the schedule is locked, so that a second firing of the same time, on any node, finds
 * that it is not due. Items of a trigger are locked with the rest of what the unit loads. */
#include "backend/shared/shared.h"

void unit_firings_prepare(struct unit *u)
{
    for (size_t i = 0; i < u->count; i++) {
        struct turn *t = &u->turns[i];
        bool fires = t->op->kind == OP_FIRE || t->op->kind == OP_TRIGGER;
        const struct wschedule *s = fires ? unit_schedule(u, t->op->schedule.name) : NULL;
        t->firing = s ? unit_alloc(u, sizeof *t->firing) : NULL;
        if (!t->firing)
            continue;
        schedule_enqueue(&s->spec, u->now, &t->firing->options, &t->firing->want);
        if (s->spec.kind == SCHEDULE_QUEUE && t->op->kind == OP_TRIGGER) {
            t->firing->source = s->spec.source;
            t->firing->batch_size = s->spec.batch_size;
        }
    }
}

size_t turn_enqueues(const struct turn *t, const struct op_enqueue **ret)
{
    if (!t->firing)
        return op_enqueues(t->op, ret);
    *ret = &t->firing->want;
    return 1;
}
