/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that makes frames durable: it takes all that have come in since its last commit and
 * hands them to the store as one transaction, so that one sync serves many requests.
 *
 * A failed commit is final: the applier stops, says why, and the process must end. A full disk is
 * not: the frames are kept and tried again, until applier_stop. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/local/store.h"
#include "base/histogram.h"
#include "base/log.h"

struct applier;

struct applier_state {
    uint64_t durable;    /* records up to this position are on stable storage */
    bool full;           /* the last try found no space; it goes on trying */
    uint64_t full_tries; /* tries that found none, since the start */
    int error;           /* ≠ 0: it has stopped for good */
    char why[512];
    uint64_t commits, commit_ns_total, commit_ns_last;
    bool compacting;
    uint64_t compact_left; /* free pages after its last slice */
    int compact_error;     /* why the last one ended early; 0 = it did not */
};

/* `notify` is called on the applier's thread whenever the state has changed. The store stays the
 * caller's but is used by the thread alone until applier_stop. */
MUST_CHECK int applier_start(struct store *store, uint64_t position, const struct log *log,
                             void (*notify)(void *ctx), void *ctx, struct applier **ret);
/* The frame stays valid until the durable position reaches `last`. -ERR_NOMEM: not taken. */
MUST_CHECK int applier_push(struct applier *a, struct span frame, uint64_t last);
void applier_state(struct applier *a, struct applier_state *ret);
/* How long commits took and how many records each had. */
void applier_spread(struct applier *a, struct histogram *ret_us, struct histogram *ret_records);
/* Gives the store's free pages back: runs slices (store_ops.compact) between commits, all of them
 * when there is nothing to commit, until nothing is left; then `compacting` is false and `notify`
 * was called. A full disk ends it early. */
void applier_compact(struct applier *a);
/* The slice under way is the last. */
void applier_compact_end(struct applier *a);
/* Commits what is queued (unless it has stopped with an error, or the disk is full), ends the
 * thread, frees. */
void applier_stop(struct applier *a);
