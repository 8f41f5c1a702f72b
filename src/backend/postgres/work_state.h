/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the work on the write connection, and the table of its transitions.
 *
 * The connection does one piece of work after the other (enum pg_work). What has to happen when it
 * is lost, or when the database refuses something, depends only on the state. */
#pragma once

#include <stdbool.h>

enum pg_work {
    WORK_NONE,
    WORK_UNIT,         /* operations of clients */
    WORK_TICK,         /* the work of the leader */
    WORK_VIEW,         /* queries that are answered at once */
    WORK_BULK,         /* a slice of a bulk action */
    WORK_INBOX,        /* jobs from transactions of users */
    WORK_DEPENDENCIES, /* ends of jobs reach their dependents */
    WORK_HEARTBEAT,    /* the heartbeat of this node, and the leader */
    WORK_LEAVE         /* the node leaves the cluster */
};

enum work_state {
    WORK_STATE_IDLE,        /* no work is in progress */
    WORK_STATE_READING,     /* nothing that was sent can have changed anything yet */
    WORK_STATE_COMMITTING,  /* a commit was sent: without an answer, the outcome is unknown */
    WORK_STATE_READ_UNSENT, /* a round could not be sent; the loop ends the work */
    /* the same for a round with a commit, part of which may have been sent */
    WORK_STATE_COMMIT_UNSENT,
    WORK_STATE_REFUSING, /* a rollback was sent; after it the operations are refused */
    WORK_STATE_RETRYING, /* a rollback was sent; after it the work begins again */
    WORK_STATE_LEAVING,  /* the last one */
    WORK_STATE_COUNT
};

struct work_progress {
    enum pg_work work; /* WORK_NONE when it is idle */
    enum work_state state;
    unsigned tries;      /* attempts at this work before the current one */
    const char *trouble; /* the note for the operations if the work is given up after a rollback */
};

/* Asserts that the table allows the transition. */
void work_begin(struct work_progress *p, enum pg_work work); /* from idle, or another attempt */
void work_move(struct work_progress *p, enum work_state to);
void work_end(struct work_progress *p); /* it is idle */
/* The commit is confirmed and the next unit is already loaded: it is the current work now. */
void work_pass_on(struct work_progress *p);

static inline bool work_idle(const struct work_progress *p)
{
    return p->state == WORK_STATE_IDLE;
}

/* Whether the work may have taken effect although no reply confirms it. */
static inline bool work_outcome_unknown(const struct work_progress *p)
{
    return p->state == WORK_STATE_COMMITTING || p->state == WORK_STATE_COMMIT_UNSENT;
}

static inline bool work_unsent(const struct work_progress *p)
{
    return p->state == WORK_STATE_READ_UNSENT || p->state == WORK_STATE_COMMIT_UNSENT;
}
