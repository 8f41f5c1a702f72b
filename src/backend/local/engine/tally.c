/* SPDX-License-Identifier: Apache-2.0 */
/* What happened in each queue, added up.
 *
 * Applying a record adds to the queue's totals; what a step adds goes into its frame as well, one
 * record a queue, so that the store, which sees no job twice and some not at all, can keep the same
 * sums, by the hour and in all. Replaying a frame applies its other records, so the totals come out
 * the same, and its tallies are passed over. */
#include "backend/local/engine/engine_impl.h"

#define HOUR_MS INT64_C(3600000)

int tally_reserve(struct engine *e, size_t queues)
{
    if (e->tally_count + queues <= e->tally_room)
        return 0;
    size_t room = (e->tally_count + queues) * 2;
    struct rec_tally *grown = mem_regrow(e->tallies, room, sizeof(*grown));
    if (!grown)
        return -ERR_NOMEM;
    e->tallies = grown;
    e->tally_room = room;
    return 0;
}

size_t tally_bytes(const struct engine *e, size_t queues)
{
    static const struct record any = {.kind = REC_TALLY};
    return (e->tally_count + queues) * record_bytes_max(&any);
}

/* Room was made with the room for the record that is being applied. */
static struct tally *pending(struct engine *e, struct queue *q)
{
    if (!q->tally) {
        CHECK(e->tally_count < e->tally_room);
        e->tallies[e->tally_count] = (struct rec_tally){.queue = q->number};
        q->tally = (uint32_t)++e->tally_count;
    }
    return &e->tallies[q->tally - 1].add;
}

void tally(struct engine *e, struct queue *q, enum tally_field field, uint64_t n)
{
    q->totals.of[field] += n;
    if (e->out && n)
        pending(e, q)->of[field] += n;
}

/* A clock that was set back makes no time. */
void tally_span(struct engine *e, struct queue *q, enum tally_field field, struct wall_time from,
                struct wall_time to)
{
    tally(e, q, field, to.ms > from.ms ? (uint64_t)(to.ms - from.ms) : 0);
}

void tally_forget(struct engine *e, struct queue *q)
{
    if (q->tally)
        e->tallies[q->tally - 1].queue = 0;
    q->tally = 0;
}

void tally_emit(struct engine *e)
{
    for (size_t i = 0; i < e->tally_count; i++) {
        struct record rec = {.kind = REC_TALLY, .tally = e->tallies[i]};
        struct queue *q = queue_at(e, rec.tally.queue);
        if (!q)
            continue;
        q->tally = 0;
        rec.tally.hour = (uint32_t)(e->now.wall.ms / HOUR_MS);
        engine_emit_silent(e, &rec);
    }
    e->tally_count = 0;
}

int tally_load(struct engine *e, uint32_t queue, const struct tally *totals)
{
    struct queue *q = queue_at(e, queue);
    if (!q)
        return -ERR_CORRUPT;
    q->totals = *totals;
    return 0;
}

void op_history(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    if (!queues_find(e, op->history.queue))
        refuse(r, OUT_NO_QUEUE, NULL);
    else
        r->history = &op->history;
}
