/* SPDX-License-Identifier: Apache-2.0 */
/* What a salvage reads: all of a whole store, from the database and from the journal in front of
 * it; all but what is damaged of another; and never with a byte of it changed. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
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

#include "backend/local/journal/journal.h"
#include "backend/local/offline/salvage/salvage.h"
#include "backend/local/sqlite/store_sqlite.h"
#include "base/digest/crc32c.h"
#include "unit/backend/local/sqlite/store_history.h"
#include "unit/backend/local/sqlite/store_rig.h"

#define PAGE 4096

/* ---- looking ---- */

struct found {
    struct buf text; /* queues and jobs, a line each */
    struct buf problems;
    uint64_t seqs[HISTORY_JOBS];
    size_t count, schedules;
    struct salvage_report report;
    struct err_note note;
};

static int queue_cb(void *ctx, const struct queue_view *q)
{
    struct found *f = ctx;
    return buf_printf(&f->text, "queue %u %.*s lease=%u\n", q->number, (int)q->name.len, q->name.at,
                      q->policy->lease_ms);
}

static int key_cb(void *ctx, const struct kv_view *key)
{
    struct found *f = ctx;
    return buf_printf(&f->text, "key %08x kind=%u value=%zu/%08x until=%lld\n",
                      crc32c(0, key->key.at, key->key.len), key->kind, key->value.len,
                      crc32c(0, key->value.at, key->value.len), (long long)key->expires_at.ms);
}

static bool wanted_cb(void *ctx, const struct job *j, struct span queue)
{
    (void)ctx, (void)j, (void)queue;
    return true;
}

static int job_cb(void *ctx, const struct job_view *v)
{
    struct found *f = ctx;
    f->seqs[f->count++] = v->job.seq;
    rig_view(&f->text, v);
    return 0;
}

static int schedule_cb(void *ctx, const struct schedule_view *v)
{
    struct found *f = ctx;
    assert_true(v->name.len > 0 && v->spec.kind != 0);
    f->schedules++;
    return 0;
}

static void problem_cb(void *ctx, const char *sentence)
{
    struct found *f = ctx;
    assert_int_equal(buf_printf(&f->problems, "%s\n", sentence), 0);
}

static struct found *look_at(const char *dir, int *ret)
{
    struct found *f = calloc(1, sizeof *f);
    assert_non_null(f);
    struct salvage_sink sink = {f,      queue_cb,    key_cb,     wanted_cb,
                                job_cb, schedule_cb, problem_cb, NULL};
    *ret = salvage_run(dir, &sink, &f->report, &f->note);
    return f;
}

static struct found *look_for(const char *dir, int expected)
{
    int rc;
    struct found *f = look_at(dir, &rc);
    if (rc != expected)
        fail_msg("salvage: %d, not %d: %s", rc, expected, f->note.text);
    return f;
}

static struct found *look(const char *dir)
{
    return look_for(dir, 0);
}

static void found_free(struct found *f)
{
    buf_done(&f->text);
    buf_done(&f->problems);
    free(f);
}

static void expect_whole(const struct found *f)
{
    if (f->problems.len > 0)
        fail_msg("problems: %.*s", (int)f->problems.len, f->problems.data);
    assert_int_equal(f->report.jobs_damaged + f->report.ranges + f->report.queues, 0);
    assert_false(f->report.journal);
}

static void expect_same(const struct found *a, const struct found *b)
{
    if (span_equal(buf_span(&a->text), buf_span(&b->text)))
        return;
    size_t i = 0, line = 0;
    for (; i < a->text.len && i < b->text.len && a->text.data[i] == b->text.data[i]; i++)
        if (a->text.data[i] == '\n')
            line = i + 1;
    fail_msg("differ:\n%.300s\n--\n%.300s", a->text.data + line, b->text.data + line);
}

static bool has(const struct found *f, uint64_t seq)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->seqs[i] == seq)
            return true;
    return false;
}

/* ---- bytes on disk ---- */

static uint32_t file_crc(int dir, const char *name, uint64_t *size)
{
    static char bytes[1 << 16];
    uint32_t crc = 0;
    ssize_t n;
    int fd = openat(dir, name, O_RDONLY);
    assert_true(fd >= 0);
    while ((n = read(fd, bytes, sizeof bytes)) > 0) {
        crc = crc32c(crc, bytes, (size_t)n);
        *size += (uint64_t)n;
    }
    close(fd);
    return crc;
}

/* Names, sizes and bytes of all files, whatever their order. */
static uint64_t prints_of(const char *path)
{
    uint64_t sum = 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        uint64_t size = 0;
        if (e->d_type != DT_REG)
            continue;
        uint32_t crc = file_crc(dirfd(d), e->d_name, &size);
        sum += (uint64_t)crc * 31 + size * 7 + crc32c(0, e->d_name, strlen(e->d_name));
    }
    closedir(d);
    return sum;
}

/* Writes these bytes; the first one differently if they are there already. */
static void page_write(const char *dir, uint64_t page, size_t at, const void *bytes, size_t len)
{
    char path[200], old[PAGE], next[PAGE];
    off_t place = (off_t)((page - 1) * PAGE + at);
    assert_true(len <= sizeof next);
    memcpy(next, bytes, len);
    snprintf(path, sizeof path, "%s/holdfast.db", dir);
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, old, len, place), (ssize_t)len);
    if (memcmp(old, next, len) == 0)
        next[0] ^= 1;
    assert_int_equal(pwrite(fd, next, len, place), (ssize_t)len);
    close(fd);
}

/* A page number that the database itself tells. */
static uint64_t page_of(const char *dir, const char *sql)
{
    char path[200];
    sqlite3 *db;
    sqlite3_stmt *st;
    snprintf(path, sizeof path, "%s/holdfast.db", dir);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    uint64_t page = (uint64_t)sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return page;
}

/* ---- stores ---- */

struct rig {
    struct rig_dir dir;
    struct history *h;
    struct store *s;
};

static void rig_init(struct rig *r, uint64_t seed)
{
    printf("seed %llu\n", (unsigned long long)seed);
    rig_dir_make(&r->dir);
    r->h = malloc(sizeof *r->h);
    assert_non_null(r->h);
    history_init(r->h, seed);
    r->s = rig_open(r->dir.path);
}

static void rig_done(struct rig *r)
{
    if (r->s)
        r->s->ops->close(r->s);
    history_done(r->h);
    free(r->h);
    rig_dir_remove(&r->dir);
}

static void rig_shut(struct rig *r)
{
    r->s->ops->close(r->s);
    r->s = NULL;
}

/* n jobs "{"n":SEQ, …}" of one queue, in a store that is then closed. */
static void rig_fill(struct rig *r, unsigned n, size_t bytes)
{
    char payload[8192];
    memset(payload, ' ', sizeof payload);
    rig_apply(r->s, (history_begin(r->h), history_queue(r->h, 0), history_end(r->h)));
    history_begin(r->h);
    for (unsigned i = 1; i <= n; i++) {
        int len = snprintf(payload, sizeof payload, "{\"n\":%u,", i);
        payload[len] = ' ';
        memcpy(payload + bytes - 6, "\"a\":1}", 6);
        struct job_extra extra = {.group = span_text(i % 2 ? "odd" : "even")};
        assert_int_equal(history_enqueue(r->h, 0, &extra, span_of(payload, bytes)), i);
    }
    rig_apply(r->s, history_end(r->h));
    rig_shut(r);
}

/* ---- whole stores ---- */

static void expect_model(const struct found *f, const struct history *h)
{
    size_t shown = 0;
    for (uint64_t seq = 1; seq <= h->seq; seq++) {
        bool is = history_shown(h, &h->jobs[seq]);
        shown += is;
        assert_int_equal(has(f, seq), is);
    }
    assert_int_equal(f->count, shown);
    assert_true(shown > 20);
}

/* As a crash leaves it, with a WAL, and as a clean end does. */
static void whole(void **state)
{
    (void)state;
    struct rig r;
    struct rig_dir crashed;
    rig_init(&r, 11);
    rig_dir_make(&crashed);
    for (int i = 0; i < 30; i++)
        rig_apply(r.s, history_frame(r.h, 60));
    rig_dir_copy(r.dir.path, crashed.path);
    rig_shut(&r);
    uint64_t before = prints_of(r.dir.path), before_crashed = prints_of(crashed.path);
    struct found *a = look(r.dir.path), *b = look(crashed.path);
    expect_whole(a);
    expect_whole(b);
    expect_model(a, r.h);
    expect_same(a, b);
    assert_int_equal(prints_of(r.dir.path), before);
    assert_int_equal(prints_of(crashed.path), before_crashed);
    found_free(a);
    found_free(b);
    rig_dir_remove(&crashed);
    rig_done(&r);
}

static void nothing_there(void **state)
{
    (void)state;
    struct rig r;
    struct store_dir lock;
    found_free(look_for("/nowhere/at/all", -ERR_NOT_FOUND));
    rig_init(&r, 12);
    struct found *f = look_for(r.dir.path, -ERR_LOCKED);
    assert_non_null(strstr(f->note.text, "in use by another holdfast process"));
    found_free(f);
    rig_shut(&r);
    f = look(r.dir.path); /* an empty store is a store */
    assert_int_equal(f->count, 0);
    expect_whole(f);
    found_free(f);
    found_free(look_for(r.dir.base, -ERR_NOT_FOUND));
    assert_int_equal(store_dir_open_read(r.dir.path, &lock, NULL), 0);
    found_free(look_for(r.dir.path, -ERR_LOCKED));
    store_dir_close(&lock);
    page_write(r.dir.path, 1, 0, "not SQLite", 10);
    found_free(look_for(r.dir.path, -ERR_INVALID));
    rig_done(&r);
}

static void newer_format(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, 13);
    rig_shut(&r);
    rig_sql(r.dir.path, "PRAGMA user_version = 199");
    found_free(look_for(r.dir.path, -ERR_VERSION));
    rig_done(&r);
}

/* ---- the journal ---- */

static struct journal *journal_for(const struct rig *r)
{
    char path[200];
    struct files *files;
    struct journal *j;
    struct err_note note = {""};
    const struct store_meta *meta = &store_sqlite_of(r->s)->meta;
    struct journal_config config = {
        .from = meta->position, .applied = meta->position, .segment_bytes = 1 << 16};
    memcpy(config.store_id, meta->store_id, sizeof config.store_id);
    snprintf(path, sizeof path, "%s/journal", r->dir.path);
    assert_int_equal(files_open_dir(path, true, false, &files, &note), 0);
    config.files = files;
    if (journal_open(&config, NULL, NULL, &j, &note) != 0 || journal_begin(j, &note) != 0)
        fail_msg("journal: %s", note.text);
    return j;
}

/* `applied` of `frames` go to the database, the rest only to the journal; a second store that has
 * them all says what must come out. */
static void journal_over(uint64_t seed, int applied, int frames)
{
    struct rig part, all;
    rig_init(&part, seed);
    rig_init(&all, seed);
    struct journal *j = NULL;
    for (int i = 0; i < frames; i++) {
        struct span frame = history_frame(part.h, 50);
        if (i == applied)
            j = journal_for(&part);
        if (j)
            rig_journal_put(j, frame);
        else
            rig_apply(part.s, frame);
        rig_apply(all.s, frame);
    }
    journal_close(j);
    rig_shut(&part);
    rig_shut(&all);
    uint64_t before = prints_of(part.dir.path);
    struct found *a = look(part.dir.path), *b = look(all.dir.path);
    expect_whole(a);
    expect_model(a, part.h);
    expect_same(a, b);
    assert_int_equal(prints_of(part.dir.path), before);
    found_free(a);
    found_free(b);
    rig_done(&part);
    rig_done(&all);
}

static void journal_in_front(void **state)
{
    (void)state;
    journal_over(21, 20, 24);
    journal_over(22, 1, 40);
    journal_over(23, 39, 40);
    journal_over(24, 10, 60);
}

/* Flips a byte in the page of the journal that lies at a part of all its pages. */
static void journal_spoil(const struct rig *r, unsigned page)
{
    char path[200], byte;
    snprintf(path, sizeof path, "%s/journal/1", r->dir.path);
    int fd = open(path, O_RDWR);
    off_t at = (off_t)page * JOURNAL_PAGE + 200;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte = (char)~byte;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* Everything before the damage is read, as from a store with that number of records. */
static void journal_damaged(void **state)
{
    (void)state;
    struct rig part, all;
    struct buf frames[30];
    uint64_t lasts[30], read_up_to = 0, applied = 0;
    rig_init(&part, 31);
    rig_init(&all, 31);
    struct journal *j = NULL;
    for (int i = 0; i < 30; i++) {
        struct span frame = history_frame(part.h, 50);
        buf_init(&frames[i]);
        assert_int_equal(buf_append_span(&frames[i], frame), 0);
        lasts[i] = part.h->position;
        if (i == 10) {
            applied = store_sqlite_of(part.s)->meta.position;
            j = journal_for(&part);
        }
        if (j)
            rig_journal_put(j, frame);
        else
            rig_apply(part.s, frame);
    }
    journal_close(j);
    rig_shut(&part);
    journal_spoil(&part, 7);
    struct found *a = look(part.dir.path);
    assert_true(a->report.journal);
    const char *told = strstr(a->problems.data, "the journal was read up to record ");
    assert_non_null(told);
    assert_int_equal(sscanf(told, "the journal was read up to record %" SCNu64, &read_up_to), 1);
    assert_true(read_up_to > applied && read_up_to < part.h->position);
    for (int i = 0; i < 30; i++) {
        if (lasts[i] <= read_up_to)
            rig_apply(all.s, buf_span(&frames[i]));
        buf_done(&frames[i]);
    }
    rig_shut(&all);
    struct found *b = look(all.dir.path);
    expect_same(a, b);
    found_free(a);
    found_free(b);
    rig_done(&part);
    rig_done(&all);
}

/* ---- damaged databases ---- */

/* The first page that has the text. */
static uint64_t page_with(const char *dir, const char *text)
{
    static char page[PAGE];
    char path[200];
    snprintf(path, sizeof path, "%s/holdfast.db", dir);
    int fd = open(path, O_RDONLY);
    uint64_t number = 0;
    while (pread(fd, page, PAGE, (off_t)(number * PAGE)) == PAGE) {
        number++;
        if (memmem(page, PAGE, text, strlen(text)))
            break;
    }
    close(fd);
    return number;
}

static void payload_leaf(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, 41);
    rig_fill(&r, 400, 500); /* some seven to a page */
    uint64_t page = page_with(r.dir.path, "{\"n\":200,");
    page_write(r.dir.path, page, 0, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    uint64_t before = prints_of(r.dir.path);
    struct found *f = look(r.dir.path);
    assert_int_equal(prints_of(r.dir.path), before);
    assert_false(has(f, 200));
    assert_true(f->count >= 390 && f->count < 400);
    assert_int_equal(f->report.jobs_damaged, 400 - f->count);
    assert_int_equal(f->report.ranges, 0);
    assert_non_null(strstr(f->problems.data, "job 200: its payload cannot be read"));
    found_free(f);
    rig_done(&r);
}

/* The first leaf of the table of jobs: its keys are lost, and no others. */
static void jobs_leaf(void **state)
{
    (void)state;
    static const char *const spoils[] = {"\xff\xff\xff\xff\xff\xff\xff\xff", "\0\0\0\0\0\0\0\0"};
    for (size_t i = 0; i < 2; i++) {
        struct rig r;
        unsigned char top[PAGE];
        char path[200];
        rig_init(&r, 42);
        rig_fill(&r, 2000, 20);
        uint64_t root =
            page_of(r.dir.path, "SELECT rootpage FROM sqlite_schema WHERE name = 'jobs'");
        snprintf(path, sizeof path, "%s/holdfast.db", r.dir.path);
        int fd = open(path, O_RDONLY);
        assert_int_equal(pread(fd, top, PAGE, (off_t)((root - 1) * PAGE)), PAGE);
        close(fd);
        assert_int_equal(top[0], 5); /* an inner page; its second cell leads to the second leaf */
        size_t cell = (size_t)top[14] << 8 | top[15];
        uint64_t leaf = (uint64_t)top[cell + 2] << 8 | top[cell + 3];
        page_write(r.dir.path, leaf, 0, spoils[i], 8);
        struct found *f = look(r.dir.path);
        assert_int_equal(f->report.ranges, 1);
        assert_int_equal(f->report.jobs_damaged, 0);
        assert_int_equal(f->count + f->report.sequences, 2000);
        assert_true(f->report.sequences > 5 && f->report.sequences < 300);
        assert_true(has(f, 1) && has(f, 2000));
        assert_non_null(strstr(f->problems.data, "cannot be read"));
        found_free(f);
        rig_done(&r);
    }
}

static void jobs_root(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, 43);
    rig_fill(&r, 500, 20);
    rig_sql(r.dir.path, "UPDATE meta SET seq_upto = 700");
    uint64_t root = page_of(r.dir.path, "SELECT rootpage FROM sqlite_schema WHERE name = 'jobs'");
    page_write(r.dir.path, root, 0, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    struct found *f = look(r.dir.path);
    assert_int_equal(f->count, 0);
    assert_int_equal(f->report.ranges, 1);
    assert_int_equal(f->report.sequences, 700);
    found_free(f);
    rig_done(&r);
}

/* Page 1, and what else describes the store, is read although its checksum does not match: the jobs
 * are whole. */
static void first_page(void **state)
{
    (void)state;
    static const size_t places[] = {18, 19, 21, 29, 45, 57, 62, 1000, 4085, 4095};
    struct rig r;
    rig_init(&r, 48);
    rig_fill(&r, 300, 300);
    struct found *all = look(r.dir.path);
    uint64_t meta = page_of(r.dir.path, "SELECT rootpage FROM sqlite_schema WHERE name = 'meta'");
    uint64_t pages[] = {1, meta};
    for (size_t i = 0; i < 2 * sizeof places / sizeof *places; i++) {
        size_t at = places[i / 2];
        uint64_t page = pages[i % 2];
        struct rig_dir copy;
        rig_dir_make(&copy);
        rig_dir_copy(r.dir.path, copy.path);
        if (page == meta && at < 1000)
            at += 2000; /* its row is at the end, its header at the beginning */
        page_write(copy.path, page, at, "\x77", 1);
        uint64_t before = prints_of(copy.path);
        struct found *f = look(copy.path);
        assert_true(f->report.description);
        assert_non_null(strstr(f->problems.data, "it describes the store and is used as it is"));
        expect_same(f, all);
        assert_int_equal(prints_of(copy.path), before);
        found_free(f);
        rig_dir_remove(&copy);
    }
    found_free(all);
    rig_done(&r);
}

/* If the version cannot be read, the message says so and does not blame another version. */
static void first_page_lost(void **state)
{
    (void)state;
    static char junk[PAGE - 100];
    struct rig r;
    rig_init(&r, 49);
    rig_fill(&r, 10, 40);
    memset(junk, 0x5a, sizeof junk);
    page_write(r.dir.path, 1, 100, junk, sizeof junk);
    struct found *f = look_for(r.dir.path, -ERR_CORRUPT);
    assert_non_null(strstr(f->note.text, "page 1 is damaged: its checksum does not match"));
    found_free(f);
    rig_done(&r);
}

/* Jobs without their queue are still worth something. */
static void queues_root(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, 44);
    rig_fill(&r, 100, 40);
    uint64_t root = page_of(r.dir.path, "SELECT rootpage FROM sqlite_schema WHERE name = 'queues'");
    page_write(r.dir.path, root, 0, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    struct found *f = look(r.dir.path);
    assert_int_equal(f->count, 100);
    assert_int_equal(f->report.queues, 1);
    assert_non_null(strstr(f->text.data, "recovered-1"));
    found_free(f);
    rig_done(&r);
}

static void values_out_of_range(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, 45);
    rig_fill(&r, 20, 40);
    rig_sql(r.dir.path, "UPDATE jobs SET state = 77 WHERE seq = 3;"
                        "UPDATE jobs SET queue = 99 WHERE seq = 4;"
                        "UPDATE payload SET body = x'00' WHERE seq = 5;"
                        "UPDATE payload SET body = cast(replace(body, '}', ' ') AS BLOB)"
                        " WHERE seq = 6;"
                        "UPDATE jobs SET payload = payload & ~3 | 1 WHERE seq = 6;"
                        "DELETE FROM payload WHERE seq = 7;"
                        "DELETE FROM extra WHERE seq = 8;"
                        "UPDATE extra SET attributes = '{' WHERE seq = 9;"
                        "UPDATE extra SET options = x'ff' WHERE seq = 10;"
                        "UPDATE jobs SET marks = marks | 6 WHERE seq = 11;"
                        "UPDATE meta SET seq_upto = 0;");
    struct found *f = look(r.dir.path);
    assert_int_equal(f->count, 11);
    assert_int_equal(f->report.jobs_damaged, 9);
    for (uint64_t seq = 3; seq <= 11; seq++)
        assert_false(has(f, seq));
    found_free(f);
    rig_done(&r);
}

/* Jobs that have been removed stay away although their rows are there; where it cannot be read
 * which they are, they come, and that is said. */
static void removed_jobs(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, 47);
    rig_fill(&r, 200, 40);
    rig_sql(r.dir.path, "INSERT INTO gone VALUES (0, (1 << 3) | (1 << 63)), (2, 1 << 5)");
    struct found *f = look(r.dir.path);
    expect_whole(f);
    assert_int_equal(f->count, 197);
    assert_false(has(f, 3) || has(f, 63) || has(f, 133));
    found_free(f);
    uint64_t root = page_of(r.dir.path, "SELECT rootpage FROM sqlite_schema WHERE name = 'gone'");
    page_write(r.dir.path, root, 0, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    f = look(r.dir.path);
    assert_int_equal(f->count, 200);
    assert_int_equal(f->report.removals, 1);
    assert_non_null(strstr(f->problems.data, "have been removed cannot be read"));
    found_free(f);
    rig_done(&r);
}

/* Whatever is damaged: it ends, tells, and gives only jobs that are whole. */
/* Salvage does not read the tables of dependencies: their pages may be damaged without a report. */
static uint64_t page_that_is_read(const char *dir, struct random *random, uint64_t pages)
{
    static const char *const unread[] = {"dependents", "dependencies", "parents_ended"};
    uint64_t page = 1 + random_below(random, pages);
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++) {
        char sql[200];
        snprintf(sql, sizeof sql, "SELECT rootpage FROM sqlite_schema WHERE name = '%s'",
                 unread[i]);
        if (page_of(dir, sql) == page)
            return page_that_is_read(dir, random, pages);
    }
    return page;
}

static void anything(void **state)
{
    (void)state;
    struct rig r;
    struct random random;
    rig_init(&r, 46);
    rig_fill(&r, 600, 300);
    random_seed(&random, 46);
    size_t damaged = 0;
    for (int round = 0; round < 16; round++) {
        struct rig_dir copy;
        struct stat st;
        char path[200];
        rig_dir_make(&copy);
        rig_dir_copy(r.dir.path, copy.path);
        snprintf(path, sizeof path, "%s/holdfast.db", copy.path);
        assert_int_equal(stat(path, &st), 0);
        uint64_t pages = (uint64_t)st.st_size / PAGE;
        for (uint64_t i = 0; i < 1 + random_below(&random, 20); i++) {
            char bytes[64];
            for (size_t b = 0; b < sizeof bytes; b++)
                bytes[b] = (char)random_next(&random);
            page_write(copy.path, page_that_is_read(r.dir.path, &random, pages),
                       random_below(&random, 2) ? 100 : random_below(&random, PAGE - 64), bytes,
                       1 + random_below(&random, 63));
        }
        int rc;
        struct found *f = look_at(copy.path, &rc);
        assert_true(rc == 0 || f->note.text[0] != '\0');
        damaged += rc != 0 || f->problems.len > 0;
        assert_true(f->count <= 600);
        found_free(f);
        rig_dir_remove(&copy);
    }
    assert_int_equal(damaged, 16); /* no damage passes the checksums */
    rig_done(&r);
}

static void flip(const char *path, uint64_t page)
{
    unsigned char byte;
    off_t at = (off_t)((page - 1) * PAGE + 2000);
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* Whichever page is damaged: what comes is what would come without the damage, or it is told. */
static void no_page_is_missed(void **state)
{
    (void)state;
    struct rig r;
    struct stat st;
    char path[200];
    uint64_t partial = 0;
    rig_init(&r, 48);
    for (int i = 0; i < 20; i++)
        rig_apply(r.s, history_frame(r.h, 100));
    rig_shut(&r);
    struct found *all = look(r.dir.path);
    expect_whole(all);
    snprintf(path, sizeof path, "%s/holdfast.db", r.dir.path);
    assert_int_equal(stat(path, &st), 0);
    for (uint64_t page = 2; page <= (uint64_t)st.st_size / PAGE; page++) {
        flip(path, page);
        int rc;
        struct found *f = look_at(r.dir.path, &rc);
        if (rc == 0 && f->problems.len == 0)
            expect_same(all, f);
        else if (rc != 0) /* a page of the schema */
            assert_int_equal(rc, -ERR_CORRUPT);
        partial += f->report.jobs_partial;
        found_free(f);
        flip(path, page);
    }
    assert_true(partial > 0); /* there was a page of outcomes */
    found_free(all);
    rig_done(&r);
}

/* A job comes without its result or its error text, and a queue without its note, but not without
 * a word. */
static void given_in_part(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, 49);
    rig_fill(&r, 20, 40);
    rig_sql(r.dir.path,
            "UPDATE queues SET note = CAST(x'ff' AS TEXT);"
            "INSERT INTO outcome (seq, result_kind, result) VALUES (3, 3, x'00');"
            "INSERT INTO outcome (seq, error) VALUES (4, CAST(x'61ff' AS TEXT)), (5, 'fine')");
    struct found *f = look(r.dir.path);
    assert_int_equal(f->count, 20);
    assert_int_equal(f->report.jobs_damaged, 0);
    assert_int_equal(f->report.jobs_partial, 2);
    assert_int_equal(f->report.queues_partial, 1);
    assert_non_null(strstr(f->problems.data, "job 3: its result cannot be read"));
    assert_non_null(strstr(f->problems.data, "job 4: its error text cannot be read"));
    assert_non_null(strstr(f->problems.data, ": its note cannot be read"));
    assert_null(strstr(f->problems.data, "job 5"));
    found_free(f);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),           cmocka_unit_test(nothing_there),
        cmocka_unit_test(newer_format),    cmocka_unit_test(journal_in_front),
        cmocka_unit_test(journal_damaged), cmocka_unit_test(payload_leaf),
        cmocka_unit_test(jobs_leaf),       cmocka_unit_test(jobs_root),
        cmocka_unit_test(queues_root),     cmocka_unit_test(values_out_of_range),
        cmocka_unit_test(removed_jobs),    cmocka_unit_test(first_page),
        cmocka_unit_test(first_page_lost), cmocka_unit_test(anything),
        cmocka_unit_test(given_in_part),   cmocka_unit_test(no_page_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
