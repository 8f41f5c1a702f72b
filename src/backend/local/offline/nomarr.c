/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/offline/nomarr.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <unistd.h>

/* All of one moment: both statements run in one transaction. */
static const char types_sql[] = "SELECT queue_type FROM queue WHERE typeof(queue_type) = 'text'"
                                " AND queue_type <> '' GROUP BY queue_type ORDER BY min(id)";
static const char rows_sql[] =
    "SELECT id, library_id, path, queue_type, status, priority, error, enqueued_at FROM queue"
    " ORDER BY enqueued_at, id";
enum { ROW_ID, ROW_LIBRARY, ROW_PATH, ROW_TYPE, ROW_STATUS, ROW_PRIORITY, ROW_ERROR, ROW_AT };

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

/* What is wrong with a row; NULL = nothing. */
static const char *row_take(sqlite3_stmt *st, struct nomarr_row *ret)
{
    *ret = (struct nomarr_row){.id = sqlite3_column_int64(st, ROW_ID),
                               .library_id = sqlite3_column_int64(st, ROW_LIBRARY),
                               .priority = sqlite3_column_int64(st, ROW_PRIORITY),
                               .enqueued_at = sqlite3_column_int64(st, ROW_AT),
                               .path = column(st, ROW_PATH),
                               .queue_type = column(st, ROW_TYPE),
                               .error = column(st, ROW_ERROR)};
    if (sqlite3_column_type(st, ROW_LIBRARY) != SQLITE_INTEGER)
        return "its library_id is not a whole number";
    if (sqlite3_column_type(st, ROW_AT) != SQLITE_INTEGER)
        return "its enqueued_at is not a number of seconds";
    if (ret->path.len == 0)
        return "it has no path";
    if (ret->queue_type.len == 0)
        return "it has no queue_type";
    if (!status_take(column(st, ROW_STATUS), &ret->status))
        return "its status is none of pending, running, completed and error";
    return NULL;
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
        return err_note_set(note, -ERR_NOT_FOUND, "%s is not there or cannot be read", file);
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
        err = each(&r, types_sql, type_give);
    if (err == 0)
        err = each(&r, rows_sql, row_give);
    sqlite3_close(r.db);
    return err;
}
