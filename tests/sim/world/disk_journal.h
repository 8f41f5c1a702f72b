/* SPDX-License-Identifier: Apache-2.0 */
/* The real journal under the virtual disk, on files that lose what was not synced.
 *
 * The frames of the disk are the truth: all that was handed to journal_append, of which `durable`
 * were appended for sure. Those being written when the process dies stay behind them until a later
 * process has found them, or not, and begun: until then they may still get lost, but only all
 * together. Whatever recovery and the sweeper read is compared with the truth, byte by byte.
 *
 * The store takes a batch in one commit, which is synced: a crash keeps it whole. A batch that was
 * read but not applied is forgotten by a crash. */
#pragma once

#include "backend/local/journal/journal.h"
#include "sim/world/disk.h"
#include "support/files_torn.h"

/* Planted here, beside those of enum journal_defect. */
enum disk_journal_defect {
    DISK_DEFECT_APPLIED_EARLY = 1u << 16, /* the journal hears of a sweep before its commit */
};

struct disk_journal {
    struct files_torn *files;
    struct journal *journal; /* of the living process; NULL = no process runs */
    struct journal_config config;
    unsigned defects;
    bool forgiving; /* what was appended for sure may be missing: the history will tell */

    struct journal_batch batch; /* read by the sweeper */
    size_t taken;               /* frames of it that are in the store */
    size_t read;                /* frames of the disk that the sweeper has read */
    uint64_t told;              /* position up to which the journal knows what is applied */

    size_t given;   /* frames of the disk that the store and recovery gave */
    bool failed;    /* an append failed: the journal takes nothing more, the process must die */
    bool waiting;   /* an append found no segment free */
    unsigned waits; /* this many in a row */

    uint32_t segments; /* files at the last look */
    uint64_t made, generation, recycled;
};

/* Figures of one call, to be counted. */
struct disk_journal_note {
    struct err_note note;
    bool torn, repeated, oversize;
    uint64_t recycled;
};

struct disk_journal_setup {
    uint64_t seed;
    uint32_t segment_bytes;
    uint64_t bytes_max;
    unsigned defects;
    bool forgiving;
};
/* The disk must be open. It frees what it was given. */
void disk_journal_new(struct disk *d, const struct disk_journal_setup *setup);
void disk_journal_free(struct disk_journal *j); /* NULL allowed */

/* All return what the journal did; -ERR_CORRUPT also when it gave what is not the truth. */

/* Recovery: gives each frame that the store lacks. Nothing counts before disk_journal_begin. */
typedef int (*disk_frame_fn)(void *ctx, struct span frame, struct err_note *note);
MUST_CHECK int disk_journal_open(struct disk *d, disk_frame_fn fn, void *ctx,
                                 struct disk_journal_note *note);
/* On success the disk's durable frames are those that recovery gave, and there are no others. */
MUST_CHECK int disk_journal_begin(struct disk *d, struct disk_journal_note *note);
/* Appends the frames being written. -ERR_NO_SPACE: none is being written any more. */
MUST_CHECK int disk_journal_append(struct disk *d, struct disk_journal_note *note);
MUST_CHECK int disk_journal_provide(struct disk *d, struct disk_journal_note *note);
/* One step of the sweeper: tells the journal what is applied, or applies up to this many frames of
 * what it has read, or reads. *idle: there was nothing to do. */
MUST_CHECK int disk_journal_sweep(struct disk *d, size_t frames, size_t bytes, bool *idle,
                                  struct err_note *note);
/* Sweeps until the store has this position and the journal knows. */
MUST_CHECK int disk_journal_catch_up(struct disk *d, uint64_t position, struct err_note *note);
/* The process is gone, by a power cut or kill -9. */
void disk_journal_end(struct disk *d, bool power);
