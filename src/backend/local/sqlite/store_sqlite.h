/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the SQLite store, shared by its own files, by check.c and by their tests.
 *
 *   sqlite/store_sqlite.c  open, close, the transaction of an apply, tidy, compact
 *   sqlite/sql.c     connections, errors, binding
 *   pages/dbpage.c, pages/vfs.c, pages/wal.c  checksums of pages, and of frames of the WAL
 *   sqlite/rules.c   the allowed values of each column
 *   sqlite/rows.c    rows of jobs and queues as structs
 *   sqlite/schema.c  tables, and the check that a file has exactly these
 *   sqlite/views.c   views for `sqlite3 -readonly`
 *   sqlite/change_set.c    records of a batch → one change for each job
 *   sqlite/write.c   changes → rows
 *   sqlite/gone.c    removed jobs whose rows still exist
 *   sqlite/load.c    rows → engine
 *   sqlite/read.c    bodies, on a separate connection
 *   sqlite/list.c    lists, on the same
 *   sqlite/history.c attempts: writing and reading them
 *   sqlite/kv.c      the key-value store: all of it
 *   sqlite/notices.c alert rules, notices, breakers: writing and loading them
 *   sqlite/hour.c    counters by the hour: writing, loading and reading them
 *   sqlite/schedules.c  schedules and links: writing and loading them
 *   sqlite/dependencies.c  jobs that depend on others: writing and loading them
 *
 * One connection, the applier's, writes and checkpoints; readers never write. No transaction stays
 * open between calls, so that the WAL can be reset.
 *
 * This folder implements local/store/store.h in a file of SQLite. It may use pages/, core and base,
 * SQLite and the file system. */
#pragma once

#include <sqlite3.h>

#include "backend/local/sqlite/bounds.h"
#include "backend/local/sqlite/gone.h"
#include "backend/local/sqlite/stmt_gen.h"
#include "backend/local/sqlite/text_gen.h"
#include "backend/local/store/store.h"
#include "backend/local/store/store_attempts.h"
#include "backend/local/store/store_dir.h"
#include "backend/local/store/store_frames.h"
#include "core/jobs/job_texts.h"

/* ---- SQL helpers (sqlite/sql.c) ---- */

/* The only place where SQLite's error codes are translated. */
int sql_code(int extended, int system_errno);
/* Opens a connection for one thread, with what all have in common: the VFS that checks every page
 * (pages/vfs.h), limits, and no trust in the content of the file. A file whose pages have no
 * checksums is refused with -ERR_VERSION. *ret is set even on failure. */
MUST_CHECK int sql_open(const char *path, int flags, int busy_ms, sqlite3 **ret,
                        struct err_note *note);
/* The same for reading only, with a URI; notes name the path. */
MUST_CHECK int sql_open_uri(const char *uri, const char *path, sqlite3 **ret,
                            struct err_note *note);
/* The refusal of a file whose pages have no checksums: -ERR_VERSION with a note. */
int sql_draft(const char *path, struct err_note *note);
/* The connection's last error; the note names the file, the action, and SQLite's message. */
int sql_error(sqlite3 *db, const char *doing, struct err_note *note);
/* Runs a statement that returns no rows to its end, and resets it. */
MUST_CHECK int sql_run(sqlite3_stmt *st, const char *doing, struct err_note *note);
MUST_CHECK int sql_exec(sqlite3 *db, const char *sql, struct err_note *note);
/* The first column of the first row; -ERR_NOT_FOUND if there is no row. */
MUST_CHECK int sql_number(sqlite3 *db, const char *sql, int64_t *ret, struct err_note *note);
MUST_CHECK int sql_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret, struct err_note *note);

/* The bytes must stay valid until the statement is run again. Empty text becomes NULL. */
void bind_number(sqlite3_stmt *st, int at, uint64_t v);
void bind_text(sqlite3_stmt *st, int at, struct span s);
void bind_bytes(sqlite3_stmt *st, int at, struct span s);
/* Valid until the statement is stepped or reset. */
struct span column_span(sqlite3_stmt *st, int at);

/* The columns of `jobs` in the order in which row_job reads and write binds them (JOB_COLUMNS is in
 * sql/parts.sql, with those of other tables). Small fields share a column, because every column
 * costs time for each row that is read or changed:
 *   marks    reason · flags << 4
 *   counts   failures · crashes << 16 · generation << 32
 *   payload  payload_kind · payload_bytes << 2
 *   lease_ms running: the lease; done: duration of the attempt << 1 | 1 (0 = not known); else 0
 *   limits   cancel_grace_ms · timeout_ms << 27; this and cancel_at belong to the newest lease;
 * after its end they have no meaning */
#define JOB_COLUMN_COUNT 16
enum job_column {
    JOB_SEQ,
    JOB_QUEUE,
    JOB_STATE,
    JOB_MARKS,
    JOB_SINCE,
    JOB_TOKEN_EPOCH,
    JOB_TOKEN_COUNTER,
    JOB_LEASE_MS,
    JOB_WORKER,
    JOB_RUN_AT,
    JOB_PRIORITY,
    JOB_COUNTS,
    JOB_PAYLOAD,
    JOB_ID_HI,
    JOB_LIMITS,
    JOB_CANCEL_AT,
};
static inline uint64_t job_marks(const struct job *j)
{
    return (uint64_t)j->reason | (uint64_t)j->flags << MARKS_FLAGS_SHIFT;
}
#define LIMITS_TIMEOUT_SHIFT 27
_Static_assert(LIMIT_LEASE_MS < 1u << LIMITS_TIMEOUT_SHIFT, "a grace time has its bits");
static inline uint64_t job_limits(const struct lease_limits *l)
{
    return (uint64_t)l->cancel_grace_ms | (uint64_t)l->timeout_ms << LIMITS_TIMEOUT_SHIFT;
}
static inline uint64_t job_counts(const struct job *j)
{
    return (uint64_t)j->failures | (uint64_t)j->crashes << 16 | (uint64_t)j->generation << 32;
}
static inline uint64_t job_payload(const struct job *j)
{
    return (uint64_t)j->payload_kind | (uint64_t)j->payload_bytes << 2;
}
#define EXTRA_COLUMN_COUNT (JOB_TEXTS + 3)

/* From the values of JOB_COLUMNS (that of JOB_WORKER is ignored); ret->extra is left empty.
 * -ERR_CORRUPT if a value is not allowed. */
MUST_CHECK int job_from(const int64_t values[JOB_COLUMN_COUNT], struct span worker,
                        struct stored_job *ret);
/* The same from columns `first` … of a row. */
MUST_CHECK int row_job(sqlite3_stmt *st, int first, struct stored_job *ret);
/* Spans are valid until the statement is stepped or reset; the row must have been checked. */
struct rec_queue_put row_queue(sqlite3_stmt *st, bool *ret_gone);
/* EXTRA_COLUMNS without seq. */
MUST_CHECK int row_extra(sqlite3_stmt *st, int first, struct job_extra *ret);

/* ---- schedules (sqlite/schedules.c) ---- */

struct store_sqlite;
/* Spans are valid until the statement is stepped or reset. -ERR_CORRUPT if it is not a schedule. */
MUST_CHECK int row_schedule(sqlite3_stmt *st, struct rec_schedule_put *ret);
/* Records about schedules, and links; -ERR_VERSION for any other. */
MUST_CHECK int write_schedule_record(struct store_sqlite *q, const struct record *r,
                                     struct err_note *note);
/* ---- dependencies (sqlite/dependencies.c) ---- */

/* Records about dependents and what they wait for; -ERR_VERSION for any other. */
MUST_CHECK int write_dependency_record(struct store_sqlite *q, const struct record *r,
                                       struct err_note *note);
MUST_CHECK int load_dependencies(sqlite3 *db, const struct store_sink *sink, struct err_note *note);

MUST_CHECK int sqlite_load_schedules(sqlite3 *db, const struct store_sink *sink,
                                     struct err_note *note);

/* ---- schema (sqlite/schema.c) ---- */

#define STORE_APPLICATION_ID 0x48664a71 /* "HfJq" */

#define STORE_FORMAT 5

/* Creates the tables in an empty database, with the number of the format, in one transaction. */
MUST_CHECK int schema_create(sqlite3 *db, struct err_note *note);
/* Creates the views again unless they are what this program would create (sqlite/views.c). They
 * contain no data, so they need no version. */
MUST_CHECK int schema_views(sqlite3 *db, struct err_note *note);
/* Checks that the file says that it has this format; -ERR_VERSION (a draft, a newer one, none). */
MUST_CHECK int schema_format(sqlite3 *db, const char *path, struct err_note *note);

enum schema_fault {
    SCHEMA_FOREIGN,   /* an object that Holdfast did not create */
    SCHEMA_DIFFERENT, /* not as this version creates it */
    SCHEMA_MISSING
};
/* A return other than 0 ends the comparison and is passed on. */
typedef int (*schema_fault_fn)(void *ctx, const char *type, const char *name,
                               enum schema_fault fault, struct err_note *note);
/* Compares sqlite_schema with what this program creates, and reports every difference. */
MUST_CHECK int schema_compare(sqlite3 *db, schema_fault_fn fn, void *ctx, struct err_note *note);
/* Whether the difference prevents the use of the file: not for a view of Holdfast, which is created
 * again. */
bool schema_matters(const char *type, enum schema_fault fault);
/* The error of such an object, with a note. */
int schema_refuse(const char *path, const char *type, const char *name, enum schema_fault fault,
                  struct err_note *note);
/* 0 if format and schema are those of this program. To be called before anything else is read,
 * because what someone else put into a schema must not be run. */
MUST_CHECK int schema_check(sqlite3 *db, const char *path, struct err_note *note);
/* Examines the file without SQLite: 0 a store of Holdfast, -ERR_NOT_FOUND no file; with a note:
 * -ERR_CORRUPT a store whose header cannot be read; -ERR_VERSION a draft; -ERR_INVALID something
 * else, which is not changed; -ERR_IO. */
MUST_CHECK int schema_probe(const struct store_dir *dir, struct err_note *note);
/* The refusal of a store whose header cannot be read: -ERR_CORRUPT. */
int schema_headless(const char *path, struct err_note *note);

/* ---- changes (sqlite/change_set.c) ---- */

#define STATES_ASIDE                                                                               \
    (STATE_BIT(STATE_DEAD) | STATE_BIT(STATE_CANCELLED)) /* have a row in aside                    \
                                                          */

enum change_flag {
    CHANGE_NEW = 1u << 0,  /* created in this batch: there is no row yet */
    CHANGE_FULL = 1u << 1, /* job has every field: created here, or read from its row */
    CHANGE_GONE = 1u << 2, /* removed in this batch */
    /* what a claim or ack without more changes: state, reason, since, JOB_BOUND */
    CHANGE_STATE = 1u << 3,
    CHANGE_REST = 1u << 4, /* other fields of job, too (only with FULL) */
    CHANGE_TOKEN = 1u << 5,
    CHANGE_LEASE = 1u << 6, /* lease_ms */
    CHANGE_WORKER = 1u << 7,
    CHANGE_PAYLOAD = 1u << 8,
    CHANGE_RESULT = 1u << 9,
    CHANGE_ERROR = 1u << 10,
    CHANGE_LABEL = 1u << 11,
    CHANGE_ATTRIBUTES = 1u << 12,
    CHANGE_REPORT = 1u << 14, /* progress or log */
    CHANGE_STEPS = 1u << 15,  /* results of steps */
    CHANGE_MARKED = 1u << 13, /* GONE, but its rows stay for now (sqlite/gone.h) */
};

/* What was reported about a job in a batch; empty = nothing. */
struct change_report {
    struct span progress, log;
};

/* Lists of steps that were stored in a batch, in their order. */
struct change_steps {
    struct span list;
    struct change_steps *next;
};

/* What a batch changes in one job. Spans point into the frames. */
struct change {
    uint64_t seq;
    unsigned flags;
    unsigned
        /* states (mask) in which the row must be for the first record to be allowed; 0 = checked */
        from;
    uint32_t lease_ms;
    struct lease_limits limits;
    uint8_t result_kind, error_kind;
    struct job job;
    struct job_token token;
    struct span worker;          /* of the newest attempt, if running or done */
    struct wall_time started_at; /* of the newest attempt */
    struct span payload, result, error;
    struct change_report *report; /* with REPORT: in the arena of the change set */
    struct change_steps *steps;   /* with STEPS: likewise */
    struct job_extra extra; /* NEW with JOB_HAS_EXTRA; otherwise what the flags LABEL … say */
};

/* An attempt that ended in the batch, but not by an ack. */
struct ended_attempt {
    uint32_t change;   /* index of the change of its job */
    uint64_t position; /* of the record that ended it */
    struct attempt_end end;
    struct wall_time started_at;
    struct span worker;
};

/* A larger batch is written in parts, in one transaction. Jobs that are created and removed within
 * a part cost nothing, so parts are as large as memory allows (about 40 MB, returned when the
 * applier is idle). */
#define CHANGE_SET_MAX 131072u
#define CHANGE_SET_KEPT 8192u

struct change_set {
    uint32_t max; /* changes that it takes before they are written */
    struct change *changes;
    uint32_t count, room;
    uint32_t *slots; /* by hash of the sequence: index + 1 */
    uint32_t slot_mask;
    uint32_t *order;             /* indexes by increasing sequence, after sorting … */
    uint32_t *merge;             /* … and space for sorting */
    struct ended_attempt *ended; /* in the order of their records */
    uint32_t ended_count;
    size_t ended_room;
    struct rec_counters *counters; /* in no order; several may be of the same queue and hour */
    uint32_t counters_count;
    size_t counters_room;
    struct arena texts; /* names of workers, from rows; reports */
};

void change_set_init(struct change_set *f);
void change_set_done(struct change_set *f);
void change_set_clear(struct change_set *f);
/* frees memory that only a large batch needs; the change set must be empty */
void change_set_trim(struct change_set *f);
/* The change of this job, or NULL. */
const struct change *change_set_find(const struct change_set *f, uint64_t seq);
void change_set_sort(struct change_set *f); /* fills order */

/* ---- the store ---- */

/* New rows are inserted GROUP at a time if there are this many: half the cost of a row is the start
 * of the statement. */
#define GROUP 16

/* The bounds of all sequences that have a row in a table. Most stores have few such rows, and a
 * sequence outside the bounds need not be searched for. */
struct seq_bounds {
    uint64_t min, max; /* min > max: no rows */
};

struct store_sqlite {
    struct store base;
    struct store_dir dir;
    sqlite3 *db;
    sqlite3_stmt *stmts[STMT_COUNT];
    struct store_meta meta; /* as committed */
    struct store_meta next; /* as it will be after the current batch */
    struct change_set change_set;
    struct seq_bounds jobs, extras, outcomes, asides, attempts, undelivered, links, reports, steps;
    struct seq_bounds gones; /* blocks with marks */
    struct gone_rules gone_rules;
    struct gone_figures figures;      /* as committed */
    struct gone_figures next_figures; /* as they will be after the current transaction */
    uint64_t clean_from;              /* block at which the next cleaning begins */
    bool damaged;                     /* a batch has found a damaged page (sqlite/damage.h) */
    /* with `damaged`: finds out which payloads can be read; NULL = not opened yet */
    sqlite3 *probe;
    sqlite3_stmt *probe_payload;
    uint64_t at;         /* position of the current record */
    int failed;          /* an error after which nothing more may be written; 0 = none */
    int wal_pages;       /* in the WAL after the last commit … */
    int wal_pages_tried; /* … of which a checkpoint could not move all … */
    int wal_pages_peak;  /* … and the highest number since the file was truncated */
};

struct store_sqlite *store_sqlite_of(struct store *s);

/* Extends the bounds to the sequence. */
void bounds_add(struct seq_bounds *b, uint64_t seq);
bool bounds_meet(const struct seq_bounds *b, uint64_t first, uint64_t last);

/* Adds a record to the change set, or writes it directly if it is not about a job. */
MUST_CHECK int change_set_add(struct store_sqlite *q, const struct record *r,
                              struct err_note *note);
/* Writes all changes and clears the change set. */
MUST_CHECK int write_changes(struct store_sqlite *q, struct err_note *note);
/* Writes the attempts that ended, except those of removed jobs (sqlite/history.c). */
MUST_CHECK int write_attempts(struct store_sqlite *q, struct err_note *note);
/* Runs a statement that must change exactly one row. */
MUST_CHECK int write_one(struct store_sqlite *q, enum stmt_id id, const char *what, uint64_t number,
                         struct err_note *note);
/* Adds to what will be written for an hour of a queue; writes if there is much of it. */
MUST_CHECK int change_set_count(struct store_sqlite *q, const struct rec_counters *r,
                                struct err_note *note);
MUST_CHECK int write_counters(struct store_sqlite *q, struct err_note *note);
MUST_CHECK int sqlite_load_counters(sqlite3 *db, const struct store_sink *sink,
                                    struct err_note *note);
/* Records that these numbers have been used; 0 = none of that kind. */
MUST_CHECK int write_numbers(struct store_sqlite *q, uint32_t queue, uint32_t schedule,
                             struct err_note *note);
MUST_CHECK int write_record(struct store_sqlite *q, const struct record *r, struct err_note *note);

/* ---- the key-value store (sqlite/kv.c) ---- */

/* Writes one of its records directly: these records are not merged. */
MUST_CHECK int write_kv_record(struct store_sqlite *q, const struct record *r,
                               struct err_note *note);
MUST_CHECK int load_kv(sqlite3 *db, const struct store_sink *sink, struct err_note *note);

MUST_CHECK int sqlite_load_meta(sqlite3 *db, struct store_meta *ret, struct err_note *note);
/* *ret_rows: rows of jobs, including removed ones. */
MUST_CHECK int sqlite_load(sqlite3 *db, const struct store_meta *meta,
                           const struct store_sink *sink, int64_t *ret_rows, struct err_note *note);
MUST_CHECK int sqlite_reader_open(const char *path, struct store_reader **ret,
                                  struct err_note *note);
/* A list that takes longer ends with -ERR_TIMEOUT; 5,000 until changed. */
void sqlite_reader_limit(struct store_reader *r, uint64_t ms);
