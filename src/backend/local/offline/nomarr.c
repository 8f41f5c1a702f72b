/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/offline/nomarr.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <unistd.h>

#include "core/limits.h"

#define SECONDS_MAX (LIMIT_WALL_MS / 1000)

/* All of one moment: the statements run in one transaction. */
static const char row_types_sql[] =
    "SELECT id, queue_type FROM queue WHERE typeof(queue_type) = 'text' AND queue_type <> ''"
    " ORDER BY id";
static const char types_sql[] = "SELECT queue_type FROM queue WHERE typeof(queue_type) = 'text'"
                                " AND queue_type <> '' GROUP BY queue_type ORDER BY min(id)";
static const char rows_sql[] =
    "SELECT id, library_id, path, queue_type, status, priority, error, results_json, enqueued_at,"
    " started_at, completed_at FROM queue ORDER BY enqueued_at, id";
enum {
    ROW_ID,
    ROW_LIBRARY,
    ROW_PATH,
    ROW_TYPE,
    ROW_STATUS,
    ROW_PRIORITY,
    ROW_ERROR,
    ROW_RESULTS,
    ROW_ENQUEUED,
    ROW_STARTED,
    ROW_COMPLETED,
    ROW_COLUMNS
};

/* What a column must hold; SQLite itself does not see to it. */
static const struct {
    int type;
    bool nullable;
    const char *wrong;
} columns[ROW_COLUMNS] = {
    [ROW_ID] = {SQLITE_INTEGER, false, "its id is not a whole number"},
    [ROW_LIBRARY] = {SQLITE_INTEGER, false, "its library_id is not a whole number"},
    [ROW_PATH] = {SQLITE_TEXT, false, "its path is not a text"},
    [ROW_TYPE] = {SQLITE_TEXT, false, "its queue_type is not a text"},
    [ROW_STATUS] = {SQLITE_TEXT, false, "its status is not a text"},
    [ROW_PRIORITY] = {SQLITE_INTEGER, false, "its priority is not a whole number"},
    [ROW_ERROR] = {SQLITE_TEXT, true, "its error is neither NULL nor a text"},
    [ROW_RESULTS] = {SQLITE_TEXT, true, "its results_json is neither NULL nor a text"},
    [ROW_ENQUEUED] = {SQLITE_INTEGER, false, "its enqueued_at is not a number of seconds"},
    [ROW_STARTED] = {SQLITE_INTEGER, true,
                     "its started_at is neither NULL nor a number of seconds"},
    [ROW_COMPLETED] = {SQLITE_INTEGER, true,
                       "its completed_at is neither NULL nor a number of seconds"},
};

struct reading {
    sqlite3 *db;
    const char *file;
    const struct nomarr_sink *sink;
    struct err_note *note;
};

static int failed(const struct reading *r)
{
    int code = sqlite3_errcode(r->db);
    int err = code == SQLITE_NOMEM                            ? -ERR_NOMEM
              : code == SQLITE_NOTADB || code == SQLITE_ERROR ? -ERR_INVALID
                                                              : -ERR_IO;
    return err_note_set(r->note, err, "%s has no table `queue` of Nomarr that can be read: %s",
                        r->file, sqlite3_errmsg(r->db));
}

static struct span column(sqlite3_stmt *st, int i)
{
    const void *at = sqlite3_column_text(st, i);
    return span_of(at, at ? (size_t)sqlite3_column_bytes(st, i) : 0);
}

static bool status_take(struct span word, enum nomarr_status *ret)
{
    static const char *const words[] = {"pending", "running", "completed", "error"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (span_equal(word, span_text(words[i]))) {
            *ret = (enum nomarr_status)i;
            return true;
        }
    }
    return false;
}

static bool seconds_right(int64_t seconds)
{
    return seconds >= 0 && seconds <= SECONDS_MAX;
}

static const char *columns_check(sqlite3_stmt *st)
{
    for (int i = 0; i < ROW_COLUMNS; i++) {
        int type = sqlite3_column_type(st, i);
        if (type != columns[i].type && !(type == SQLITE_NULL && columns[i].nullable))
            return columns[i].wrong;
    }
    return NULL;
}

/* What is wrong with a row; NULL = nothing. */
static const char *row_take(sqlite3_stmt *st, struct nomarr_row *ret)
{
    const char *wrong = columns_check(st); /* before a column is read, which may convert it */
    *ret = (struct nomarr_row){.id = sqlite3_column_int64(st, ROW_ID),
                               .library_id = sqlite3_column_int64(st, ROW_LIBRARY),
                               .priority = sqlite3_column_int64(st, ROW_PRIORITY),
                               .enqueued_at = sqlite3_column_int64(st, ROW_ENQUEUED),
                               .started_at = sqlite3_column_int64(st, ROW_STARTED),
                               .completed_at = sqlite3_column_int64(st, ROW_COMPLETED)};
    if (wrong)
        return wrong;
    ret->path = column(st, ROW_PATH);
    ret->queue_type = column(st, ROW_TYPE);
    ret->error = column(st, ROW_ERROR);
    ret->results = column(st, ROW_RESULTS);
    if (!seconds_right(ret->enqueued_at) || !seconds_right(ret->started_at) ||
        !seconds_right(ret->completed_at))
        return "one of its times is not in the years 1970 to 9999";
    if (ret->path.len == 0)
        return "it has no path";
    if (ret->queue_type.len == 0)
        return "it has no queue_type";
    if (!status_take(column(st, ROW_STATUS), &ret->status))
        return "its status is none of pending, running, completed and error";
    return NULL;
}

static int row_type_give(const struct reading *r, sqlite3_stmt *st)
{
    return r->sink->row_type(r->sink->ctx, sqlite3_column_int64(st, 0), column(st, 1));
}

static int type_give(const struct reading *r, sqlite3_stmt *st)
{
    return r->sink->type(r->sink->ctx, column(st, 0));
}

static int row_give(const struct reading *r, sqlite3_stmt *st)
{
    struct nomarr_row row;
    const char *why = row_take(st, &row);
    if (!why)
        return r->sink->row(r->sink->ctx, &row);
    r->sink->wrong(r->sink->ctx, row.id, why);
    return 0;
}

static int each(const struct reading *r, const char *sql,
                int (*give)(const struct reading *r, sqlite3_stmt *st))
{
    sqlite3_stmt *st = NULL;
    int err = sqlite3_prepare_v2(r->db, sql, -1, &st, NULL) == SQLITE_OK ? 0 : failed(r);
    int step = SQLITE_DONE;
    while (err == 0 && (step = sqlite3_step(st)) == SQLITE_ROW)
        err = give(r, st);
    if (err == 0 && step != SQLITE_DONE)
        err = failed(r);
    sqlite3_finalize(st);
    return err;
}

int nomarr_read(const char *file, const struct nomarr_sink *sink, struct err_note *note)
{
    struct reading r = {.file = file, .sink = sink, .note = note};
    if (access(file, R_OK) != 0)
        return err_note_set(note, -ERR_NOT_FOUND, "%s does not exist or cannot be read", file);
    int rc = sqlite3_open_v2(file, &r.db, SQLITE_OPEN_READONLY, NULL);
    if (rc == SQLITE_OK) { /* anyone may have made the file */
        sqlite3_db_config(r.db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        sqlite3_db_config(r.db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_exec(r.db, "PRAGMA cell_size_check = ON", NULL, NULL, NULL);
    }
    int err = rc == SQLITE_OK && sqlite3_busy_timeout(r.db, 5000) == SQLITE_OK &&
                      sqlite3_exec(r.db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK
                  ? 0
              : r.db ? failed(&r)
                     : err_note_set(note, -ERR_NOMEM, "out of memory");
    if (err == 0)
        err = each(&r, row_types_sql, row_type_give);
    if (err == 0)
        err = each(&r, types_sql, type_give);
    if (err == 0)
        err = each(&r, rows_sql, row_give);
    sqlite3_close(r.db);
    return err;
}
