/* SPDX-License-Identifier: Apache-2.0 */
/* See backup.h. The target is written without a journal and without syncs, because no one uses it
 * before it is complete. */
#include "backend/local/backup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/local/pages/dbfile.h"
#include "backend/local/pages/vfs.h"
#include "backend/local/sqlite/store_sqlite.h"
#include "base/buf.h"
#include "base/check.h"
#include "base/failpoint.h"
#include "base/mem.h"

#define PREFIX "backup-"
#define SUFFIX ".tmp"
#define SLICE_PAGES 256
#define LOOK_SLICES 8 /* how often the free space is checked and the written pages are flushed */
#define BUSY_MS 5000

struct backup {
    char *dir, *db_path;
    char *temp_path; /* of the copy while it has a name */
    void (*notify)(void *ctx);
    void *ctx;
    uv_thread_t thread;
    bool started;
    atomic_bool stop, over;
    _Atomic uint64_t pages, total;
    /* used by the thread only until it has ended */
    sqlite3 *from, *to;
    int fd;
    int error;
    struct err_note note;
    uint64_t bytes, position;
};

/* ---- the two ends ---- */

static int source_open(struct backup *b)
{
    int rc = sql_open(b->db_path, SQLITE_OPEN_READONLY, BUSY_MS, &b->from, &b->note);
    if (rc == 0)
        rc = sql_exec(b->from, "BEGIN", &b->note);
    int64_t position = 0, pages = 0, page_bytes = 0;
    if (rc == 0) /* the first read determines the moment of the copy */
        rc = sql_number(b->from, "SELECT position FROM meta", &position, &b->note);
    if (rc == 0)
        rc = sql_number(b->from, "PRAGMA page_count", &pages, &b->note);
    if (rc == 0)
        rc = sql_number(b->from, "PRAGMA page_size", &page_bytes, &b->note);
    if (rc != 0)
        return rc;
    b->position = (uint64_t)position;
    atomic_store(&b->total, (uint64_t)pages);
    return dbfile_room(b->dir, (uint64_t)pages * (uint64_t)page_bytes, &b->note);
}

/* SQLite opens the file by its name, so it has a name for a moment. Reading the header through the
 * descriptor shows that the descriptor and SQLite mean the same file. */
static int target_open(struct backup *b)
{
    b->fd = mkostemps(b->temp_path, (int)strlen(SUFFIX), O_CLOEXEC);
    if (b->fd < 0)
        return err_note_set(&b->note, errno == ENOSPC || errno == EDQUOT ? -ERR_NO_SPACE : -ERR_IO,
                            "cannot create a file in %s: %s", b->dir, strerror(errno));
    int rc = sql_open(b->temp_path, SQLITE_OPEN_READWRITE, BUSY_MS, &b->to, &b->note);
    if (unlink(b->temp_path) != 0 && rc == 0)
        rc = err_note_set(&b->note, -ERR_IO, "cannot remove %s: %s", b->temp_path, strerror(errno));
    if (rc != 0)
        return rc;
    sqlite3_db_config(b->to, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL); /* for journal_mode = OFF */
    return sql_exec(b->to, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", &b->note);
}

/* ---- the copy ---- */

/* Without this the last sync would have to write everything, and commits would wait for it. */
static int look(struct backup *b)
{
    (void)sync_file_range(b->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    return dbfile_room(b->dir, 0, &b->note);
}

/* sqlite3_backup_step does not say which of the two connections failed. */
static int copy_failed(struct backup *b, int rc)
{
    char text[100];
    struct dbpage_fault fault = dbpage_vfs_fault(b->from);
    snprintf(text, sizeof text, "%s", sqlite3_errstr(rc));
    if (rc == SQLITE_IOERR_DATA)
        dbpage_fault_text(&fault, text, sizeof text);
    return err_note_set(&b->note, sql_code(rc, sqlite3_system_errno(b->to)), "cannot copy %s: %s",
                        b->db_path, text);
}

static int copy_pages(struct backup *b, sqlite3_backup *copy)
{
    int rc = SQLITE_OK;
    for (unsigned slice = 1; rc == SQLITE_OK; slice++) {
        if (atomic_load(&b->stop))
            return err_note_set(&b->note, -ERR_CLOSED, "the backup was stopped");
        rc = sqlite3_backup_step(copy, SLICE_PAGES);
        FAILPOINT("backup.slice");
        atomic_store(&b->pages, atomic_load(&b->total) - (uint64_t)sqlite3_backup_remaining(copy));
        int err = slice % LOOK_SLICES == 0 ? look(b) : 0;
        if (err)
            return err;
    }
    return rc == SQLITE_DONE ? 0 : copy_failed(b, rc);
}

static int copy_all(struct backup *b)
{
    sqlite3_backup *copy = sqlite3_backup_init(b->to, "main", b->from, "main");
    if (!copy)
        return sql_error(b->to, "begin the copy", &b->note);
    int rc = copy_pages(b, copy);
    int end = sqlite3_backup_finish(copy);
    if (rc == 0 && end != SQLITE_OK)
        rc = sql_error(b->to, "end the copy", &b->note);
    return rc;
}

/* The source's transaction must not wait for the sync of the target. */
static void ends_close(struct backup *b)
{
    sqlite3_close(b->from);
    sqlite3_close(b->to);
    b->from = b->to = NULL;
}

static int seal(struct backup *b)
{
    struct dbfile_facts facts = {0};
    int rc = dbfile_set_alone(b->fd, "the copy", &b->note);
    if (rc == 0 && fsync(b->fd) != 0)
        rc = err_note_set(&b->note, errno == ENOSPC || errno == EDQUOT ? -ERR_NO_SPACE : -ERR_IO,
                          "cannot sync the copy in %s: %s", b->dir, strerror(errno));
    if (rc == 0)
        rc = dbfile_header(b->fd, "the copy", &facts, &b->note);
    if (rc == 0 && facts.pages != atomic_load(&b->total))
        rc = err_note_set(&b->note, -ERR_CORRUPT, "the copy has %u pages, the store has %llu",
                          facts.pages, (unsigned long long)atomic_load(&b->total));
    b->bytes = facts.bytes;
    return rc;
}

static int make(struct backup *b)
{
    int rc = source_open(b);
    if (rc == 0)
        rc = target_open(b);
    if (rc == 0)
        rc = copy_all(b);
    ends_close(b);
    return rc ? rc : seal(b);
}

static void run(void *arg)
{
    struct backup *b = arg;
    b->error = make(b);
    /* on this thread, because freeing the blocks of a large file takes time */
    if (b->error && b->fd >= 0) {
        close(b->fd);
        b->fd = -1;
    }
    atomic_store(&b->over, true);
    b->notify(b->ctx);
}

/* ---- from outside ---- */

static int names_make(struct backup *b, const char *dir)
{
    struct buf name;
    buf_init(&name);
    b->dir = mem_text(dir, strlen(dir));
    if (buf_printf(&name, "%s/holdfast.db", dir) == 0)
        b->db_path = mem_text(name.data, name.len);
    buf_clear(&name);
    if (buf_printf(&name, "%s/" PREFIX "XXXXXX" SUFFIX, dir) == 0)
        b->temp_path = mem_text(name.data, name.len);
    buf_done(&name);
    return b->dir && b->db_path && b->temp_path ? 0 : -ERR_NOMEM;
}

int backup_new(const char *dir, void (*notify)(void *ctx), void *ctx, struct backup **ret)
{
    struct backup *b = mem_zalloc(sizeof *b);
    if (!b)
        return -ERR_NOMEM;
    b->notify = notify;
    b->ctx = ctx;
    b->fd = -1;
    if (names_make(b, dir) != 0) {
        backup_free(b);
        return -ERR_NOMEM;
    }
    *ret = b;
    return 0;
}

void backup_run(struct backup *b)
{
    CHECK(!b->started);
    b->started = uv_thread_create(&b->thread, run, b) == 0;
    if (b->started)
        return;
    b->error = err_note_set(&b->note, -ERR_NOMEM, "cannot start a thread for the backup");
    atomic_store(&b->over, true);
    b->notify(b->ctx);
}

void backup_cancel(struct backup *b)
{
    atomic_store(&b->stop, true);
}

void backup_progress(const struct backup *b, uint64_t *ret_pages, uint64_t *ret_total)
{
    *ret_pages = atomic_load(&b->pages);
    *ret_total = atomic_load(&b->total);
}

bool backup_over(struct backup *b, struct backup_result *ret)
{
    if (!atomic_load(&b->over))
        return false;
    *ret = (struct backup_result){.error = b->error, .note = b->note.text, .fd = -1};
    if (b->error)
        return true;
    ret->fd = b->fd;
    ret->bytes = b->bytes;
    ret->position = b->position;
    b->fd = -1;
    return true;
}

void backup_free(struct backup *b)
{
    if (!b)
        return;
    backup_cancel(b);
    if (b->started)
        uv_thread_join(&b->thread);
    if (b->fd >= 0)
        close(b->fd);
    mem_free(b->dir);
    mem_free(b->db_path);
    mem_free(b->temp_path);
    mem_free(b);
}

static bool is_leftover(const char *name)
{
    size_t len = strlen(name), ends = strlen(PREFIX) + strlen(SUFFIX);
    return len == ends + 6 && strncmp(name, PREFIX, strlen(PREFIX)) == 0 &&
           strcmp(name + len - strlen(SUFFIX), SUFFIX) == 0;
}

size_t backup_leftovers_remove(const char *dir)
{
    size_t count = 0;
    DIR *d = opendir(dir);
    const struct dirent *entry;
    while (d && (entry = readdir(d)) != NULL)
        count += is_leftover(entry->d_name) && unlinkat(dirfd(d), entry->d_name, 0) == 0;
    if (d)
        closedir(d);
    return count;
}
