/* SPDX-License-Identifier: Apache-2.0 */
/* Unique keys: which jobs of a queue hold theirs, by the scope of its policy.
 *
 * A shared store that searches for the holders of a queue's keys, or for jobs that share one,
 * repeats these rules in SQL or Lua; tests/conform/jobs/conform_unique.c runs them on every store.
 */
#pragma once

#include "core/jobs/state.h"
#include "core/queues/policy.h"

/* Whether a job in this state holds its key. */
static inline bool unique_holds(uint8_t scope, uint8_t state)
{
    if (scope == UNIQUE_KEPT)
        return state != STATE_CANCELLED && state != STATE_NONE;
    return scope == UNIQUE_LIVE && (STATE_BIT(state) & STATES_LIVE);
}

/* Whether more jobs hold their key under the scope `to`, so that two might hold the same one. Then
 * no job that is not cancelled may share its key with another. This includes jobs that have ended,
 * because it would be undefined which of the live ones holds the key. */
static inline bool unique_widens(uint8_t from, uint8_t to)
{
    return from != to && to != UNIQUE_NONE && !(from == UNIQUE_KEPT && to == UNIQUE_LIVE);
}
