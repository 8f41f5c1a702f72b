/* SPDX-License-Identifier: Apache-2.0 */
/* The applier: a thread that applies the journal to the store, about once a second (up to five
 * seconds apart if a sweep takes long), or when there is much to do, or when a query needs what is
 * only in the journal. One such pass is called a sweep.
 *
 * A sweep reads synced frames back from the journal and passes them to the store in one
 * transaction; what was created and removed within a sweep is never written. The journal is
 * notified after the store has synced, and may then reuse the segments.
 *
 * A failed commit is final: the applier stops, reports the reason, and the process must end. A full
 * disk is not final: the reserve file is removed, and the sweep is repeated until applier_stop. New
 * jobs must then be refused until the reserve file exists again, because they would use the space
 * that the reserve file left for records that end jobs. They must also be refused earlier, while
 * the records that wait to be swept could need more space than is free. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/local/journal/journal.h"
#include "backend/local/store/store.h"
#include "base/log.h"

struct applier;
struct disk_reserve;

struct applier_state {
    uint64_t applied; /* records up to this position are in the store */
    /* how long the oldest record that is not applied has been durable; 0 = all are applied */
    uint64_t unapplied_ms;
    bool full; /* there is no space for new jobs; the applier keeps trying */
    int error; /* ≠ 0: it has stopped permanently */
    char why[512];
    uint64_t sweeps, sweep_ns_total, sweep_ns_last;
    bool compacting;
    uint64_t compact_left; /* free pages after its last slice */
    int compact_error;     /* why the last compaction ended early; 0 = it did not */
};

struct applier_config {
    struct store *store;
    struct journal *journal;
    struct disk_reserve *reserve; /* NULL = none */
    const struct log *log;
    void *ctx;
    /* Called on the applier thread when the state has changed. */
    void (*notify)(void *ctx);
};

/* The caller keeps store and journal; until applier_stop only the thread writes to the store and
 * reads from the journal. */
MUST_CHECK int applier_start(const struct applier_config *config, struct applier **ret);
/* From any thread: records up to this position, this many bytes more, are durable. */
void applier_synced(struct applier *a, uint64_t position, uint64_t bytes);
/* A query waits for these records: sweep at once. */
void applier_want(struct applier *a, uint64_t position);
void applier_state(struct applier *a, struct applier_state *ret);
/* Returns the store's free pages: runs slices (store_ops.compact) between sweeps, or all of them if
 * there is nothing to sweep, until nothing is left; then `compacting` is false and `notify` was
 * called. A full disk ends it early. */
void applier_compact(struct applier *a);
/* Ends compacting after the current slice. */
void applier_compact_end(struct applier *a);
/* Sweeps the rest, unless the applier has stopped with an error or the disk is full (the journal
 * keeps the rest); ends the thread and frees it. NULL is allowed. */
void applier_stop(struct applier *a);
