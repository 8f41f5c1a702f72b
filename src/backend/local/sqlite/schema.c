/* SPDX-License-Identifier: Apache-2.0 */
/* The tables (sql/schema.sql), and the check that a file has exactly these.
 *
 * `jobs` is narrow and has no secondary index, not even a partial one (7 % of a cycle's CPU,
 * measured): enqueue, claim, ack and removal change only its tree. The fields that few jobs have,
 * and the dead and cancelled jobs, are in separate tables, all keyed by the sequence, so that one
 * scan of each by increasing sequence can be merged. Numbers are those of core (state.h, job.h,
 * policy.h); times are milliseconds since 1970; unsigned 64-bit values are stored as SQLite's
 * signed ones, bit for bit. The range of each column is in sqlite/rules.c.
 *
 * There is one format (STORE_FORMAT) and no upgrade code. Files of earlier drafts have the
 * user_version 1 to 4 or FORMAT_BASE + 1; files of format N have FORMAT_BASE + N, so that no draft
 * can be mistaken for a format. As the tables may still change until the first release, the number
 * alone proves nothing: sqlite_schema must also be what this program creates, object by object.
 * That comparison also finds triggers, views, tables and indexes that someone else added; none of
 * them is ever used. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "backend/local/pages/dbfile.h"
#include "backend/local/sqlite/notices.h"
#include "backend/local/sqlite/store_sqlite.h"

#define FORMAT_BASE 100
#define DRAFT_LAST 4

/* ---- creating ---- */

static int tables_create(sqlite3 *db, struct err_note *note)
{
    return sql_exec(db, sqlite_text[TEXT_SCHEMA], note);
}

int schema_create(sqlite3 *db, struct err_note *note)
{
    char set[48];
    sqlite3_snprintf(sizeof set, set, "PRAGMA user_version = %d", FORMAT_BASE + STORE_FORMAT);
    int rc = sql_exec(db, "BEGIN IMMEDIATE", note);
    if (rc == 0)
        rc = tables_create(db, note);
    if (rc == 0)
        rc = sql_exec(db, set, note);
    if (rc == 0)
        rc = sql_exec(db, "COMMIT", note);
    if (rc != 0) /* report the first error */
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

/* ---- comparing ---- */

#define WAY_OUT                                                                                    \
    "export its jobs with the version that wrote it (holdfast export) and import them here "       \
    "(holdfast import), or start with an empty directory"

int schema_format(sqlite3 *db, const char *path, struct err_note *note)
{
    int64_t version = 0;
    int rc = sql_number(db, "PRAGMA user_version", &version, note);
    if (rc != 0 || version == FORMAT_BASE + STORE_FORMAT)
        return rc;
    bool draft = version >= 1 && version <= DRAFT_LAST;
    if (draft || (version > FORMAT_BASE && version < FORMAT_BASE + STORE_FORMAT))
        return err_note_set(note, -ERR_VERSION,
                            "%s has %s format %lld, which this version of Holdfast does not "
                            "read: " WAY_OUT,
                            path, draft ? "draft" : "the older",
                            (long long)(draft ? version : version - FORMAT_BASE));
    if (version > FORMAT_BASE + STORE_FORMAT)
        return err_note_set(note, -ERR_VERSION,
                            "%s has format %lld, written by a newer version of Holdfast; this one "
                            "reads format %d: use the newer version",
                            path, (long long)version - FORMAT_BASE, STORE_FORMAT);
    return err_note_set(note, -ERR_VERSION,
                        "%s does not say which format it has (its user_version is %lld, where %d "
                        "is expected): restore the newest backup, or start with an empty directory",
                        path, (long long)version, FORMAT_BASE + STORE_FORMAT);
}

int schema_refuse(const char *path, const char *type, const char *name, enum schema_fault fault,
                  struct err_note *note)
{
    switch (fault) {
    case SCHEMA_FOREIGN:
        return err_note_set(
            note, -ERR_INVALID,
            "%s contains the %s \"%.60s\", which Holdfast did not create: restore the newest "
            "backup, or save the jobs (holdfast export --data DIR) and import them into an empty "
            "store",
            path, type, name);
    case SCHEMA_MISSING:
        return err_note_set(
            note, -ERR_CORRUPT,
            "%s lacks the %s \"%.60s\": restore the newest backup, or save what can "
            "still be read (holdfast export --data DIR)",
            path, type, name);
    case SCHEMA_DIFFERENT:
        break;
    }
    return err_note_set(note, -ERR_VERSION,
                        "the %s \"%.60s\" in %s is not as this version of Holdfast creates it: a "
                        "draft of the format wrote it, or someone changed it; " WAY_OUT,
                        type, name, path);
}

/* Reports for every object of one database whether the other has the same one. */
static int objects_compare(sqlite3 *of, sqlite3 *with, enum schema_fault absent, schema_fault_fn fn,
                           void *ctx, struct err_note *note)
{
    sqlite3_stmt *each = NULL, *find = NULL;
    int rc = sql_prepare(of, "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name",
                         &each, note);
    if (rc == 0)
        rc = sql_prepare(with,
                         "SELECT type IS ?2 AND tbl_name IS ?3 AND sql IS ?4 FROM sqlite_schema "
                         "WHERE name = ?1",
                         &find, note);
    while (rc == 0) {
        int step = sqlite3_step(each);
        if (step == SQLITE_DONE)
            break;
        if (step != SQLITE_ROW) {
            rc = sql_error(of, "read the schema", note);
            break;
        }
        const char *type = (const char *)sqlite3_column_text(each, 0);
        const char *name = (const char *)sqlite3_column_text(each, 1);
        sqlite3_bind_value(find, 1, sqlite3_column_value(each, 1));
        sqlite3_bind_value(find, 2, sqlite3_column_value(each, 0));
        sqlite3_bind_value(find, 3, sqlite3_column_value(each, 2));
        sqlite3_bind_value(find, 4, sqlite3_column_value(each, 3));
        int found = sqlite3_step(find);
        if (found == SQLITE_DONE)
            rc = fn(ctx, type ? type : "object", name ? name : "?", absent, note);
        else if (found != SQLITE_ROW)
            rc = sql_error(with, "read the schema", note);
        else if (!sqlite3_column_int(find, 0))
            rc = fn(ctx, type ? type : "object", name ? name : "?", SCHEMA_DIFFERENT, note);
        sqlite3_reset(find);
    }
    sqlite3_finalize(each);
    sqlite3_finalize(find);
    return rc;
}

/* Differences are reported when the file's objects are compared; here only missing objects are. */
struct missing {
    schema_fault_fn fn;
    void *ctx;
};

static int missing_cb(void *ctx, const char *type, const char *name, enum schema_fault fault,
                      struct err_note *note)
{
    const struct missing *m = ctx;
    return fault == SCHEMA_MISSING ? m->fn(m->ctx, type, name, fault, note) : 0;
}

int schema_compare(sqlite3 *db, schema_fault_fn fn, void *ctx, struct err_note *note)
{
    sqlite3 *model = NULL;
    struct missing missing = {fn, ctx};
    /* It has no file, and therefore no pages with checksums, so sql_open cannot be used. */
    int rc = sqlite3_open(":memory:", &model) == SQLITE_OK
                 ? 0
                 : err_note_set(note, -ERR_NOMEM, "out of memory");
    if (rc == 0)
        rc = tables_create(model, note);
    if (rc == 0)
        rc = schema_views(model, note);
    if (rc == 0)
        rc = objects_compare(db, model, SCHEMA_FOREIGN, fn, ctx, note);
    if (rc == 0)
        rc = objects_compare(model, db, SCHEMA_MISSING, missing_cb, &missing, note);
    sqlite3_close(model);
    return rc;
}

/* A view of Holdfast and its triggers contain no data and are created again if they differ. */
bool schema_matters(const char *type, enum schema_fault fault)
{
    bool data = strcmp(type, "view") != 0 && strcmp(type, "trigger") != 0;
    return fault == SCHEMA_FOREIGN || data;
}

static int refuse_cb(void *ctx, const char *type, const char *name, enum schema_fault fault,
                     struct err_note *note)
{
    return schema_matters(type, fault) ? schema_refuse(ctx, type, name, fault, note) : 0;
}

/* SQLite takes this setting from the first page as it is in the file, even if a newer version of
 * that page is in the WAL. */
static int vacuum_sound(sqlite3 *db, const char *path, struct err_note *note)
{
    int64_t mode = 0;
    int rc = sql_number(db, "PRAGMA auto_vacuum", &mode, note);
    if (rc == 0 && mode != 2)
        rc =
            err_note_set(note, -ERR_CORRUPT, "%s: its header is damaged: auto_vacuum is off", path);
    return rc;
}

int schema_check(sqlite3 *db, const char *path, struct err_note *note)
{
    int rc = schema_format(db, path, note);
    if (rc == 0)
        rc = vacuum_sound(db, path, note);
    return rc ? rc : schema_compare(db, refuse_cb, (void *)path, note);
}

/* ---- does the file belong to Holdfast? ---- */

int schema_headless(const char *path, struct err_note *note)
{
    return err_note_set(note, -ERR_CORRUPT, "%s is damaged: its header cannot be read", path);
}

/* A store gets its header before it gets its name, so a file without a header is not a store,
 * unless it was damaged later. */
static int kind_judge(enum dbfile_kind kind, const char *path, struct err_note *note)
{
    switch (kind) {
    case DBFILE_DAMAGED:
        return schema_headless(path, note);
    case DBFILE_NO_DATABASE:
        return err_note_set(note, -ERR_INVALID,
                            "%s is not a holdfast store (not even a database); it is left as it "
                            "is: choose another --data directory",
                            path);
    case DBFILE_FOREIGN:
        return err_note_set(note, -ERR_INVALID,
                            "%s is the database of another program; it is left as it is: choose "
                            "another --data directory",
                            path);
    case DBFILE_DRAFT:
        return sql_draft(path, note);
    case DBFILE_OURS:
        break;
    }
    return 0;
}

int schema_probe(const struct store_dir *dir, struct err_note *note)
{
    enum dbfile_kind kind = DBFILE_OURS;
    const char *path = dir->db_path;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return -ERR_NOT_FOUND;
    if (fd < 0 && errno == ELOOP)
        return store_link_refuse(path, note);
    if (fd < 0)
        return err_note_set(note, -ERR_IO, "cannot open %s: %s", path, strerror(errno));
    int rc = dbfile_kind(fd, dir->path, &kind);
    if (rc != 0)
        (void)!err_note_set(note, rc, "cannot read %s: %s", path, strerror(errno));
    close(fd);
    return rc ? rc : kind_judge(kind, path, note);
}
