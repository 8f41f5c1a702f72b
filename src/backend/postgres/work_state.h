/* SPDX-License-Identifier: Apache-2.0 */
/* How far the work on the write connection is: one state, and the table of its transitions.
 *
 * The connection carries out one piece of work after the other (enum pg_work). What has to happen
 * when it breaks, or when the database refuses something, depends on the state alone. */
#pragma once

#include <stdbool.h>

enum pg_work {
    WORK_NONE,
    WORK_UNIT,      /* operations of clients */
    WORK_TICK,      /* the work of the leader */
    WORK_VIEW,      /* questions that are answered at once */
    WORK_BULK,      /* a slice of a bulk action */
    WORK_HEARTBEAT, /* this node lives; who leads */
    WORK_LEAVE      /* the node leaves the cluster */
};

enum work_state {
    WORK_STATE_IDLE,          /* nothing is under way */
    WORK_STATE_READING,       /* nothing that was sent can have changed anything yet */
    WORK_STATE_COMMITTING,    /* a commit was sent: without an answer, the outcome is unknown */
    WORK_STATE_READ_UNSENT,   /* a round could not be sent; the loop gives up the work */
    WORK_STATE_COMMIT_UNSENT, /* the same of a round with a commit, part of which may have been sent
                               */
    WORK_STATE_REFUSING,      /* a rollback was sent; after it the operations are refused */
    WORK_STATE_RETRYING,      /* a rollback was sent; after it the work begins again */
    WORK_STATE_LEAVING,       /* the last one */
    WORK_STATE_COUNT
};

struct work_progress {
    enum pg_work work; /* WORK_NONE when it is idle */
    enum work_state state;
    unsigned tries;      /* of this work, before the present one */
    const char *trouble; /* what the operations are told if it is given up after a rollback */
};

/* Programmer errors: a transition that the table does not allow. */
void work_begin(struct work_progress *p, enum pg_work work); /* from idle, or another try */
void work_move(struct work_progress *p, enum work_state to);
void work_end(struct work_progress *p); /* it is idle */
/* The commit is through and the next unit is loaded already: that one is under way. */
void work_pass_on(struct work_progress *p);

static inline bool work_idle(const struct work_progress *p)
{
    return p->state == WORK_STATE_IDLE;
}

/* Whether the work may have taken effect although no answer says so. */
static inline bool work_outcome_unknown(const struct work_progress *p)
{
    return p->state == WORK_STATE_COMMITTING || p->state == WORK_STATE_COMMIT_UNSENT;
}

static inline bool work_unsent(const struct work_progress *p)
{
    return p->state == WORK_STATE_READ_UNSENT || p->state == WORK_STATE_COMMIT_UNSENT;
}
