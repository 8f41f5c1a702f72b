/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of each queue (core/queues/counters.h).
 *
 * What a step adds to a queue's counters goes into its frame as one record, because the store does
 * not see every record of a job: one that was created and removed between two transactions never
 * reaches it. The totals of a queue are counted from the records of its jobs, also when a frame is
 * replayed; its records of counters are then skipped. */
#include "backend/local/engine/engine_impl.h"

#define HOUR_MS INT64_C(3600000)

int counters_reserve(struct engine *e, size_t queues)
{
    if (e->counted_len + queues <= e->counted_room)
        return 0;
    size_t room = (e->counted_len + queues) * 2;
    struct rec_counters *grown = mem_regrow(e->counted, room, sizeof(*grown));
    if (!grown)
        return -ERR_NOMEM;
    e->counted = grown;
    e->counted_room = room;
    return 0;
}

size_t counters_bytes(const struct engine *e, size_t queues)
{
    static const struct record any = {.kind = REC_COUNTERS};
    return (e->counted_len + queues) * record_bytes_max(&any);
}

/* What the current step adds. Memory was reserved together with that of the record that is being
 * applied. */
static uint64_t *counters_of_step(struct engine *e, struct queue *q)
{
    if (!q->counted) {
        CHECK(e->counted_len < e->counted_room);
        e->counted[e->counted_len] = (struct rec_counters){.queue = q->number};
        q->counted = (uint32_t)++e->counted_len;
    }
    return e->counted[q->counted - 1].add.of;
}

void counters_record(struct engine *e, struct queue *q, const struct record *r,
                     const struct job *before)
{
    uint64_t *step = e->out ? counters_of_step(e, q) : NULL;
    if (counters_add_record(q->totals.of, step, r, before) && step)
        q->counted_any = true;
}

void counters_forget(struct engine *e, struct queue *q)
{
    if (q->counted)
        e->counted[q->counted - 1].queue = 0;
    q->counted = 0;
    q->counted_any = false;
}

void counters_emit(struct engine *e)
{
    for (size_t i = 0; i < e->counted_len; i++) {
        struct record rec = {.kind = REC_COUNTERS, .counters = e->counted[i]};
        struct queue *q = queue_at(e, rec.counters.queue);
        if (!q)
            continue;
        bool any = q->counted_any;
        q->counted = 0;
        q->counted_any = false;
        if (!any)
            continue;
        rec.counters.hour = (uint32_t)(e->now.wall.ms / HOUR_MS);
        engine_emit_silent(e, &rec);
    }
    e->counted_len = 0;
}

int counters_load(struct engine *e, uint32_t queue, const struct counters *totals)
{
    struct queue *q = queue_at(e, queue);
    if (!q)
        return -ERR_CORRUPT;
    q->totals = *totals;
    return 0;
}

void counters_boot(struct engine *e)
{
    for (size_t i = 0; i < e->queue_total; i++) {
        struct queue *q = e->queues[i];
        if (!q)
            continue;
        q->totals_at_boot = q->totals;
        q->removed = 0;
    }
}

void counters_since_boot(const struct queue *q, struct queue_counts *ret)
{
    struct counters since;
    for (int i = 0; i < COUNTER_COUNT; i++)
        since.of[i] = q->totals.of[i] - q->totals_at_boot.of[i];
    counts_from_counters(ret, &since);
    ret->removed = q->removed;
}

void op_history(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    if (!queues_find(e, op->history.queue))
        refuse(r, OUT_NO_QUEUE, NULL);
    else
        r->history = &op->history;
}
