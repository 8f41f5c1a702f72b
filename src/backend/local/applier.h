/* SPDX-License-Identifier: Apache-2.0 */
/* The sweeper: a thread that brings the store up to the journal, about once a second (up to five
 * seconds apart where a sweep takes long), or when there is much to do, or when somebody wants to
 * read what is only in the journal.
 *
 * It reads synced frames back from the journal and hands them to the store in one transaction; what
 * came and went within a sweep is never written. Only when the store has synced that is the journal
 * told, which may then use the segments again.
 *
 * A failed commit is final: the applier stops, says why, and the process must end. A full disk is
 * not: the ballast goes, and the sweep is tried again until applier_stop. New jobs must stay out
 * then until the ballast is back, or they would take the room that the ballast left for what ends
 * jobs; and before that, while what waits to be swept could need more room than there is. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/local/journal/journal.h"
#include "backend/local/store.h"
#include "base/log.h"

struct applier;
struct ballast;

struct applier_state {
    uint64_t applied;      /* records up to this position are in the store */
    uint64_t unapplied_ms; /* how long the oldest record that is not has been durable; 0 = none */
    bool full;             /* there is no room for new jobs; it goes on trying */
    int error;             /* ≠ 0: it has stopped for good */
    char why[512];
    uint64_t sweeps, sweep_ns_total, sweep_ns_last;
    bool compacting;
    uint64_t compact_left; /* free pages after its last slice */
    int compact_error;     /* why the last one ended early; 0 = it did not */
};

struct applier_config {
    struct store *store;
    struct journal *journal;
    struct ballast *ballast; /* NULL = none */
    const struct log *log;
    void *ctx;
    /* Called on the applier's thread: the state has changed. */
    void (*notify)(void *ctx);
};

/* Store and journal stay the caller's; until applier_stop only the thread writes to the one and
 * reads from the other. */
MUST_CHECK int applier_start(const struct applier_config *config, struct applier **ret);
/* From any thread: records up to this position, so many bytes more, are durable. */
void applier_synced(struct applier *a, uint64_t position, uint64_t bytes);
/* Somebody waits for these to be applied: sweep at once. */
void applier_want(struct applier *a, uint64_t position);
void applier_state(struct applier *a, struct applier_state *ret);
/* Gives the store's free pages back: runs slices (store_ops.compact) between sweeps, all of them
 * when there is nothing to sweep, until nothing is left; then `compacting` is false and `notify`
 * was called. A full disk ends it early. */
void applier_compact(struct applier *a);
/* The slice under way is the last. */
void applier_compact_end(struct applier *a);
/* Sweeps what is left, unless it has stopped with an error or the disk is full (the journal keeps
 * it); ends the thread, frees. NULL allowed. */
void applier_stop(struct applier *a);
