/* SPDX-License-Identifier: Apache-2.0 */
/* The journal makes frames durable, before any reply that depends on them is sent.
 *
 * Segments are files of one size with the names "1", "2", … They are filled with zeros before their
 * first use and are reused; each use of a segment has a new generation, one higher than the last.
 * An entry is what one sync makes durable: one or more complete frames (core/records/frame.h) after
 * a header (journal/entry.h) with the store's id, generation, position, the CRC of the previous
 * entry and a tag. The tag is computed with the key of the store (journal/key.h), so clients cannot
 * forge it. Entries begin at multiples of 4 KiB, so no sector that was synced is ever written
 * again. Entry N+1 is not written before N is synced: only the last entry can be torn.
 *
 * Recovery reads the segments in the order of their generations. The first entry of a segment names
 * the entry that it follows, and may repeat the last entry of the segment before it: a process that
 * starts does not rely on an entry that it found, but writes it again, elsewhere, and syncs that. A
 * bad entry ends the journal only if no header with a valid tag follows it. Otherwise it is damage,
 * which is refused and never repaired. It is not possible to determine whether a bad entry at the
 * end was being written when the process ended, or was damaged later: journal_torn reports that it
 * exists.
 *
 * Threads: append belongs to the writer, provide to the helper, the cursor and journal_applied to
 * the applier; these may run at the same time. journal_position and journal_figures can be called
 * by any thread at any time; all other functions only before these threads start or after they
 * ended.
 *
 * This folder, src/backend/local/journal, may use core/records, base, libuv and, through files.h,
 * the file system. It knows nothing about jobs or SQLite. */
#pragma once

#include "backend/local/journal/files.h"
#include "base/buf.h"

#define JOURNAL_PAGE 4096u
#define JOURNAL_SEGMENT_BYTES (16u << 20)
#define JOURNAL_BYTES_MAX (UINT64_C(256) << 20)
#define JOURNAL_SPARES 2 /* segments kept free */

struct journal;

struct journal_config {
    struct files *files; /* the journal's own from then on, also when journal_open fails */
    uint8_t store_id[16];
    uint64_t from;          /* position of the store when its journal was begun */
    uint64_t applied;       /* position the store has */
    uint32_t segment_bytes; /* multiple of JOURNAL_PAGE; 0 = JOURNAL_SEGMENT_BYTES */
    uint64_t bytes_max;     /* all segments together; 0 = JOURNAL_BYTES_MAX; at least 4 segments */
    bool read_only;
#ifdef HF_TEST_HOOKS
    unsigned defects; /* enum journal_defect */
#endif
};

/* Planted mistakes, for tests that must catch them. */
enum journal_defect {
    JOURNAL_DEFECT_ANY_GENERATION = 1u << 0, /* what an older use left behind counts as valid */
    JOURNAL_DEFECT_NO_SYNC = 1u << 1,        /* append returns before the sync */
    JOURNAL_DEFECT_RECYCLE_EARLY = 1u << 2,  /* a segment is used again before it is applied */
};

/* Called for each frame with records above config.applied, in order. Not 0: recovery ends with it.
 */
typedef int (*journal_frame_fn)(void *ctx, struct span frame, uint64_t first, uint64_t last,
                                struct err_note *note);

/* Finds and checks what is there, and gives the frames that the store lacks (fn may be NULL).
 * -ERR_CORRUPT: damage; the note says where, and what is wrong. -ERR_VERSION: written by a newer
 * version. Writes nothing. */
MUST_CHECK int journal_open(const struct journal_config *config, journal_frame_fn fn, void *ctx,
                            struct journal **ret, struct err_note *note);
/* Begins a new segment with the last entry repeated; in a journal without an entry nothing is
 * written. Makes a segment only when none is free, so a full disk seldom matters; spare ones are
 * journal_provide's. Removes files that were never finished. Before the first append and before
 * anything is read by the applier. */
MUST_CHECK int journal_begin(struct journal *j, struct err_note *note);
void journal_close(struct journal *j); /* NULL allowed */

/* Writes the frames as one entry and syncs it; they follow the last ones without a gap, none of
 * them is empty, and together they are at most JOURNAL_BODY_BYTES_MAX (journal/entry.h).
 * -ERR_NO_SPACE: no segment is free for it, nothing was written, try again after journal_provide or
 * journal_applied. Any other failure is final: the journal takes nothing more. */
MUST_CHECK int journal_append(struct journal *j, const struct span *frames, size_t count,
                              struct err_note *note);
uint64_t journal_position(const struct journal *j); /* of the last record that is synced */

/* The helper's work: makes one segment if one is wanted (a spare, or one for an entry larger than a
 * segment). *more: another is wanted. -ERR_NO_SPACE: the disk is full; what there was is kept.
 * Without a need, and when all segments together would pass bytes_max, it does nothing. */
MUST_CHECK int journal_provide(struct journal *j, bool *more, struct err_note *note);

/* Room is short: of the free segments journal_provide now keeps no more than the spare ones. From
 * any thread. */
void journal_economize(struct journal *j);

/* Reads synced frames for the applier, from where it read last; the first time from after
 * config.applied. The batch holds whole frames, at least one and else no more than max_bytes of
 * them, in order; empty when nothing is left. Each call starts the batch afresh; `last` is the
 * position of the last record ever read. */
struct journal_batch {
    struct buf bytes;
    struct span *frames; /* in bytes */
    size_t count, room;
    uint64_t last;
};
void journal_batch_init(struct journal_batch *b);
void journal_batch_done(struct journal_batch *b);
MUST_CHECK int journal_read(struct journal *j, size_t max_bytes, struct journal_batch *ret,
                            struct err_note *note);
/* The next journal_read begins again after what is applied. */
void journal_reread(struct journal *j);
/* Records up to here are in the store, synced: segments that hold nothing else may be used again.
 */
void journal_applied(struct journal *j, uint64_t position);

struct journal_figures {
    uint64_t position, applied; /* synced; in the store */
    uint64_t bytes_unapplied;   /* of entries the store lacks */
    uint64_t segment_bytes;     /* of each */
    uint64_t bytes, bytes_max;  /* of all segments */
    uint32_t segments, free;    /* files; those that can be begun at once */
    uint64_t generation;        /* of the segment being written; 0: none yet */
    bool wanting;               /* an append found no segment free */
};
void journal_figures(struct journal *j, struct journal_figures *ret);

/* The entry behind the last whole one, when there is one that is not whole: it was being written
 * when the process before ended and was never confirmed, or it was damaged later and may have been
 * confirmed. An entry whose first sector is lost altogether cannot be told from what an older use
 * of the segment left; then none is reported here. */
struct journal_torn {
    uint64_t bytes;      /* it takes up on the disk; 0: no such entry */
    uint32_t segment;    /* file with it … */
    uint64_t at;         /* … and where it begins */
    uint64_t generation; /* of the journal's last whole entry; 0: no such entry */
    uint64_t after;      /* position of the last whole record */
    bool header_damaged; /* so that the bytes are only what it seems to take up */
};
struct journal_torn journal_torn(const struct journal *j);

#define JOURNAL_TORN_NAME "torn-" /* the name of a saved one: this and a number */
#define JOURNAL_TORN_KEPT 3
#define JOURNAL_TORN_NAME_BYTES 32

/* Copies the bytes of the torn entry to a file beside the segments and syncs it, before
 * journal_begin; removes the oldest such files, so that JOURNAL_TORN_KEPT stay. On failure nothing
 * is left of the copy. */
MUST_CHECK int journal_torn_save(struct journal *j, char name[JOURNAL_TORN_NAME_BYTES],
                                 struct err_note *note);
/* How many such files there are. */
MUST_CHECK int journal_torn_count(struct files *files, unsigned *ret, struct err_note *note);
/* What is wrong with the file of the key, though it can be used: a sentence; NULL: nothing. */
const char *journal_key_problem(const struct journal *j);

/* Reads a journal that journal_open refuses, without its checks: every entry that is whole,
 * wherever it lies, is found, and those that go on behind config.applied are given as far as they
 * follow each other. Where the same records stand in two entries, the segment begun later counts.
 * Without its key nothing can be read. Gives config.files back. -ERR_NOMEM, or what fn returned. */
MUST_CHECK int journal_salvage(const struct journal_config *config, journal_frame_fn fn, void *ctx,
                               struct err_note *note);
