/* SPDX-License-Identifier: Apache-2.0 */
/* Translates SQLite's error codes and values. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backend/local/pages/vfs.h"
#include "backend/local/sqlite/store_sqlite.h"

/* ---- errors ---- */

/* A failed sync is never "no space": what was written may already be lost, so a retry is not
 * allowed. */
int sql_code(int extended, int system_errno)
{
    switch (extended & 0xff) {
    case SQLITE_FULL:
        return -ERR_NO_SPACE;
    case SQLITE_NOMEM:
        return -ERR_NOMEM;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_CONSTRAINT: /* a row exists that must not, or a row is missing */
    case SQLITE_MISMATCH:
        return -ERR_CORRUPT;
    case SQLITE_INTERRUPT:
        return -ERR_TIMEOUT;
    case SQLITE_TOOBIG:
        return -ERR_TOO_BIG;
    case SQLITE_IOERR:
        if (extended == SQLITE_IOERR_DATA) /* a checksum does not match (pages/vfs.h) */
            return -ERR_CORRUPT;
        if (extended == SQLITE_IOERR_SHMSIZE) /* errno is not kept; nothing else fails there */
            return -ERR_NO_SPACE;
        if (extended == SQLITE_IOERR_FSYNC || extended == SQLITE_IOERR_DIR_FSYNC)
            return -ERR_IO;
        return system_errno == ENOSPC || system_errno == EDQUOT ? -ERR_NO_SPACE : -ERR_IO;
    default:
        return -ERR_IO;
    }
}

/* The text that names the page and its table. */
static void fault_text(sqlite3 *db, char *text, size_t bytes)
{
    char name[100];
    struct dbpage_fault fault = dbpage_vfs_fault(db);
    dbpage_fault_text(&fault, text, bytes);
    size_t len = strlen(text);
    if (fault.kind != DBPAGE_FRAME && dbpage_vfs_owner(db, fault.number, name, sizeof name))
        snprintf(text + len, bytes - len, " (it belongs to %s)", name);
}

int sql_error(sqlite3 *db, const char *doing, struct err_note *note)
{
    char text[240] = "out of memory";
    const char *file = db ? sqlite3_db_filename(db, "main") : NULL;
    int extended = db ? sqlite3_extended_errcode(db) : SQLITE_NOMEM;
    int code = sql_code(extended, db ? sqlite3_system_errno(db) : 0);
    if (!note)
        return code;
    if (extended == SQLITE_IOERR_DATA)
        fault_text(db, text, sizeof text);
    else if (db)
        snprintf(text, sizeof text, "%s",
                 code == -ERR_NO_SPACE ? sqlite3_errstr(SQLITE_FULL) : sqlite3_errmsg(db));
    return err_note_set(note, code, "%s: cannot %s: %s", file && *file ? file : "holdfast.db",
                        doing, text);
}

/* ---- connections and statements ---- */

/* Limits of what a file can make SQLite do: no more than our own statements and rows need. */
static const struct {
    int id, value;
} limits[] = {
    {SQLITE_LIMIT_LENGTH, 2 * (int)LIMIT_PAYLOAD_BYTES + (1 << 20)}, /* of a row */
    {SQLITE_LIMIT_SQL_LENGTH, 200000},
    {SQLITE_LIMIT_COLUMN, 100},
    {SQLITE_LIMIT_EXPR_DEPTH, 100},
    {SQLITE_LIMIT_COMPOUND_SELECT, 20},
    {SQLITE_LIMIT_VDBE_OP, 100000},
    {SQLITE_LIMIT_FUNCTION_ARG, 100},
    {SQLITE_LIMIT_ATTACHED, 0},
    {SQLITE_LIMIT_TRIGGER_DEPTH, 4},
    {SQLITE_LIMIT_WORKER_THREADS, 0},
};

static int open_failed(const char *path, sqlite3 *db, int rc, struct err_note *note)
{
    int error = db ? sqlite3_system_errno(db) : 0;
    if (rc == SQLITE_CANTOPEN && error == ELOOP)
        return store_link_refuse(path, note);
    return err_note_set(note, sql_code(rc, error), "cannot open %s: %s%s%s", path,
                        sqlite3_errstr(rc), error ? ": " : "", error ? strerror(error) : "");
}

int sql_draft(const char *path, struct err_note *note)
{
    return err_note_set(note, -ERR_VERSION,
                        "%s was written by a development version of holdfast whose pages have no "
                        "checksums, and this version cannot read it: export its jobs with the "
                        "version that wrote it",
                        path);
}

/* A new file reserves bytes for checksums before its first page is written. */
static int format_check(sqlite3 *db, const char *path, struct err_note *note)
{
    int reserved = DBPAGE_RESERVED;
    enum dbpage_format format = DBPAGE_FORMAT_NONE;
    if (dbpage_vfs_format(db, &format) != 0)
        return err_note_set(note, -ERR_IO, "cannot read the header of %s", path);
    if (format == DBPAGE_FORMAT_OTHER)
        return sql_draft(path, note);
    if (format == DBPAGE_FORMAT_NONE &&
        sqlite3_file_control(db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved) != SQLITE_OK)
        return err_note_set(note, -ERR_IO, "cannot reserve bytes for checksums in %s", path);
    return 0;
}

static int connection_open(const char *name, const char *path, int flags, int busy_ms,
                           sqlite3 **ret, struct err_note *note)
{
    if (dbpage_vfs_register() != 0)
        return err_note_set(note, -ERR_IO, "this SQLite has no VFS for Unix");
    int rc = sqlite3_open_v2(name, ret, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
                             DBPAGE_VFS);
    if (rc != SQLITE_OK)
        return open_failed(path, *ret, rc, note);
    sqlite3_extended_result_codes(*ret, 1);
    sqlite3_busy_timeout(*ret, busy_ms);
    /* Views and triggers come from the file: they must not call functions with side effects. */
    sqlite3_db_config(*ret, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(*ret, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        sqlite3_limit(*ret, limits[i].id, limits[i].value);
    rc = sql_exec(*ret, "PRAGMA cell_size_check = ON", note);
    return rc ? rc : format_check(*ret, path, note);
}

int sql_open(const char *path, int flags, int busy_ms, sqlite3 **ret, struct err_note *note)
{
    return connection_open(path, path, flags, busy_ms, ret, note);
}

int sql_open_uri(const char *uri, const char *path, sqlite3 **ret, struct err_note *note)
{
    return connection_open(uri, path, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, 0, ret, note);
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
    /* column_blob first: it leaves text unchanged, and column_bytes then counts those bytes. */
    const void *bytes = sqlite3_column_blob(st, at);
    return span_of(bytes, bytes ? (size_t)sqlite3_column_bytes(st, at) : 0);
}
