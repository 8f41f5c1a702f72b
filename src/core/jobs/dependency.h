/* SPDX-License-Identifier: Apache-2.0 */
/* Dependencies: a job (the dependent, or child) that does not start before other jobs (its parents)
 * have ended.
 *
 * While it waits for them it is `blocked`. A parent ends for a dependent once, in one of four ways.
 * What it does later (a requeue of a dead job, the removal of a done one) no longer matters to the
 * dependent. The rule of the dependent says what a parent that did not end well means for it:
 *
 *   parent                cancel (default)   dead               run
 *   done                  counts as ended    counts as ended    counts as ended
 *   dead                  cancelled          dead               counts as ended
 *   cancelled             cancelled          dead               counts as ended
 *   removed before        cancelled          dead               counts as ended
 *   it ended
 *
 * With `cancel` and `dead` the first parent that fails decides. Otherwise the job leaves `blocked`
 * when no parent is left and nothing can be added to it any more (`open`, a batch to which jobs are
 * still being added). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers are on disk: never renumber. */
enum dependency_rule {
    DEPENDENCY_CANCEL = 0,
    DEPENDENCY_RUN = 1,
    DEPENDENCY_DEAD = 2,
    DEPENDENCY_RULE_COUNT
};
enum dependency_end {
    DEPENDENCY_END_NONE = 0, /* it has not ended */
    DEPENDENCY_END_DONE = 1,
    DEPENDENCY_END_DEAD = 2,
    DEPENDENCY_END_CANCELLED = 3,
    DEPENDENCY_END_REMOVED = 4,
    DEPENDENCY_END_COUNT
};

/* What is kept with a job that depends on others, until it is removed. */
struct dependent {
    uint8_t rule; /* enum dependency_rule */
    bool open;    /* parents may still be added: it does not start yet */
    /* Parents by how they ended; at NONE: all parents that it ever had. */
    uint32_t counts[DEPENDENCY_END_COUNT];
};

/* What the ends of its parents mean for a blocked job. */
enum dependency_verdict { VERDICT_WAIT, VERDICT_UNBLOCK, VERDICT_CANCEL, VERDICT_DEAD };

/* `waits`: parents that have not ended. */
enum dependency_verdict dependency_verdict(const struct dependent *d, uint32_t waits);
/* How a job in this state has ended for its dependents; STATE_NONE: it was removed. */
enum dependency_end dependency_end_of(uint8_t state);
/* The parents that have not ended, while the job is blocked. */
uint32_t dependent_waits(const struct dependent *d);
/* Whether the counts fit each other; `waits` as above. */
bool dependent_fits(const struct dependent *d, uint32_t waits);

const char *dependency_rule_name(enum dependency_rule r); /* "cancel" …; NULL if out of range */
const char *dependency_end_name(enum dependency_end e);   /* "done" …; "total" for NONE */
