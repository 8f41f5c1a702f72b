/* SPDX-License-Identifier: Apache-2.0 */
/* A backend that passes operations on to another one and misbehaves within the contract of
 * backend.h (fault.c): replies are delayed, reordered or lost, and "another node" works on the same
 * queues. */
#pragma once

#include "backend/backend_impl.h"

/* What "another node" may do around an op; all of it on the loop thread, through inner. The first
 * three are harmless to a caller that keeps to backend.h; MEDDLE_CANCEL is for tests that expect
 * it.
 */
enum fault_meddling {
    /* Before a claim of queues another node claims a job and gives it back, uncounted. */
    MEDDLE_TOUCH = 1u << 0,
    /* The same, but it gives the job back only after the claim, which so misses it (and may find
     * nothing). It is back, and signalled, before the claim's reply is delivered. */
    MEDDLE_HOLD = 1u << 1,
    /* The op has been here before by another way: ack, fail, extend, release by token, enqueue
     * under an idempotency key, release_claim. The caller's own is then the repeat. */
    MEDDLE_TWICE = 1u << 2,
    /* Before an op on one job (ack … remove; not get) another node cancels that job. */
    MEDDLE_CANCEL = 1u << 3,
};
#define MEDDLE_HARMLESS (MEDDLE_TOUCH | MEDDLE_HOLD | MEDDLE_TWICE)

/* A backend that misbehaves within the contract: see fault.c. Percentages; all 0 = transparent. */
struct fault_config {
    uint64_t seed;
    unsigned late_percent;    /* reply or signal held back … */
    unsigned late_turns;      /* … for 1 to late_turns turns of the loop (0 counts as 1) */
    unsigned reorder_percent; /* of the late replies: later ones, of later batches too, go past */
    unsigned unknown_done_percent;   /* done, but answered OUT_UNKNOWN; not for queries */
    unsigned unknown_undone_percent; /* not done, answered OUT_UNKNOWN; not for queries */
    unsigned unavailable_percent;    /* not done, OUT_UNAVAILABLE */
    unsigned meddle_percent;         /* another node gets in between: */
    unsigned meddling;               /* mask of enum fault_meddling; 0 = MEDDLE_HARMLESS */
    unsigned spurious_percent;       /* signal without a job, with a submit */
};
/* Owns inner, also on failure. */
MUST_CHECK int backend_open_fault(struct backend *inner, const struct backend_config *config,
                                  const struct fault_config *faults, struct backend **ret);
