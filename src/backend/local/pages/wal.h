/* SPDX-License-Identifier: Apache-2.0 */
/* The checksums of SQLite's WAL, which SQLite itself compares only when it recovers.
 *
 * Each frame (a header of 24 bytes and a page) carries a checksum that continues that of the frame
 * before it. A frame can therefore be checked alone, from the checksum that is stored in front of
 * it.
 *
 * When SQLite recovers, it takes the first frame that does not match for the end of the WAL: it
 * ignores a committed transaction that was damaged later just as one that a crash interrupted. If
 * a checkpoint has already copied pages of that transaction into the database, the two no longer
 * fit together. dbpage_wal_check tells damage from an interrupted write wherever the files prove
 * it:
 *  - a later transaction continues the checksum of a commit at or behind the frame that does not
 *    match. SQLite writes it only when that commit has been synced;
 *  - or a page of the database says that a checkpoint copied it from such a frame.
 * Where neither is the case, the database holds nothing of the transactions that SQLite ignores,
 * and the journal has their records. */
#pragma once

#include "backend/local/pages/dbpage.h"

#define WAL_HEADER_BYTES 32
#define WAL_FRAME_HEADER_BYTES 24
#define WAL_FRAME_BYTES (WAL_FRAME_HEADER_BYTES + DBPAGE_BYTES)

static inline int64_t wal_frame_at(uint32_t frame)
{
    return WAL_HEADER_BYTES + (int64_t)(frame - 1) * WAL_FRAME_BYTES;
}

/* Whether the checksum of the frame (header and page, together) continues `before`: that of the
 * frame in front, or of the WAL's header for the first. */
bool wal_frame_follows(const unsigned char before[8],
                       const unsigned char header[WAL_FRAME_HEADER_BYTES],
                       const unsigned char page[DBPAGE_BYTES]);

/* What dbpage_wal_check found. */
struct dbpage_wal {
    uint32_t frames;   /* up to the last commit that SQLite will find */
    uint32_t pages;    /* of the database after it; 0 = there is no commit */
    uint32_t *numbers; /* the pages in those frames, sorted, some more than once; owned */
    size_t number_count;
};
void dbpage_wal_done(struct dbpage_wal *w);
/* Whether the WAL has a newer version of the page, or the page is behind the end. */
bool dbpage_wal_covers(const struct dbpage_wal *w, uint32_t number);

/* Reads all of the WAL beside `db_path`, which no other process may use meanwhile. 0 also when
 * it does not exist. -ERR_CORRUPT with a note; *ret is filled then, too. -ERR_IO, -ERR_NOMEM. */
MUST_CHECK int dbpage_wal_check(const char *db_path, struct dbpage_wal *ret, struct err_note *note);
