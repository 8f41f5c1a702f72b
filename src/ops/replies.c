/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/replies.h"

#include "core/limits.h"
#include "ops/kv/kv_check.h"

bool reply_refuse(struct reply *r, enum outcome outcome, const char *note)
{
    r->outcome = outcome;
    r->note = note;
    return false;
}

bool reply_nomem(struct ops *o, struct reply *r)
{
    o->nomem = true;
    return reply_refuse(r, OUT_UNAVAILABLE, NO_ROOM);
}

bool reply_invalid(struct ops *o, struct reply *r, const struct err_note *note)
{
    return reply_refuse(r, OUT_INVALID, arena_text(o->memory, span_text(note->text)));
}

bool reply_body_valid(struct reply *r, uint8_t kind, struct span body, uint64_t max)
{
    const char *note = NULL;
    enum outcome out = kv_body_right(kind, body, max, &note);
    return out == OUT_OK || reply_refuse(r, out, note);
}

void reply_about(struct reply *r, const struct job *j)
{
    r->seq = j->seq;
    r->id_hi = j->id_hi;
    r->state = (enum job_state)j->state;
}

void reply_changed(struct reply *r, const struct job *j, const struct queue_state *q)
{
    reply_about(r, j);
    r->relaxed = q->policy.durability == DURABILITY_RELAXED;
}

struct wall_time time_after(struct wall_time now, int64_t delay_ms)
{
    bool beyond = delay_ms > LIMIT_WALL_MS - now.ms;
    return (struct wall_time){beyond ? LIMIT_WALL_MS : now.ms + delay_ms};
}

struct span text_keep(struct ops *o, struct span text)
{
    if (text.len == 0)
        return (struct span){NULL, 0};
    return span_of(arena_copy(o->memory, text.at, text.len), text.len);
}

/* --- counts --- */

void counts_from_counters(struct queue_counts *c, const struct counters *from)
{
    const uint64_t *of = from->of;
    c->enqueued = of[COUNTER_ENQUEUED];
    c->claimed = of[COUNTER_CLAIMED];
    c->acked = of[COUNTER_ACKED];
    c->failed = of[COUNTER_FAILED_APP] + of[COUNTER_FAILED_BUSINESS];
    c->crashed = of[COUNTER_CRASHED];
    c->released = of[COUNTER_RELEASED];
    c->died = of[COUNTER_DIED];
    c->cancelled = of[COUNTER_CANCELLED];
}

static void count_16(uint16_t *n)
{
    *n = (uint16_t)(*n + (*n < UINT16_MAX));
}

static void count_8(uint8_t *n)
{
    *n = (uint8_t)(*n + (*n < UINT8_MAX));
}

void counts_add_claim(struct outcome_counts *c)
{
    count_16(&c->claims);
}

void counts_add_requeue(struct outcome_counts *c)
{
    count_8(&c->requeues);
}

void counts_add_ending(struct outcome_counts *c, enum lease_ending how)
{
    counts_add_claim(c);
    if (how == ENDED_RELEASED)
        count_16(&c->releases);
    else if (how == ENDED_BY_TIME)
        count_16(&c->timeouts);
    else if (how == ENDED_REJECTED)
        count_8(&c->rejections);
}
