/* SPDX-License-Identifier: Apache-2.0 */
/* Planted defects: mistakes that the checks must catch, switched on by a test to prove that they
 * do. Only builds with HF_TEST_HOOKS contain them.
 *
 * The operations and the engine ask for them with DEFECT(). tests/sim/planted.c has a row for each
 * and switches them on, one after the other. The defects of the journal are in journal/journal.h.
 */
#pragma once

enum engine_defect {
    DEFECT_REPLY_EARLY = 1u << 0,         /* replies leave before their records are durable */
    DEFECT_DUPLICATE_EARLY = 1u << 1,     /* a duplicate is answered before the first is durable */
    DEFECT_ANY_TOKEN = 1u << 2,           /* ack ignores the token */
    DEFECT_EPOCH_KEPT = 1u << 3,          /* tokens are issued again after a restart */
    DEFECT_UNIQUE_BY_STATE = 1u << 4,     /* a unique key is free again once its job is running */
    DEFECT_ATTEMPTS_UNRECORDED = 1u << 5, /* failures are counted in memory, not in the record */
    DEFECT_LEASE_ON_WALL = 1u << 6,       /* leases end by wall time */
    DEFECT_CLAIM_UNRECORDED = 1u << 7,    /* claims leave no record */
    DEFECT_NEWEST_FIRST = 1u << 8,    /* among equal priorities the newest is handed out first */
    DEFECT_PROMOTE_EARLY = 1u << 9,   /* scheduled jobs become ready 50 ms too soon */
    DEFECT_COUNT_DRIFTS = 1u << 10,   /* a cancelled job stays in the count of ready ones */
    DEFECT_ACK_COMES_BACK = 1u << 11, /* every 16th ack is answered but not recorded */
    DEFECT_DEAD_AGAIN = 1u << 12,     /* a dead job stays in the ready order */
    DEFECT_KEY_FORGOTTEN = 1u << 13,  /* idempotency keys are not recorded */
    DEFECT_FIRED_UNRECORDED =
        1u << 14, /* a firing creates its job and does not advance its schedule */
    DEFECT_HOLDS_FORGOTTEN = 1u << 15,  /* after a restart no job holds the items of triggers */
    DEFECT_NOTICE_LOST = 1u << 16,      /* a restart forgets the oldest notice */
    DEFECT_LATE_ACK = 1u << 17,         /* an ack is accepted after a limit of its lease */
    DEFECT_TIMEOUT_EXTENDED = 1u << 18, /* an extend postpones the end of the attempt */
    DEFECT_CANCEL_FORGOTTEN = 1u << 19, /* requests to cancel running jobs are not recorded */
    DEFECT_REPORT_FORGOTTEN = 1u << 20, /* progress and log lines are not recorded */
    DEFECT_HANDOFF_SPLIT = 1u << 21,  /* an ack takes effect before its hand-off, in two commits */
    DEFECT_SLOT_OVER = 1u << 22,      /* a queue may run one job more than max_running */
    DEFECT_SLOT_LEAKS = 1u << 23,     /* a slot is not free again after an ack */
    DEFECT_UNFAIR = 1u << 24,         /* the group that is served keeps its turn */
    DEFECT_RATE_FREE = 1u << 25,      /* a claim takes no token of the rate */
    DEFECT_CHILD_EARLY = 1u << 26,    /* a blocked job starts when one parent is left */
    DEFECT_CHILD_TWICE = 1u << 27,    /* a dependent that has started is made ready again */
    DEFECT_AGE_LOST = 1u << 28,       /* groups are served by priority, without its age */
    DEFECT_STEP_FORGOTTEN = 1u << 29, /* results of steps are not recorded */
};

#ifdef HF_TEST_HOOKS
#define DEFECT(config, which) (((config)->defects & (which)) != 0)
#else
#define DEFECT(config, which) ((void)(config), 0)
#endif
