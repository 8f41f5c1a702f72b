/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that makes frames durable: it takes all that have come in since its last sync and
 * appends them to the journal as one entry, so that one sync serves many requests. A second thread,
 * the helper, creates segments before they are needed.
 *
 * A failed write or sync is final: the writer stops, says why, and the process must end. A journal
 * without a free segment is not final: the frames are kept until there is space on the disk or the
 * applier has freed a segment. If a segment cannot be created for lack of memory or open files, the
 * helper tries again. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/local/journal/journal.h"
#include "base/containers/histogram.h"
#include "base/log.h"

struct writer;

struct writer_state {
    uint64_t durable;  /* records up to this position are on stable storage */
    bool full;         /* the disk has no room for another segment */
    bool stuck;        /* frames wait for a free segment */
    uint64_t stuck_ms; /* for this long, so far */
    int error;         /* ≠ 0: it has stopped for good */
    char why[512];     /* of error or full */
    uint64_t commits, commit_ns_total, commit_ns_last;
};

struct writer_config {
    struct journal *journal;
    const struct log *log;
    void *ctx;
    /* Called on the writer's threads: the state has changed. */
    void (*notify)(void *ctx);
    /* There, and inside writer_commit_here, after each sync, before notify: this many bytes more
     * for the applier. */
    void (*synced)(void *ctx, uint64_t position, uint64_t bytes);
    /* On the helper's thread: bytes free on the disk. NULL = unknown. */
    uint64_t (*room)(void *ctx);
    uint64_t segment_bytes; /* what a spare segment takes; for room */
};

/* The journal stays the caller's but is appended to by this alone until writer_stop. */
MUST_CHECK int writer_start(const struct writer_config *config, struct writer **ret);
/* The frames stay valid until the durable position passes them. -ERR_NOMEM: none is taken. */
MUST_CHECK int writer_push(struct writer *w, const struct span *frames, size_t count);
/* The same on the caller's thread, which waits for the sync: two wake-ups less, worth it when
 * no other request waits. False, with nothing done, when the thread is at work or syncs have been
 * slow.
 */
bool writer_commit_here(struct writer *w, const struct span *frames, size_t count);
/* The applier has made room. */
void writer_retry(struct writer *w);
/* Room is short: what the journal has beyond its spare segments is given back. */
void writer_economize(struct writer *w);
void writer_state(struct writer *w, struct writer_state *ret);
/* How long syncs took and how many records each had. */
void writer_spread(struct writer *w, struct histogram *ret_us, struct histogram *ret_records);
/* Commits what is queued (unless it has stopped with an error, or finds no room) and ends the
 * threads; the state can still be read. */
void writer_end(struct writer *w);
/* The same, and frees. NULL allowed. */
void writer_stop(struct writer *w);
