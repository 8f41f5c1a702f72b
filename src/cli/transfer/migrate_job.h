/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a job that moves: the same words for copying it and for comparing it. */
#pragma once

#include "base/buf.h"
#include "base/containers/arena.h"
#include "ops/op.h"

/* The job as it arrives: a running one is ready again, uncounted, and its attempt, which no one
 * ended, is left out. Texts stay where they are, attempts are in the arena. 0, -ERR_NOMEM. */
MUST_CHECK int job_arrives(struct wall_time now, const struct job_view *from, struct arena *arena,
                           struct job_view *ret);

/* The operation that brings it in, with what it points to. */
struct job_moving {
    struct job_past past;
    struct job_moved moved;
    struct job_options options;
};
/* *op borrows from v and m. -ERR_CORRUPT: its own options cannot be read. */
MUST_CHECK int job_op(const struct job_view *v, struct job_moving *m, struct op *ret);

/* Appends everything that must be the same in both stores, of a job as it arrives; `from` is of
 * either store. *ret_state is the state it counts in: what a due time or an expiry that has passed
 * makes of it. 0, -ERR_NOMEM. */
MUST_CHECK int job_essence(struct wall_time now, const struct job_view *from, struct arena *arena,
                           struct buf *out, enum job_state *ret_state);
