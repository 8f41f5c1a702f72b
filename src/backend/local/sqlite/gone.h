/* SPDX-License-Identifier: Apache-2.0 */
/* Removed jobs whose rows still exist (sqlite/gone.c; docs/decisions/017-gone.md).
 *
 * Jobs are claimed by priority, so the jobs that end are spread over the whole of a large table,
 * and deleting each row at once would write several pages for each job. Such a job is only marked
 * by one bit in table `gone`; its rows in jobs, payload, extra and outcome are deleted later,
 * together with others of the same pages. For all readers, a marked job does not exist. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct store_sqlite;

#define GONE_GROUP 16 /* rows in one statement */

/* Which removals are only marked, and how many marks are allowed. Tests set other values. */
struct gone_rules {
    uint32_t few;   /* a batch with fewer such removals deletes the rows */
    unsigned dense; /* this many removals within a block are deleted at once */
    /* and so are those of the newest sequences, whose pages are written anyway */
    uint64_t recent;
    uint64_t kept_min;    /* this many marks are allowed under load, or … */
    unsigned kept_one_in; /* … one in this many rows, if that is more */
};
struct gone_rules gone_rules(void);

struct gone_figures {
    uint64_t marks;
    int64_t rows; /* of jobs, including marked ones; fewer if the store has not been loaded */
};

/* Marks that are not written yet. */
struct gone_group {
    uint64_t blocks[GONE_GROUP], bits[GONE_GROUP];
    int count;
};

/* The number of marks. *ret is 0 in a store of a format without marks. */
MUST_CHECK int gone_count(sqlite3 *db, uint64_t *ret, struct err_note *note);
/* Chooses which removals of the change set, which must be sorted, are only marked. */
void gone_choose(struct store_sqlite *q);
/* Marks a job; -ERR_CORRUPT if it is already marked. gone_group_end writes the rest. */
MUST_CHECK int gone_add(struct store_sqlite *q, struct gone_group *g, uint64_t seq,
                        struct err_note *note);
MUST_CHECK int gone_group_end(struct store_sqlite *q, struct gone_group *g, struct err_note *note);
/* -ERR_CORRUPT if a job between these has been marked: a record must not name it. */
MUST_CHECK int gone_none(struct store_sqlite *q, uint64_t first, uint64_t last,
                         struct err_note *note);

/* Marks whose rows can be deleted. */
uint64_t gone_cleanable(const struct store_sqlite *q);
/* Deletes the rows of marked jobs, with their marks, in at most this many blocks: one
 * transaction. */
MUST_CHECK int gone_clean(struct store_sqlite *q, uint64_t blocks, struct err_note *note);
/* The same while there are more marks than allowed, for the size of one batch. */
MUST_CHECK int gone_clean_surplus(struct store_sqlite *q, struct err_note *note);

/* A scan of the marks by increasing sequence, parallel to one of jobs. */
struct gone_scan {
    sqlite3_stmt *st;
    int64_t block; /* the current block; INT64_MAX = past the end */
    uint64_t bits;
    uint64_t unmet; /* those of the bits whose row of jobs has not been found yet */
    bool strict;    /* set before gone_scan_begin: a mark without its row is -ERR_CORRUPT */
};
MUST_CHECK int gone_scan_begin(struct gone_scan *g, sqlite3 *db, struct err_note *note);
/* Advances to the sequence of a row of jobs; *ret says whether the job has been removed. */
MUST_CHECK int gone_scan_at(struct gone_scan *g, int64_t seq, bool *ret, struct err_note *note);
/* Reads the marks behind the last row of jobs; a strict scan allows none. */
MUST_CHECK int gone_scan_rest(struct gone_scan *g, struct err_note *note);
void gone_scan_end(struct gone_scan *g);
