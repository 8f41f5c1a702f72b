/* SPDX-License-Identifier: Apache-2.0 */
/* How attempts end, as both stores read it out of the records.
 *
 * There is no record of an attempt: a claim begins one, and what ends the lease ends it, so the
 * history is part of the transition's own commit. An attempt that is under way or was acked is told
 * by its job (worker, started_at, since); a store keeps a row of its own only for the others. */
#pragma once

#include "ops/op.h"

struct attempt_end {
    uint8_t outcome, error_kind;
    uint32_t number;
    struct wall_time at;
    struct span error; /* the record's */
};

/* Whether the record ends an attempt at this job, which is as it was before, otherwise than by an
 * ack; and how. */
bool attempt_ends(const struct job *before, const struct record *r, struct attempt_end *ret);
/* An attempt that an imported job has brought along. True: it is the last of this job, which is
 * done, so the job's row tells it; it began at *ret_started_at, which is never after its end. Else
 * *ret is to be kept as a row of its own. */
bool attempt_comes(const struct job *j, const struct rec_job_attempt *r, struct attempt_end *ret,
                   struct wall_time *ret_started_at);
/* Whether the job's newest attempt is under way or was acked; started_at 0 is not known. Fills
 * number, times and outcome, leaves texts alone. */
bool attempt_of_job(const struct job *j, struct wall_time started_at, struct attempt_view *ret);
