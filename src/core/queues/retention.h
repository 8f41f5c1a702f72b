/* SPDX-License-Identifier: Apache-2.0 */
/* Retention: which of its finished jobs a queue keeps.
 *
 * Done, cancelled and dead jobs are counted separately. The oldest of a state are removed while
 * there are more than `count` of them, and so are those that are `ms` old or older. A shared store
 * that searches for these jobs repeats this rule in SQL or Lua;
 * tests/conform/jobs/conform_retention.c runs it on every store. */
#pragma once

#include "core/jobs/state.h"
#include "core/queues/policy.h"

struct retention {
    uint64_t count; /* UINT64_MAX = all */
    int64_t ms;     /* INT64_MAX = forever */
};

static inline struct retention retention_of(const struct queue_policy *p, uint8_t state)
{
    if (state == STATE_DEAD)
        return (struct retention){p->keep_dead, p->keep_dead_ms};
    return (struct retention){p->keep_done, p->keep_done_ms};
}

/* Whether no job is kept at all. */
static inline bool retention_none(struct retention keep)
{
    return keep.count == 0 || keep.ms == 0;
}

/* When a job that ended at this time may be removed, ms; INT64_MAX = never. */
static inline int64_t retention_end(struct retention keep, struct wall_time ended)
{
    return keep.ms < INT64_MAX - ended.ms ? ended.ms + keep.ms : INT64_MAX;
}

/* Whether the oldest of `there` jobs is to be removed. aged: whether its age counts now. */
static inline bool retention_over(struct retention keep, uint64_t there, struct wall_time ended,
                                  struct wall_time now, bool aged)
{
    return there > keep.count || (aged && retention_end(keep, ended) <= now.ms);
}
