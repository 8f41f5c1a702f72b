/* SPDX-License-Identifier: Apache-2.0 */
/* SQLite's codes, values and rows, in our words. */
#include <errno.h>
#include <inttypes.h>

#include "backend/local/store_sqlite.h"
#include "core/limits.h"

const char *store_sqlite_version(void)
{
    return sqlite3_libversion();
}

bool store_sqlite_version_good(void)
{
    return sqlite3_libversion_number() >= 3051003;
}

/* ---- errors ---- */

/* A failed sync is never "no space": what was written may be lost already, so nobody may retry. */
int sql_code(int extended, int system_errno)
{
    switch (extended & 0xff) {
    case SQLITE_FULL:
        return -ERR_NO_SPACE;
    case SQLITE_NOMEM:
        return -ERR_NOMEM;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_CONSTRAINT: /* a row is there that must not be, or the other way round */
    case SQLITE_MISMATCH:
        return -ERR_CORRUPT;
    case SQLITE_INTERRUPT:
        return -ERR_TIMEOUT;
    case SQLITE_TOOBIG:
        return -ERR_TOO_BIG;
    case SQLITE_IOERR:
        if (extended == SQLITE_IOERR_SHMSIZE) /* errno is not kept; nothing else fails there */
            return -ERR_NO_SPACE;
        if (extended == SQLITE_IOERR_FSYNC || extended == SQLITE_IOERR_DIR_FSYNC)
            return -ERR_IO;
        return system_errno == ENOSPC || system_errno == EDQUOT ? -ERR_NO_SPACE : -ERR_IO;
    default:
        return -ERR_IO;
    }
}

int sql_error(sqlite3 *db, const char *doing, struct err_note *note)
{
    const char *file = db ? sqlite3_db_filename(db, "main") : NULL;
    int code = db ? sql_code(sqlite3_extended_errcode(db), sqlite3_system_errno(db)) : -ERR_NOMEM;
    const char *why = db ? sqlite3_errmsg(db) : "out of memory";
    if (code == -ERR_NO_SPACE)
        why = sqlite3_errstr(SQLITE_FULL);
    return err_note_set(note, code, "%s: cannot %s: %s", file && *file ? file : "holdfast.db",
                        doing, why);
}

/* ---- connections and statements ---- */

int sql_open(const char *path, int flags, int busy_ms, sqlite3 **ret, struct err_note *note)
{
    int rc =
        sqlite3_open_v2(path, ret, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, NULL);
    if (rc != SQLITE_OK)
        return err_note_set(note, sql_code(rc, *ret ? sqlite3_system_errno(*ret) : 0),
                            "cannot open %s: %s", path, sqlite3_errstr(rc));
    sqlite3_extended_result_codes(*ret, 1);
    sqlite3_busy_timeout(*ret, busy_ms);
    /* Views and triggers come from the file: no function with effects for them. */
    sqlite3_db_config(*ret, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    return 0;
}

int sql_run(sqlite3_stmt *st, const char *doing, struct err_note *note)
{
    int rc = sqlite3_step(st);
    if (rc == SQLITE_DONE || rc == SQLITE_ROW) {
        sqlite3_reset(st);
        return 0;
    }
    rc = sql_error(sqlite3_db_handle(st), doing, note);
    sqlite3_reset(st);
    return rc;
}

int sql_exec(sqlite3 *db, const char *sql, struct err_note *note)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0
                                                                : sql_error(db, "run SQL", note);
}

int sql_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret, struct err_note *note)
{
    int rc = sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL);
    return rc == SQLITE_OK ? 0 : sql_error(db, "prepare a statement", note);
}

int sql_number(sqlite3 *db, const char *sql, int64_t *ret, struct err_note *note)
{
    sqlite3_stmt *st = NULL;
    int rc = sql_prepare(db, sql, &st, note);
    if (rc != 0)
        return rc;
    switch (sqlite3_step(st)) {
    case SQLITE_ROW:
        *ret = sqlite3_column_int64(st, 0);
        break;
    case SQLITE_DONE:
        rc = -ERR_NOT_FOUND;
        break;
    default:
        rc = sql_error(db, "read", note);
        break;
    }
    sqlite3_finalize(st);
    return rc;
}

/* ---- values ---- */

void bind_number(sqlite3_stmt *st, int at, uint64_t v)
{
    sqlite3_bind_int64(st, at, (int64_t)v);
}

void bind_text(sqlite3_stmt *st, int at, struct span s)
{
    if (s.len == 0)
        sqlite3_bind_null(st, at);
    else
        sqlite3_bind_text64(st, at, s.at, s.len, SQLITE_STATIC, SQLITE_UTF8);
}

void bind_bytes(sqlite3_stmt *st, int at, struct span s)
{
    sqlite3_bind_blob64(st, at, s.len ? s.at : "", s.len, SQLITE_STATIC);
}

struct span column_span(sqlite3_stmt *st, int at)
{
    /* column_blob first: it leaves text as it is, and column_bytes then counts those bytes. */
    const void *bytes = sqlite3_column_blob(st, at);
    return span_of(bytes, bytes ? (size_t)sqlite3_column_bytes(st, at) : 0);
}

/* ---- rows ---- */

static bool fits(int64_t v, int64_t min, int64_t max)
{
    return v >= min && v <= max;
}

/* Of the newest attempt, as far as the row tells. Nothing a damaged file holds may overflow. */
static int64_t started_at(const int64_t v[JOB_COLUMN_COUNT])
{
    int64_t since = v[JOB_SINCE], took = v[JOB_LEASE_MS];
    if (v[JOB_STATE] == STATE_RUNNING)
        return since;
    if (v[JOB_STATE] != STATE_DONE || took == 0)
        return 0;
    bool sound = fits(since, 0, LIMIT_WALL_MS) && (took & 1) &&
                 fits(took >> 1, -LIMIT_WALL_MS, LIMIT_WALL_MS);
    return sound ? since - (took >> 1) : -1;
}

int job_from(const int64_t v[JOB_COLUMN_COUNT], struct span worker, struct stored_job *ret)
{
    bool done = v[JOB_STATE] == STATE_DONE;
    int64_t marks = v[JOB_MARKS], counts = v[JOB_COUNTS], payload = v[JOB_PAYLOAD];
    *ret = (struct stored_job){
        .job = {.seq = (uint64_t)v[JOB_SEQ],
                .id_hi = (uint64_t)v[JOB_ID_HI],
                .priority = v[JOB_PRIORITY],
                .run_at = {v[JOB_RUN_AT]},
                .since = {v[JOB_SINCE]},
                .queue = (uint32_t)v[JOB_QUEUE],
                .payload_bytes = (uint32_t)(payload >> 2),
                .failures = (uint16_t)counts,
                .crashes = (uint16_t)(counts >> 16),
                .generation = (uint32_t)(counts >> 32),
                .state = (uint8_t)v[JOB_STATE],
                .reason = (uint8_t)(marks & 15),
                .payload_kind = (uint8_t)(payload & 3),
                .flags = (uint8_t)(marks >> 4)},
        .token = {.counter = (uint64_t)v[JOB_TOKEN_COUNTER], .epoch = (uint32_t)v[JOB_TOKEN_EPOCH]},
        .lease_ms = done ? 0 : (uint32_t)v[JOB_LEASE_MS],
        .worker = worker,
        .started_at = {started_at(v)},
    };
    bool good =
        fits(v[JOB_SEQ], 1, (int64_t)LIMIT_SEQ) && fits(v[JOB_QUEUE], 1, UINT32_MAX) &&
        fits(v[JOB_STATE], STATE_SCHEDULED, STATE_COUNT - 1) && (marks & 15) < REASON_COUNT &&
        fits(marks >> 4, 0, JOB_HAS_EXTRA | JOB_BOUND) && fits(v[JOB_SINCE], 0, LIMIT_WALL_MS) &&
        fits(ret->started_at.ms, 0, LIMIT_WALL_MS) && fits(v[JOB_TOKEN_EPOCH], 0, UINT32_MAX) &&
        (done || fits(v[JOB_LEASE_MS], 0, LIMIT_LEASE_MS)) &&
        fits(v[JOB_RUN_AT], 0, LIMIT_WALL_MS) && (payload & 3) <= PAYLOAD_BYTES &&
        fits(payload >> 2, 0, LIMIT_PAYLOAD_BYTES) && worker.len <= LIMIT_WORKER_BYTES;
    return good ? 0 : -ERR_CORRUPT;
}

int row_job(sqlite3_stmt *st, int first, struct stored_job *ret)
{
    int64_t v[JOB_COLUMN_COUNT];
    for (int i = 0; i < JOB_COLUMN_COUNT; i++)
        v[i] = i == JOB_WORKER ? 0 : sqlite3_column_int64(st, first + i);
    return job_from(v, column_span(st, first + JOB_WORKER), ret);
}

int row_extra(sqlite3_stmt *st, int first, struct job_extra *ret)
{
    *ret = (struct job_extra){
        .unique = column_span(st, first),
        .group = column_span(st, first + 1),
        .correlation = column_span(st, first + 2),
        .label = column_span(st, first + 3),
        .attributes = column_span(st, first + 4),
        .expires_at = {sqlite3_column_int64(st, first + 5)},
        .options = column_span(st, first + 6),
    };
    bool good = ret->unique.len <= LIMIT_KEY_BYTES && ret->group.len <= LIMIT_KEY_BYTES &&
                ret->correlation.len <= LIMIT_KEY_BYTES && ret->label.len <= LIMIT_LABEL_BYTES &&
                ret->attributes.len <= LIMIT_ATTRIBUTES_BYTES &&
                ret->options.len <= POLICY_BYTES_MAX && ret->expires_at.ms >= 0 &&
                ret->expires_at.ms <= LIMIT_WALL_MS;
    return good ? 0 : -ERR_CORRUPT;
}

struct rec_queue_put row_queue(sqlite3_stmt *st, bool *ret_gone)
{
    *ret_gone = sqlite3_column_int64(st, 6) != 0;
    return (struct rec_queue_put){
        .queue = (uint32_t)sqlite3_column_int64(st, 0),
        .name = column_span(st, 1),
        .generation = (uint32_t)sqlite3_column_int64(st, 2),
        .created_at = {sqlite3_column_int64(st, 3)},
        .updated_at = {sqlite3_column_int64(st, 4)},
        .paused_until = {sqlite3_column_int64(st, 5)},
        .policy = column_span(st, 7),
        .owner = column_span(st, 8),
        .note = column_span(st, 9),
        .attributes = column_span(st, 10),
    };
}
