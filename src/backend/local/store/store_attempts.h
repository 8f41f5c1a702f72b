/* SPDX-License-Identifier: Apache-2.0 */
/* How attempts end; both stores derive it from the records.
 *
 * There is no record of an attempt: a claim begins one, and the record that ends the lease ends it,
 * so the history is part of the commit of the transition. The row of the job describes an attempt
 * that is running or was acked (worker, started_at, since); a store has separate rows only for the
 * others. */
#pragma once

#include "ops/op.h"

struct attempt_end {
    uint8_t outcome, error_kind;
    uint32_t number;
    struct wall_time at;
    struct span error; /* the record's */
};

/* Whether the record ends an attempt of this job, which is in the state before the record, by
 * anything but an ack; and how. */
bool attempt_ends(const struct job *before, const struct record *r, struct attempt_end *ret);
/* An attempt that came with an imported job. True: it is the last one of this job, which is done,
 * so the job's row describes it; it began at *ret_started_at, which is never after its end.
 * Otherwise *ret is to be stored as a separate row. */
bool attempt_import(const struct job *j, const struct rec_job_attempt *r, struct attempt_end *ret,
                    struct wall_time *ret_started_at);
/* Whether the job's newest attempt is running or was acked; started_at 0 = not known. Fills in
 * number, times and outcome, and leaves texts unchanged. */
bool attempt_of_job(const struct job *j, struct wall_time started_at, struct attempt_view *ret);
