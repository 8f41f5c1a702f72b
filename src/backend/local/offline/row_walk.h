/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a table by rising key, around what cannot be read. check and the salvage read with
 * it.
 *
 * SQLite finds a key by the pages above it, so a leaf that cannot be read hides its own keys and no
 * others. A range that cannot be read is halved until the unreadable part is single keys; when that
 * takes too long, until it is parts of `grain` keys, which grows. */
#pragma once

#include "backend/local/sqlite/store_sqlite.h"

/* All jobs between two sequences. */
#define JOB_ROWS                                                                                   \
    "SELECT " JOB_COLUMNS " FROM jobs NOT INDEXED WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq"

struct row_walk {
    sqlite3_stmt *st; /* ?1 … ?2 are the bounds of the key, which is column 0 */
    /* 0, or -ERR_CORRUPT when the row cannot be what it should; anything else ends the walk. */
    int (*row)(void *ctx, sqlite3_stmt *st);
    /* Nothing there can be read; w->why says why. Called before the next row. */
    void (*lost)(void *ctx, uint64_t from, uint64_t to);
    void *ctx;
    uint32_t patience;    /* failures after which the grain grows */
    struct err_note *why; /* of the last range that could not be read; may be NULL */
    uint64_t grain;       /* filled by the walk, as are … */
    uint32_t failures;
    uint64_t lost_from, lost_to; /* … neighbouring keys not reported yet; 0 = none */
};

/* 0, also when parts are lost; what `row` returned; -ERR_IO, -ERR_NOMEM … with a note. from ≥ 1. */
MUST_CHECK int row_walk(struct row_walk *w, uint64_t from, uint64_t to, struct err_note *note);
