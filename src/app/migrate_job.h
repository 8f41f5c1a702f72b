/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a job that moves: the same words for copying it and for comparing it. */
#pragma once

#include "backend/op.h"
#include "base/arena.h"
#include "base/buf.h"

/* What the target can keep, and what is left out although the source has it. */
struct migrate_terms {
    struct wall_time now;
    bool whole; /* ids, ended jobs, results, attempts; else new ids and imported_from */
    bool keys;  /* key-value store, and keys_if_undelivered */
};

/* What of a job the target cannot keep. */
enum migrate_loss {
    LOSS_ENDED = 1u << 0, /* done or cancelled: all of it */
    LOSS_RESULT = 1u << 1,
    LOSS_ATTEMPTS = 1u << 2,
    LOSS_KEYS = 1u << 3, /* keys_if_undelivered */
};
/* Mask of enum migrate_loss; all but LOSS_ENDED need body and attempts of v. */
unsigned job_losses(const struct migrate_terms *t, const struct job_view *v);

/* The job as it arrives: a running one is ready again, uncounted, and its attempt, which nobody
 * ended, is left out; what the terms leave out is gone. Texts stay where they are, or are in the
 * arena. 0, -ERR_NOMEM, -ERR_SYNTAX (attributes that are no object). */
MUST_CHECK int job_arrives(const struct migrate_terms *t, const struct job_view *from,
                           struct arena *arena, struct job_view *ret);

/* The operation that brings it in, with what it points to. */
struct job_moving {
    struct job_past past;
    struct job_moved moved;
    struct job_options options;
};
/* *op borrows from v, m and the arena. -ERR_NOMEM, -ERR_SYNTAX, -ERR_CORRUPT. */
MUST_CHECK int job_op(const struct migrate_terms *t, const struct job_view *v, struct arena *arena,
                      struct job_moving *m, struct op *ret);

/* Which job of the source this one of the target is; seq 0 = none. */
struct job_ref job_origin(const struct migrate_terms *t, const struct job_view *v,
                          struct arena *arena);

/* Appends everything that must be the same in both stores, of a job as it arrives; `from` is of
 * either store, id names it in the source. *ret_state is the state it counts in: what a due time or
 * an expiry that has passed makes of it. 0, -ERR_NOMEM, -ERR_SYNTAX. */
MUST_CHECK int job_essence(const struct migrate_terms *t, const struct job_view *from,
                           struct job_ref id, struct arena *arena, struct buf *out,
                           enum job_state *ret_state);
