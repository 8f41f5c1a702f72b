/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies by sequence, on a read-only connection.
 *
 * Each call is one short read transaction, begun and ended inside it: a reader that keeps an old
 * snapshot would prevent the WAL from being reset. A job that was removed by a purge or with its
 * queue is not found, although its row may still exist. */
#include "backend/local/sqlite/read.h"

#include "backend/local/sqlite/rules.h"
#include "base/check.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/system/clock.h"
#include "core/jobs/job_error.h"
#include "core/jobs/progress.h"
#include "core/jobs/steps.h"
#include "core/limits.h"
#include "core/validate.h"

#define BUSY_MS 1000
#define LIMIT_MS 5000
/* steps of SQLite's virtual machine, some 0.3 ms, between checks of the clock */
#define STEPS_BETWEEN_CHECKS 20000

struct reader_sqlite *reader_sqlite_of(struct store_reader *r)
{
    CHECK(r->ops == &sqlite_reader_ops);
    return (struct reader_sqlite *)r;
}

void sqlite_reader_limit(struct store_reader *r, uint64_t ms)
{
    reader_sqlite_of(r)->limit_ms = ms;
}

/* ---- a transaction ---- */

static int progress_cb(void *ctx)
{
    const struct reader_sqlite *r = ctx;
    return clock_ns() > r->deadline_ns;
}

int read_begin(struct reader_sqlite *r)
{
    r->deadline_ns = clock_ns() + r->limit_ms * 1000000;
    return sql_run(r->stmts[READ_BEGIN], "read", NULL);
}

int read_end(struct reader_sqlite *r, int rc)
{
    r->deadline_ns = UINT64_MAX;
    for (int i = 0; i < READ_COUNT; i++)
        sqlite3_reset(r->stmts[i]);
    int end = sqlite3_get_autocommit(r->db) ? 0 : sql_run(r->stmts[READ_END], "read", NULL);
    return rc ? rc : end;
}

int read_row(struct reader_sqlite *r, sqlite3_stmt *st)
{
    switch (sqlite3_step(st)) {
    case SQLITE_ROW:
        return 0;
    case SQLITE_DONE:
        return -ERR_NOT_FOUND;
    default:
        return sql_error(r->db, "read", NULL);
    }
}

int read_span(sqlite3_stmt *st, int at, struct arena *arena, struct span *ret)
{
    struct span s = column_span(st, at);
    *ret = (struct span){NULL, 0};
    if (s.len == 0)
        return 0;
    void *copy = arena_copy(arena, s.at, s.len);
    if (!copy)
        return -ERR_NOMEM;
    *ret = span_of(copy, s.len);
    return 0;
}

int read_queue(struct reader_sqlite *r, struct span name, uint32_t *ret)
{
    sqlite3_stmt *st = r->stmts[READ_QUEUE];
    bind_text(st, 1, name);
    int rc = read_row(r, st);
    *ret = rc == 0 ? (uint32_t)sqlite3_column_int64(st, 0) : 0;
    sqlite3_reset(st);
    return rc == -ERR_NOT_FOUND ? 0 : rc;
}

/* ---- bodies ---- */

static int extra_read(sqlite3_stmt *st, int at, struct arena *arena, struct job_extra *ret)
{
    int rc = 0;
    for (int i = 0; i < JOB_TEXTS && rc == 0; i++)
        rc = read_span(st, at + i, arena, job_text_at(ret, (size_t)i));
    ret->expires_at.ms = sqlite3_column_int64(st, at + JOB_TEXTS);
    if (rc == 0)
        rc = read_span(st, at + JOB_TEXTS + 1, arena, &ret->options);
    return rc ? rc : read_span(st, at + JOB_TEXTS + 2, arena, &ret->undelivered);
}

static bool extra_good(sqlite3_stmt *st, int at)
{
    return row_bad_among(TABLE_EXTRA, st, at, 1, EXTRA_COLUMN_COUNT) < 0;
}

enum body_column {
    BODY_PAYLOAD,
    BODY_RESULT_KIND,
    BODY_RESULT,
    BODY_ERROR_KIND,
    BODY_ERROR,
    BODY_EXTRA,
    BODY_KEYS = BODY_EXTRA + EXTRA_COLUMN_COUNT - 1,
    BODY_STARTED_AT,
    BODY_LINK,
    BODY_SAYS = BODY_LINK + 2, /* jobs.payload */
    BODY_CRC,
    BODY_RESULT_CRC,
    BODY_WANTS_EXTRA,
    BODY_HAS_EXTRA,
};

static bool payload_good(sqlite3_stmt *st)
{
    int64_t says = sqlite3_column_int64(st, BODY_SAYS);
    struct span body = column_span(st, BODY_PAYLOAD);
    uint8_t kind = says & 3;
    if ((uint64_t)says >> 2 != body.len)
        return false;
    return body.len == 0 ? kind != PAYLOAD_JSON
                         : body_good(body, sqlite3_column_int64(st, BODY_CRC), kind);
}

static bool result_good(sqlite3_stmt *st)
{
    int64_t kind = sqlite3_column_int64(st, BODY_RESULT_KIND);
    return kind == PAYLOAD_NONE ||
           (kind > PAYLOAD_NONE && kind <= PAYLOAD_BYTES &&
            body_good(column_span(st, BODY_RESULT), sqlite3_column_int64(st, BODY_RESULT_CRC),
                      (uint8_t)kind));
}

static bool error_good(sqlite3_stmt *st)
{
    int64_t kind = sqlite3_column_int64(st, BODY_ERROR_KIND);
    return kind >= ERROR_APP && kind <= ERROR_BUSINESS &&
           validate_text("error", column_span(st, BODY_ERROR), JOB_ERROR_PACKED_MAX, NULL) == 0;
}

/* A job without rare fields has no row of them. */
static bool texts_good(sqlite3_stmt *st)
{
    bool has = sqlite3_column_int64(st, BODY_HAS_EXTRA) != 0;
    bool keys = sqlite3_column_type(st, BODY_KEYS) == SQLITE_NULL ||
                row_bad_among(TABLE_UNDELIVERED, st, BODY_KEYS, 1, 2) < 0;
    return keys && has == (sqlite3_column_int64(st, BODY_WANTS_EXTRA) != 0) &&
           (!has || extra_good(st, BODY_EXTRA));
}

static uint8_t body_damage(sqlite3_stmt *st, bool texts_only)
{
    return (uint8_t)((texts_only || payload_good(st) ? 0 : DAMAGE_PAYLOAD) |
                     (texts_only || result_good(st) ? 0 : DAMAGE_RESULT) |
                     (texts_good(st) ? 0 : DAMAGE_TEXTS) | (error_good(st) ? 0 : DAMAGE_HISTORY));
}

/* Times and links that cannot be right are treated as unknown. */
static void body_past(sqlite3_stmt *st, struct stored_body *ret)
{
    int64_t started_at = sqlite3_column_int64(st, BODY_STARTED_AT);
    ret->started_at.ms = started_at >= 0 && started_at <= LIMIT_WALL_MS ? started_at : 0;
    if (sqlite3_column_type(st, BODY_LINK) == SQLITE_NULL ||
        row_bad_among(TABLE_LINKS, st, BODY_LINK, 1, 3) >= 0)
        return;
    ret->holder.seq = (uint64_t)sqlite3_column_int64(st, BODY_LINK);
    ret->holder.hi = (uint64_t)sqlite3_column_int64(st, BODY_LINK + 1);
}

static int body_take(sqlite3_stmt *st, bool texts_only, struct arena *arena,
                     struct stored_body *ret)
{
    int rc = 0;
    ret->found = true;
    ret->damage = body_damage(st, texts_only);
    body_past(st, ret);
    if (!(ret->damage & DAMAGE_PAYLOAD))
        rc = read_span(st, BODY_PAYLOAD, arena, &ret->payload);
    if (rc == 0 && !(ret->damage & DAMAGE_RESULT)) {
        int64_t kind = sqlite3_column_int64(st, BODY_RESULT_KIND);
        ret->result_kind = kind >= 0 && kind <= PAYLOAD_BYTES ? (uint8_t)kind : PAYLOAD_NONE;
        rc = read_span(st, BODY_RESULT, arena, &ret->result);
    }
    if (rc == 0 && !(ret->damage & DAMAGE_HISTORY)) {
        ret->error_kind = (uint8_t)sqlite3_column_int64(st, BODY_ERROR_KIND);
        rc = read_span(st, BODY_ERROR, arena, &ret->error);
    }
    if (rc == 0 && !(ret->damage & DAMAGE_TEXTS))
        rc = extra_read(st, BODY_EXTRA, arena, &ret->extra);
    return rc;
}

static int body_read(struct reader_sqlite *r, uint64_t seq, bool texts_only, struct arena *arena,
                     struct stored_body *ret)
{
    sqlite3_stmt *st = r->stmts[READ_BODY];
    *ret = (struct stored_body){0};
    bind_number(st, 1, seq);
    bind_number(st, 2, texts_only);
    int rc = read_row(r, st);
    if (rc == 0)
        rc = body_take(st, texts_only, arena, ret);
    sqlite3_reset(st);
    return rc == -ERR_NOT_FOUND ? 0 : rc;
}

/* A page that cannot be read concerns only the job whose rows are on it; what is on other pages is
 * still shown. */
int read_body(struct reader_sqlite *r, uint64_t seq, bool texts_only, struct arena *arena,
              struct stored_body *ret)
{
    int rc = body_read(r, seq, texts_only, arena, ret);
    if (rc == -ERR_CORRUPT && !texts_only) {
        rc = body_read(r, seq, true, arena, ret);
        ret->damage |= DAMAGE_PAYLOAD | (ret->result_kind != PAYLOAD_NONE ? DAMAGE_RESULT : 0);
        ret->result_kind = PAYLOAD_NONE;
    }
    if (rc == -ERR_CORRUPT) {
        *ret = (struct stored_body){.found = true,
                                    .damage = DAMAGE_PAYLOAD | DAMAGE_RESULT | DAMAGE_TEXTS |
                                              DAMAGE_HISTORY};
        rc = 0;
    }
    return rc;
}

enum ahead_column {
    AHEAD_PAYLOAD,
    AHEAD_EXTRA,
    AHEAD_CRC = AHEAD_EXTRA + EXTRA_COLUMN_COUNT,
    AHEAD_HAS_EXTRA
};

/* As read_body, for a job that is ready and has never been claimed. Damage is handled by the
 * claim. */
static int read_ahead(struct reader_sqlite *r, uint64_t seq, struct arena *arena,
                      struct stored_body *ret)
{
    sqlite3_stmt *st = r->stmts[READ_AHEAD];
    *ret = (struct stored_body){0};
    bind_number(st, 1, seq);
    int rc = read_row(r, st);
    struct span body = rc == 0 ? column_span(st, AHEAD_PAYLOAD) : span_of(NULL, 0);
    bool good = rc == 0 && body_good(body, sqlite3_column_int64(st, AHEAD_CRC), PAYLOAD_BYTES) &&
                (!sqlite3_column_int64(st, AHEAD_HAS_EXTRA) || extra_good(st, AHEAD_EXTRA));
    if (good) {
        ret->found = true;
        ret->not_json = json_check(body, NULL, NULL) != 0;
        rc = read_span(st, AHEAD_PAYLOAD, arena, &ret->payload);
        if (rc == 0)
            rc = extra_read(st, AHEAD_EXTRA, arena, &ret->extra);
    }
    sqlite3_reset(st);
    return rc == -ERR_NOT_FOUND || rc == -ERR_CORRUPT ? 0 : rc;
}

/* What cannot be read is left out. */
static int read_report(struct reader_sqlite *r, uint64_t seq, bool log, struct arena *arena,
                       struct stored_body *ret)
{
    sqlite3_stmt *st = r->stmts[READ_REPORT];
    bind_number(st, 1, seq);
    bind_number(st, 2, log);
    int rc = read_row(r, st);
    if (rc == 0)
        rc = read_span(st, 0, arena, &ret->progress);
    if (rc == 0)
        rc = read_span(st, 1, arena, &ret->log);
    if (rc == 0)
        ret->progress = progress_shown(
            ret->progress, (struct job_token){.epoch = (uint32_t)sqlite3_column_int64(st, 2),
                                              .counter = (uint64_t)sqlite3_column_int64(st, 3)});
    sqlite3_reset(st);
    return rc == -ERR_NOT_FOUND || rc == -ERR_CORRUPT ? 0 : rc;
}

/* One row of `steps`. */
static int step_take(sqlite3_stmt *st, struct buf *list, struct stored_body *ret)
{
    struct step s = {column_span(st, 0), column_span(st, 1)};
    bool good = step_name_check(s.name, NULL) == 0 && s.result.len <= LIMIT_STEP_RESULT_BYTES &&
                body_good(s.result, sqlite3_column_int64(st, 2), PAYLOAD_JSON);
    if (good)
        return steps_append(list, &s);
    ret->damage |= DAMAGE_STEPS;
    return 0;
}

/* Results that cannot be read are left out; a claim then sets the job aside. */
static int read_steps(struct reader_sqlite *r, uint64_t seq, struct arena *arena,
                      struct stored_body *ret)
{
    sqlite3_stmt *st = r->stmts[READ_STEPS];
    struct buf list;
    int rc;
    buf_init(&list);
    bind_number(st, 1, seq);
    while ((rc = read_row(r, st)) == 0 && (rc = step_take(st, &list, ret)) == 0)
        ;
    if (rc == -ERR_CORRUPT)
        ret->damage |= DAMAGE_STEPS;
    rc = rc == -ERR_NOT_FOUND || rc == -ERR_CORRUPT ? 0 : rc;
    const char *copy = rc == 0 && list.len > 0 ? arena_copy(arena, list.data, list.len) : NULL;
    if (rc == 0 && list.len > 0 && !copy)
        rc = -ERR_NOMEM;
    ret->steps = span_of(copy, copy ? list.len : 0);
    buf_done(&list);
    sqlite3_reset(st);
    return rc;
}

static int sqlite_read(struct store_reader *reader, const struct store_query *query,
                       struct arena *arena, struct stored_body *bodies)
{
    struct reader_sqlite *r = reader_sqlite_of(reader);
    int rc = read_begin(r);
    for (size_t i = 0; i < query->count && rc == 0; i++) {
        rc = query->ahead ? read_ahead(r, query->seqs[i], arena, &bodies[i])
                          : read_body(r, query->seqs[i], query->texts_only, arena, &bodies[i]);
        if (rc == 0 && query->attempts && bodies[i].found)
            rc = read_attempts(r, query->seqs[i], arena, &bodies[i]);
        if (rc == 0 && query->attempts && bodies[i].found)
            rc = read_report(r, query->seqs[i], query->log, arena, &bodies[i]);
        if (rc == 0 && query->steps && bodies[i].found)
            rc = read_steps(r, query->seqs[i], arena, &bodies[i]);
    }
    return read_end(r, rc);
}

/* ---- opening ---- */

static void sqlite_reader_close(struct store_reader *reader)
{
    struct reader_sqlite *r = reader_sqlite_of(reader);
    for (int i = 0; i < READ_COUNT; i++)
        sqlite3_finalize(r->stmts[i]);
    sqlite3_close(r->db);
    mem_free(r);
}

const struct store_reader_ops sqlite_reader_ops = {
    .read = sqlite_read,
    .list = sqlite_list,
    .exceptions = sqlite_exceptions,
    .kv_list = sqlite_kv_list,
    .kv_get = sqlite_kv_get,
    .history = sqlite_history,
    .close = sqlite_reader_close,
};

static int reader_ready(struct reader_sqlite *r, const char *path, struct err_note *note)
{
    int rc = sql_open(path, SQLITE_OPEN_READONLY, BUSY_MS, &r->db, note);
    if (rc != 0)
        return rc;
    sqlite3_db_config(r->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_progress_handler(r->db, STEPS_BETWEEN_CHECKS, progress_cb, r);
    rc = sql_exec(r->db,
                  "PRAGMA query_only = ON; PRAGMA cache_size = -8192; PRAGMA temp_store = MEMORY;",
                  note);
    for (int i = 0; i < READ_FIXED && rc == 0; i++)
        rc = sql_prepare(r->db, read_sql[i], &r->stmts[i], note);
    return rc;
}

int sqlite_reader_open(const char *path, struct store_reader **ret, struct err_note *note)
{
    struct reader_sqlite *r = mem_zalloc(sizeof *r);
    if (!r)
        return err_note_set(note, -ERR_NOMEM, "out of memory");
    r->base.ops = &sqlite_reader_ops;
    r->limit_ms = LIMIT_MS;
    r->deadline_ns = UINT64_MAX;
    int rc = reader_ready(r, path, note);
    if (rc != 0)
        sqlite_reader_close(&r->base);
    else
        *ret = &r->base;
    return rc;
}
