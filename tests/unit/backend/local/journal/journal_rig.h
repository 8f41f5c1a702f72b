/* SPDX-License-Identifier: Apache-2.0 */
/* Frames made up for the journal: what is in a frame follows from its first position and the seed,
 * so that a test can tell one from any other, and a forged one from a true one. */
#pragma once

#include "backend/local/journal/entry.h"
#include "backend/local/journal/journal.h"
#include "base/digest/random.h"
#include "support/files_torn.h"

/* Appends a frame of `count` records and about `bytes` bytes (a multiple of nothing in particular).
 */
void journal_rig_frame(struct buf *out, uint64_t first, uint32_t count, size_t bytes,
                       uint64_t seed);
/* What the frames of one append were, in the order of their positions. */
struct journal_rig_log {
    struct buf bytes;
    struct journal_rig_frame {
        uint64_t first, last;
        size_t at, len;
    } * frames;
    size_t count, room;
};
void journal_rig_log_init(struct journal_rig_log *log);
void journal_rig_log_done(struct journal_rig_log *log);
/* Makes a frame that follows the last, and keeps it. */
void journal_rig_log_add(struct journal_rig_log *log, uint64_t first, uint32_t count, size_t bytes,
                         uint64_t seed);
/* The same with these bytes as its records. */
void journal_rig_log_put(struct journal_rig_log *log, uint64_t first, uint32_t count,
                         struct span body);
struct span journal_rig_log_frame(const struct journal_rig_log *log, size_t i);
/* Forgets the frames from the i-th on. */
void journal_rig_log_cut(struct journal_rig_log *log, size_t i);
/* The key of the journal on this disk, prepared. */
void journal_rig_seal(struct files_torn *disk, struct journal_seal *ret);
