/* SPDX-License-Identifier: Apache-2.0 */
/* The allowed values of each column of each table.
 *
 * There is one description for all code that reads rows: the load at start, lists, check, export. A
 * value from the file is compared with its rule before it is used; a value that a rule accepts
 * cannot overflow, index out of bounds or make a reply invalid. A rule looks at one value only: the
 * readers check whether rows fit each other.
 *
 * The columns of a table are in the order of its CREATE TABLE, in which all statements select them;
 * a test compares the two. */
#pragma once

#include "backend/local/sqlite/bounds.h"
#include "backend/local/sqlite/store_sqlite.h"

enum value_kind {
    VALUE_NUMBER,  /* min … max */
    VALUE_BITS,    /* any 64 bits */
    VALUE_ID,      /* the upper half of an id, which contains a time */
    VALUE_MARKS,   /* jobs.marks: a reason and flags */
    VALUE_PAYLOAD, /* jobs.payload: a kind and a length */
    VALUE_BYTES,   /* min … max bytes */
    VALUE_TEXT,    /* UTF-8 without U+0000, min … max bytes; may be absent if min is 0 */
    VALUE_NAME,    /* … without control characters, as names of queues are */
    VALUE_JSON,    /* a JSON value, up to max bytes; may be absent if min is 0 */
    VALUE_POLICY,  /* encoded: core/queues/policy.h … */
    VALUE_OPTIONS, /* … (may be missing) … */
    VALUE_SPEC,    /* … core/schedules/schedule.h … */
    VALUE_KEY,     /* … core/kvkey.h … */
    VALUE_KEYS,    /* … a list of these: core/validate.h */
    VALUE_BODY     /* bytes whose checksum is in another column: body_good() */
};

struct column_rule {
    const char *name;
    enum value_kind kind;
    int64_t min, max; /* of a number, or of its bytes */
};

enum table_id {
    TABLE_META,
    TABLE_NUMBERS,
    TABLE_QUEUES,
    TABLE_JOBS,
    TABLE_ASIDE,
    TABLE_PAYLOAD,
    TABLE_EXTRA,
    TABLE_OUTCOME,
    TABLE_REPORT,
    TABLE_STEPS,
    TABLE_BULKS,
    TABLE_KEYS,
    TABLE_ATTEMPTS,
    TABLE_KV,
    TABLE_UNDELIVERED,
    TABLE_ALERTS,
    TABLE_RAISED,
    TABLE_NOTICES,
    TABLE_BREAKERS,
    TABLE_HOUR,
    TABLE_SCHEDULES,
    TABLE_LINKS,
    TABLE_DEPENDENTS,
    TABLE_DEPENDENCIES,
    TABLE_PARENTS_ENDED,
    TABLE_GONE,
    TABLE_COUNT
};

struct table_rule {
    const char *name;
    const struct column_rule *columns;
    int count;
    bool job; /* a bad row concerns only one job: the server starts in spite of it */
};

extern const struct table_rule table_rules[TABLE_COUNT];

#define ROW_WAY_OUT                                                                                \
    "holdfast check DIR lists everything that is wrong; restore the newest backup, or save what "  \
    "can be read with holdfast export --data DIR"

/* The columns from `first` on are those of the table. -1 = all are valid, otherwise the first one
 * that is not. */
int row_bad_column(enum table_id table, sqlite3_stmt *st, int first);
/* As above, but only for the columns from … to, where `first` is the column `from`. */
int row_bad_among(enum table_id table, sqlite3_stmt *st, int first, int from, int to);
/* -ERR_CORRUPT, with a note that names table, column, row, value and what is allowed. */
int row_refuse(enum table_id table, sqlite3_stmt *st, int first, int column, struct err_note *note);
/* Both: for rows without which the server does not start; the note says what to do. */
MUST_CHECK int row_check(enum table_id table, sqlite3_stmt *st, struct err_note *note);
/* -ERR_CORRUPT for a value that is in range but does not fit the rest of the store; `why` says why
 * not. */
int row_misfit(enum table_id table, const char *column, int64_t row, const char *why,
               struct err_note *note);
/* The columns of a table for a SELECT, "a, b, length(c)", to be freed with sqlite3_free; for a body
 * it is the length. NULL = no memory. */
char *rule_columns(enum table_id table);
/* Checks a row of jobs by its numbers, in the order of the columns (that of JOB_WORKER is ignored).
 * Every start does this for every job. -1 = all are valid. */
int job_bad_number(const int64_t values[JOB_COLUMN_COUNT]);
/* As row_refuse, by the values. */
int job_refuse(const int64_t values[JOB_COLUMN_COUNT], int column, struct err_note *note);

/* Binds a body and, in the next place, its checksum. */
void bind_body(sqlite3_stmt *st, int at, struct span body);
/* Whether a body that was read is what was written: its checksum matches, and it is JSON if that is
 * its kind. Any other body must not get into a reply. */
bool body_good(struct span body, int64_t crc, uint8_t kind);

/* Passes every row of a table to `row`, for which texts are valid only during the call. `tail` is
 * what follows the name of the table in the SELECT. */
typedef int (*load_row_fn)(sqlite3_stmt *st, const struct store_sink *sink);
MUST_CHECK int load_scan(sqlite3 *db, enum table_id table, const char *tail, load_row_fn row,
                         const struct store_sink *sink, struct err_note *note);

/* Sequences: the store's own counter, and those of spools (core/jobs/id.h). */
#define STORE_SEQ_MAX ((int64_t)ID_SPOOL_BIT - 1)
#define STORE_SEQ_ANY ((int64_t)(ID_SPOOL_BIT << 1) - 1)
/* A store whose last reserved sequence is above this one is not opened, because it would soon run
 * out of sequences. */
#define STORE_SEQ_UPTO_MAX (STORE_SEQ_MAX - (INT64_C(1) << 32))
/* A start increases it, and ids of events have 24 bits for it. */
#define STORE_EPOCH_MAX ((INT64_C(1) << 24) - 2)
