/* SPDX-License-Identifier: Apache-2.0 */
/* Selects jobs for a list or a bulk action. A field that is not set matches everything. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "base/system/clock.h"
#include "core/jobs/job.h"

struct job_filter {
    struct job_texts; /* empty = any; its members are members of this struct */
    uint32_t queue;   /* number; 0 = any */
    unsigned states;  /* mask of STATE_BIT; 0 = any */
    uint64_t seq_min; /* 0 = from the first */
    uint64_t seq_max; /* 0 = to the last */
    bool has_priority;
    int64_t priority_min, priority_max;
    struct wall_time created_from, created_to; /* [from, to); 0 = open */
    unsigned reasons;                          /* mask of 1 << enum job_reason; 0 = any */
};

/* extra may be NULL: the job has none. */
bool filter_match(const struct job_filter *f, const struct job *j, const struct job_extra *extra);
