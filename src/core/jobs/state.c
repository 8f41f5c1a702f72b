/* SPDX-License-Identifier: Apache-2.0 */
/* The table of allowed moves. Each move leads from any of its initial states to any of its final
 * states. */
#include "core/jobs/state.h"

#include <string.h>

#define B(state) STATE_BIT(STATE_##state)

struct move_row {
    const char *name;
    unsigned from, to; /* masks of STATE_BIT */
};

static const struct move_row moves[MOVE_COUNT] = {
    [MOVE_ENQUEUE] = {"enqueue", B(NONE), STATES_WAITING},
    [MOVE_IMPORT] = {"import", B(NONE), STATES_ALL & ~B(RUNNING)},
    [MOVE_PROMOTE] = {"promote", B(SCHEDULED), B(READY)},
    [MOVE_CLAIM] = {"claim", B(READY), B(RUNNING)},
    [MOVE_SEIZE] = {"seize", STATES_RUNNABLE | B(DEAD), B(RUNNING)},
    [MOVE_ACK] = {"ack", B(RUNNING), B(DONE)},
    [MOVE_FAIL] = {"fail", B(RUNNING), STATES_RUNNABLE | B(DEAD)},
    [MOVE_LEASE_END] = {"lease_end", B(RUNNING), STATES_RUNNABLE | B(DEAD)},
    [MOVE_RELEASE] = {"release", B(RUNNING), STATES_RUNNABLE},
    [MOVE_EXTEND] = {"extend", B(RUNNING), B(RUNNING)},
    [MOVE_EXPIRE] = {"expire", STATES_WAITING, B(DEAD)},
    [MOVE_CANCEL] = {"cancel", STATES_LIVE, B(CANCELLED)},
    [MOVE_REQUEUE] = {"requeue", B(SCHEDULED) | B(DEAD) | B(CANCELLED), STATES_RUNNABLE},
    [MOVE_PATCH] = {"patch", STATES_WAITING, STATES_WAITING},
    [MOVE_REMOVE] = {"remove", STATES_ALL & ~B(RUNNING), B(NONE)},
    [MOVE_PURGE] = {"purge", STATES_ALL, B(NONE)},
    [MOVE_DISCARD] = {"discard", STATES_ALL & ~B(CANCELLED), B(CANCELLED)},
    [MOVE_UNBLOCK] = {"unblock", B(BLOCKED), STATES_RUNNABLE},
    [MOVE_DEPENDENCY_FAILED] = {"dependency_failed", B(BLOCKED), B(CANCELLED) | B(DEAD)},
};

static const char *const states[STATE_COUNT] = {
    [STATE_NONE] = "none",           [STATE_SCHEDULED] = "scheduled", [STATE_READY] = "ready",
    [STATE_RUNNING] = "running",     [STATE_DONE] = "done",           [STATE_DEAD] = "dead",
    [STATE_CANCELLED] = "cancelled", [STATE_BLOCKED] = "blocked",
};

static const char *const reasons[REASON_COUNT] = {
    [REASON_NONE] = "none",
    [REASON_FAILED] = "failed",
    [REASON_REJECTED] = "rejected",
    [REASON_CRASH_LOOP] = "crash_loop",
    [REASON_LEASE_EXPIRED] = "lease_expired",
    [REASON_EXPIRED] = "expired",
    [REASON_CANCELLED] = "cancelled",
    [REASON_REPLACED] = "replaced",
    [REASON_RELEASED] = "released",
    [REASON_RESTARTED] = "restarted",
    [REASON_DISCARDED] = "discarded",
    [REASON_DAMAGED] = "damaged",
    [REASON_TIMED_OUT] = "timed_out",
    [REASON_DEPENDENCY_FAILED] = "dependency_failed",
};

#define R(reason) (1u << REASON_##reason)
#define REASONS_BACK                                                                               \
    (R(NONE) | R(FAILED) | R(LEASE_EXPIRED) | R(TIMED_OUT) | R(RELEASED) | R(RESTARTED))
static const unsigned reasons_of[STATE_COUNT] = {
    [STATE_SCHEDULED] = REASONS_BACK,
    [STATE_READY] = REASONS_BACK,
    [STATE_RUNNING] = R(NONE),
    [STATE_DONE] = R(NONE),
    [STATE_DEAD] = R(FAILED) | R(REJECTED) | R(CRASH_LOOP) | R(LEASE_EXPIRED) | R(TIMED_OUT) |
                   R(EXPIRED) | R(DAMAGED) | R(DEPENDENCY_FAILED),
    [STATE_CANCELLED] = R(CANCELLED) | R(REPLACED) | R(DISCARDED) | R(DEPENDENCY_FAILED),
    [STATE_BLOCKED] = R(NONE),
};

/* The rows of the table above that a client may request, by initial state; a test compares the
 * two. */
static const char *const legal_moves[STATE_COUNT] = {
    [STATE_NONE] = "",
    [STATE_SCHEDULED] = "cancel, requeue, patch, remove, discard",
    [STATE_READY] = "claim, cancel, patch, remove, discard",
    [STATE_RUNNING] = "ack, fail, extend, release, cancel, discard",
    [STATE_DONE] = "remove, discard",
    [STATE_DEAD] = "requeue, remove, discard",
    [STATE_CANCELLED] = "requeue, remove",
    [STATE_BLOCKED] = "cancel, patch, remove, discard",
};

const char *state_name(enum job_state s)
{
    return (unsigned)s < STATE_COUNT ? states[s] : NULL;
}

/* STATE_NONE cannot be named. */
bool state_parse(const char *text, size_t len, enum job_state *ret)
{
    for (unsigned s = STATE_SCHEDULED; s < STATE_COUNT; s++) {
        if (strlen(states[s]) == len && memcmp(states[s], text, len) == 0) {
            *ret = (enum job_state)s;
            return true;
        }
    }
    return false;
}

const char *move_name(enum job_move m)
{
    return (unsigned)m < MOVE_COUNT ? moves[m].name : NULL;
}

const char *reason_name(enum job_reason r)
{
    return (unsigned)r < REASON_COUNT ? reasons[r] : NULL;
}

bool move_allowed(enum job_move m, enum job_state from, enum job_state to)
{
    /* A patch neither blocks a job nor unblocks it. */
    if (m == MOVE_PATCH && (from == STATE_BLOCKED) != (to == STATE_BLOCKED))
        return false;
    return move_starts_from(m, from) && (unsigned)to < STATE_COUNT &&
           (moves[m].to & STATE_BIT(to)) != 0;
}

bool move_starts_from(enum job_move m, enum job_state from)
{
    return (unsigned)m < MOVE_COUNT && (unsigned)from < STATE_COUNT &&
           (moves[m].from & STATE_BIT(from)) != 0;
}

bool reason_fits(enum job_state s, enum job_reason r)
{
    return (unsigned)s < STATE_COUNT && (unsigned)r < REASON_COUNT && reasons_of[s] >> r & 1;
}

const char *state_legal_moves(enum job_state from)
{
    return (unsigned)from < STATE_COUNT ? legal_moves[from] : "";
}
