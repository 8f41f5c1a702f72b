/* SPDX-License-Identifier: Apache-2.0 */
/* Backup and restore of a store: one moment of it, and another store out of it. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "backend/local/backup.h"
#include "backend/local/journal/journal.h"
#include "backend/local/offline/check/check.h"
#include "backend/local/offline/restore.h"
#include "backend/local/pages/dbfile.h"
#include "backend/local/sqlite/store_sqlite.h"
#include "base/mem.h"
#include "core/limits.h"
#include "unit/backend/local/sqlite/store_history.h"
#include "unit/backend/local/sqlite/store_rig.h"

#define FRAMES_MAX 400

static struct rig_dir dir, other;
static struct history *history;
static struct buf frames[FRAMES_MAX];
static uint64_t frame_ends[FRAMES_MAX];
static size_t frame_count;

static int setup(void **state)
{
    (void)state;
    rig_dir_make(&dir);
    rig_dir_make(&other);
    history = history_new(7, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    history_free(history);
    while (frame_count > 0)
        buf_done(&frames[--frame_count]);
    rig_dir_remove(&dir);
    rig_dir_remove(&other);
    return 0;
}

/* ---- small things ---- */

/* A frame that is remembered, applied to s. */
static void grow(struct store *s, unsigned records)
{
    assert_true(frame_count < FRAMES_MAX);
    buf_init(&frames[frame_count]);
    assert_int_equal(buf_append_span(&frames[frame_count], history_frame(history, records)), 0);
    frame_ends[frame_count] = history->position;
    rig_apply(s, buf_span(&frames[frame_count++]));
}

static void grow_big(struct store *s, unsigned jobs)
{
    static char body[4000];
    buf_init(&frames[frame_count]);
    history_begin(history);
    history_add(history, &(struct record){.kind = REC_SEQ_BLOCK, .seq_block = {HISTORY_JOBS}});
    for (unsigned i = 0; i < jobs; i++)
        history_enqueue(history, 0, NULL, span_of(body, sizeof body));
    assert_int_equal(buf_append_span(&frames[frame_count], history_end(history)), 0);
    frame_ends[frame_count] = history->position;
    rig_apply(s, buf_span(&frames[frame_count++]));
}

static void notify_cb(void *ctx)
{
    uv_sem_post(ctx);
}

static void file_from(int fd, const char *path)
{
    static char piece[65536];
    int out = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(out >= 0);
    for (off_t at = 0;;) {
        ssize_t n = pread(fd, piece, sizeof piece, at);
        assert_true(n >= 0);
        if (n == 0)
            break;
        assert_int_equal(write(out, piece, (size_t)n), n);
        at += n;
    }
    assert_int_equal(close(out), 0);
}

static size_t names_in(const char *path)
{
    size_t count = 0;
    DIR *d = opendir(path);
    const struct dirent *entry;
    assert_non_null(d);
    while ((entry = readdir(d)) != NULL)
        count += entry->d_name[0] != '.';
    closedir(d);
    return count;
}

static const char *in(const struct rig_dir *d, const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, 256, "%s/%s", d->path, name);
    return path;
}

/* A whole backup of the store in `dir`, as PATH/holdfast.db of `other`; its position. */
static uint64_t backup_to_other(void)
{
    struct backup *b;
    struct backup_result result;
    uv_sem_t told;
    assert_int_equal(uv_sem_init(&told, 0), 0);
    assert_int_equal(backup_new(dir.path, notify_cb, &told, &b), 0);
    assert_false(backup_over(b, &result));
    backup_run(b);
    uv_sem_wait(&told);
    assert_true(backup_over(b, &result));
    if (result.error)
        fail_msg("%s", result.note);
    assert_int_equal(mkdir(other.path, 0700), 0);
    file_from(result.fd, in(&other, "holdfast.db"));
    close(result.fd);
    backup_free(b);
    uv_sem_destroy(&told);
    return result.position;
}

/* What a store holds that has had exactly the first records. */
static void same_as_first(const char *path, uint64_t position)
{
    struct store *expected, *s = rig_open(path);
    struct store_reader *a, *b;
    assert_int_equal(store_open_memory(1, &expected), 0);
    for (size_t i = 0; i < frame_count && frame_ends[i] <= position; i++)
        rig_apply(expected, buf_span(&frames[i]));
    assert_int_equal(s->ops->reader_open(s, &a, NULL), 0);
    assert_int_equal(expected->ops->reader_open(expected, &b, NULL), 0);
    rig_same(s, a, expected, b);
    a->ops->close(a);
    b->ops->close(b);
    s->ops->close(s);
    expected->ops->close(expected);
}

/* ---- backup ---- */

/* Everything that was committed when it began is in it, and nothing in part, although the store
 * goes on and throws away what it had. */
static void test_one_moment(void **state)
{
    (void)state;
    struct backup *b;
    struct backup_result result;
    uv_sem_t told;
    uint64_t pages, total;
    struct stat st;
    struct store *s = rig_open(dir.path);
    for (int i = 0; i < 10; i++)
        grow_big(s, 400);
    uint64_t began = history->position;
    assert_int_equal(uv_sem_init(&told, 0), 0);
    assert_int_equal(backup_new(dir.path, notify_cb, &told, &b), 0);
    size_t names = names_in(dir.path);
    backup_run(b);
    for (bool over = false; !over && frame_count < FRAMES_MAX; over = uv_sem_trywait(&told) == 0) {
        bool more;
        grow(s, 50);
        assert_int_equal(s->ops->tidy(s, &more, NULL), 0);
    }
    while (!backup_over(b, &result))
        uv_sem_wait(&told);
    assert_int_equal(result.error, 0);
    assert_true(result.position >= began && result.position < history->position);
    backup_progress(b, &pages, &total);
    assert_int_equal(pages, total);
    assert_int_equal(result.bytes, total * 4096);
    assert_int_equal(fstat(result.fd, &st), 0);
    assert_int_equal(st.st_nlink, 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(names_in(dir.path), names);
    assert_int_equal(mkdir(other.path, 0700), 0);
    file_from(result.fd, in(&other, "holdfast.db"));
    close(result.fd);
    backup_free(b);
    uv_sem_destroy(&told);
    s->ops->close(s);
    struct dbfile_contents contents;
    assert_int_equal(dbfile_verify(in(&other, "holdfast.db"), &contents, NULL), 0);
    assert_int_equal(contents.position, result.position);
    assert_int_equal(names_in(other.path), 1);
    same_as_first(other.path, result.position);
}

/* The WAL can be reset as soon as the copy is complete, whatever happens to the file. */
static void test_wal_is_free(void **state)
{
    (void)state;
    struct backup *b;
    struct backup_result result;
    uv_sem_t told;
    uint64_t left = 1;
    struct store *s = rig_open(dir.path);
    grow_big(s, 400);
    assert_int_equal(uv_sem_init(&told, 0), 0);
    assert_int_equal(backup_new(dir.path, notify_cb, &told, &b), 0);
    backup_run(b);
    uv_sem_wait(&told);
    assert_true(backup_over(b, &result));
    assert_int_equal(result.error, 0);
    grow_big(s, 400);
    while (left > 0)
        assert_int_equal(s->ops->compact(s, &left, NULL), 0);
    struct stat st;
    assert_int_equal(stat(in(&dir, "holdfast.db-wal"), &st), 0);
    assert_int_equal(st.st_size, 0);
    close(result.fd);
    backup_free(b);
    uv_sem_destroy(&told);
    s->ops->close(s);
}

static void test_cancelled(void **state)
{
    (void)state;
    struct backup *b;
    struct backup_result result;
    uv_sem_t told;
    struct store *s = rig_open(dir.path);
    grow_big(s, 400);
    size_t names = names_in(dir.path);
    assert_int_equal(uv_sem_init(&told, 0), 0);
    assert_int_equal(backup_new(dir.path, notify_cb, &told, &b), 0);
    backup_cancel(b);
    backup_run(b);
    uv_sem_wait(&told);
    assert_true(backup_over(b, &result));
    assert_int_equal(result.error, -ERR_CLOSED);
    assert_int_equal(result.fd, -1);
    backup_free(b);
    assert_int_equal(names_in(dir.path), names);
    assert_int_equal(backup_new(dir.path, notify_cb, &told, &b), 0); /* never run */
    backup_free(b);
    uv_sem_destroy(&told);
    s->ops->close(s);
}

static void touch(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void test_leftovers(void **state)
{
    (void)state;
    static const char *const kept[] = {"backup-1.tmp", "backup-abcdef.tmp2", "xbackup-abcdef.tmp",
                                       "backup-abcdef", "holdfast.db"};
    assert_int_equal(mkdir(dir.path, 0700), 0);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        touch(in(&dir, kept[i]));
    touch(in(&dir, "backup-abcdef.tmp"));
    touch(in(&dir, "backup-X0Y1Z2.tmp"));
    assert_int_equal(backup_leftovers_remove(dir.path), 2);
    assert_int_equal(names_in(dir.path), sizeof kept / sizeof *kept);
    assert_int_equal(backup_leftovers_remove(in(&dir, "none")), 0);
}

static void test_room(void **state)
{
    (void)state;
    struct err_note note = {""};
    assert_int_equal(dbfile_room(dir.base, UINT64_C(1) << 60, &note), -ERR_NO_SPACE);
    assert_non_null(strstr(note.text, "MiB free"));
    assert_int_equal(dbfile_room(dir.base, UINT64_MAX, &note), -ERR_NO_SPACE);
    assert_int_equal(dbfile_room("/none/at/all", 1, &note), -ERR_IO);
}

/* ---- verify ---- */

static void overwrite(const char *path, long at, const void *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, len, at), (ssize_t)len);
    close(fd);
}

static int verify_fails(const char *words)
{
    struct err_note note = {""};
    struct dbfile_contents contents;
    int rc = dbfile_verify(in(&other, "holdfast.db"), &contents, &note);
    if (!strstr(note.text, words))
        fail_msg("\"%s\" does not say \"%s\"", note.text, words);
    return rc;
}

static void test_verify(void **state)
{
    (void)state;
    static char rubbish[40 * 4096];
    static const unsigned char newer[4] = {0, 0, 1, 0};
    struct stat st;
    memset(rubbish, 0xa5, sizeof rubbish);
    struct store *s = rig_open(dir.path);
    grow_big(s, 400);
    (void)backup_to_other();
    s->ops->close(s);
    const char *path = in(&other, "holdfast.db");
    assert_int_equal(stat(path, &st), 0);
    overwrite(path, 60, newer, sizeof newer); /* user_version */
    assert_int_equal(verify_fails("damaged in 1 page; page 1 is damaged"), -ERR_CORRUPT);
    rig_seal(other.path);
    assert_int_equal(verify_fails("format 156"), -ERR_VERSION);
    overwrite(path, 100 * 4096, rubbish, sizeof rubbish);
    assert_int_equal(verify_fails("damaged in 40 pages; page 101 is damaged"), -ERR_CORRUPT);
    rig_seal(other.path);
    assert_int_equal(verify_fails("SQLite says"), -ERR_CORRUPT);
    assert_int_equal(truncate(path, st.st_size - 4096), 0);
    assert_int_equal(verify_fails("not whole"), -ERR_CORRUPT);
    overwrite(path, 68, newer, sizeof newer);
    assert_int_equal(verify_fails("another program"), -ERR_INVALID);
    overwrite(path, 0, "hello", 5);
    assert_int_equal(verify_fails("not even a database"), -ERR_INVALID);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(verify_fails("not even a database"), -ERR_INVALID);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(verify_fails("cannot open"), -ERR_NOT_FOUND);
}

/* ---- restore ---- */

static char target[200];

static int restore(const char *from, struct err_note *note)
{
    struct restore_config config = {.from = from, .to = target};
    struct restore_result result;
    return restore_run(&config, &result, note);
}

static int restore_fails(const char *from, const char *words)
{
    struct err_note note = {""};
    int rc = restore(from, &note);
    if (!strstr(note.text, words))
        fail_msg("\"%s\" does not say \"%s\"", note.text, words);
    return rc;
}

static struct store_meta meta_of(const char *path)
{
    struct store_meta meta;
    struct store *s = rig_open(path);
    meta = store_sqlite_of(s)->meta;
    s->ops->close(s);
    return meta;
}

/* Another id, sequences and epochs that no one has seen; everything else is unchanged. Returns the
 * new epoch. */
static uint64_t becomes_another(const char *from, const struct store_meta *was, uint64_t position)
{
    struct err_note note = {""};
    if (restore(from, &note) != 0)
        fail_msg("%s", note.text);
    struct store_meta meta = meta_of(target);
    assert_memory_not_equal(meta.store_id, was->store_id, sizeof meta.store_id);
    assert_memory_equal(&meta.hash_key, &was->hash_key, sizeof meta.hash_key);
    assert_in_range(meta.epoch, was->epoch + 65536, was->epoch + 2 * 65536 - 1);
    assert_int_equal(meta.seq_upto, was->seq_upto + (UINT64_C(1) << 32));
    assert_int_equal(meta.position,
                     position + (UINT64_C(1) << 32)); /* no version of a key comes again */
    assert_int_equal(meta.created_at.ms, was->created_at.ms);
    return meta.epoch;
}

static void test_restored(void **state)
{
    (void)state;
    struct store *s = rig_open(dir.path);
    for (int i = 0; i < 20; i++)
        grow(s, 40);
    uint64_t position = backup_to_other();
    struct store_meta was = store_sqlite_of(s)->meta;
    s->ops->close(s);
    snprintf(target, sizeof target, "%s/a", dir.base);
    uint64_t first = becomes_another(other.path, &was, position);
    assert_int_equal(names_in(other.path), 1); /* the backup is as it was */
    assert_int_equal(restore_fails(other.path, "already has a store"), -ERR_INVALID);
    snprintf(target, sizeof target, "%s/b", dir.base);
    uint64_t second = becomes_another(in(&other, "holdfast.db"), &was, position);
    snprintf(target, sizeof target, "%s/c", dir.base);
    /* the store itself, its server stopped */
    uint64_t third = becomes_another(dir.path, &was, position);
    assert_true(first != second || second != third); /* or a token of one counts in another */
}

/* A server that was killed leaves a WAL; the copy includes it and does not change it. */
static void test_restored_with_wal(void **state)
{
    (void)state;
    struct stat before, after;
    struct store *s = rig_open(dir.path);
    for (int i = 0; i < 20; i++)
        grow(s, 40);
    struct store_meta was = store_sqlite_of(s)->meta;
    rig_dir_copy(dir.path, other.path); /* as the kill would leave it */
    s->ops->close(s);
    assert_int_equal(stat(in(&other, "holdfast.db-wal"), &before), 0);
    assert_true(before.st_size > 0);
    snprintf(target, sizeof target, "%s/a", dir.base);
    becomes_another(other.path, &was, was.position);
    assert_int_equal(stat(in(&other, "holdfast.db-wal"), &after), 0);
    assert_int_equal(after.st_size, before.st_size);
}

static bool always(void *ctx)
{
    return ctx != NULL;
}

static void test_refused(void **state)
{
    (void)state;
    struct err_note note = {""};
    struct restore_result result;
    struct store *s = rig_open(dir.path);
    grow(s, 40);
    (void)backup_to_other();
    snprintf(target, sizeof target, "%s/a", dir.base);
    assert_int_equal(restore_fails(dir.path, "a server is running"), -ERR_LOCKED);
    s->ops->close(s);
    assert_int_equal(restore_fails(in(&other, "none"), "cannot find"), -ERR_NOT_FOUND);
    assert_int_equal(restore_fails(dir.base, "no file holdfast.db"), -ERR_NOT_FOUND);
    assert_int_equal(restore_fails("/dev/null", "neither"), -ERR_INVALID);
    touch(in(&other, "text"));
    assert_int_equal(restore_fails(in(&other, "text"), "not even a database"), -ERR_INVALID);

    overwrite(in(&other, "holdfast.db-journal"), 0, "x", 1);
    assert_int_equal(restore_fails(other.path, "did not finish"), -ERR_INVALID);
    assert_int_equal(unlink(in(&other, "holdfast.db-journal")), 0);
    assert_int_equal(access(target, F_OK), -1); /* nothing of it was begun */

    struct restore_config config = {.from = other.path, .to = target, .stop = always, .ctx = &note};
    assert_int_equal(restore_run(&config, &result, &note), -ERR_CLOSED);
    assert_int_equal(access(target, F_OK), -1); /* what was begun is removed */
    assert_int_equal(mkdir(in(&other, "orphan"), 0700), 0);
    touch(in(&other, "orphan/holdfast.db-wal"));
    config = (struct restore_config){.from = other.path, .to = in(&other, "orphan")};
    assert_int_equal(restore_run(&config, &result, &note), -ERR_INVALID);
    assert_int_equal(restore(other.path, &note), 0);
}

/* A damaged backup is found out before it gets a name. */
static void test_damaged(void **state)
{
    (void)state;
    static char rubbish[40 * 4096];
    memset(rubbish, 0xa5, sizeof rubbish);
    struct store *s = rig_open(dir.path);
    grow_big(s, 400);
    (void)backup_to_other();
    s->ops->close(s);
    snprintf(target, sizeof target, "%s/a", dir.base);
    overwrite(in(&other, "holdfast.db"), 100 * 4096, rubbish, sizeof rubbish);
    assert_int_equal(restore_fails(other.path, "damaged"), -ERR_CORRUPT);
    assert_int_equal(access(target, F_OK), -1);
    assert_int_equal(mkdir(target, 0700), 0);
    assert_int_equal(restore_fails(other.path, "damaged"), -ERR_CORRUPT);
    assert_int_equal(names_in(target), 1); /* the lock, in a directory that was there before */
}

/* A backup whose pages are all sound can still hold rows that no server starts with. */
static void test_unusable(void **state)
{
    (void)state;
    static const struct {
        const char *sql, *words;
    } cases[] = {
        {"UPDATE jobs SET state = 9 WHERE seq = 3", "table jobs, row 3: column state is 9"},
        {"UPDATE queues SET policy = x'00'", "column policy is 1 bytes"},
        {"UPDATE jobs SET queue = 99 WHERE seq = 3", "row 3: column seq does not fit the other"},
        {"INSERT INTO gone VALUES (2000000, 16)", "table gone, row 2000000: column bits names"},
    };
    struct rig_dir spoiled;
    struct store *s = rig_open(dir.path);
    grow(s, 40);
    (void)backup_to_other();
    s->ops->close(s);
    snprintf(target, sizeof target, "%s/a", dir.base);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig_dir_make(&spoiled);
        rig_dir_copy(other.path, spoiled.path);
        rig_sql(spoiled.path, cases[i].sql);
        assert_int_equal(restore_fails(spoiled.path, cases[i].words), -ERR_CORRUPT);
        assert_int_equal(restore_fails(spoiled.path, "restore another backup"), -ERR_CORRUPT);
        assert_int_equal(access(target, F_OK), -1);
        rig_dir_remove(&spoiled);
    }
}

/* A damaged job does not keep the others from being restored. */
static void test_restored_with_damage(void **state)
{
    (void)state;
    struct err_note note = {""};
    struct restore_result result;
    struct store *s = rig_open(dir.path);
    grow(s, 40);
    (void)backup_to_other();
    s->ops->close(s);
    rig_sql(other.path, "UPDATE payload SET crc = (crc + 1) & 4294967295 WHERE seq = 3");
    snprintf(target, sizeof target, "%s/a", dir.base);
    struct restore_config config = {.from = other.path, .to = target};
    assert_int_equal(restore_run(&config, &result, &note), 0);
    assert_int_equal(result.problems, 1);
    assert_string_equal(result.problem,
                        "job 3: its payload is not what was written (checksum or JSON)");
}

/* Without memory it fails, says so, and leaves no store; with it again, it works. */
static void test_without_memory(void **state)
{
    (void)state;
    struct err_note note = {""};
    struct store *s = rig_open(dir.path);
    grow(s, 40);
    (void)backup_to_other();
    s->ops->close(s);
    snprintf(target, sizeof target, "%s/a", dir.base);
    long nth = 1;
    for (int rc = -ERR_NOMEM; rc != 0; nth++) {
        mem_fail_at(nth, 0);
        rc = restore(other.path, &note);
        mem_fail_at(0, 0);
        assert_true(rc == 0 || rc == -ERR_NOMEM);
        if (rc != 0)
            assert_true(access(target, F_OK) != 0 || names_in(target) <= 1);
    }
    assert_true(nth > 8);
    uv_sem_t told;
    struct backup *b;
    for (nth = 1;; nth++) {
        mem_fail_at(nth, 0);
        int rc = backup_new(dir.path, notify_cb, &told, &b);
        mem_fail_at(0, 0);
        if (rc == 0)
            break;
        assert_int_equal(rc, -ERR_NOMEM);
    }
    backup_free(b);
    assert_true(nth > 3);
}

static void test_numbers_run_out(void **state)
{
    (void)state;
    static const struct {
        const char *sql;
        int rc;
    } cases[] = {
        {"UPDATE meta SET seq_upto = 70360154243071", 0},
        {"UPDATE meta SET seq_upto = 70360154243072", -ERR_RANGE},
        {"UPDATE meta SET seq_upto = 1000000, epoch = 16777216 - 131072", 0},
        {"UPDATE meta SET seq_upto = 1000000, epoch = 16777217 - 131072", -ERR_RANGE},
        {"UPDATE meta SET epoch = 1, position = 9007199254740991", -ERR_CORRUPT},
    };
    struct store *s = rig_open(dir.path);
    grow(s, 40);
    s->ops->close(s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err_note note = {""};
        snprintf(target, sizeof target, "%s/n%zu", dir.base, i);
        rig_sql(dir.path, cases[i].sql);
        assert_int_equal(restore(dir.path, &note), cases[i].rc);
        assert_int_equal(access(target, F_OK), cases[i].rc ? -1 : 0);
    }
}

/* ---- through the backend ---- */

struct asker {
    unsigned called;
    int error;
    uint64_t before, after;
    bool closed;
};

static void backup_cb(void *ctx, const struct backup_result *result)
{
    struct asker *a = ctx;
    a->called++;
    a->error = result->error;
    if (result->fd >= 0)
        close(result->fd);
}

static void compact_cb(void *ctx, const struct compact_result *result)
{
    struct asker *a = ctx;
    a->called++;
    a->error = result->error;
    a->before = result->bytes_before;
    a->after = result->bytes_after;
}

static void closed_cb(void *ctx)
{
    ((struct asker *)ctx)->closed = true;
}

static struct backend *backend_at(uv_loop_t *loop, const char *scheme)
{
    char url[256];
    struct backend *b;
    struct err_note note = {""};
    struct backend_config config = {.loop = loop, .clock = clock_system()};
    assert_int_equal(uv_loop_init(loop), 0);
    snprintf(url, sizeof url, "%s%s", scheme, strcmp(scheme, "memory:") == 0 ? "" : dir.path);
    if (backend_open(url, &config, &b, &note) != 0)
        fail_msg("%s", note.text);
    return b;
}

static void run_until(uv_loop_t *loop, const unsigned *called, unsigned count)
{
    while (*called < count)
        uv_run(loop, UV_RUN_ONCE);
}

static void backend_end(uv_loop_t *loop, struct backend *b, struct asker *a)
{
    backend_close(b, closed_cb, a);
    uv_run(loop, UV_RUN_DEFAULT);
    assert_true(a->closed);
    assert_int_equal(uv_loop_close(loop), 0);
}

static void one_at_a_time(const char *scheme)
{
    uv_loop_t loop;
    struct err_note note = {""};
    struct asker a = {0}, c = {0}, late = {0};
    struct backend *b = backend_at(&loop, scheme);
    struct backup_request request = {backup_cb, &a}, again = {backup_cb, &late};
    struct compact_request compact = {compact_cb, &c};
    assert_int_equal(backend_backup(b, &request, &note), 0);
    assert_int_equal(a.called, 0);
    assert_int_equal(backend_backup(b, &again, &note), -ERR_LOCKED);
    assert_non_null(strstr(note.text, "another backup is running"));
    run_until(&loop, &a.called, 1);
    assert_int_equal(a.error, 0);

    assert_int_equal(backend_compact(b, &compact, &note), 0);
    assert_int_equal(backend_compact(b, &compact, &note), -ERR_LOCKED);
    run_until(&loop, &c.called, 1);
    assert_int_equal(c.error, 0);
    assert_true(c.after > 0 && c.after <= c.before);
    assert_int_equal(backend_compact(b, &compact, &note), 0);
    backend_compact_cancel(b);
    assert_int_equal(backend_compact(b, &compact, &note), 0);
    run_until(&loop, &c.called, 2);

    assert_int_equal(backend_backup(b, &again, &note), 0);
    backend_backup_cancel(b); /* it may not have ended yet, but `done` is not called any more */
    backend_end(&loop, b, &a);
    assert_int_equal(late.called, 0);
}

static void test_one_at_a_time(void **state)
{
    (void)state;
    one_at_a_time("sqlite:");
    one_at_a_time("fault+sqlite:");
}

/* A caller that waits when the backend closes is told, once, before it is freed. */
static void test_closed_meanwhile(void **state)
{
    (void)state;
    uv_loop_t loop;
    struct err_note note = {""};
    struct asker a = {0}, c = {0};
    struct backend *b = backend_at(&loop, "sqlite:");
    struct backup_request request = {backup_cb, &a};
    struct compact_request compact = {compact_cb, &c};
    assert_int_equal(backend_backup(b, &request, &note), 0);
    assert_int_equal(backend_compact(b, &compact, &note), 0);
    backend_close(b, closed_cb, &a);
    assert_int_equal(backend_backup(b, &request, &note), -ERR_CLOSED);
    assert_int_equal(backend_compact(b, &compact, &note), -ERR_CLOSED);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(a.closed);
    assert_int_equal(a.called, 1);
    assert_int_equal(c.called, 1);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void test_nothing_on_disk(void **state)
{
    (void)state;
    uv_loop_t loop;
    struct err_note note = {""};
    struct asker a = {0};
    struct backend *b = backend_at(&loop, "memory:");
    struct backup_request request = {backup_cb, &a};
    struct compact_request compact = {compact_cb, &a};
    assert_int_equal(backend_backup(b, &request, &note), -ERR_INVALID);
    assert_non_null(strstr(note.text, "(memory) stores nothing in files"));
    assert_int_equal(backend_compact(b, &compact, &note), -ERR_INVALID);
    backend_backup_cancel(b);
    backend_compact_cancel(b);
    backend_end(&loop, b, &a);
    assert_int_equal(a.called, 0);
}

/* Asks for a backup in the very moment of a reply. */
struct early {
    struct backend *b;
    unsigned replies, wanted; /* the backup is asked for with the last */
    unsigned called;
    bool ahead; /* what was answered then was not durable yet */
    uint64_t answered, position;
};

static void early_made(void *ctx, const struct backup_result *result)
{
    struct early *e = ctx;
    assert_int_equal(result->error, 0);
    e->position = result->position;
    e->called++;
    close(result->fd);
}

static void early_reply(void *ctx, const struct reply *reply)
{
    struct early *e = ctx;
    struct backend_figures figures;
    struct backup_request request = {early_made, e};
    assert_int_equal(reply->outcome, OUT_OK);
    if (++e->replies < e->wanted)
        return;
    backend_figures(e->b, &figures);
    e->ahead = figures.durable < figures.position;
    e->answered = figures.position;
    assert_int_equal(backend_backup(e->b, &request, NULL), 0);
}

/* A relaxed queue answers before its records are durable; they are in the backup all the same. */
static void test_answered_early(void **state)
{
    (void)state;
    uv_loop_t loop;
    struct asker a = {0};
    struct queue_policy policy;
    policy_default(&policy);
    policy.durability = DURABILITY_RELAXED;
    struct early e = {.b = backend_at(&loop, "sqlite:"), .wanted = 1};
    struct op ops[] = {
        {.kind = OP_QUEUE_PUT, .queue = {.name = SPAN_LITERAL("q"), .policy = &policy}},
        {.kind = OP_ENQUEUE, .enqueue = {.queue = SPAN_LITERAL("q")}},
    };
    assert_int_equal(backend_submit(e.b, &ops[0], 1, early_reply, &e), 0);
    run_until(&loop, &e.called, 1);
    e.wanted = e.replies + 2; /* two, or the one is committed before it is answered */
    assert_int_equal(backend_submit(e.b, &ops[1], 1, early_reply, &e), 0);
    assert_int_equal(backend_submit(e.b, &ops[1], 1, early_reply, &e), 0);
    run_until(&loop, &e.called, 2);
    assert_true(e.ahead);
    assert_true(e.position >= e.answered);
    backend_end(&loop, e.b, &a);
}

/* Makes the journal of a store that has none yet, with one frame. */
static void journal_put(const struct store_meta *meta, struct span frame)
{
    struct journal *j;
    struct journal_config config = {
        .from = meta->position, .applied = meta->position, .segment_bytes = 4 * JOURNAL_PAGE};
    memcpy(config.store_id, meta->store_id, sizeof config.store_id);
    assert_int_equal(files_open_dir(in(&dir, "journal"), true, false, &config.files, NULL), 0);
    assert_int_equal(journal_open(&config, NULL, NULL, &j, NULL), 0);
    assert_int_equal(journal_begin(j, NULL), 0);
    assert_int_equal(journal_append(j, &frame, 1, NULL), 0);
    journal_close(j);
}

static int checked(const char *path, char *text, size_t room)
{
    FILE *out = tmpfile();
    assert_non_null(out);
    int result = check_run(path, out);
    rewind(out);
    text[fread(text, 1, room - 1, out)] = '\0';
    (void)fclose(out);
    return result;
}

/* Its store goes on in a journal, the backup does not; a store that lost its journal is none. */
static void test_checked(void **state)
{
    (void)state;
    char text[4096];
    struct store *s = rig_open(dir.path);
    assert_int_equal(s->ops->journal_begun(s, NULL), 0);
    grow(s, 40);
    (void)backup_to_other();
    s->ops->close(s);
    int result = checked(other.path, text, sizeof text);
    if (result != 0)
        fail_msg("%s", text);
    assert_non_null(strstr(text, "a backup"));
    assert_int_equal(names_in(other.path), 1);
    assert_int_equal(checked(dir.path, text, sizeof text), 1);
    assert_non_null(strstr(text, "journal is missing"));
}

/* The directory of a server that was stopped, or killed. */
static void test_restore_a_directory(void **state)
{
    (void)state;
    struct store *s = rig_open(dir.path);
    grow(s, 40);
    assert_int_equal(s->ops->journal_begun(s, NULL), 0);
    struct store_meta was = *s->ops->meta(s);
    s->ops->close(s);
    struct span frame = history_frame(history, 3);
    snprintf(target, sizeof target, "%s/a", dir.base);
    assert_int_equal(restore_fails(dir.path, "is missing"), -ERR_INVALID);
    assert_int_equal(access(target, F_OK), -1);
    journal_put(&was, frame);
    assert_int_equal(restore_fails(dir.path, "record"), -ERR_INVALID);
    assert_int_equal(restore_fails(dir.path, "that its database lacks"), -ERR_INVALID);

    s = rig_open(dir.path);
    rig_apply(s, frame);
    was = *s->ops->meta(s);
    s->ops->close(s);
    char pid[8] = "";
    overwrite(in(&dir, "lock"), 0, "1\n", 3);
    becomes_another(dir.path, &was, was.position);
    FILE *lock = fopen(in(&dir, "lock"), "re");
    assert_non_null(lock);
    assert_non_null(fgets(pid, sizeof pid, lock));
    (void)fclose(lock);
    assert_string_equal(pid, "1\n"); /* not a byte of the source is written */
    assert_int_equal(meta_of(target).journal_from, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_moment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wal_is_free, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancelled, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leftovers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_verify, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restored, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restored_with_wal, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restore_a_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unusable, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restored_with_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_numbers_run_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_closed_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_answered_early, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_on_disk, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
