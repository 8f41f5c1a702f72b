/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a job, the moves between them, and the table of the allowed ones.
 *
 * Numbers are written to disk: never renumber. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum job_state {
    STATE_NONE = 0, /* does not exist (any more) */
    STATE_SCHEDULED = 1,
    STATE_READY = 2,
    STATE_RUNNING = 3,
    STATE_DONE = 4,
    STATE_DEAD = 5,
    STATE_CANCELLED = 6,
    STATE_BLOCKED = 7, /* waits for other jobs (core/jobs/dependency.h) */
    STATE_COUNT
};

#define STATE_BIT(state) (1u << (state))
/* Waiting only for its time or a worker. */
#define STATES_RUNNABLE (STATE_BIT(STATE_SCHEDULED) | STATE_BIT(STATE_READY))
#define STATES_WAITING (STATES_RUNNABLE | STATE_BIT(STATE_BLOCKED))
#define STATES_LIVE (STATES_WAITING | STATE_BIT(STATE_RUNNING))
#define STATES_FINISHED (STATE_BIT(STATE_DONE) | STATE_BIT(STATE_CANCELLED))
#define STATES_ALL (STATES_LIVE | STATES_FINISHED | STATE_BIT(STATE_DEAD))

enum job_move {
    MOVE_ENQUEUE,           /* none → scheduled | ready | blocked */
    MOVE_IMPORT,            /* none → anything but running: it comes from another store */
    MOVE_PROMOTE,           /* scheduled → ready: it is due */
    MOVE_CLAIM,             /* ready → running */
    MOVE_SEIZE,             /* scheduled | ready | dead → running: a claim of one job by its id */
    MOVE_ACK,               /* running → done */
    MOVE_FAIL,              /* running → scheduled | ready | dead */
    MOVE_LEASE_END,         /* running → scheduled | ready | dead: the lease expired */
    MOVE_RELEASE,           /* running → scheduled | ready: returned, uncounted */
    MOVE_EXTEND,            /* running → running */
    MOVE_EXPIRE,            /* scheduled | ready | blocked → dead: expires_at has passed */
    MOVE_CANCEL,            /* scheduled | ready | blocked | running → cancelled */
    MOVE_REQUEUE,           /* scheduled | dead | cancelled → ready | scheduled */
    MOVE_PATCH,             /* scheduled | ready → scheduled | ready; blocked → blocked */
    MOVE_REMOVE,            /* anything but running → none */
    MOVE_PURGE,             /* anything → none: purge, delete of a queue */
    MOVE_DISCARD,           /* anything else → cancelled: also jobs that have ended */
    MOVE_UNBLOCK,           /* blocked → scheduled | ready: its dependencies have ended */
    MOVE_DEPENDENCY_FAILED, /* blocked → cancelled | dead: by its rule for failed dependencies */
    MOVE_COUNT
};

/* Why a job is dead, cancelled or ready again. Numbers are on disk. */
enum job_reason {
    REASON_NONE = 0,
    REASON_FAILED = 1,        /* the worker failed it, and its attempts are used up */
    REASON_REJECTED = 2,      /* the worker failed it and asked for no retry (bury) */
    REASON_CRASH_LOOP = 3,    /* too many leases expired */
    REASON_LEASE_EXPIRED = 4, /* dead: under the lease-end policy "fail" */
    REASON_EXPIRED = 5,
    REASON_CANCELLED = 6, /* by request */
    REASON_REPLACED = 7,  /* by a newer job with the same unique key */
    REASON_RELEASED = 8,
    REASON_RESTARTED = 9,  /* the server restarted, which ended the lease's connection; uncounted */
    REASON_DISCARDED = 10, /* by request, also after its end */
    REASON_DAMAGED = 11,   /* the store returned another body than was stored; uncounted */
    REASON_TIMED_OUT = 12, /* the attempt took longer than timeout_ms; counted as a failure */
    REASON_DEPENDENCY_FAILED = 13, /* a job that it depends on is dead, cancelled or removed */
    REASON_COUNT
};

const char *state_name(enum job_state s); /* "ready" …; NULL if out of range */
bool state_parse(const char *text, size_t len, enum job_state *ret);
const char *move_name(enum job_move m); /* "ack" … */
const char *reason_name(enum job_reason r);
bool move_allowed(enum job_move m, enum job_state from, enum job_state to);
bool move_starts_from(enum job_move m, enum job_state from);
/* Whether a job can be in this state for this reason. */
bool reason_fits(enum job_state s, enum job_reason r);
/* The names of the moves that a client may request from this state: "ack, fail, extend, …"; a
 * static text, for refusals. */
const char *state_legal_moves(enum job_state from);
