/* SPDX-License-Identifier: Apache-2.0 */
/* Loads everything that the engine needs.
 *
 * Jobs, their rare fields and the marks of removed ones are three scans by increasing sequence,
 * merged; payloads are not read. Everything is read in one transaction. */
#include <inttypes.h>

#include "backend/local/sqlite/notices.h"
#include "backend/local/sqlite/rules.h"

static void meta_row(sqlite3_stmt *st, struct store_meta *ret)
{
    struct span id = column_span(st, 1), key = column_span(st, 2);
    *ret = (struct store_meta){
        .created_at = {sqlite3_column_int64(st, 3)},
        .epoch = (uint32_t)sqlite3_column_int64(st, 4),
        .seq_upto = (uint64_t)sqlite3_column_int64(st, 5),
        .position = (uint64_t)sqlite3_column_int64(st, 6),
        .journal_from = sqlite3_column_int64(st, 7),
    };
    memcpy(ret->store_id, id.at, sizeof ret->store_id);
    memcpy(&ret->hash_key, key.at, sizeof ret->hash_key);
}

int sqlite_load_meta(sqlite3 *db, struct store_meta *ret, struct err_note *note)
{
    sqlite3_stmt *st = NULL;
    int rc = sql_prepare(db, sqlite_text[TEXT_LOAD_META], &st, note);
    if (rc != 0)
        return rc;
    int step = sqlite3_step(st);
    if (step == SQLITE_ROW)
        rc = row_check(TABLE_META, st, note);
    else if (step == SQLITE_DONE)
        rc = err_note_set(
            note, -ERR_CORRUPT,
            "%s is damaged: table meta, which identifies the store, is empty; " ROW_WAY_OUT,
            sqlite3_db_filename(db, "main"));
    else
        rc = sql_error(db, "read", note);
    if (rc == 0)
        meta_row(st, ret);
    if (rc == 0 && ret->journal_from > (int64_t)ret->position)
        rc = row_misfit(TABLE_META, "journal_from", 1, "is above column position", note);
    sqlite3_finalize(st);
    return rc;
}

static int scan_step(sqlite3_stmt *st, enum table_id table, load_row_fn row,
                     const struct store_sink *sink, struct err_note *note)
{
    int rc = row_check(table, st, note);
    if (rc == 0)
        rc = row(st, sink);
    if (rc == -ERR_CORRUPT && note && note->text[0] == '\0')
        rc = row_misfit(table, table_rules[table].columns[0].name, sqlite3_column_int64(st, 0),
                        "does not fit the other rows", note);
    return rc;
}

int load_scan(sqlite3 *db, enum table_id table, const char *tail, load_row_fn row,
              const struct store_sink *sink, struct err_note *note)
{
    sqlite3_stmt *st = NULL;
    char *columns = rule_columns(table);
    char *sql =
        columns ? sqlite3_mprintf("SELECT %s FROM %s %s", columns, table_rules[table].name, tail)
                : NULL;
    int rc =
        sql ? sql_prepare(db, sql, &st, note) : err_note_set(note, -ERR_NOMEM, "out of memory");
    while (rc == 0) {
        int step = sqlite3_step(st);
        if (step == SQLITE_DONE)
            break;
        rc = step == SQLITE_ROW ? scan_step(st, table, row, sink, note)
                                : sql_error(db, "load", note);
    }
    sqlite3_finalize(st);
    sqlite3_free(sql);
    sqlite3_free(columns);
    return rc;
}

static int queue_row(sqlite3_stmt *st, const struct store_sink *sink)
{
    bool gone;
    struct rec_queue_put put = row_queue(st, &gone);
    return sink->queue(sink->ctx, &put, gone);
}

static int bulk_row(sqlite3_stmt *st, const struct store_sink *sink)
{
    struct stored_bulk bulk = {
        .begin = {.bulk = (uint64_t)sqlite3_column_int64(st, 0),
                  .action = (uint8_t)sqlite3_column_int64(st, 1),
                  .at = {sqlite3_column_int64(st, 2)},
                  .queue = (uint32_t)sqlite3_column_int64(st, 3),
                  .states = (unsigned)sqlite3_column_int64(st, 4),
                  .group = column_span(st, 5),
                  .kind = column_span(st, 6),
                  .seq_max = (uint64_t)sqlite3_column_int64(st, 7)},
        .cursor = (uint64_t)sqlite3_column_int64(st, 8),
        .changed = (uint64_t)sqlite3_column_int64(st, 9),
        .refused = (uint64_t)sqlite3_column_int64(st, 10),
    };
    return sink->bulk(sink->ctx, &bulk);
}

static int numbers_row(sqlite3_stmt *st, const struct store_sink *sink)
{
    struct store_numbers numbers = {(uint32_t)sqlite3_column_int64(st, 1),
                                    (uint32_t)sqlite3_column_int64(st, 2)};
    return sink->numbers(sink->ctx, &numbers);
}

static int key_row(sqlite3_stmt *st, const struct store_sink *sink)
{
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

static int step_row(sqlite3_stmt *st, const struct store_sink *sink)
{
    return sink->step(sink->ctx, (uint64_t)sqlite3_column_int64(st, 0), column_span(st, 1),
                      (size_t)sqlite3_column_int64(st, 2));
}

/* ---- jobs ---- */

/* The scan of `extra`, one row ahead of the scan of `jobs`. */
struct extra_scan {
    sqlite3_stmt *st;
    uint64_t seq; /* of the current row; UINT64_MAX = past the end */
};

static int extra_next(struct extra_scan *x, struct err_note *note)
{
    int step = sqlite3_step(x->st);
    if (step != SQLITE_ROW && step != SQLITE_DONE)
        return sql_error(sqlite3_db_handle(x->st), "load", note);
    x->seq = step == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(x->st, 0) : UINT64_MAX;
    return 0;
}

/* Returns the job's extra and advances the scan to it; a row without its job is skipped (check
 * reports it). A missing or damaged row concerns only this job: it is loaded without it, and set
 * aside when its body is read. */
static int extra_take(struct extra_scan *x, struct stored_job *j, struct err_note *note)
{
    int rc = 0;
    while (rc == 0 && x->seq < j->job.seq)
        rc = extra_next(x, note);
    if (rc == 0 && (x->seq != j->job.seq || row_extra(x->st, 1, &j->extra) != 0))
        j->extra = (struct job_extra){0};
    return rc;
}

struct job_load {
    const struct store_sink *sink;
    const struct store_meta *meta;
    struct extra_scan extra;
    struct gone_scan gone;
    struct err_note *note;
    int64_t rows;
    uint64_t last; /* sequence: they must increase */
    int rc;        /* of the sink, or why a row is not valid */
};

/* Says why the values cannot be a job of this store. */
static int job_explain(const struct job_load *load, const int64_t v[JOB_COLUMN_COUNT])
{
    struct err_note why = {""};
    int column = job_bad_number(v);
    if (column >= 0)
        (void)!job_refuse(v, column, &why);
    else
        (void)!err_note_set(&why, 0, "table jobs, row %" PRId64 ": column worker is not UTF-8 text",
                            v[JOB_SEQ]);
    return err_note_set(load->note, -ERR_CORRUPT, "the store is damaged: %s; " ROW_WAY_OUT,
                        why.text);
}

/* Checks sequence and token against the rest of the store. */
static int job_fits(const struct job_load *load, const struct stored_job *j)
{
    int64_t row = (int64_t)j->job.seq;
    if (j->job.seq <= load->last)
        return row_misfit(TABLE_JOBS, "seq", row, "is out of order", load->note);
    if (j->job.seq > load->meta->seq_upto && !id_spooled(j->job.seq))
        return row_misfit(TABLE_JOBS, "seq", row, "is above meta.seq_upto", load->note);
    if (j->token.epoch > load->meta->epoch)
        return row_misfit(TABLE_JOBS, "token_epoch", row, "is above meta.epoch", load->note);
    return 0;
}

static int load_job(struct job_load *load, const int64_t v[JOB_COLUMN_COUNT], struct span worker)
{
    struct stored_job j;
    if (job_from(v, worker, &j) != 0)
        return job_explain(load, v);
    int rc = job_fits(load, &j);
    load->last = j.job.seq;
    if (rc == 0 && (j.job.flags & JOB_HAS_EXTRA))
        rc = extra_take(&load->extra, &j, load->note);
    if (rc != 0)
        return rc;
    rc = load->sink->job(load->sink->ctx, &j);
    return rc == -ERR_CORRUPT ? row_misfit(TABLE_JOBS, "seq", v[JOB_SEQ],
                                           "does not fit the other rows", load->note)
                              : rc;
}

/* A row of `jobs`, as the arguments of an SQL function. */
static void job_row(sqlite3_context *sql, int count, sqlite3_value **values)
{
    struct job_load *load = sqlite3_user_data(sql);
    int64_t v[JOB_COLUMN_COUNT] = {0};
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
    load->rc = load_job(load, v, span_of(worker, worker_len));
    if (load->rc != 0)
        sqlite3_result_error_code(sql, SQLITE_ABORT);
}

static void job_rows_end(sqlite3_context *sql)
{
    (void)sql;
}

/* An aggregate function receives the rows: it is called from inside the scan, which avoids a return
 * from sqlite3_step for every row and the checks of sqlite3_column_… for every value (a third of
 * the time). */
static int load_jobs(sqlite3 *db, const struct store_meta *meta, const struct store_sink *sink,
                     int64_t *ret_rows, struct err_note *note)
{
    struct job_load load = {.sink = sink, .meta = meta, .gone = {.strict = true}, .note = note};
    sqlite3_stmt *st = NULL;
    int rc = sql_prepare(db, sqlite_text[TEXT_LOAD_EXTRA], &load.extra.st, note);
    if (rc == 0)
        rc = gone_scan_begin(&load.gone, db, note);
    if (rc == 0 &&
        sqlite3_create_function(db, "load_job", JOB_COLUMN_COUNT, SQLITE_UTF8 | SQLITE_DIRECTONLY,
                                &load, NULL, job_row, job_rows_end) != SQLITE_OK)
        rc = sql_error(db, "load", note);
    if (rc == 0)
        rc = sql_prepare(db, sqlite_text[TEXT_LOAD_JOBS], &st, note);
    if (rc == 0 && sqlite3_step(st) != SQLITE_ROW)
        rc = load.rc ? load.rc : sql_error(db, "load", note);
    if (rc == 0)
        rc = gone_scan_rest(&load.gone, note);
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
        rc = load_scan(db, TABLE_QUEUES, "ORDER BY number", queue_row, sink, note);
    if (rc == 0)
        rc = sqlite_load_counters(db, sink, note);
    if (rc == 0)
        rc = load_scan(db, TABLE_BULKS, "ORDER BY bulk", bulk_row, sink, note);
    if (rc == 0)
        rc = load_jobs(db, meta, sink, ret_rows, note);
    if (rc == 0)
        rc = load_scan(db, TABLE_KEYS, "ORDER BY expires_at, key_hi, key_lo", key_row, sink, note);
    if (rc == 0)
        rc = load_kv(db, sink, note);
    if (rc == 0)
        rc = load_scan(db, TABLE_STEPS, "ORDER BY seq, name", step_row, sink, note);
    if (rc == 0)
        rc = load_notice_records(db, sink, note);
    if (rc == 0)
        rc = sqlite_load_schedules(db, sink, note);
    if (rc == 0)
        rc = load_dependencies(db, sink, note);
    if (rc == 0)
        rc = load_scan(db, TABLE_NUMBERS, "", numbers_row, sink, note);
    int end = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    return rc ? rc : end == SQLITE_OK ? 0 : sql_error(db, "load", note);
}
