/* SPDX-License-Identifier: Apache-2.0 */
/* See restore.h. The files are copied as they are, a WAL with them, so that the source is only ever
 * read; SQLite sees the copy alone. It gets its name last. */
#include "backend/local/offline/restore.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/local/journal/journal.h"
#include "backend/local/offline/check/check.h"
#include "backend/local/offline/start.h"
#include "backend/local/pages/dbfile.h"
#include "backend/local/pages/wal.h"
#include "backend/local/sqlite/rules.h"
#include "base/buf.h"
#include "base/digest/random.h"
#include "base/failpoint.h"
#include "base/mem.h"
#include "core/limits.h"

#define NEW_SUFFIX ".restoring"
#define COPY_BYTES ((size_t)1 << 20)
#define BUSY_MS 1000

struct restore {
    const struct restore_config *config;
    struct err_note *note;
    char *dir, *path, *wal, *journal; /* of the source; journal: SQLite's own, not the store's */
    char *temp;
    bool alone; /* the source is a backup: no journal belongs to it */
    struct store_dir from, to;
    uint64_t done, total; /* bytes */
};

static int no_memory(struct err_note *note)
{
    (void)!err_note_set(note, -ERR_NOMEM, "out of memory");
    return -ERR_NOMEM;
}

static int io_error(struct err_note *note, const char *doing, const char *path)
{
    int code = errno == ENOSPC || errno == EDQUOT ? -ERR_NO_SPACE : -ERR_IO;
    if (errno == ELOOP)
        return store_link_refuse(path, note);
    return err_note_set(note, code, "cannot %s %s: %s", doing, path, strerror(errno));
}

/* NULL without memory. */
static char *joined(const char *a, const char *b)
{
    struct buf text;
    buf_init(&text);
    char *copy = buf_printf(&text, "%s%s", a, b) == 0 ? mem_text(text.data, text.len) : NULL;
    buf_done(&text);
    return copy;
}

/* 0 also for what is not there. */
static uint64_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* ---- the source ---- */

static char *directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return mem_text(".", 1);
    return mem_text(path, slash == path ? 1 : (size_t)(slash - path));
}

/* What `from` is, so far as stat tells. */
static int source_stat(struct restore *r, bool *is_dir)
{
    struct stat st;
    const char *from = r->config->from;
    if (stat(from, &st) != 0) {
        (void)!err_note_set(r->note, 0, "cannot find the backup %s: %s", from, strerror(errno));
        return -ERR_NOT_FOUND;
    }
    *is_dir = S_ISDIR(st.st_mode);
    if (*is_dir || S_ISREG(st.st_mode))
        return 0;
    (void)!err_note_set(r->note, 0, "%s is neither a directory nor a file", from);
    return -ERR_INVALID;
}

static int source_names(struct restore *r)
{
    bool is_dir = false;
    const char *from = r->config->from;
    int rc = source_stat(r, &is_dir);
    if (rc != 0)
        return rc;
    r->dir = is_dir ? mem_text(from, strlen(from)) : directory_of(from);
    r->path = is_dir ? joined(from, "/holdfast.db") : mem_text(from, strlen(from));
    r->wal = r->path ? joined(r->path, "-wal") : NULL;
    r->journal = r->path ? joined(r->path, "-journal") : NULL;
    return r->dir && r->wal && r->journal ? 0 : no_memory(r->note);
}

static bool is_named_store(const struct restore *r)
{
    const char *name = strrchr(r->path, '/');
    return strcmp(name ? name + 1 : r->path, "holdfast.db") == 0;
}

/* A backup has no lock file. Where there is one, a server might be running. */
static int source_lock(struct restore *r)
{
    char *lock = joined(r->dir, "/lock");
    if (!lock)
        return no_memory(r->note);
    bool guarded = is_named_store(r) && access(lock, F_OK) == 0;
    mem_free(lock);
    if (!guarded)
        return 0;
    int rc = store_dir_open_read(r->dir, &r->from, r->note);
    if (rc == -ERR_LOCKED)
        rc = err_note_set(r->note, rc,
                          "a server is running on %s; stop it first, or copy its store with "
                          "`holdfast backup DIR` and restore that",
                          r->dir);
    return rc;
}

static int source_probe(struct restore *r)
{
    struct dbfile_facts facts = {0};
    int fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return err_note_set(r->note, -ERR_NOT_FOUND,
                            "there is no backup in %s: no file holdfast.db", r->dir);
    if (fd < 0)
        return io_error(r->note, "open", r->path);
    enum dbfile_kind kind = DBFILE_OURS;
    int rc = dbfile_kind(fd, r->dir, &kind);
    if (rc != 0)
        rc = io_error(r->note, "read", r->path);
    else if (kind == DBFILE_DAMAGED)
        rc = schema_headless(r->path, r->note);
    else
        rc = dbfile_header(fd, r->path, &facts, r->note);
    close(fd);
    if (rc == 0 && size_of(r->journal) > 0)
        rc = err_note_set(
            r->note, -ERR_INVALID,
            "%s exists next to the backup: another program was changing it and did not "
            "finish; take another copy",
            r->journal);
    r->alone = rc == 0 && !facts.wal;
    r->total = rc == 0 ? facts.bytes + size_of(r->wal) : 0;
    return rc;
}

/* ---- the target ---- */

static int target_free(struct restore *r)
{
    static const char *const names[] = {"holdfast.db", "holdfast.db-wal", "journal"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (faccessat(r->to.fd, names[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return err_note_set(r->note, -ERR_INVALID,
                                "%s already has a store (%s); nothing was changed: move it away, "
                                "or choose another --data directory",
                                r->to.path, names[i]);
    }
    return dbfile_room(r->to.path, r->total, r->note);
}

/* Nothing of a restore that did not end may be left, or SQLite might take it for a part of this. */
static void temp_remove(const struct restore *r)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; r->temp && i < sizeof suffixes / sizeof *suffixes; i++) {
        char *name = joined(r->temp, suffixes[i]);
        if (name)
            (void)unlink(name);
        mem_free(name);
    }
}

static int target_take(struct restore *r)
{
    int rc = store_dir_open(r->config->to, true, &r->to, r->note);
    if (rc == 0)
        rc = target_free(r);
    if (rc != 0)
        return rc;
    r->temp = joined(r->to.db_path, NEW_SUFFIX);
    if (!r->temp)
        return no_memory(r->note);
    temp_remove(r);
    return 0;
}

/* ---- the copy ---- */

static int write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

static int copy_bytes(struct restore *r, int in, int out, const char *from, const char *to)
{
    const struct restore_config *c = r->config;
    char *piece = mem_alloc(COPY_BYTES);
    int rc = piece ? 0 : no_memory(r->note);
    for (ssize_t n = 1; rc == 0 && n > 0;) {
        n = read(in, piece, COPY_BYTES);
        if (n < 0)
            rc = io_error(r->note, "read", from);
        else if (write_all(out, piece, (size_t)n) != 0)
            rc = io_error(r->note, "write", to);
        r->done += n > 0 ? (uint64_t)n : 0;
        if (rc == 0 && c->progress)
            c->progress(c->ctx, r->done, r->total);
        if (rc == 0 && c->stop && c->stop(c->ctx))
            rc = err_note_set(r->note, -ERR_CLOSED, "stopped; nothing was restored");
    }
    mem_free(piece);
    return rc;
}

static int copy_file(struct restore *r, const char *from, const char *to)
{
    int out = -1, in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (in < 0)
        return io_error(r->note, "open", from);
    int rc = 0;
    out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (out < 0)
        rc = io_error(r->note, "make", to);
    if (rc == 0)
        rc = copy_bytes(r, in, out, from, to);
    if (rc == 0 && fsync(out) != 0)
        rc = io_error(r->note, "sync", to);
    if (out >= 0)
        close(out);
    close(in);
    return rc;
}

static int copy_all(struct restore *r)
{
    char *wal = joined(r->temp, "-wal");
    if (!wal)
        return no_memory(r->note);
    int rc = copy_file(r, r->path, r->temp);
    if (rc == 0 && size_of(r->wal) > 0)
        rc = copy_file(r, r->wal, wal);
    mem_free(wal);
    return rc;
}

/* ---- another store ---- */

struct identity {
    uint8_t store_id[sizeof((struct store_meta *)NULL)->store_id];
    uint64_t epoch, seq_upto;
};

static int identity_draw(const struct store_meta *was, struct identity *ret, struct err_note *note)
{
    uint16_t further;
    _Static_assert(RESTORE_EPOCHS == UINT16_MAX + UINT64_C(1), "drawn from all of these");
    if (random_bytes(ret->store_id, sizeof ret->store_id) != 0 ||
        random_bytes(&further, sizeof further) != 0)
        return err_note_set(note, -ERR_IO, "the kernel did not provide random bytes");
    ret->epoch = was->epoch + RESTORE_EPOCHS + further;
    ret->seq_upto = was->seq_upto + RESTORE_SEQS;
    if (ret->seq_upto <= STORE_SEQ_UPTO_MAX && was->epoch + 2 * RESTORE_EPOCHS <= RESTORE_EPOCH_MAX)
        return 0;
    return err_note_set(note, -ERR_RANGE,
                        "the store was restored from backups of itself so often that no numbers "
                        "are left for its jobs; move its jobs to a new store");
}

/* Makes the open database another store, inside the caller's transaction. -ERR_RANGE: it was
 * restored so often that there are no numbers left. */
static int store_restored(sqlite3 *db, struct err_note *note)
{
    struct store_meta meta;
    struct identity another;
    sqlite3_stmt *st = NULL;
    int rc = sqlite_load_meta(db, &meta, note);
    if (rc == 0)
        rc = identity_draw(&meta, &another, note);
    if (rc == 0)
        rc = sql_prepare(
            db,
            "UPDATE meta SET store_id = ?1, epoch = ?2, seq_upto = ?3, position = position + ?4, "
            "journal_from = -1",
            &st, note);
    if (rc != 0)
        return rc;
    bind_bytes(st, 1, span_of(another.store_id, sizeof another.store_id));
    bind_number(st, 2, another.epoch);
    bind_number(st, 3, another.seq_upto);
    bind_number(st, 4, RESTORE_POSITIONS);
    rc = sql_run(st, "write", note);
    sqlite3_finalize(st);
    return rc ? rc : sqlite_load_meta(db, &meta, note); /* a start must accept them, too */
}

/* One file is left: a WAL that came along goes into it. */
static int merge_wal(struct restore *r)
{
    sqlite3 *db = NULL;
    struct dbpage_wal wal;
    int rc = dbpage_wal_check(r->temp, &wal, r->note);
    dbpage_wal_done(&wal);
    if (rc == 0)
        rc = sql_open(r->temp, SQLITE_OPEN_READWRITE, BUSY_MS, &db, r->note);
    if (rc == 0)
        rc = sql_exec(db, "PRAGMA synchronous = FULL; PRAGMA journal_mode = DELETE", r->note);
    sqlite3_close(db);
    return rc;
}

static int frame_count(void *ctx, struct span frame, uint64_t first, uint64_t last,
                       struct err_note *note)
{
    (void)frame, (void)note;
    *(uint64_t *)ctx += last - first + 1;
    return 0;
}

static int journal_count(struct restore *r, const struct store_meta *meta, struct files *files,
                         uint64_t *ret)
{
    struct journal *journal = NULL;
    uint64_t begun = meta->journal_from < 0 ? meta->position : (uint64_t)meta->journal_from;
    struct journal_config config = {
        .files = files, .from = begun, .applied = meta->position, .read_only = true};
    memcpy(config.store_id, meta->store_id, sizeof config.store_id);
    int rc = journal_open(&config, frame_count, ret, &journal, r->note);
    journal_close(journal);
    return rc;
}

/* A backup has no journal. A data directory has, and its database may lack what is in there. */
static int source_applied(struct restore *r, sqlite3 *db)
{
    struct store_meta meta;
    struct files *files;
    uint64_t lacking = 0;
    char *path = joined(r->dir, "/journal");
    if (!path)
        return no_memory(r->note);
    int rc = sqlite_load_meta(db, &meta, r->note);
    int found = rc == 0 ? files_open_dir(path, false, true, &files, r->note) : -ERR_NOT_FOUND;
    mem_free(path);
    if (found == -ERR_NOT_FOUND && (rc != 0 || meta.journal_from < 0 || r->alone))
        return rc;
    if (found == -ERR_NOT_FOUND)
        return err_note_set(
            r->note, -ERR_INVALID,
            "%s is not a backup but the file of a store, and its journal, which holds "
            "what happened last, is missing in %s: copy the directory whole; if "
            "the journal is lost, `holdfast export --data DIR` what is left",
            r->path, r->dir);
    if (found != 0)
        return found;
    rc = journal_count(r, &meta, files, &lacking);
    if (rc != 0 || lacking == 0)
        return rc;
    return err_note_set(r->note, -ERR_INVALID,
                        "the journal of %s holds %" PRIu64 " record%s that its database lacks; "
                        "copy the directory whole instead, or start its server, make a backup of "
                        "it with `holdfast backup DIR` and restore that",
                        r->dir, lacking, lacking == 1 ? "" : "s");
}

static int become_another(struct restore *r)
{
    sqlite3 *db = NULL;
    int rc = sql_open(r->temp, SQLITE_OPEN_READWRITE, BUSY_MS, &db, r->note);
    if (rc == 0)
        rc = sql_exec(db, "PRAGMA synchronous = FULL", r->note);
    if (rc == 0)
        rc = source_applied(r, db);
    if (rc == 0)
        rc = sql_exec(db, "BEGIN IMMEDIATE", r->note);
    if (rc == 0)
        rc = store_restored(db, r->note);
    if (rc == 0)
        rc = sql_exec(db, "COMMIT", r->note);
    sqlite3_close(db);
    return rc;
}

/* ---- whether a server starts on it ---- */

#define WHY_MAX 180 /* bytes of a reason, so that there is room for what to do */

/* What a start would say, with advice for someone who has a backup and no store. The copy that the
 * words are about has no name that would help. */
static int not_startable(struct restore *r, int code, struct err_note *why)
{
    char *advice = strstr(why->text, "; " ROW_WAY_OUT);
    const char *row = strstr(why->text, "table ");
    if (advice)
        *advice = '\0';
    return err_note_set(r->note, code,
                        "%.100s was not restored: a server would not start on it: %.*s; restore "
                        "another backup, or save what can be read with holdfast export --data "
                        "%.100s",
                        r->config->from, WHY_MAX, row ? row : why->text, r->dir);
}

/* Problems that a server starts with are for the operator to know: a store with a damaged job is
 * better than none. */
static int verify_rows(struct restore *r, struct restore_result *ret)
{
    struct check_findings found = {0};
    struct err_note why = {""};
    int result = check_file_run(r->to.path, r->temp, &found);
    if (result == CHECK_NOT_DONE)
        return err_note_set(r->note, found.error, "the copy cannot be checked: %.300s",
                            found.first);
    int rc = result == CHECK_PROBLEMS ? start_possible(r->temp, &why) : 0;
    if (rc != 0)
        return not_startable(r, rc, &why);
    ret->problems = found.problems;
    memcpy(ret->problem, found.first, sizeof ret->problem);
    return 0;
}

static int give_name(struct restore *r)
{
    FAILPOINT("restore.rename");
    if (rename(r->temp, r->to.db_path) != 0)
        return io_error(r->note, "rename", r->temp);
    return store_dir_sync(&r->to, r->note);
}

static int adopt(struct restore *r, struct restore_result *ret)
{
    struct dbfile_contents contents = {0};
    int rc = merge_wal(r);
    if (rc == 0)
        rc = dbfile_verify(r->temp, &contents, r->note);
    *ret = (struct restore_result){
        .bytes = contents.bytes, .jobs = contents.jobs, .queues = contents.queues};
    if (rc == 0)
        rc = verify_rows(r, ret); /* before its numbers are raised: that could hide a job's */
    if (rc == 0)
        rc = become_another(r);
    return rc ? rc : give_name(r);
}

/* ---- what to do about damage ---- */

/* Replaces the first `was` in the note. */
static void note_rename(struct err_note *note, const char *was, const char *is)
{
    struct err_note whole = *note;
    const char *at = was ? strstr(whole.text, was) : NULL;
    if (at)
        (void)!err_note_set(note, 0, "%.*s%s%s", (int)(at - whole.text), whole.text, is,
                            at + strlen(was));
}

/* The copy is as damaged as what it was made of, and is gone when the note is read. SQLite names it
 * by the real name of its directory. */
static void source_name(const struct restore *r)
{
    char dir[PATH_MAX];
    bool known = r->to.path && realpath(r->to.path, dir);
    char *real = known ? joined(dir, "/holdfast.db" NEW_SUFFIX) : NULL;
    note_rename(r->note, real, r->path);
    note_rename(r->note, r->temp, r->path);
    mem_free(real);
}

static int damage_advise(struct restore *r, int rc)
{
    if (rc != -ERR_CORRUPT || !r->note || !r->path)
        return rc;
    source_name(r);
    if (strstr(r->note->text, "holdfast export"))
        return rc;
    struct err_note why = *r->note;
    if (!is_named_store(r))
        return err_note_set(r->note, rc, "%.400s; nothing was restored: restore an older backup",
                            why.text);
    return err_note_set(r->note, rc,
                        "%.300s; nothing was restored: restore an older backup, or save what can "
                        "be read: holdfast export --data %s",
                        why.text, r->dir);
}

static void restore_done(struct restore *r, int rc)
{
    temp_remove(r);
    store_dir_close(&r->from);
    if (rc != 0)
        store_dir_uncreate(&r->to);
    store_dir_close(&r->to);
    mem_free(r->dir);
    mem_free(r->path);
    mem_free(r->wal);
    mem_free(r->journal);
    mem_free(r->temp);
}

int restore_run(const struct restore_config *config, struct restore_result *ret,
                struct err_note *note)
{
    struct restore r = {
        .config = config, .note = note, .from = STORE_DIR_NONE, .to = STORE_DIR_NONE};
    int rc = source_names(&r);
    if (rc == 0)
        rc = source_probe(&r);
    if (rc == 0)
        rc = source_lock(&r);
    if (rc == 0)
        rc = target_take(&r);
    if (rc == 0)
        rc = copy_all(&r);
    if (rc == 0)
        rc = adopt(&r, ret);
    rc = damage_advise(&r, rc);
    restore_done(&r, rc);
    return rc;
}
