/* SPDX-License-Identifier: Apache-2.0 */
/* Giving the engine everything back.
 *
 * Jobs, their rare fields and the marks of removed ones are three rising scans, merged; payloads
 * are not touched. Everything is read in one transaction. */
#include <inttypes.h>

#include "backend/local/store_sqlite.h"
#include "backend/local/store_sqlite_notices.h"

int sqlite_load_meta(sqlite3 *db, struct store_meta *ret, struct err_note *note)
{
    sqlite3_stmt *st = NULL;
    int rc = sql_prepare(db,
                         "SELECT store_id, hash_key, created_at, epoch, seq_upto, position, "
                         "journal_from FROM meta WHERE id = 1",
                         &st, note);
    if (rc != 0)
        return rc;
    int step = sqlite3_step(st);
    struct span id = column_span(st, 0), key = column_span(st, 1);
    if (step == SQLITE_ROW && id.len == sizeof ret->store_id && key.len == sizeof ret->hash_key) {
        *ret = (struct store_meta){
            .created_at = {sqlite3_column_int64(st, 2)},
            .epoch = (uint32_t)sqlite3_column_int64(st, 3),
            .seq_upto = (uint64_t)sqlite3_column_int64(st, 4),
            .position = (uint64_t)sqlite3_column_int64(st, 5),
            .journal_from = sqlite3_column_int64(st, 6),
        };
        memcpy(ret->store_id, id.at, id.len);
        memcpy(&ret->hash_key, key.at, key.len);
    } else if (step == SQLITE_ROW || step == SQLITE_DONE) {
        rc = err_note_set(note, -ERR_CORRUPT, "%s: the row that says whose store it is, is damaged",
                          sqlite3_db_filename(db, "main"));
    } else {
        rc = sql_error(db, "read", note);
    }
    sqlite3_finalize(st);
    return rc;
}

/* One scan: row is called for each row of the statement. */
typedef int (*row_fn)(sqlite3_stmt *st, const struct store_sink *sink, struct err_note *note);

static int scan(sqlite3 *db, const char *sql, row_fn row, const struct store_sink *sink,
                struct err_note *note)
{
    sqlite3_stmt *st = NULL;
    int rc = sql_prepare(db, sql, &st, note);
    while (rc == 0) {
        int step = sqlite3_step(st);
        if (step == SQLITE_DONE)
            break;
        rc = step == SQLITE_ROW ? row(st, sink, note) : sql_error(db, "load", note);
    }
    sqlite3_finalize(st);
    return rc;
}

static int queue_row(sqlite3_stmt *st, const struct store_sink *sink, struct err_note *note)
{
    (void)note;
    bool gone;
    struct rec_queue_put put = row_queue(st, &gone);
    return sink->queue(sink->ctx, &put, gone);
}

static int bulk_row(sqlite3_stmt *st, const struct store_sink *sink, struct err_note *note)
{
    (void)note;
    struct stored_bulk bulk = {
        .begin = {.bulk = (uint64_t)sqlite3_column_int64(st, 0),
                  .action = (uint8_t)sqlite3_column_int64(st, 1),
                  .at = {sqlite3_column_int64(st, 2)},
                  .queue = (uint32_t)sqlite3_column_int64(st, 3),
                  .states = (unsigned)sqlite3_column_int64(st, 4),
                  .group = column_span(st, 5),
                  .seq_max = (uint64_t)sqlite3_column_int64(st, 6)},
        .cursor = (uint64_t)sqlite3_column_int64(st, 7),
        .changed = (uint64_t)sqlite3_column_int64(st, 8),
        .refused = (uint64_t)sqlite3_column_int64(st, 9),
    };
    return sink->bulk(sink->ctx, &bulk);
}

static int numbers_row(sqlite3_stmt *st, const struct store_sink *sink, struct err_note *note)
{
    (void)note;
    struct store_numbers numbers = {(uint32_t)sqlite3_column_int64(st, 0),
                                    (uint32_t)sqlite3_column_int64(st, 1)};
    return sink->numbers(sink->ctx, &numbers);
}

static int key_row(sqlite3_stmt *st, const struct store_sink *sink, struct err_note *note)
{
    (void)note;
    struct rec_key_new key = {
        .expires_at = {sqlite3_column_int64(st, 0)},
        .key = {.hi = (uint64_t)sqlite3_column_int64(st, 1),
                .lo = (uint64_t)sqlite3_column_int64(st, 2)},
        .fingerprint = (uint64_t)sqlite3_column_int64(st, 3),
        .seq = (uint64_t)sqlite3_column_int64(st, 4),
        .id_hi = (uint64_t)sqlite3_column_int64(st, 5),
    };
    return sink->key(sink->ctx, &key);
}

/* ---- jobs ---- */

/* The scan of `extra`, one row ahead of the scan of `jobs`. */
struct extra_scan {
    sqlite3_stmt *st;
    uint64_t seq; /* of the row it stands on; UINT64_MAX = past the end */
};

static int extra_next(struct extra_scan *x, struct err_note *note)
{
    int step = sqlite3_step(x->st);
    if (step != SQLITE_ROW && step != SQLITE_DONE)
        return sql_error(sqlite3_db_handle(x->st), "load", note);
    x->seq = step == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(x->st, 0) : UINT64_MAX;
    return 0;
}

/* The job's extra, moving the scan up to it; a row without its job is passed over (check tells). */
static int extra_take(struct extra_scan *x, struct stored_job *j, struct err_note *note)
{
    int rc = 0;
    while (rc == 0 && x->seq < j->job.seq)
        rc = extra_next(x, note);
    if (rc == 0 && x->seq == j->job.seq)
        return row_extra(x->st, 1, &j->extra);
    return rc ? rc : -ERR_CORRUPT;
}

struct job_load {
    const struct store_sink *sink;
    struct extra_scan extra;
    struct gone_scan gone;
    struct err_note *note;
    int64_t rows;
    uint64_t last; /* sequence: they must rise */
    int rc;        /* of the sink, or why a row cannot be one */
};

static int load_job(struct job_load *load, struct stored_job *j, int rc)
{
    struct err_note why = {""};
    if (rc == 0 && (j->job.flags & JOB_HAS_EXTRA))
        rc = extra_take(&load->extra, j, &why);
    if (rc != 0)
        return err_note_set(load->note, rc,
                            "the row of job %" PRIu64 " is damaged%s%s; run: holdfast check",
                            j->job.seq, why.text[0] ? ": " : "", why.text);
    return load->sink->job(load->sink->ctx, j);
}

/* A row of `jobs`, as the arguments of an SQL function. */
static void job_row(sqlite3_context *sql, int count, sqlite3_value **values)
{
    struct job_load *load = sqlite3_user_data(sql);
    struct stored_job j;
    int64_t v[JOB_COLUMN_COUNT];
    bool gone;
    load->rows++;
    load->rc = gone_scan_at(&load->gone, sqlite3_value_int64(values[JOB_SEQ]), &gone, load->note);
    if (load->rc != 0)
        sqlite3_result_error_code(sql, SQLITE_ABORT);
    if (load->rc != 0 || gone)
        return;
    for (int i = 0; i < count; i++)
        v[i] = i == JOB_WORKER ? 0 : sqlite3_value_int64(values[i]);
    const void *worker = sqlite3_value_blob(values[JOB_WORKER]);
    size_t worker_len = worker ? (size_t)sqlite3_value_bytes(values[JOB_WORKER]) : 0;
    int rc = job_from(v, span_of(worker, worker_len), &j);
    load->rc = load_job(load, &j, rc == 0 && j.job.seq <= load->last ? -ERR_CORRUPT : rc);
    load->last = j.job.seq;
    if (load->rc != 0)
        sqlite3_result_error_code(sql, SQLITE_ABORT);
}

static void job_rows_end(sqlite3_context *sql)
{
    (void)sql;
}

/* An aggregate function takes the rows: it is called from inside the scan, which spares every row
 * the way out of sqlite3_step and every value the checks of sqlite3_column_… (a third of the time).
 */
static int load_jobs(sqlite3 *db, const struct store_sink *sink, int64_t *ret_rows,
                     struct err_note *note)
{
    struct job_load load = {.sink = sink, .note = note};
    sqlite3_stmt *st = NULL;
    int rc =
        sql_prepare(db, "SELECT " EXTRA_COLUMNS " FROM extra ORDER BY seq", &load.extra.st, note);
    if (rc == 0)
        rc = gone_scan_begin(&load.gone, db, note);
    if (rc == 0 &&
        sqlite3_create_function(db, "load_job", JOB_COLUMN_COUNT, SQLITE_UTF8 | SQLITE_DIRECTONLY,
                                &load, NULL, job_row, job_rows_end) != SQLITE_OK)
        rc = sql_error(db, "load", note);
    if (rc == 0)
        rc = sql_prepare(db, "SELECT load_job(" JOB_COLUMNS ") FROM jobs NOT INDEXED", &st, note);
    if (rc == 0 && sqlite3_step(st) != SQLITE_ROW)
        rc = load.rc ? load.rc : sql_error(db, "load", note);
    sqlite3_finalize(st);
    sqlite3_finalize(load.extra.st);
    gone_scan_end(&load.gone);
    *ret_rows = load.rows;
    sqlite3_create_function(db, "load_job", JOB_COLUMN_COUNT, SQLITE_UTF8, NULL, NULL, NULL, NULL);
    return rc;
}

int sqlite_load(sqlite3 *db, const struct store_meta *meta, const struct store_sink *sink,
                int64_t *ret_rows, struct err_note *note)
{
    int rc = sql_exec(db, "BEGIN", note);
    if (rc != 0)
        return rc;
    rc = sink->meta(sink->ctx, meta);
    if (rc == 0)
        rc =
            scan(db, "SELECT " QUEUE_COLUMNS " FROM queues ORDER BY number", queue_row, sink, note);
    if (rc == 0)
        rc = sqlite_load_tallies(db, sink, note);
    if (rc == 0)
        rc = scan(db,
                  "SELECT bulk, action, at, queue, states, group_key, seq_max, cursor, changed, "
                  "refused FROM bulks ORDER BY bulk",
                  bulk_row, sink, note);
    if (rc == 0)
        rc = load_jobs(db, sink, ret_rows, note);
    if (rc == 0)
        rc = scan(db,
                  "SELECT expires_at, key_hi, key_lo, fingerprint, seq, id_hi FROM keys "
                  "ORDER BY expires_at, key_hi, key_lo",
                  key_row, sink, note);
    if (rc == 0)
        rc = load_kv(db, sink, note);
    if (rc == 0)
        rc = load_notice_records(db, sink, note);
    if (rc == 0)
        rc = sqlite_load_schedules(db, sink, note);
    if (rc == 0)
        rc = scan(db, "SELECT queue, schedule FROM numbers", numbers_row, sink, note);
    int end = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    return rc ? rc : end == SQLITE_OK ? 0 : sql_error(db, "load", note);
}
