/* SPDX-License-Identifier: Apache-2.0 */
/* The virtual disk: frames on their way to being durable, and the store that outlives a crash.
 *
 *   added … being written (one commit at a time) … durable … applied to the store
 *
 * Frames become durable in order. A crash keeps those that are durable and any first part of those
 * being written. The store may lag behind; what it lacks is replayed at the next start.
 *
 * That is so by decree, or, in seeds with a journal (disk_journal.h), by what the journal does. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/local/store/store.h"
#include "sim/pool.h"

struct disk_frame {
    struct span bytes;
    uint64_t last; /* position of its last record */
};

struct disk_journal;

struct disk {
    struct pool pool;
    struct disk_journal *journal; /* NULL: by decree */
    struct store *store;
    struct store_reader *reader; /* opened on first use */
    char dir[80];                /* of the SQLite store; empty = memory */
    struct disk_frame *frames;
    size_t count, room;
    size_t applied, durable, writing; /* frames: applied ≤ durable; durable + writing ≤ count */
};

void disk_init(struct disk *d);
void disk_done(struct disk *d); /* also removes the SQLite directory */
MUST_CHECK int disk_open(struct disk *d, uint64_t seed, bool sqlite, struct wall_time now,
                         struct err_note *note);
/* Closes and opens the SQLite store, as a new process would; nothing for memory. */
MUST_CHECK int disk_reopen(struct disk *d, struct wall_time now, struct err_note *note);

void disk_add(struct disk *d, struct span frame, uint64_t last);
/* A planted defect: as two frames, the second of which begins with the first record of this kind.
 */
void disk_add_split(struct disk *d, struct span frame, uint64_t last, uint8_t kind);
size_t disk_waiting(const struct disk *d); /* added, not yet being written */
void disk_write(struct disk *d, size_t frames);
/* What was being written is durable: returns the position. */
uint64_t disk_written(struct disk *d);
/* Without a journal: the first `keep` frames of those being written became durable, the rest never
 * will. */
void disk_crash(struct disk *d, size_t keep);
uint64_t disk_position(const struct disk *d); /* durable */
/* The store catches up to at least this many frames (at most the durable ones). */
MUST_CHECK int disk_apply(struct disk *d, size_t upto, struct err_note *note);
/* Reads the store, which catches up to this position first. */
MUST_CHECK int disk_reader(struct disk *d, uint64_t need, struct store_reader **ret,
                           struct err_note *note);
