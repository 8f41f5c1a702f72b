/* SPDX-License-Identifier: Apache-2.0 */
/* What operations write into a reply. Those that return bool return false, so that a check can end
 * with them. */
#pragma once

#include "base/err.h"
#include "ops/ops.h"

/* The note of OUT_UNAVAILABLE when memory is short. */
#define NO_ROOM "out of memory, or too much in one batch; nothing was changed, try again"

bool reply_refuse(struct reply *r, enum outcome outcome, const char *note);
bool reply_nomem(struct ops *o, struct reply *r);
/* OUT_INVALID with a copy of the note. */
bool reply_invalid(struct ops *o, struct reply *r, const struct err_note *note);
/* True, or a refusal that says what is wrong with a payload or result. */
bool reply_body_valid(struct reply *r, uint8_t kind, struct span body, uint64_t max);
/* The reply is about this job, in the state that it has now. */
void reply_about(struct reply *r, const struct job *j);
/* It has been changed as asked. */
void reply_changed(struct reply *r, const struct job *j, const struct queue_state *q);

/* The time from `delay_ms` on, at most LIMIT_WALL_MS. */
struct wall_time time_after(struct wall_time now, int64_t delay_ms);
/* The text in the memory of the reply; at NULL with len > 0: no memory. */
struct span text_keep(struct ops *o, struct span text);

static inline bool state_waits(uint8_t state)
{
    return (STATE_BIT(state) & STATES_WAITING) != 0;
}

static inline bool state_lives(uint8_t state)
{
    return (STATE_BIT(state) & STATES_LIVE) != 0;
}

static inline bool queue_is_paused(const struct queue_state *q, struct wall_time now)
{
    return q->paused_until.ms > now.ms;
}
