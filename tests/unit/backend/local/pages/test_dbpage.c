/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of pages and frames: whatever is damaged on the disk is an error, and never content. */
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

#include "backend/local/offline/check/check.h"
#include "backend/local/offline/restore.h"
#include "backend/local/offline/salvage/salvage.h"
#include "backend/local/pages/dbfile.h"
#include "backend/local/pages/vfs.h"
#include "backend/local/pages/wal.h"
#include "backend/local/sqlite/store_sqlite.h"
#include "unit/backend/local/sqlite/store_history.h"
#include "unit/backend/local/sqlite/store_rig.h"

/* ---- one page ---- */

static void fill_page(unsigned char page[DBPAGE_BYTES], unsigned seed)
{
    for (size_t i = 0; i < DBPAGE_BYTES; i++)
        page[i] = (unsigned char)(i * 31 + i / 256 + seed);
}

static void every_flipped_bit(void **state)
{
    (void)state;
    unsigned char page[DBPAGE_BYTES];
    const struct dbpage_origin from = {{0x01020304, 0xfffefdfc}, 77};
    fill_page(page, 1);
    dbpage_seal(page, 9, &from);
    assert_true(dbpage_good(page, 9));
    struct dbpage_origin origin = dbpage_origin_of(page);
    assert_memory_equal(&origin, &from, sizeof from);
    for (size_t i = 0; i < (size_t)DBPAGE_BYTES * 8; i++) {
        page[i / 8] = (unsigned char)(page[i / 8] ^ 1u << i % 8);
        assert_false(dbpage_good(page, 9));
        page[i / 8] = (unsigned char)(page[i / 8] ^ 1u << i % 8);
    }
    assert_true(dbpage_good(page, 9));
}

static void another_page(void **state)
{
    (void)state;
    static const struct dbpage_origin none;
    unsigned char page[DBPAGE_BYTES], zeros[DBPAGE_BYTES] = {0};
    fill_page(page, 2);
    dbpage_seal(page, 1000, &none);
    for (uint32_t number = 1; number < 20000; number++) {
        assert_int_equal(dbpage_good(page, number), number == 1000);
        assert_false(dbpage_good(zeros, number));
    }
}

/* ---- a store ---- */

static struct rig_dir dir;
static struct history *history;

static int setup(void **state)
{
    (void)state;
    rig_dir_make(&dir);
    history = history_new(5, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    history_free(history);
    rig_dir_remove(&dir);
    return 0;
}

#define JOBS 60
#define BODY 3000

static void body_of(unsigned n, char body[BODY])
{
    memset(body, 'a' + (int)(n % 26), BODY);
    snprintf(body, 32, "{\"job number\":%u,", n);
    body[strlen(body)] = ' ';
}

static void put_jobs(struct store *s, unsigned from, unsigned upto)
{
    char body[BODY];
    history_begin(history);
    for (unsigned n = from; n <= upto; n++) {
        body_of(n, body);
        assert_int_equal(history_enqueue(history, 0, NULL, span_of(body, BODY)), n);
    }
    rig_apply(s, history_end(history));
}

#define TOGETHER 5

/* A queue and jobs 1 … JOBS, several in each transaction. */
static struct store *filled(void)
{
    struct store *s = rig_open(dir.path);
    history_begin(history);
    history_add(history, &(struct record){.kind = REC_SEQ_BLOCK, .seq_block = {.upto = 1000}});
    history_queue(history, 0);
    rig_apply(s, history_end(history));
    for (unsigned n = 1; n <= JOBS; n += TOGETHER)
        put_jobs(s, n, n + TOGETHER - 1);
    return s;
}

static void filled_and_closed(void)
{
    struct store *s = filled();
    s->ops->close(s);
}

static const char *in_dir(const char *path, const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *ret = paths[next++ % 4];
    snprintf(ret, 256, "%s/%s", path, name);
    return ret;
}

static int file_open(const char *name)
{
    int fd = open(in_dir(dir.path, name), O_RDWR);
    assert_true(fd >= 0);
    return fd;
}

static void flip(const char *name, off_t at)
{
    unsigned char byte;
    int fd = file_open(name);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* The place of the last such text in a file; -1 = it is not there. */
static off_t place_of(const char *name, const char *text)
{
    struct stat st;
    int fd = file_open(name);
    assert_int_equal(fstat(fd, &st), 0);
    char *bytes = malloc((size_t)st.st_size);
    assert_non_null(bytes);
    assert_int_equal(pread(fd, bytes, (size_t)st.st_size, 0), st.st_size);
    close(fd);
    off_t found = -1;
    size_t len = strlen(text);
    for (off_t at = 0; at + (off_t)len <= st.st_size; at++)
        if (memcmp(bytes + at, text, len) == 0)
            found = at;
    free(bytes);
    return found;
}

static int body_read(struct store_reader *r, uint64_t seq)
{
    char want[BODY];
    struct arena arena;
    struct stored_body body;
    arena_init(&arena);
    int rc = rig_read(r, &seq, 1, &arena, &body);
    body_of((unsigned)seq, want);
    if (rc == 0 && (body.damage & DAMAGE_PAYLOAD)) {
        assert_int_equal(body.payload.len, 0);
        rc = -ERR_CORRUPT;
    }
    if (rc == 0) {
        assert_int_equal(body.payload.len, BODY);
        assert_memory_equal(body.payload.at, want, BODY);
    }
    arena_done(&arena);
    return rc;
}

static int open_fails(struct err_note *note)
{
    struct store *s = NULL;
    int rc = store_open_sqlite(dir.path, RIG_NOW, &s, note);
    if (rc == 0)
        s->ops->close(s);
    return rc;
}

static void must_say(const struct err_note *note, const char *words)
{
    if (!strstr(note->text, words))
        fail_msg("\"%s\" is not in: %s", words, note->text);
}

/* What check says; for free. */
static char *check_says(int *ret_status)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    assert_non_null(f);
    *ret_status = check_run(dir.path, f);
    fclose(f);
    return text;
}

static void check_must_say(const char *words)
{
    int status;
    char *text = check_says(&status);
    if (status != CHECK_PROBLEMS || !strstr(text, words))
        fail_msg("status %d, \"%s\" is not in:\n%s", status, words, text);
    free(text);
}

static void check_must_be_good(void)
{
    int status;
    char *text = check_says(&status);
    if (status != CHECK_GOOD)
        fail_msg("%s", text);
    free(text);
}

/* ---- the database file ---- */

/* A damaged payload is the error of the one job whose page it is on. */
static void damaged_payload(void **state)
{
    (void)state;
    char words[64];
    filled_and_closed();
    off_t at = place_of("holdfast.db", "{\"job number\":30,") + 100;
    flip("holdfast.db", at);
    struct store *s = rig_open(dir.path);
    struct store_reader *r;
    assert_int_equal(s->ops->reader_open(s, &r, NULL), 0);
    for (uint64_t seq = 1; seq <= JOBS; seq++)
        assert_int_equal(body_read(r, seq), seq == 30 ? -ERR_CORRUPT : 0);
    r->ops->close(r);
    s->ops->close(s);
    snprintf(words, sizeof words, "page %lld is damaged: its checksum does not match",
             (long long)at / DBPAGE_BYTES + 1);
    check_must_say(words);
    check_must_say("(it belongs to payload)");
    flip("holdfast.db", at);
    check_must_be_good();
}

/* The root page of a table that is loaded at a start. */
static uint32_t root_of(const char *table)
{
    char sql[100];
    sqlite3 *db = NULL;
    int64_t page = 0;
    snprintf(sql, sizeof sql, "SELECT rootpage FROM sqlite_schema WHERE name = '%s'", table);
    assert_int_equal(sql_open(in_dir(dir.path, "holdfast.db"), SQLITE_OPEN_READONLY, 0, &db, NULL),
                     0);
    assert_int_equal(sql_number(db, sql, &page, NULL), 0);
    sqlite3_close(db);
    return (uint32_t)page;
}

static int load_fails(struct err_note *note)
{
    struct store *s = NULL;
    struct buf text;
    size_t damaged;
    int rc = store_open_sqlite(dir.path, RIG_NOW, &s, note);
    if (rc != 0)
        return rc;
    buf_init(&text);
    rc = rig_dump_some(s, NULL, &text, &damaged, note);
    buf_done(&text);
    s->ops->close(s);
    return rc;
}

static void damaged_state(void **state)
{
    (void)state;
    static const char *const tables[] = {"meta", "queues", "jobs"};
    filled_and_closed();
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char words[100];
        struct err_note note = {""};
        uint32_t page = root_of(tables[i]);
        off_t at = (off_t)(page - 1) * DBPAGE_BYTES + 5;
        flip("holdfast.db", at);
        if (load_fails(&note) != -ERR_CORRUPT)
            fail_msg("%s: %s", tables[i], note.text);
        snprintf(words, sizeof words, "page %u is damaged: its checksum does not match", page);
        must_say(&note, words);
        must_say(&note, tables[i]);
        must_say(&note, "holdfast export --data");
        flip("holdfast.db", at);
    }
    assert_int_equal(load_fails(NULL), 0);
}

/* Two pages in each other's place, and a page of zeros: every page is whole, and yet wrong. */
static void misdirected_and_zero(void **state)
{
    (void)state;
    unsigned char a[DBPAGE_BYTES], b[DBPAGE_BYTES], zeros[DBPAGE_BYTES] = {0};
    char words[64];
    filled_and_closed();
    off_t one = place_of("holdfast.db", "{\"job number\":10,") / DBPAGE_BYTES;
    off_t two = place_of("holdfast.db", "{\"job number\":40,") / DBPAGE_BYTES;
    off_t three = place_of("holdfast.db", "{\"job number\":50,") / DBPAGE_BYTES;
    int fd = file_open("holdfast.db");
    assert_int_equal(pread(fd, a, sizeof a, one * DBPAGE_BYTES), sizeof a);
    assert_int_equal(pread(fd, b, sizeof b, two * DBPAGE_BYTES), sizeof b);
    assert_int_equal(pwrite(fd, b, sizeof b, one * DBPAGE_BYTES), sizeof b);
    assert_int_equal(pwrite(fd, a, sizeof a, two * DBPAGE_BYTES), sizeof a);
    assert_int_equal(pwrite(fd, zeros, sizeof zeros, three * DBPAGE_BYTES), sizeof zeros);
    close(fd);
    off_t pages[] = {one + 1, two + 1, three + 1};
    for (size_t i = 0; i < 3; i++) {
        snprintf(words, sizeof words, "page %lld is damaged", (long long)pages[i]);
        check_must_say(words);
    }
    struct store *s = rig_open(dir.path);
    struct store_reader *r;
    assert_int_equal(s->ops->reader_open(s, &r, NULL), 0);
    for (uint64_t seq = 1; seq <= JOBS; seq++)
        assert_int_equal(body_read(r, seq), seq == 10 || seq == 40 || seq == 50 ? -ERR_CORRUPT : 0);
    r->ops->close(r);
    s->ops->close(s);
}

/* ---- the WAL ---- */

/* While the server runs: readers check what they read there. */
static void damaged_frame(void **state)
{
    (void)state;
    struct store *s = filled();
    struct store_reader *r;
    struct err_note note = {""};
    for (unsigned n = 20; n <= 40; n += 20) {
        char text[40];
        snprintf(text, sizeof text, "{\"job number\":%u,", n);
        off_t at = place_of("holdfast.db-wal", text) + 60;
        assert_int_equal(s->ops->reader_open(s, &r, NULL), 0);
        flip("holdfast.db-wal", at);
        assert_int_equal(body_read(r, n), -ERR_CORRUPT);
        assert_int_equal(body_read(r, n - 10), 0);
        flip("holdfast.db-wal", at);
        assert_int_equal(body_read(r, n), 0);
        r->ops->close(r);
    }
    /* A checkpoint copies no damage. */
    off_t at = place_of("holdfast.db-wal", "{\"job number\":60,") + 60;
    bool more;
    flip("holdfast.db-wal", at);
    assert_int_equal(s->ops->tidy(s, &more, &note), -ERR_CORRUPT);
    must_say(&note, "of the WAL is damaged");
    flip("holdfast.db-wal", at);
    s->ops->close(s);
    check_must_be_good();
}

/* As a crash leaves it. */
static void crashed(struct rig_dir *live)
{
    struct store *s = filled();
    *live = dir;
    rig_dir_make(&dir);
    rig_dir_copy(live->path, dir.path);
    s->ops->close(s);
}

static uint32_t wal_frames(void)
{
    struct stat st;
    assert_int_equal(stat(in_dir(dir.path, "holdfast.db-wal"), &st), 0);
    return (uint32_t)((st.st_size - WAL_HEADER_BYTES) / WAL_FRAME_BYTES);
}

/* A frame in the middle: SQLite would end the WAL there and go on with an older store. Every part
 * of a frame, and the WAL's header. */
static void damaged_wal(void **state)
{
    (void)state;
    static const off_t places[] = {0, 5, 9, 13, 17, 21, 30, 2000};
    struct rig_dir live;
    struct err_note note;
    crashed(&live);
    uint32_t frames = wal_frames();
    assert_true(frames > 100);
    for (uint32_t frame = 1; frame < frames - 20; frame += 13)
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            flip("holdfast.db-wal", wal_frame_at(frame) + places[i]);
            if (open_fails(&note) != -ERR_CORRUPT)
                fail_msg("frame %u of %u, byte %lld", frame, frames, (long long)places[i]);
            must_say(&note, "holdfast.db-wal is damaged");
            flip("holdfast.db-wal", wal_frame_at(frame) + places[i]);
        }
    for (off_t at = 0; at < WAL_HEADER_BYTES; at++) {
        flip("holdfast.db-wal", at);
        assert_int_equal(open_fails(&note), -ERR_CORRUPT);
        flip("holdfast.db-wal", at);
    }
    flip("holdfast.db-wal", wal_frame_at(7) + 100);
    check_must_say("holdfast.db-wal is damaged");
    flip("holdfast.db-wal", wal_frame_at(7) + 100);
    check_must_be_good();
    assert_int_equal(open_fails(&note), 0);
    rig_dir_remove(&live);
}

static uint64_t position_of(void)
{
    struct store *s = rig_open(dir.path);
    uint64_t position = s->ops->meta(s)->position;
    s->ops->close(s);
    return position;
}

/* The last transaction looks as if a crash had interrupted it: the store is the one before it, and
 * the journal has the rest. */
static void interrupted_commit(void **state)
{
    (void)state;
    struct rig_dir live;
    crashed(&live);
    flip("holdfast.db-wal", wal_frame_at(wal_frames()) + 100);
    check_must_be_good();
    uint64_t before = position_of();
    struct rig_dir damaged = dir;
    dir = live;
    assert_int_equal(position_of(), before + TOGETHER);
    dir = damaged;
    rig_dir_remove(&live);
}

/* The same, but a checkpoint has copied it: the database would be of two times at once. */
static void copied_commit(void **state)
{
    (void)state;
    bool more;
    struct err_note note = {""};
    struct rig_dir live = dir;
    struct store *s = filled();
    assert_int_equal(s->ops->tidy(s, &more, &note), 0);
    rig_dir_make(&dir);
    rig_dir_copy(live.path, dir.path);
    s->ops->close(s);
    flip("holdfast.db-wal", wal_frame_at(wal_frames()) + 100);
    assert_int_equal(open_fails(&note), -ERR_CORRUPT);
    must_say(&note, "holdfast.db-wal is damaged");
    check_must_say("holdfast.db-wal is damaged");
    flip("holdfast.db-wal", wal_frame_at(wal_frames()) + 100);
    assert_int_equal(open_fails(&note), 0);
    rig_dir_remove(&live);
}

/* A power cut during a checkpoint may tear pages; the WAL has all of them. */
static void torn_checkpoint(void **state)
{
    (void)state;
    unsigned char junk[2048];
    struct rig_dir live;
    struct dbpage_wal wal;
    crashed(&live);
    memset(junk, 0xa5, sizeof junk);
    assert_int_equal(dbpage_wal_check(in_dir(dir.path, "holdfast.db"), &wal, NULL), 0);
    assert_true(dbpage_wal_covers(&wal, 1));
    int fd = file_open("holdfast.db");
    for (size_t i = 0; i < wal.number_count; i++)
        assert_int_equal(pwrite(fd, junk, sizeof junk,
                                (off_t)wal.numbers[i] * DBPAGE_BYTES - (off_t)sizeof junk),
                         sizeof junk);
    close(fd);
    dbpage_wal_done(&wal);
    check_must_be_good();
    struct store *s = rig_open(dir.path);
    struct store_reader *r;
    assert_int_equal(s->ops->reader_open(s, &r, NULL), 0);
    for (uint64_t seq = 1; seq <= JOBS; seq++)
        assert_int_equal(body_read(r, seq), 0);
    r->ops->close(r);
    s->ops->close(s);
    check_must_be_good();
    rig_dir_remove(&live);
}

/* A transaction larger than the cache writes pages to the WAL more than once, in place, and reads
 * them again before it has made their checksums right. */
static void spilled_transaction(void **state)
{
    (void)state;
    int64_t sum = 0;
    sqlite3 *db = NULL;
    filled_and_closed();
    assert_int_equal(sql_open(in_dir(dir.path, "holdfast.db"), SQLITE_OPEN_READWRITE, 0, &db, NULL),
                     0);
    assert_int_equal(
        sql_exec(db, "PRAGMA cache_size = 10; CREATE TABLE t (a INTEGER, b TEXT)", NULL), 0);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(sql_exec(db,
                                  "BEGIN; DELETE FROM t; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL"
                                  " SELECT i + 1 FROM n WHERE i < 3000)"
                                  " INSERT INTO t SELECT i, printf('%0200d', i) FROM n",
                                  NULL),
                         0);
        for (int i = 0; i < 5; i++)
            assert_int_equal(sql_exec(db, "UPDATE t SET a = a + 1, b = substr(b, 2) || 'x'", NULL),
                             0);
        assert_int_equal(sql_exec(db, round == 1 ? "ROLLBACK" : "COMMIT", NULL), 0);
        assert_int_equal(sql_number(db, "SELECT sum(a) FROM t", &sum, NULL), 0);
        assert_int_equal(sum, 3000 * 3001 / 2 + 5 * 3000);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    int fd = file_open("holdfast.db");
    struct stat st;
    struct dbpage_fault fault;
    unsigned char page[DBPAGE_BYTES];
    assert_int_equal(fstat(fd, &st), 0);
    for (uint32_t n = 1; n <= st.st_size / DBPAGE_BYTES; n++) {
        assert_int_equal(dbpage_read(fd, n, page, &fault), 0);
        assert_int_equal(fault.kind, DBPAGE_FINE);
    }
    close(fd);
}

/* ---- whose file ---- */

/* The shell of SQLite reads the file; a file that it wrote has no checksums. */
static void plain_sqlite(void **state)
{
    (void)state;
    sqlite3 *db;
    sqlite3_stmt *st;
    filled_and_closed();
    assert_int_equal(
        sqlite3_open_v2(in_dir(dir.path, "holdfast.db"), &db, SQLITE_OPEN_READONLY, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(st, 0), "ok");
    sqlite3_finalize(st);
    sqlite3_close(db);
}

static int draft_queue(void *ctx, const struct queue_view *queue)
{
    (void)ctx, (void)queue;
    return 0;
}

static void draft_format(void **state)
{
    (void)state;
    static const char words[] = "whose pages have no checksums, and this version cannot read it";
    struct err_note note = {""};
    struct dbfile_contents contents;
    struct salvage_report report;
    struct restore_result result;
    const struct salvage_sink sink = {.queue = draft_queue};
    sqlite3 *db;
    int status;
    char sql[64], to[200];
    assert_int_equal(mkdir(dir.path, 0700), 0);
    const char *path = in_dir(dir.path, "holdfast.db");
    snprintf(sql, sizeof sql, "PRAGMA application_id = %d", STORE_APPLICATION_ID);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE meta (a)", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);

    assert_int_equal(open_fails(&note), -ERR_VERSION);
    must_say(&note, words);
    assert_int_equal(dbfile_verify(path, &contents, &note), -ERR_VERSION);
    must_say(&note, words);
    assert_int_equal(salvage_run(dir.path, &sink, &report, &note), -ERR_VERSION);
    must_say(&note, words);
    snprintf(to, sizeof to, "%s/to", dir.base);
    struct restore_config config = {.from = dir.path, .to = to};
    assert_int_equal(restore_run(&config, &result, &note), -ERR_VERSION);
    must_say(&note, words);
    char *text = check_says(&status);
    assert_int_equal(status, CHECK_NOT_DONE);
    assert_non_null(strstr(text, words));
    free(text);
    /* A draft had a journal, too, and is not damaged for that. */
    assert_int_equal(mkdir(in_dir(dir.path, "journal"), 0700), 0);
    close(open(in_dir(dir.path, "journal/1"), O_WRONLY | O_CREAT, 0600));
    assert_int_equal(open_fails(&note), -ERR_VERSION);
    must_say(&note, words);
}

/* Someone who reads the note knows the path, not the URI that was made of it. */
static void uri_is_not_told(void **state)
{
    (void)state;
    struct err_note note = {""};
    sqlite3 *db = NULL;
    assert_true(sql_open_uri("file:/no/where.db?mode=ro&immutable=1", "/no/where.db", &db, &note) <
                0);
    sqlite3_close(db);
    must_say(&note, "cannot open /no/where.db: ");
    assert_null(strstr(note.text, "file:/"));
}

static void symbolic_link(void **state)
{
    (void)state;
    struct err_note note = {""};
    char other[200], linked[200];
    filled_and_closed();
    snprintf(other, sizeof other, "%s/other.db", dir.base);
    assert_int_equal(rename(in_dir(dir.path, "holdfast.db"), other), 0);
    assert_int_equal(symlink(other, in_dir(dir.path, "holdfast.db")), 0);
    assert_int_equal(open_fails(&note), -ERR_IO);
    must_say(&note, "symbolic link");
    assert_int_equal(unlink(in_dir(dir.path, "holdfast.db")), 0);
    assert_int_equal(rename(other, in_dir(dir.path, "holdfast.db")), 0);
    /* The directory may be one. */
    snprintf(linked, sizeof linked, "%s/linked", dir.base);
    assert_int_equal(symlink(dir.path, linked), 0);
    struct store *s = rig_open(linked);
    s->ops->close(s);
    assert_int_equal(unlink(linked), 0);
}

/* What is known of a fault belongs to the connection. */
static void two_stores(void **state)
{
    (void)state;
    struct rig_dir first = dir;
    struct store_reader *a, *b;
    filled_and_closed();
    off_t at = place_of("holdfast.db", "{\"job number\":30,") + 100;
    rig_dir_make(&dir);
    rig_dir_copy(first.path, dir.path);
    flip("holdfast.db", at);
    struct store *damaged = rig_open(dir.path), *good = rig_open(first.path);
    assert_int_equal(damaged->ops->reader_open(damaged, &a, NULL), 0);
    assert_int_equal(good->ops->reader_open(good, &b, NULL), 0);
    assert_int_equal(body_read(a, 30), -ERR_CORRUPT);
    for (uint64_t seq = 1; seq <= JOBS; seq++)
        assert_int_equal(body_read(b, seq), 0);
    assert_int_equal(dbpage_vfs_fault(store_sqlite_of(good)->db).kind, DBPAGE_FINE);
    a->ops->close(a);
    b->ops->close(b);
    damaged->ops->close(damaged);
    good->ops->close(good);
    rig_dir_remove(&first);
}

int main(void)
{
#define IN_STORE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flipped_bit),
        cmocka_unit_test(another_page),
        IN_STORE(damaged_payload),
        IN_STORE(damaged_state),
        IN_STORE(misdirected_and_zero),
        IN_STORE(damaged_frame),
        IN_STORE(damaged_wal),
        IN_STORE(interrupted_commit),
        IN_STORE(copied_commit),
        IN_STORE(torn_checkpoint),
        IN_STORE(spilled_transaction),
        IN_STORE(plain_sqlite),
        IN_STORE(draft_format),
        IN_STORE(uri_is_not_told),
        IN_STORE(symbolic_link),
        IN_STORE(two_stores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
