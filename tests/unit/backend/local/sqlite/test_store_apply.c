/* SPDX-License-Identifier: Apache-2.0 */
/* Applying: order, records that contradict what is there, big batches, full disks, lack of memory,
 * housekeeping. Where it makes sense, on both stores. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/local/offline/check/check.h"
#include "backend/local/sqlite/store_sqlite.h"
#include "base/mem.h"
#include "core/limits.h"
#include "core/records/frame.h"
#include "unit/backend/local/sqlite/store_history.h"
#include "unit/backend/local/sqlite/store_rig.h"

static struct rig_dir dir;
static struct history *history;
static struct store *stores[2]; /* memory, SQLite */

static int setup(void **state)
{
    (void)state;
    rig_dir_make(&dir);
    history = history_new(1, 1);
    rig_open_both(dir.path, stores);
    return 0;
}

/* With sequences to give and a boot: what every store has that has jobs. */
static int setup_begun(void **state)
{
    (void)setup(state);
    history_begin(history);
    history_add(history, &(struct record){.kind = REC_SEQ_BLOCK, .seq_block = {HISTORY_JOBS}});
    history_add(history, &(struct record){.kind = REC_EPOCH, .epoch = {1, RIG_NOW}});
    struct span begin = history_end(history);
    for (int i = 0; i < 2; i++)
        rig_apply(stores[i], begin);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stores[0]->ops->close(stores[0]);
    stores[1]->ops->close(stores[1]);
    history_free(history);
    rig_dir_remove(&dir);
    return 0;
}

static void reopen(void)
{
    stores[1]->ops->close(stores[1]);
    stores[1] = rig_open(dir.path);
}

/* A frame of one record that was not made by the history. */
static struct span frame_of(struct buf *b, uint64_t first, const struct record *r)
{
    buf_clear(b);
    assert_int_equal(frame_begin(b), 0);
    assert_int_equal(record_encode(r, b), 0);
    frame_end(b, first, 1);
    return buf_span(b);
}

/* ---- order ---- */

static void test_order(void **state)
{
    (void)state;
    struct buf b;
    struct err_note note;
    struct record r = {.kind = REC_EPOCH, .epoch = {1, RIG_NOW}};
    buf_init(&b);
    for (int i = 0; i < 2; i++) {
        struct store *s = stores[i];
        struct span frame = frame_of(&b, 2, &r); /* a gap */
        note.text[0] = '\0';
        assert_int_equal(s->ops->apply(s, &frame, 1, &note), -ERR_CORRUPT);
        assert_non_null(strstr(note.text, "record 2"));
    }
    reopen(); /* it takes nothing more after damage */
    rig_apply_both(stores, frame_of(&b, 1, &r));
    rig_apply_both(stores, frame_of(&b, 1, &r)); /* passed over */
    r.epoch.epoch = 2;
    rig_apply_both(stores, frame_of(&b, 2, &r));
    rig_same_both(stores);
    /* One that begins before and ends after what is applied. */
    buf_clear(&b);
    assert_int_equal(frame_begin(&b), 0);
    assert_int_equal(record_encode(&r, &b), 0);
    assert_int_equal(record_encode(&r, &b), 0);
    frame_end(&b, 2, 2);
    struct span frame = buf_span(&b);
    for (int i = 0; i < 2; i++)
        assert_int_equal(stores[i]->ops->apply(stores[i], &frame, 1, NULL), -ERR_CORRUPT);
    /* A flipped bit, a torn end, two frames where one is announced. */
    frame_of(&b, 3, &r);
    b.data[b.len - 1] ^= 1;
    struct span bad[] = {buf_span(&b), span_of(b.data, b.len - 1), {NULL, 0}};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++)
            assert_int_equal(stores[i]->ops->apply(stores[i], &bad[k], 1, NULL), -ERR_CORRUPT);
    reopen();
    rig_same_both(stores);
    buf_done(&b);
}

/* ---- contradictions ---- */

/* What no engine writes is refused by both stores, and leaves SQLite's as it was. */
static void test_contradictions(void **state)
{
    (void)state;
    struct buf b, gone;
    uint64_t previous = 0;
    buf_init(&b);
    buf_init(&gone);
    assert_int_equal(record_seq_append(&gone, &previous, 1), 0);
    assert_int_equal(record_seq_append(&gone, &previous, 77), 0);
    history_begin(history);
    history_enqueue(history, 0, NULL, SPAN_LITERAL("one")); /* 1: ready */
    history_enqueue(history, 0, NULL, SPAN_LITERAL("two")); /* 2: done */
    history_claim(history, 2, SPAN_LITERAL("anna"));
    history_ack(history, 2, (struct span){NULL, 0});
    history_enqueue(history, 0, NULL, SPAN_LITERAL("three")); /* 3: running */
    history_claim(history, 3, SPAN_LITERAL("anna"));
    struct job again = history->jobs[1].job;
    rig_apply_both(stores, history_end(history));
    rig_same_both(stores);

    const struct record wrong[] = {
        {.kind = REC_JOB_NEW, .job_new = {.job = again, .payload = SPAN_LITERAL("one")}},
        {.kind = REC_JOB_READY, .job_ready = {1, RIG_NOW}},
        {.kind = REC_JOB_READY, .job_ready = {77, RIG_NOW}},
        {.kind = REC_JOB_CLAIMED,
         .job_claimed = {.seq = 2, .token = {9, 1}, .lease_ms = 1000, .at = RIG_NOW}},
        {.kind = REC_JOB_CLAIMED,
         .job_claimed = {.seq = 3, .token = {9, 1}, .lease_ms = 1000, .at = RIG_NOW}},
        {.kind = REC_JOB_CLAIMED,
         .job_claimed = {.seq = 77, .token = {9, 1}, .lease_ms = 1000, .at = RIG_NOW}},
        {.kind = REC_JOB_EXTENDED, .job_extended = {1, 1000}},
        {.kind = REC_JOB_EXTENDED, .job_extended = {77, 1000}},
        {.kind = REC_JOB_BACK,
         .job_back = {.seq = 1, .state = STATE_READY, .reason = REASON_FAILED, .at = RIG_NOW}},
        {.kind = REC_JOB_DONE, .job_done = {.seq = 1, .at = RIG_NOW}},
        {.kind = REC_JOB_DONE, .job_done = {.seq = 2, .at = RIG_NOW}},
        {.kind = REC_JOB_DONE, .job_done = {.seq = 77, .at = RIG_NOW}},
        {.kind = REC_JOB_DEAD, .job_dead = {.seq = 1, .reason = REASON_FAILED, .at = RIG_NOW}},
        {.kind = REC_JOB_CANCELLED,
         .job_cancelled = {.seq = 2, .reason = REASON_CANCELLED, .at = RIG_NOW}},
        {.kind = REC_JOB_REQUEUED, .job_requeued = {.seq = 2, .state = STATE_READY, .at = RIG_NOW}},
        {.kind = REC_JOB_PATCHED, .job_patched = {.seq = 3, .state = STATE_READY, .at = RIG_NOW}},
        {.kind = REC_JOBS_GONE, .jobs_gone = {2, buf_span(&gone)}},
        {.kind = REC_QUEUE_GONE, .queue = {77, RIG_NOW}},
        {.kind = REC_QUEUE_END, .queue = {77, RIG_NOW}},
        {.kind = REC_PURGED, .purged = {77, 1, RIG_NOW, 0}},
        {.kind = REC_BULK_STEP, .bulk_step = {.bulk = 77}},
        {.kind = REC_BULK_END, .bulk_step = {.bulk = 77}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct span frame = frame_of(&b, history->position + 1, &wrong[i]);
        struct err_note note;
        for (int k = 0; k < 2; k++) {
            note.text[0] = '\0';
            int rc = stores[k]->ops->apply(stores[k], &frame, 1, &note);
            if (rc != -ERR_CORRUPT)
                fail_msg("%s took wrong record %zu (%s): %d", stores[k]->ops->kind, i,
                         record_name(wrong[i].kind), rc);
            assert_non_null(strstr(note.text, record_name(wrong[i].kind))
                                ?: strstr(note.text, "job"));
        }
        /* Nothing more is taken, however good, until the store is opened again. */
        assert_int_equal(stores[1]->ops->apply(stores[1], &frame, 1, NULL), -ERR_CORRUPT);
        reopen();
        rig_same_both(stores);
    }
    buf_done(&gone);
    buf_done(&b);
}

/* What is assumed of a row because a record says all that it changes is checked when a later record
 * of the batch reads the row after all. */
static void test_assumptions(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b);
    history_begin(history);
    history_enqueue(history, 0, NULL, SPAN_LITERAL("one"));
    history_claim(history, 1, SPAN_LITERAL("anna"));
    history_ack(history, 1, (struct span){NULL, 0});
    rig_apply_both(stores, history_end(history));
    const struct record wrong[] = {
        {.kind = REC_JOB_CLAIMED,
         .job_claimed = {.seq = 1, .token = {9, 1}, .lease_ms = 1000, .at = RIG_NOW}},
        {.kind = REC_JOB_CANCELLED,
         .job_cancelled = {.seq = 1, .reason = REASON_CANCELLED, .at = RIG_NOW}},
    };
    assert_int_equal(frame_begin(&b), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(record_encode(&wrong[i], &b), 0);
    frame_end(&b, history->position + 1, 2);
    struct span frame = buf_span(&b);
    for (int i = 0; i < 2; i++)
        assert_int_equal(stores[i]->ops->apply(stores[i], &frame, 1, NULL), -ERR_CORRUPT);
    reopen();
    rig_same_both(stores);
    buf_done(&b);
}

/* ---- big batches ---- */

/* More changes than the change set holds, whole lives in one frame: written in parts, as one
 * transaction.
 */
static void test_big_frame(void **state)
{
    (void)state;
    enum { PART = 8192, COUNT = PART + 3000 };
    store_sqlite_of(stores[1])->change_set.max = PART;
    struct job_extra extra = {.group = SPAN_LITERAL("g")};
    history_begin(history);
    for (int i = 0; i < COUNT; i++)
        history_enqueue(history, (unsigned)i % 3, i % 7 ? NULL : &extra, SPAN_LITERAL("payload"));
    for (uint64_t seq = 1; seq <= COUNT; seq += 2)
        history_claim(history, seq, SPAN_LITERAL("anna"));
    for (uint64_t seq = 1; seq <= COUNT; seq += 4)
        history_ack(history, seq, SPAN_LITERAL("result"));
    history_remove(history, 100, 300);
    rig_apply_both(stores, history_end(history));
    rig_same_both(stores);
    history_begin(history);
    history_remove(history, 1, COUNT - 10);
    rig_apply_both(stores, history_end(history));
    rig_same_both(stores);
    reopen();
    rig_same_both(stores);
}

/* ---- a full disk ---- */

static void limit_pages(int64_t pages)
{
    char sql[64];
    int64_t now;
    sqlite3 *db = store_sqlite_of(stores[1])->db;
    if (pages == 0)
        assert_int_equal(sql_number(db, "PRAGMA page_count", &pages, NULL), 0);
    snprintf(sql, sizeof sql, "PRAGMA max_page_count = %lld", (long long)pages);
    assert_int_equal(sql_number(db, sql, &now, NULL), 0);
}

/* Promise 4: a full disk is no I/O error. The batch is rolled back and may come again. */
static void test_no_space(void **state)
{
    (void)state;
    static char big[400000];
    struct err_note note = {""};
    history_begin(history);
    history_enqueue(history, 0, NULL, SPAN_LITERAL("small"));
    rig_apply_both(stores, history_end(history));
    limit_pages(0);
    history_begin(history);
    history_claim(history, 1, SPAN_LITERAL("anna"));
    history_enqueue(history, 0, NULL, span_of(big, sizeof big));
    struct span frame = history_end(history);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(stores[1]->ops->apply(stores[1], &frame, 1, &note), -ERR_NO_SPACE);
        assert_non_null(strstr(note.text, "holdfast.db"));
        rig_same_both(stores); /* as it was before */
    }
    limit_pages(1000000);
    rig_apply_both(stores, frame);
    rig_same_both(stores);
    /* What drains still works at the limit. */
    limit_pages(0);
    history_begin(history);
    history_ack(history, 1, (struct span){NULL, 0});
    history_remove(history, 2, 2);
    rig_apply_both(stores, history_end(history));
    rig_same_both(stores);
}

/* ---- short of memory ---- */

static void test_without_memory(void **state)
{
    (void)state;
    struct err_note note;
    history_begin(history);
    for (int i = 0; i < 600; i++) /* more than the change set has room for at first */
        history_enqueue(history, 0, NULL, SPAN_LITERAL("payload"));
    struct span frame = history_end(history);
    long nth = 0;
    for (int rc = -ERR_NOMEM; rc != 0;) {
        mem_fail_at(++nth, 1);
        rc = stores[1]->ops->apply(stores[1], &frame, 1, &note);
        mem_fail_at(0, 0);
        assert_true(rc == 0 || rc == -ERR_NOMEM);
        if (rc != 0) { /* nothing of it was kept */
            assert_int_equal(store_sqlite_of(stores[1])->meta.position, 2);
            assert_true(sqlite3_get_autocommit(store_sqlite_of(stores[1])->db));
        }
    }
    assert_true(nth > 4);
    rig_apply(stores[0], frame);
    rig_same_both(stores);
}

/* The memory store gives up half-way, which is fatal to its owner, but leaks nothing and can still
 * be closed. */
static void test_memory_without_memory(void **state)
{
    (void)state;
    struct job_extra extra = {.unique = SPAN_LITERAL("key"), .group = SPAN_LITERAL("g")};
    history_begin(history);
    history_enqueue(history, 0, &extra, SPAN_LITERAL("payload"));
    history_claim(history, 1, SPAN_LITERAL("anna"));
    history_ack(history, 1, SPAN_LITERAL("result"));
    struct record key = {.kind = REC_KEY_NEW,
                         .key_new = {.key = {1, 2}, .seq = 1, .expires_at = RIG_NOW}};
    struct record bulk = {.kind = REC_BULK_BEGIN,
                          .bulk_begin = {.bulk = 1,
                                         .action = BULK_CANCEL,
                                         .queue = 1,
                                         .states = STATES_WAITING,
                                         .group = SPAN_LITERAL("g"),
                                         .seq_max = 1}};
    history_add(history, &key);
    history_add(history, &bulk);
    struct span frame = history_end(history);
    long nth = 0;
    for (int rc = -ERR_NOMEM; rc != 0;) {
        struct store *s = NULL;
        mem_fail_at(++nth, 0);
        rc = store_open_memory(1, &s);
        if (rc == 0)
            rc = s->ops->apply(s, &frame, 1, NULL);
        mem_fail_at(0, 0);
        assert_true(rc == 0 || rc == -ERR_NOMEM);
        if (s)
            s->ops->close(s);
    }
    assert_true(nth > 8);
}

/* ---- housekeeping ---- */

static int64_t db_number(const char *sql)
{
    int64_t v = -1;
    assert_int_equal(sql_number(store_sqlite_of(stores[1])->db, sql, &v, NULL), 0);
    return v;
}

/* NOM-10: space is given back, in bounded steps, and nothing else changes. */
static void test_tidy(void **state)
{
    (void)state;
    static char body[4000];
    bool more = true;
    int steps = 0;
    for (int i = 0; i < 10; i++) {
        history_begin(history);
        for (int k = 0; k < 400; k++)
            history_enqueue(history, 0, NULL, span_of(body, sizeof body));
        rig_apply_both(stores, history_end(history));
    }
    int64_t full = db_number("PRAGMA page_count");
    history_begin(history);
    history_remove(history, 1, history->seq - 5);
    rig_apply_both(stores, history_end(history));
    for (; more; steps++) {
        int64_t before = db_number("PRAGMA page_count");
        assert_int_equal(stores[1]->ops->tidy(stores[1], &more, NULL), 0);
        assert_true(before - db_number("PRAGMA page_count") <= 300);
        assert_true(steps < 100);
    }
    assert_int_equal(stores[0]->ops->tidy(stores[0], &more, NULL), 0);
    assert_false(more);
    assert_true(steps > 3);
    assert_true(db_number("PRAGMA page_count") < full / 2);
    assert_int_equal(store_sqlite_of(stores[1])->wal_pages, 0);
    rig_same_both(stores);
    reopen();
    rig_same_both(stores);
}

/* NOM-10: compacting leaves not one free page and an empty WAL; commits go on between its steps,
 * and each step is bounded. */
static void test_compact(void **state)
{
    (void)state;
    static char body[4000];
    uint64_t left = 1, before;
    int steps = 0;
    for (int i = 0; i < 4; i++) {
        history_begin(history);
        for (int k = 0; k < 400; k++)
            history_enqueue(history, 0, NULL, span_of(body, sizeof body));
        rig_apply_both(stores, history_end(history));
    }
    history_begin(history);
    history_remove(history, 1, history->seq - 5);
    rig_apply_both(stores, history_end(history));
    before = stores[1]->ops->bytes(stores[1]);
    for (; left > 0; steps++) {
        int64_t pages = db_number("PRAGMA page_count"), free = db_number("PRAGMA freelist_count");
        assert_int_equal(stores[1]->ops->compact(stores[1], &left, NULL), 0);
        assert_int_equal(left, free);
        assert_true(pages - db_number("PRAGMA page_count") <= 100);
        assert_true(steps < 200);
        if (steps < 3) {
            history_begin(history);
            history_enqueue(history, 0, NULL, SPAN_LITERAL("meanwhile"));
            rig_apply_both(stores, history_end(history));
        }
    }
    assert_true(steps > 10);
    assert_int_equal(stores[1]->ops->bytes(stores[1]), db_number("PRAGMA page_count") * 4096);
    assert_true(stores[1]->ops->bytes(stores[1]) < before / 4);
    assert_string_equal(stores[1]->ops->dir(stores[1]), dir.path);
    assert_int_equal(stores[0]->ops->compact(stores[0], &left, NULL), 0);
    assert_int_equal(left, 0);
    rig_same_both(stores);
    reopen();
    rig_same_both(stores);
}

/* A shell that sleeps on an old snapshot keeps the WAL, but stops nothing. */
static void test_tidy_beside_a_reader(void **state)
{
    (void)state;
    static char body[4000];
    char path[200];
    bool more;
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/holdfast.db", dir.path);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN; SELECT count(*) FROM jobs", NULL, NULL, NULL), 0);
    for (int i = 0; i < 12; i++) {
        history_begin(history);
        for (int k = 0; k < 400; k++)
            history_enqueue(history, 0, NULL, span_of(body, sizeof body));
        rig_apply_both(stores, history_end(history));
        assert_int_equal(stores[1]->ops->tidy(stores[1], &more, NULL), 0);
    }
    assert_true(store_sqlite_of(stores[1])->wal_pages > 4096);
    rig_same_both(stores);
    sqlite3_close(db);
    assert_int_equal(stores[1]->ops->tidy(stores[1], &more, NULL), 0);
    assert_int_equal(store_sqlite_of(stores[1])->wal_pages, 0);
    rig_same_both(stores);
}

/* ---- codes ---- */

static void test_codes(void **state)
{
    (void)state;
    assert_int_equal(sql_code(SQLITE_FULL, 0), -ERR_NO_SPACE);
    assert_int_equal(sql_code(SQLITE_IOERR_WRITE, 28 /* ENOSPC */), -ERR_NO_SPACE);
    assert_int_equal(sql_code(SQLITE_IOERR_WRITE, 5), -ERR_IO);
    /* What a failed sync lost cannot be had by trying again. */
    assert_int_equal(sql_code(SQLITE_IOERR_FSYNC, 28), -ERR_IO);
    assert_int_equal(sql_code(SQLITE_IOERR_DIR_FSYNC, 28), -ERR_IO);
    assert_int_equal(sql_code(SQLITE_CORRUPT_INDEX, 0), -ERR_CORRUPT);
    assert_int_equal(sql_code(SQLITE_NOTADB, 0), -ERR_CORRUPT);
    assert_int_equal(sql_code(SQLITE_CONSTRAINT_PRIMARYKEY, 0), -ERR_CORRUPT);
    assert_int_equal(sql_code(SQLITE_NOMEM, 0), -ERR_NOMEM);
    assert_int_equal(sql_code(SQLITE_INTERRUPT, 0), -ERR_TIMEOUT);
    assert_int_equal(sql_code(SQLITE_BUSY, 0), -ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_contradictions, setup_begun, teardown),
        cmocka_unit_test_setup_teardown(test_assumptions, setup_begun, teardown),
        cmocka_unit_test_setup_teardown(test_big_frame, setup_begun, teardown),
        cmocka_unit_test_setup_teardown(test_no_space, setup_begun, teardown),
        cmocka_unit_test_setup_teardown(test_without_memory, setup_begun, teardown),
        cmocka_unit_test_setup_teardown(test_memory_without_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tidy, setup_begun, teardown),
        cmocka_unit_test_setup_teardown(test_compact, setup_begun, teardown),
        cmocka_unit_test_setup_teardown(test_tidy_beside_a_reader, setup_begun, teardown),
        cmocka_unit_test(test_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
