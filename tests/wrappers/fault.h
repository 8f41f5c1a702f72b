/* SPDX-License-Identifier: Apache-2.0 */
/* A backend that passes operations on to another one and misbehaves within the contract of
 * backend.h (fault.c): replies are delayed, reordered or lost, and "another node" works on the same
 * queues. */
#pragma once

#include "backend/backend_impl.h"

/* What "another node" may do around an op; all of it on the loop thread, through inner. The first
 * three are harmless to a caller that follows backend.h; MEDDLE_CANCEL is for tests that expect
 * it.
 */
enum fault_meddling {
    /* Before a claim of queues another node claims a job and releases it, uncounted. */
    MEDDLE_TOUCH = 1u << 0,
    /* The same, but it releases the job only after the claim, which therefore does not get it (and
     * may get none). The job is ready and signalled before the claim's reply is delivered. */
    MEDDLE_HOLD = 1u << 1,
    /* The op has already been done through another node: ack, fail, extend, release by token,
     * enqueue under an idempotency key, release_claim. The caller's own op is then the repeat. */
    MEDDLE_TWICE = 1u << 2,
    /* Before an op on one job (ack … remove; not get) another node cancels that job. */
    MEDDLE_CANCEL = 1u << 3,
};
#define MEDDLE_HARMLESS (MEDDLE_TOUCH | MEDDLE_HOLD | MEDDLE_TWICE)

/* See fault.c. Percentages; if all are 0, the wrapper changes nothing. */
struct fault_config {
    uint64_t seed;
    unsigned late_percent;    /* a reply or signal is held … */
    unsigned late_turns;      /* … for 1 to late_turns iterations of the loop (0 counts as 1) */
    unsigned reorder_percent; /* of the late replies: later ones, also of later batches, overtake */
    unsigned unknown_done_percent;   /* done, but the reply is OUT_UNKNOWN; not for queries */
    unsigned unknown_undone_percent; /* not done, the reply is OUT_UNKNOWN; not for queries */
    unsigned unavailable_percent;    /* not done, the reply is OUT_UNAVAILABLE */
    unsigned meddle_percent;         /* another node interferes: */
    unsigned meddling;               /* mask of enum fault_meddling; 0 = MEDDLE_HARMLESS */
    unsigned spurious_percent;       /* a submit also causes a signal without a job */
};
/* Takes ownership of inner, also on failure. */
MUST_CHECK int backend_open_fault(struct backend *inner, const struct backend_config *config,
                                  const struct fault_config *faults, struct backend **ret);
