/* SPDX-License-Identifier: Apache-2.0 */
/* The rules for a job that is migrated, used for copying and for comparing it. */
#pragma once

#include "base/buf.h"
#include "base/containers/arena.h"
#include "ops/op.h"

/* The job in the target: a running job is ready again, uncounted, and its unfinished attempt is
 * left out. Texts are borrowed, attempts are in the arena. 0, -ERR_NOMEM. */
MUST_CHECK int job_arrives(struct wall_time now, const struct job_view *from, struct arena *arena,
                           struct job_view *ret);

/* The operation that creates the job, with its data. */
struct job_moving {
    struct job_past past;
    struct job_moved moved;
    struct job_options options;
    struct dependent dependent;
    struct op_depends depends;
};
/* A blocked job is created open, without the jobs for which it still waits: job_waits_op adds them
 * when all jobs are there. *op borrows from v and m. -ERR_CORRUPT: the options of the job cannot be
 * read. */
MUST_CHECK int job_op(const struct job_view *v, struct job_moving *m, struct op *ret);

/* Appends everything that must be equal in both stores; `from` may be of either store.
 * *ret_state is the state in which the job is counted, after a due time or an expiry that has
 * passed. 0, -ERR_NOMEM. */
MUST_CHECK int job_essence(struct wall_time now, const struct job_view *from, struct arena *arena,
                           struct buf *out, enum job_state *ret_state);

/* The operation that gives a blocked job the jobs for which it waits, and closes it unless it was
 * open. *op borrows from v. */
struct op job_waits_op(const struct job_view *v);
