/* SPDX-License-Identifier: Apache-2.0 */
#include "conform/rules/schedules.h"

#include "base/check.h"

struct schedule_spec cron_spec(const char *queue)
{
    struct schedule_spec s;
    schedule_default(&s, SCHEDULE_CRON);
    s.cron = SPAN_LITERAL("* * * * *");
    s.queue = span_text(queue);
    s.payload_kind = PAYLOAD_JSON;
    s.payload = SPAN_LITERAL("{\"report\":1}");
    return s;
}

struct schedule_spec queue_spec(const char *source, const char *queue, uint32_t batch_size)
{
    struct schedule_spec s;
    schedule_default(&s, SCHEDULE_QUEUE);
    s.source = span_text(source);
    s.queue = span_text(queue);
    s.batch_size = batch_size;
    return s;
}

struct op schedule_op(enum op_kind kind, const char *name)
{
    return (struct op){.kind = kind, .schedule = {.name = span_text(name)}};
}

const struct reply *schedule_put(struct env *e, const char *name, const struct schedule_spec *spec,
                                 struct wall_time next_at)
{
    struct op op = schedule_op(OP_SCHEDULE_PUT, name);
    op.schedule.spec = arena_copy(&e->arena, spec, sizeof *spec);
    CHECK(op.schedule.spec);
    op.schedule.next_at = next_at;
    return run(e, op);
}

const struct schedule_view *schedule_get(struct env *e, const char *name)
{
    const struct reply *r = run(e, schedule_op(OP_SCHEDULE_GET, name));
    if (r->outcome == OUT_NO_SCHEDULE)
        return NULL;
    if (r->outcome != OUT_OK || r->schedule_count != 1)
        LEAVE("schedule_get %s: %s", name, outcome_name(r->outcome));
    return &r->schedules[0];
}

struct op fire_op(enum op_kind kind, const char *name, struct wall_time at)
{
    struct op op = schedule_op(kind, name);
    op.schedule.at = at;
    op.schedule.next_at = (struct wall_time){at.ms + 60000};
    return op;
}
