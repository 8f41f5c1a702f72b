/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of check: check.c (the store as a whole), check_job.c (one job), check_attempts.c
 * (history), check_pages.c (checksums), check_values.c (values out of range), check_gone.c (removed
 * jobs whose rows are still there), check_kv.c (the key-value store), check_steps.c,
 * check_dependencies.c (jobs that depend on others), check_notices.c (alert rules,
 * notices and breakers), check_hours.c (counters by the hour), check_journal.c (what the store has
 * not applied yet).
 *
 * A new check is a function in the file of its subject, declared below and called in check_rows
 * (check.c). It reports with check_problem. The allowed range of a column belongs to
 * sqlite/rules.c. */
#pragma once

#include <stdio.h>

#include "backend/local/pages/dbpage.h"
#include "backend/local/sqlite/store_sqlite.h"
#include "base/containers/map.h"
#include "core/limits.h"
#include "core/queues/policy.h"

enum check_advice {
    ADVICE_FILE,
    ADVICE_ROWS,
    ADVICE_JOB,
    ADVICE_VALUE,
    ADVICE_KEYS,
    ADVICE_JOURNAL,
    ADVICE_INCOMPLETE,
    ADVICE_LOST,
    ADVICE_KEY_FILE,
    ADVICE_PARENT,
    ADVICE_COUNT
};

struct check_queue {
    uint32_t number;
    uint32_t generation;
    bool gone;
    uint8_t unique_scope; /* enum unique_scope */
    char *name;           /* owned */
    uint64_t by_state[STATE_COUNT];
    uint64_t purged; /* waiting jobs of an older generation */
};

/* The tables that have at most one row a job. */
enum check_side_id { SIDE_PAYLOAD, SIDE_EXTRA, SIDE_OUTCOME, SIDE_ASIDE, SIDE_LINK, SIDE_COUNT };

struct check_side {
    sqlite3_stmt *st;
    int64_t seq; /* of the row it stands on; INT64_MAX = past the end */
    bool seen;   /* that row belongs to the job just looked at */
    bool failed; /* it cannot be read any further: nothing is known of the jobs that follow */
};

#define CHECK_SORTS 64

/* Findings in the same words. */
struct check_sort {
    const char *format; /* NULL = free */
    uint64_t count;
    char first[600]; /* a note of struct err_note fits */
};

struct check {
    const char *dir, *db_path;
    FILE *out;
    sqlite3 *db;
    struct store_meta meta;
    bool has_meta;              /* it could be read */
    struct check_queue *queues; /* by rising number */
    size_t queue_count, queue_room;
    struct check_side sides[SIDE_COUNT];
    struct gone_scan gone; /* beside the scan of jobs; st NULL = it cannot be read */
    struct map128 uniques; /* (queue, unique key) → the job that holds it */
    int64_t job_last;      /* the last whose row could be read */
    bool jobs_lost;        /* some rows of jobs could not be read */
    struct err_note lost_why;
    uint64_t jobs;        /* with those of the journal, once it is read */
    uint64_t queues_told; /* likewise */
    uint64_t problems, warnings;
    bool alone; /* the file is a copy: no journal belongs to it */
    int error;  /* why the check could not be done; 0 = it could, or the words say it */
    bool advised[ADVICE_COUNT];
    struct check_sort sorts[CHECK_SORTS];
    struct dbpage_fault *faults; /* between check_pages_read and check_pages_tell; owned */
    size_t fault_count, fault_room;
};

/* A job with what the other tables have of it. */
struct check_row {
    int64_t seq;
    struct stored_job stored;
    sqlite3_stmt *sides[SIDE_COUNT]; /* standing on its row; NULL = it has none */
};

void check_problem(struct check *c, enum check_advice advice, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for what may be in order: the check ends with CHECK_WARNED if there is no problem. */
void check_warning(struct check *c, enum check_advice advice, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A statement that cannot run is a finding: the schema is not what the format says. NULL then. */
sqlite3_stmt *check_prepare(struct check *c, const char *sql);
/* Whether there is a row; a failure is a finding. */
bool check_step(struct check *c, sqlite3_stmt *st);
/* A rule that a query can tell: each of its rows is a problem, and its only column the message; it
 * may name the state of blocked jobs as :blocked. */
void check_query(struct check *c, const char *sql);
struct check_queue *check_queue_of(struct check *c, uint32_t number); /* NULL = none */
/* Reads the file without SQLite, and so before SQLite opens it: closing a file gives up all locks
 * that the process has on it. -ERR_IO, -ERR_NOMEM with a note. */
MUST_CHECK int check_pages_read(struct check *c, const char *path, struct err_note *note);
/* Tells what was found, once there is a connection that knows the names of the tables. */
void check_pages_tell(struct check *c, const char *path);
/* Everything that can be wrong with one job whose row could be read. -ERR_NOMEM. */
MUST_CHECK int check_job(struct check *c, struct check_row *row);
/* Whether the job has been removed; asked by rising sequence. */
bool check_gone(struct check *c, int64_t seq);
/* What can be wrong with such a one. */
void check_gone_row(struct check *c, const struct check_row *row);
/* All marks of removed jobs, after the jobs. */
void check_gones(struct check *c);
/* Values that no row may hold. -ERR_NOMEM. */
MUST_CHECK int check_values(struct check *c);
/* Everything that can be wrong with the history of attempts, after the jobs. */
void check_attempts(struct check *c);
/* The key-value store, and the keys of jobs for it, after the jobs. */
void check_kv(struct check *c);
void check_steps(struct check *c);
/* Jobs that depend on others, after the jobs. */
void check_dependencies(struct check *c);
/* Alert rules, notices and breakers. */
void check_notices(struct check *c);
void check_hours(struct check *c);
/* The journal, after all that is in the store. */
void check_journal(struct check *c);
