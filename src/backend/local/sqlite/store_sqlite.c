/* SPDX-License-Identifier: Apache-2.0 */
/* The SQLite store: opening, and the transaction that makes a batch durable.
 *
 * A store is created under another name and renamed when it is complete, so DIR/holdfast.db is
 * either complete or does not exist. One apply is one transaction: rows and the applied position
 * together, with synchronous=FULL, so that when it returns the WAL is on stable storage.
 *
 * This file runs the checkpoints itself, never SQLite's own hook: the hook hides a failed sync of
 * the database file and tries again, and a second sync after a failed one proves nothing. Here it
 * is -ERR_IO, which stops the process; the WAL still has everything. A checkpoint that finds no
 * space is not a failure: the WAL continues to grow. */
#include "backend/local/sqlite/store_sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "backend/local/pages/wal.h"
#include "backend/local/sqlite/damage.h"
#include "base/check.h"
#include "base/digest/random.h"
#include "base/failpoint.h"
#include "base/mem.h"

#define NEW_SUFFIX ".new"
#define BUSY_MS 5000
#define CUT_BUSY_MS 100
/* A longer WAL is emptied by the apply that made it so, others by tidy … */
#define WAL_PAGES_MAX 4096
/* … and its file is truncated if a reader has let it grow to this size */
#define WAL_PAGES_CUT 65536
#define TIDY_PAGES 256  /* free pages returned to the file system in one step */
#define TIDY_BLOCKS 512 /* blocks of removed jobs whose rows are deleted in one step */
#define ROOM_SHORT (UINT64_C(16) << 20)
#define FREE_PAGES_KEPT 1024 /* free pages that are not returned, for new rows */
/* What compacting does between two commits: this many pages, or blocks of removed jobs, or a
 * checkpoint of a WAL of this length, with this timeout for readers. The values are so small that
 * no commit has to wait. */
#define COMPACT_PAGES 64
#define COMPACT_BLOCKS 32
#define COMPACT_WAL_PAGES 512
#define COMPACT_BUSY_MS 10

static const struct store_ops sqlite_ops;

struct store_sqlite *store_sqlite_of(struct store *s)
{
    CHECK(s->ops == &sqlite_ops);
    return (struct store_sqlite *)s;
}

/* ---- applying ---- */

static int wal_cb(void *ctx, sqlite3 *db, const char *name, int pages)
{
    (void)db, (void)name;
    struct store_sqlite *q = ctx;
    q->wal_pages = pages;
    if (pages > q->wal_pages_peak)
        q->wal_pages_peak = pages;
    return SQLITE_OK;
}

static int record_cb(void *ctx, const struct record *r, uint64_t position, struct err_note *note)
{
    struct err_note why = {""};
    struct store_sqlite *q = ctx;
    q->at = position;
    int rc = change_set_add(q, r, &why);
    if (rc == 0)
        return 0;
    return err_note_set(note, rc, "record %" PRIu64 " (%s) cannot be applied: %s", position,
                        record_name(r->kind), why.text[0] ? why.text : err_text(rc));
}

static int write_meta(struct store_sqlite *q, struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_META];
    bind_number(st, 1, q->next.epoch);
    bind_number(st, 2, q->next.seq_upto);
    bind_number(st, 3, q->next.position);
    return sql_run(st, "write", note);
}

static void roll_back(struct store_sqlite *q)
{
    change_set_clear(&q->change_set);
    if (!sqlite3_get_autocommit(q->db)) {
        sqlite3_step(q->stmts[STMT_ROLLBACK]);
        sqlite3_reset(q->stmts[STMT_ROLLBACK]);
    }
}

/* Called between BEGIN and COMMIT. */
static int write_frames(struct store_sqlite *q, const struct span *frames, size_t count,
                        struct err_note *note)
{
    q->next = q->meta;
    q->next_figures = q->figures;
    int rc = frames_walk(frames, count, &q->next.position, record_cb, q, note);
    if (rc == 0)
        rc = write_changes(q, note);
    /* Without a transaction each statement would commit by itself, including the new position. */
    if (rc == 0 && sqlite3_get_autocommit(q->db))
        rc = err_note_set(note, -ERR_CORRUPT, "%s: SQLite ended the transaction", q->dir.db_path);
    return rc ? rc : write_meta(q, note);
}

/* Moves the WAL into the database file, unless a reader prevents it; if the disk is full, the rest
 * is left for another time. */
static int checkpoint(struct store_sqlite *q, int mode, struct err_note *note)
{
    int pages = 0, moved = 0;
    FAILPOINT("checkpoint");
    int rc = sqlite3_wal_checkpoint_v2(q->db, "main", mode, &pages, &moved);
    FAILPOINT("checkpoint.done");
    if (rc == SQLITE_OK && pages == moved)
        q->wal_pages = 0;
    if (rc == SQLITE_OK && mode == SQLITE_CHECKPOINT_TRUNCATE)
        q->wal_pages_peak = 0;
    q->wal_pages_tried = q->wal_pages;
    if (rc == SQLITE_OK || rc == SQLITE_BUSY || rc == SQLITE_LOCKED)
        return 0;
    rc = sql_error(q->db, "checkpoint", note);
    return rc == -ERR_NO_SPACE ? 0 : rc;
}

/* After a failed write or sync the content of the disk is unknown: the process must start again. */
static int keep_failure(struct store_sqlite *q, int rc)
{
    if (rc == -ERR_IO || rc == -ERR_CORRUPT)
        q->failed = rc;
    return rc;
}

static void committed(struct store_sqlite *q)
{
    q->meta = q->next;
    q->figures = q->next_figures;
}

/* *again: there was a damaged page, and the batch can be applied without changing it. */
static int commit_try(struct store_sqlite *q, const struct span *frames, size_t count, bool *again,
                      struct err_note *note)
{
    int rc = sql_run(q->stmts[STMT_BEGIN], "begin a transaction", note);
    if (rc == 0)
        rc = write_frames(q, frames, count, note);
    FAILPOINT("sweep.commit");
    if (rc == 0 && q->next.position != q->meta.position)
        rc = sql_run(q->stmts[STMT_COMMIT], "commit", note);
    FAILPOINT("sweep.synced");
    if (rc == 0 && q->next.position != q->meta.position) {
        committed(q);
        return 0;
    }
    *again = rc != 0 && damage_met(q, rc, note) == 0;
    roll_back(q);
    return rc;
}

/* A transaction that met a damaged page is repeated without changing it. */
static int commit_frames(struct store_sqlite *q, const struct span *frames, size_t count,
                         struct err_note *note)
{
    bool again = false;
    int rc = commit_try(q, frames, count, &again, note);
    return again ? commit_try(q, frames, count, &again, note) : rc;
}

/* After the WAL was moved into the database file, it is written from its beginning: this makes
 * space for the next batch. */
static int make_room(struct store_sqlite *q, struct err_note *note)
{
    struct err_note why = {""};
    int rc = checkpoint(q, SQLITE_CHECKPOINT_PASSIVE, &why);
    return rc == 0 ? -ERR_NO_SPACE : keep_failure(q, err_note_set(note, rc, "%s", why.text));
}

/* If there is no space to delete the rows, they stay; the batch is applied anyway. */
static int clean_surplus(struct store_sqlite *q, struct err_note *note)
{
    struct err_note why = {""};
    int rc = gone_clean_surplus(q, &why);
    if (rc == 0 || rc == -ERR_NO_SPACE)
        return 0;
    return err_note_set(note, rc, "%s", why.text);
}

static int sqlite_apply(struct store *s, const struct span *frames, size_t count,
                        struct err_note *note)
{
    struct store_sqlite *q = store_sqlite_of(s);
    if (q->failed != 0)
        return err_note_set(note, q->failed,
                            "%s: an earlier write failed (%s); nothing more is "
                            "written until the process has started again",
                            q->dir.db_path, err_text(q->failed));
    int rc = commit_frames(q, frames, count, note);
    if (rc == -ERR_NO_SPACE)
        return make_room(q, note);
    if (rc == 0)
        rc = clean_surplus(q, note);
    /* If a reader has an old snapshot, trying again with each commit would not help. */
    if (rc == 0 && q->wal_pages - q->wal_pages_tried >= WAL_PAGES_MAX)
        rc = checkpoint(q, SQLITE_CHECKPOINT_PASSIVE, note);
    return keep_failure(q, rc);
}

/* ---- tidying ---- */

static int free_pages(struct store_sqlite *q, int64_t *ret, struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_FREE_PAGES];
    int rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        *ret = sqlite3_column_int64(st, 0);
    rc = rc == SQLITE_ROW ? 0 : sql_error(q->db, "count free pages", note);
    sqlite3_reset(st);
    return rc;
}

static int give_back(struct store_sqlite *q, bool *more, struct err_note *note)
{
    char sql[48];
    int64_t count = 0;
    int rc = free_pages(q, &count, note);
    if (rc != 0 || count <= FREE_PAGES_KEPT)
        return rc;
    sqlite3_snprintf(sizeof sql, sql, "PRAGMA incremental_vacuum(%d)", TIDY_PAGES);
    rc = sql_exec(q->db, sql, note);
    *more = rc == 0 && count - TIDY_PAGES > FREE_PAGES_KEPT;
    return rc == -ERR_NO_SPACE ? 0 : rc;
}

static int cut_wal(struct store_sqlite *q, int busy_ms, struct err_note *note)
{
    sqlite3_busy_timeout(q->db, busy_ms);
    int rc = checkpoint(q, SQLITE_CHECKPOINT_TRUNCATE, note);
    sqlite3_busy_timeout(q->db, BUSY_MS);
    return rc;
}

/* Deletes rows of removed jobs; a lack of space is not a failure. */
static int clean_slice(struct store_sqlite *q, uint64_t blocks, bool *ret_cleaned,
                       struct err_note *note)
{
    struct err_note why = {""};
    int rc = gone_clean(q, blocks, &why);
    *ret_cleaned = rc == 0;
    return rc == 0 || rc == -ERR_NO_SPACE ? 0 : err_note_set(note, rc, "%s", why.text);
}

static int sqlite_tidy(struct store *s, bool *more, struct err_note *note)
{
    struct store_sqlite *q = store_sqlite_of(s);
    bool cleaned = false;
    *more = false;
    change_set_trim(&q->change_set);
    if (q->failed != 0)
        return err_note_set(note, q->failed, "%s: an earlier write failed", q->dir.db_path);
    int rc = clean_slice(q, TIDY_BLOCKS, &cleaned, note);
    if (rc == 0)
        rc = give_back(q, more, note);
    if (rc == 0 && !*more && q->wal_pages_peak >= WAL_PAGES_CUT)
        rc = cut_wal(q, CUT_BUSY_MS, note);
    else if (rc == 0 && !*more && q->wal_pages > 0)
        rc = checkpoint(q, SQLITE_CHECKPOINT_PASSIVE, note);
    *more = rc == 0 && (*more || (cleaned && gone_cleanable(q) > 0));
    return keep_failure(q, rc);
}

/* ---- compacting ---- */

static int vacuum_slice(struct store_sqlite *q, struct err_note *note)
{
    char sql[48];
    sqlite3_snprintf(sizeof sql, sql, "PRAGMA incremental_vacuum(%d)", COMPACT_PAGES);
    return sql_exec(q->db, sql, note);
}

static int sqlite_compact(struct store *s, uint64_t *left, struct err_note *note)
{
    struct store_sqlite *q = store_sqlite_of(s);
    if (q->failed != 0)
        return err_note_set(note, q->failed, "%s: an earlier write failed", q->dir.db_path);
    int64_t count = 0;
    int rc = free_pages(q, &count, note);
    uint64_t marks = gone_cleanable(q);
    if (rc == 0 && count == 0 && marks == 0)
        rc = cut_wal(q, COMPACT_BUSY_MS, note);
    else if (rc == 0 && q->wal_pages - q->wal_pages_tried >= COMPACT_WAL_PAGES)
        rc = checkpoint(q, SQLITE_CHECKPOINT_PASSIVE, note);
    else if (rc == 0 && marks > 0)
        rc = gone_clean(q, COMPACT_BLOCKS, note);
    else if (rc == 0)
        rc = vacuum_slice(q, note);
    *left = (uint64_t)count + (marks > 0);
    return keep_failure(q, rc);
}

static const char *sqlite_dir(const struct store *s)
{
    CHECK(s->ops == &sqlite_ops);
    return ((const struct store_sqlite *)s)->dir.path;
}

static uint64_t file_bytes(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, 0) == 0 ? (uint64_t)st.st_size : 0;
}

static uint64_t sqlite_bytes(const struct store *s)
{
    CHECK(s->ops == &sqlite_ops);
    int dir = ((const struct store_sqlite *)s)->dir.fd;
    return file_bytes(dir, "holdfast.db") + file_bytes(dir, "holdfast.db-wal");
}

/* ---- opening ---- */

/* Inserts the first row, which identifies the store. */
static int meta_create(sqlite3 *db, struct wall_time now, struct err_note *note)
{
    uint8_t drawn[32];
    sqlite3_stmt *st = NULL;
    int rc = random_bytes(drawn, sizeof drawn);
    if (rc != 0)
        return err_note_set(note, rc, "the kernel did not return random bytes");
    rc = sql_prepare(db, sqlite_text[TEXT_META_NEW], &st, note);
    if (rc == 0) {
        bind_bytes(st, 1, span_of(drawn, 16));
        bind_bytes(st, 2, span_of(drawn + 16, 16));
        bind_number(st, 3, (uint64_t)now.ms);
        rc = sql_run(st, "write", note);
    }
    sqlite3_finalize(st);
    return rc;
}

/* Page size and auto_vacuum must be set before the first page is written. */
static int store_fill(const char *path, struct wall_time now, struct err_note *note)
{
    sqlite3 *db = NULL;
    int rc = sql_open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, BUSY_MS, &db, note);
    if (rc == 0)
        rc = sql_exec(db,
                      "PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL;"
                      "PRAGMA synchronous = FULL; PRAGMA journal_mode = DELETE;",
                      note);
    if (rc == 0) {
        char sql[48];
        sqlite3_snprintf(sizeof sql, sql, "PRAGMA application_id = %d", STORE_APPLICATION_ID);
        rc = sql_exec(db, sql, note);
    }
    if (rc == 0)
        rc = schema_create(db, note);
    if (rc == 0)
        rc = meta_create(db, now, note);
    if (sqlite3_close(db) != SQLITE_OK && rc == 0)
        rc = err_note_set(note, -ERR_IO, "cannot close %s", path);
    return rc;
}

/* Only the owner may read payloads, even if the directory existed before and is open to everyone.
 * SQLite gives its other files the mode of this one. */
static int file_create(const char *path, struct err_note *note)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_note_set(note, errno == ENOSPC || errno == EDQUOT ? -ERR_NO_SPACE : -ERR_IO,
                            "cannot create %s: %s", path, strerror(errno));
    close(fd);
    return 0;
}

/* A new store would refuse the journal of the lost store, and hide that something is missing.
 * SQLite would use a leftover WAL as that of the new store, and apply it. */
static int orphans_refuse(const struct store_dir *dir, const char *wal_path, struct err_note *note)
{
    if (store_dir_journaled(dir->path))
        return store_dir_lost(dir->path, note);
    if (access(wal_path, F_OK) != 0)
        return 0;
    return err_note_set(
        note, -ERR_CORRUPT,
        "%s is missing, but its WAL is there; put the file back, or move %s away to "
        "start with an empty store",
        dir->db_path, wal_path);
}

static void store_unmake(const char *path, const char *journal)
{
    (void)unlink(path);
    (void)unlink(journal);
}

static int store_make(const struct store_dir *dir, struct wall_time now, struct err_note *note)
{
    char *path = sqlite3_mprintf("%s" NEW_SUFFIX, dir->db_path);
    char *journal = sqlite3_mprintf("%s" NEW_SUFFIX "-journal", dir->db_path);
    char *wal = sqlite3_mprintf("%s-wal", dir->db_path);
    int rc = path && journal && wal ? orphans_refuse(dir, wal, note)
                                    : err_note_set(note, -ERR_NOMEM, "out of memory");
    if (rc == 0 && path && journal) {
        store_unmake(path, journal); /* left by a process that died here */
        rc = file_create(path, note);
    }
    if (rc == 0)
        rc = store_fill(path, now, note);
    if (rc == 0 && rename(path, dir->db_path) != 0)
        rc = err_note_set(note, -ERR_IO, "cannot rename %s", path);
    if (rc == 0)
        rc = store_dir_sync(dir, note);
    else if (path && journal)
        store_unmake(path, journal);
    sqlite3_free(path);
    sqlite3_free(journal);
    sqlite3_free(wal);
    return rc;
}

static int bounds_read(sqlite3 *db, const char *sql_min, const char *sql_max,
                       struct seq_bounds *ret, struct err_note *note)
{
    int64_t min = 0, max = 0;
    int rc = sql_number(db, sql_min, &min, note);
    if (rc == 0)
        rc = sql_number(db, sql_max, &max, note);
    *ret = max > 0 ? (struct seq_bounds){(uint64_t)min, (uint64_t)max}
                   : (struct seq_bounds){UINT64_MAX, 0};
    return rc;
}

static int bounds_all(struct store_sqlite *q, struct err_note *note)
{
    static const char *const sql[][2] = {
        {"SELECT min(seq) FROM jobs", "SELECT max(seq) FROM jobs"},
        {"SELECT min(seq) FROM extra", "SELECT max(seq) FROM extra"},
        {"SELECT min(seq) FROM outcome", "SELECT max(seq) FROM outcome"},
        {"SELECT min(seq) FROM aside", "SELECT max(seq) FROM aside"},
        {"SELECT min(seq) FROM attempts", "SELECT max(seq) FROM attempts"},
        {"SELECT min(seq) FROM undelivered", "SELECT max(seq) FROM undelivered"},
        {"SELECT min(item) FROM links", "SELECT max(item) FROM links"},
        {"SELECT min(seq) FROM report", "SELECT max(seq) FROM report"},
        {"SELECT min(seq) FROM steps", "SELECT max(seq) FROM steps"},
    };
    struct seq_bounds *const bounds[] = {&q->jobs,   &q->extras,   &q->outcomes,
                                         &q->asides, &q->attempts, &q->undelivered,
                                         &q->links,  &q->reports,  &q->steps};
    int rc = 0;
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0] && rc == 0; i++)
        rc = bounds_read(q->db, sql[i][0], sql[i][1], bounds[i], note);
    q->gones = (struct seq_bounds){0, UINT64_MAX}; /* unknown until they have been cleaned once */
    return rc ? rc : gone_count(q->db, &q->figures.marks, note);
}

/* Settings of the connection; only the journal mode is stored in the file. */
static const char settings[] = "PRAGMA journal_mode = WAL;"
                               "PRAGMA synchronous = FULL;"
                               "PRAGMA wal_autocheckpoint = 0;"
                               "PRAGMA cache_size = -16384;"
                               "PRAGMA temp_store = MEMORY;"
                               "PRAGMA foreign_keys = OFF;"
                               "PRAGMA secure_delete = OFF;";

/* Finds damage of the WAL that SQLite would ignore silently. */
static int wal_sound(const char *db_path, struct err_note *note)
{
    struct dbpage_wal wal;
    int rc = dbpage_wal_check(db_path, &wal, note);
    dbpage_wal_done(&wal);
    return rc;
}

/* If the start is refused, the note must say what can be done. */
static int damage_advise(const struct store_sqlite *q, int rc, struct err_note *note)
{
    if (rc != -ERR_CORRUPT || !note || strstr(note->text, "holdfast export"))
        return rc;
    struct err_note why = *note;
    return err_note_set(note, rc,
                        "%.300s; keep a copy of the directory and restore the newest backup "
                        "(holdfast restore), or save what can be read: holdfast export --data %s",
                        why.text, q->dir.path);
}

static int db_ready(struct store_sqlite *q, struct err_note *note)
{
    int rc = wal_sound(q->dir.db_path, note);
    if (rc == 0)
        rc = sql_open(q->dir.db_path, SQLITE_OPEN_READWRITE, BUSY_MS, &q->db, note);
    if (rc != 0)
        return rc;
    /* No checkpoint on close until it is certain that the file may be changed. */
    sqlite3_db_config(q->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    rc = schema_check(q->db, q->dir.db_path, note);
    if (rc == 0)
        rc = sql_exec(q->db, settings, note);
    if (rc == 0)
        rc = schema_views(q->db, note);
    for (int i = 0; i < STMT_COUNT && rc == 0; i++)
        rc = sql_prepare(q->db, stmt_sql[i], &q->stmts[i], note);
    if (rc == 0)
        rc = sqlite_load_meta(q->db, &q->meta, note);
    if (rc == 0)
        rc = bounds_all(q, note);
    if (rc != 0)
        return rc;
    sqlite3_wal_hook(q->db, wal_cb, q);
    sqlite3_db_config(q->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    return 0;
}

/* On a disk that is nearly full the files beside the database stay: if they were deleted, the next
 * start might not find the space to create them. */
static void keep_files_if_short(struct store_sqlite *q)
{
    struct statvfs st;
    int keep = 1;
    if (q->db && q->dir.fd >= 0 && fstatvfs(q->dir.fd, &st) == 0 &&
        (uint64_t)st.f_bavail * st.f_frsize < ROOM_SHORT)
        (void)sqlite3_file_control(q->db, "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
}

static void sqlite_close(struct store *s)
{
    struct store_sqlite *q = store_sqlite_of(s);
    keep_files_if_short(q);
    for (int i = 0; i < STMT_COUNT; i++)
        sqlite3_finalize(q->stmts[i]);
    damage_done(q);
    sqlite3_close(q->db);
    change_set_done(&q->change_set);
    store_dir_close(&q->dir);
    mem_free(q);
}

int store_open_sqlite(const char *dir, struct wall_time now, struct store **ret,
                      struct err_note *note)
{
    struct store_sqlite *q = mem_zalloc(sizeof *q);
    if (!q)
        return err_note_set(note, -ERR_NOMEM, "out of memory");
    q->base.ops = &sqlite_ops;
    q->dir = STORE_DIR_NONE;
    q->gone_rules = gone_rules();
    change_set_init(&q->change_set);
    int rc = store_dir_open(dir, true, &q->dir, note);
    if (rc == 0) {
        rc = damage_advise(q, schema_probe(&q->dir, note), note);
        if (rc == -ERR_NOT_FOUND)
            rc = store_make(&q->dir, now, note);
    }
    if (rc == 0)
        rc = damage_advise(q, db_ready(q, note), note);
    if (rc != 0)
        sqlite_close(&q->base);
    else
        *ret = &q->base;
    return rc;
}

static const struct store_meta *sqlite_meta(struct store *s)
{
    return &store_sqlite_of(s)->meta;
}

static int sqlite_journal_begun(struct store *s, struct err_note *note)
{
    struct store_sqlite *q = store_sqlite_of(s);
    sqlite3_stmt *st = q->stmts[STMT_JOURNAL_BEGUN];
    bind_number(st, 1, q->meta.position);
    int rc = sql_run(st, "write", note);
    if (rc == 0)
        q->meta.journal_from = (int64_t)q->meta.position;
    return keep_failure(q, rc);
}

static int sqlite_load_slot(struct store *s, const struct store_sink *sink, struct err_note *note)
{
    struct store_sqlite *q = store_sqlite_of(s);
    int rc = sqlite_load(q->db, &q->meta, sink, &q->figures.rows, note);
    return damage_advise(q, rc, note);
}

static int sqlite_reader_slot(struct store *s, struct store_reader **ret, struct err_note *note)
{
    return sqlite_reader_open(store_sqlite_of(s)->dir.db_path, ret, note);
}

static const struct store_ops sqlite_ops = {
    .kind = "sqlite",
    .meta = sqlite_meta,
    .load = sqlite_load_slot,
    .journal_begun = sqlite_journal_begun,
    .apply = sqlite_apply,
    .tidy = sqlite_tidy,
    .compact = sqlite_compact,
    .dir = sqlite_dir,
    .bytes = sqlite_bytes,
    .close = sqlite_close,
    .reader_open = sqlite_reader_slot,
};
