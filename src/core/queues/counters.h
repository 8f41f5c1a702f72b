/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of a queue: how often something happened in it, and how long that took in all.
 *
 * Every store keeps them, in all and by the hour. What a record adds to them is written here, once
 * for all stores. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct job;
struct record;

/* The order is on disk, in records and in columns: append, never renumber. */
enum counter {
    COUNTER_ENQUEUED,
    COUNTER_CLAIMED,
    COUNTER_ACKED,
    COUNTER_FAILED_APP, /* failed attempts, by the kind of their error */
    COUNTER_FAILED_BUSINESS,
    COUNTER_CRASHED, /* leases that expired, connections that were lost */
    COUNTER_RELEASED,
    COUNTER_DIED,
    COUNTER_CANCELLED,
    COUNTER_WAITED_MS, /* from ready to claimed, of jobs that were claimed */
    COUNTER_DONE_MS,   /* from claimed to acked, of jobs that were acked */
    COUNTER_FAILED_MS, /* from claimed to failed or crashed, of each such attempt */
    COUNTER_DIED_MS,   /* from claimed (else from created) to dead, of jobs that died */
    COUNTER_COUNT
};

struct counters {
    uint64_t of[COUNTER_COUNT];
};

static inline void counters_add(struct counters *to, const struct counters *add)
{
    for (int i = 0; i < COUNTER_COUNT; i++)
        to->of[i] += add->of[i];
}

/* Adds to the counters (arrays of COUNTER_COUNT; `also` may be NULL) what this record of a job
 * means. `before` is the job before the record takes effect; it is not read for REC_JOB_NEW. False:
 * the record is none that is counted. */
bool counters_add_record(uint64_t *of, uint64_t *also, const struct record *r,
                         const struct job *before);
