/* SPDX-License-Identifier: Apache-2.0 */
/* The history of attempts in both stores: the same whether records came in one batch or one by one,
 * bounded, gone with its job; and a store of version 1, which had none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/local/offline/check/check.h"
#include "backend/local/pages/vfs.h"
#include "backend/local/sqlite/store_sqlite.h"
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
    history_begin(history);
    struct record boot = {.kind = REC_EPOCH, .epoch = {1, history->now}};
    struct record block = {.kind = REC_SEQ_BLOCK, .seq_block = {HISTORY_JOBS}};
    history_add(history, &boot);
    history_add(history, &block);
    rig_apply_both(stores, history_end(history));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        if (stores[i])
            stores[i]->ops->close(stores[i]);
    history_free(history);
    rig_dir_remove(&dir);
    return 0;
}

/* ---- records ---- */

static bool one_by_one; /* each record in a frame of its own */

static void cut(void)
{
    if (!one_by_one)
        return;
    rig_apply_both(stores, history_end(history));
    history_begin(history);
}

static void put_back(uint64_t seq, enum job_reason reason, const char *error)
{
    const struct job *j = &history->jobs[seq].job;
    struct record r = {
        .kind = REC_JOB_BACK,
        .job_back = {.seq = seq,
                     .state = STATE_READY,
                     .reason = (uint8_t)reason,
                     .failures = (uint16_t)(j->failures + (reason == REASON_FAILED)),
                     .crashes = (uint16_t)(j->crashes + (reason == REASON_LEASE_EXPIRED)),
                     .generation = j->generation,
                     .at = {history->now.ms += 7},
                     .error = span_text(error)}};
    history_add(history, &r);
    cut();
}

static void put_claim(uint64_t seq, const char *worker)
{
    history->now.ms += 5;
    history_claim(history, seq, span_text(worker));
    cut();
}

static void put_requeue(uint64_t seq)
{
    struct record r = {.kind = REC_JOB_REQUEUED,
                       .job_requeued = {.seq = seq, .state = STATE_READY, .at = history->now}};
    history_add(history, &r);
    cut();
}

static uint64_t put_job(void)
{
    history_queue(history, 0);
    uint64_t seq = history_enqueue(history, 0, NULL, SPAN_LITERAL("x"));
    cut();
    return seq;
}

/* ---- what readers see ---- */

struct seen {
    struct store_reader *readers[2];
    struct arena arena;
};

static void seen_open(struct seen *s)
{
    arena_init(&s->arena);
    for (int i = 0; i < 2; i++)
        assert_int_equal(stores[i]->ops->reader_open(stores[i], &s->readers[i], NULL), 0);
    rig_same(stores[0], s->readers[0], stores[1], s->readers[1]);
}

static void seen_close(struct seen *s)
{
    for (int i = 0; i < 2; i++)
        s->readers[i]->ops->close(s->readers[i]);
    arena_done(&s->arena);
}

static struct stored_body seen_body(struct seen *s, int store, uint64_t seq)
{
    struct stored_body body;
    assert_int_equal(rig_read(s->readers[store], &seq, 1, &s->arena, &body), 0);
    return body;
}

static void assert_good(void)
{
    stores[1]->ops->close(stores[1]);
    stores[1] = NULL;
    FILE *out = tmpfile();
    assert_non_null(out);
    int result = check_run(dir.path, out);
    if (result != CHECK_GOOD) {
        char said[2000];
        rewind(out);
        said[fread(said, 1, sizeof said - 1, out)] = '\0';
        fail_msg("check: %s", said);
    }
    fclose(out);
    stores[1] = rig_open(dir.path);
}

/* ---- cases ---- */

/* Every way an attempt can end, in one frame or in many: the history is the same. */
static void every_end(bool apart)
{
    static const uint8_t outcomes[] = {ATTEMPT_FAILED,   ATTEMPT_LEASE_EXPIRED, ATTEMPT_RELEASED,
                                       ATTEMPT_RELEASED, ATTEMPT_CANCELLED,     ATTEMPT_FAILED,
                                       ATTEMPT_DONE};
    static const uint32_t numbers[] = {1, 2, 3, 3, 3, 1, 1};
    static const char *const workers[] = {"a", "b", "", "d", "e", "f", "g"};
    struct seen s;
    one_by_one = apart;
    history_begin(history);
    uint64_t seq = put_job();
    int64_t began = history->now.ms;
    put_claim(seq, "a");
    put_back(seq, REASON_FAILED, "first");
    put_claim(seq, "b");
    put_back(seq, REASON_LEASE_EXPIRED, "");
    put_claim(seq, "");
    put_back(seq, REASON_RELEASED, "");
    put_claim(seq, "d");
    put_back(seq, REASON_RESTARTED, "");
    put_claim(seq, "e");
    history_cancel(history, seq);
    cut();
    put_requeue(seq);
    put_claim(seq, "f");
    history_bury(history, seq, SPAN_LITERAL("last"));
    cut();
    put_requeue(seq);
    put_claim(seq, "g");
    history_ack(history, seq, SPAN_LITERAL(""));
    rig_apply_both(stores, history_end(history));
    seen_open(&s);
    for (int i = 0; i < 2; i++) {
        struct stored_body b = seen_body(&s, i, seq);
        assert_int_equal(b.attempt_count, 7);
        for (uint32_t a = 0; a < 7; a++) {
            assert_int_equal(b.attempts[a].outcome, outcomes[a]);
            assert_int_equal(b.attempts[a].number, numbers[a]);
            assert_true(span_equal(b.attempts[a].worker, span_text(workers[a])));
        }
        assert_true(span_equal(b.attempts[0].error, SPAN_LITERAL("first")));
        assert_int_equal(b.attempts[0].started_at.ms, began + 5);
        assert_int_equal(b.attempts[0].ended_at.ms, began + 12);
        assert_int_equal(b.attempts[1].started_at.ms, began + 17);
        assert_int_equal(b.started_at.ms, b.attempts[6].started_at.ms);
    }
    seen_close(&s);
    assert_good();
}

static void test_every_end_in_one_batch(void **state)
{
    (void)state;
    every_end(false);
}

static void test_every_end_one_by_one(void **state)
{
    (void)state;
    every_end(true);
}

/* Only the newest stay, whether they came at once or over time. */
static void many(bool apart)
{
    struct seen s;
    one_by_one = apart;
    history_begin(history);
    uint64_t seq = put_job(), other = put_job();
    put_claim(other, "o");
    put_back(other, REASON_FAILED, "other");
    for (int i = 0; i < 3 * LIMIT_ATTEMPTS_KEPT; i++) {
        char worker[16];
        snprintf(worker, sizeof worker, "w%d", i);
        put_claim(seq, worker);
        put_back(seq, i % 2 ? REASON_RELEASED : REASON_FAILED, i % 2 ? "" : worker);
    }
    rig_apply_both(stores, history_end(history));
    sqlite3 *db = store_sqlite_of(stores[1])->db;
    int64_t rows = 0;
    assert_int_equal(sql_number(db, "SELECT count(*) FROM attempts WHERE seq = 1", &rows, NULL), 0);
    assert_int_equal(rows, LIMIT_ATTEMPTS_KEPT);
    seen_open(&s);
    for (int i = 0; i < 2; i++) {
        struct stored_body b = seen_body(&s, i, seq);
        assert_int_equal(b.attempt_count, LIMIT_ATTEMPTS_KEPT);
        assert_true(span_equal(b.attempts[0].worker, SPAN_LITERAL("w40")));
        assert_true(span_equal(b.attempts[LIMIT_ATTEMPTS_KEPT - 1].worker, SPAN_LITERAL("w59")));
        assert_int_equal(seen_body(&s, i, other).attempt_count, 1);
        struct op_exceptions all = {.limit = 0};
        struct attempt_view *wrong;
        uint32_t count;
        assert_int_equal(
            s.readers[i]->ops->exceptions(s.readers[i], &all, &s.arena, &wrong, &count), 0);
        assert_int_equal(count, LIMIT_ATTEMPTS_KEPT / 2 + 1);
        assert_true(span_equal(wrong[0].error, SPAN_LITERAL("w58")));
    }
    seen_close(&s);
    assert_good();
}

static void test_many_in_one_batch(void **state)
{
    (void)state;
    many(false);
}

static void test_many_one_by_one(void **state)
{
    (void)state;
    many(true);
}

/* Rows go with their job: removed in a later batch, or in the one that ended the attempt. */
static void test_removed(void **state)
{
    (void)state;
    int64_t rows = 0;
    one_by_one = false;
    history_begin(history);
    uint64_t early = put_job(), late = put_job();
    put_claim(early, "a");
    put_back(early, REASON_FAILED, "no");
    put_claim(late, "a");
    rig_apply_both(stores, history_end(history));
    sqlite3 *db = store_sqlite_of(stores[1])->db;
    assert_int_equal(sql_number(db, "SELECT count(*) FROM attempts", &rows, NULL), 0);
    assert_int_equal(rows, 1);
    history_begin(history);
    put_back(late, REASON_FAILED, "no");
    history_remove(history, early, late);
    rig_apply_both(stores, history_end(history));
    assert_int_equal(sql_number(db, "SELECT count(*) FROM attempts", &rows, NULL), 0);
    assert_int_equal(rows, 0);
    struct seen s;
    seen_open(&s);
    seen_close(&s);
    assert_good();
}

/* Neighbours that were claimed one after the other and acked together are written together, but did
 * not start together. */
static void test_claimed_apart_acked_together(void **state)
{
    (void)state;
    struct seen s;
    one_by_one = false;
    history_begin(history);
    uint64_t first = put_job(), second = put_job();
    rig_apply_both(stores, history_end(history));
    int64_t began = history->now.ms;
    history_begin(history);
    put_claim(first, "a");
    put_claim(second, "a");
    history_ack(history, first, SPAN_LITERAL(""));
    history_ack(history, second, SPAN_LITERAL(""));
    rig_apply_both(stores, history_end(history));
    seen_open(&s);
    for (int i = 0; i < 2; i++) {
        struct stored_body a = seen_body(&s, i, first), b = seen_body(&s, i, second);
        assert_int_equal(a.attempts[0].ended_at.ms, b.attempts[0].ended_at.ms);
        assert_int_equal(a.attempts[0].started_at.ms, began + 5);
        assert_int_equal(b.attempts[0].started_at.ms, began + 10);
    }
    seen_close(&s);
}

/* A clock that was set back does not make a start unreadable. */
static void test_clock_set_back(void **state)
{
    (void)state;
    struct seen s;
    one_by_one = true;
    history_begin(history);
    uint64_t seq = put_job();
    put_claim(seq, "a");
    int64_t began = history->now.ms;
    history->now.ms -= 1000;
    history_ack(history, seq, SPAN_LITERAL(""));
    rig_apply_both(stores, history_end(history));
    seen_open(&s);
    for (int i = 0; i < 2; i++) {
        struct stored_body b = seen_body(&s, i, seq);
        assert_int_equal(b.attempts[0].started_at.ms, began);
        assert_int_equal(b.attempts[0].ended_at.ms, began - 1000);
    }
    seen_close(&s);
    assert_good();
}

/* ---- lists of the memory store ---- */

/* A list that finds nothing among many jobs stops, and its cursor leads on to what there is. */
static void test_list_in_steps(void **state)
{
    (void)state;
    struct job_extra extra = {.group = SPAN_LITERAL("rare")};
    struct arena arena;
    arena_init(&arena);
    history_begin(history);
    for (int i = 0; i < 30000; i++)
        history_enqueue(history, 0, i == 29990 ? &extra : NULL, (struct span){0});
    rig_apply(stores[0], history_end(history));
    struct store_reader *r;
    assert_int_equal(stores[0]->ops->reader_open(stores[0], &r, NULL), 0);
    for (int back = 0; back < 2; back++) {
        struct op_list q = {
            .filter = {.group = extra.group}, .limit = 10, .newest_first = back != 0};
        uint32_t found = 0, steps = 0, empty = 0;
        do {
            struct job_view *jobs;
            uint32_t count;
            uint64_t as_of;
            assert_int_equal(r->ops->list(r, &q, &arena, &jobs, &count, &q.after, &as_of), 0);
            found += count;
            empty += count == 0;
        } while (q.after && ++steps < 10);
        assert_int_equal(found, 1);
        assert_int_equal(steps, 1);
        assert_int_equal(empty, 1);
    }
    r->ops->close(r);
    arena_done(&arena);
}

/* A cursor in the middle of a wide hole: found from the nearer end, or in steps. */
static void test_list_over_holes(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    history_begin(history);
    uint64_t first = put_job();
    for (int i = 0; i < 26000; i++)
        history_enqueue(history, 0, NULL, (struct span){0});
    uint64_t last = history_enqueue(history, 0, NULL, (struct span){0});
    history_remove(history, first + 1, last - 1);
    rig_apply(stores[0], history_end(history));
    struct store_reader *r;
    assert_int_equal(stores[0]->ops->reader_open(stores[0], &r, NULL), 0);
    for (int back = 0; back < 2; back++) {
        uint64_t ends[2] = {first, last};
        struct op_list q = {.limit = 10, .newest_first = back != 0};
        struct job_view *jobs;
        uint32_t count;
        uint64_t as_of, cursor;
        q.after = back ? last - 10 : first + 10;
        assert_int_equal(r->ops->list(r, &q, &arena, &jobs, &count, &cursor, &as_of), 0);
        assert_int_equal(count, 1);
        assert_int_equal(cursor, 0);
        assert_int_equal(jobs[0].job.seq, ends[!back]);
        q.after = back ? first : last;
        assert_int_equal(r->ops->list(r, &q, &arena, &jobs, &count, &cursor, &as_of), 0);
        assert_int_equal(count, 0);
        assert_int_equal(cursor, 0);
    }
    r->ops->close(r);
    arena_done(&arena);
}

/* Jobs of these sequences, in the memory store alone. */
static void fill(uint64_t first, uint64_t last)
{
    struct buf frame;
    buf_init(&frame);
    assert_int_equal(frame_begin(&frame), 0);
    for (uint64_t seq = first; seq <= last; seq++) {
        struct record r = {.kind = REC_JOB_NEW,
                           .job_new = {.job = {.seq = seq,
                                               .id_hi = 1,
                                               .queue = history->queues[0].number,
                                               .since = history->now,
                                               .state = STATE_READY}}};
        assert_int_equal(record_encode(&r, &frame), 0);
    }
    frame_end(&frame, history->position + 1, (uint32_t)(last - first + 1));
    history->position += last - first + 1;
    rig_apply(stores[0], buf_span(&frame));
    buf_done(&frame);
}

/* A gap with this many jobs on either side, so that no neighbour is within reach of one call. */
static void test_list_over_a_far_hole(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    history_begin(history);
    history_queue(history, 0);
    rig_apply(stores[0], history_end(history));
    fill(1, 20100);
    fill(60000, 80100);
    struct store_reader *r;
    assert_int_equal(stores[0]->ops->reader_open(stores[0], &r, NULL), 0);
    for (int back = 0; back < 2; back++) {
        struct op_list q = {.limit = 1, .newest_first = back != 0, .after = back ? 59000 : 20200};
        struct job_view *jobs;
        uint32_t count = 0, steps = 0;
        uint64_t as_of, after = q.after;
        while (count == 0 && steps++ < 5) {
            assert_int_equal(r->ops->list(r, &q, &arena, &jobs, &count, &q.after, &as_of), 0);
            assert_true(back ? q.after < after : q.after > after);
            after = q.after;
        }
        assert_int_equal(steps, 2);
        assert_int_equal(count, 1);
        assert_int_equal(jobs[0].job.seq, back ? 20100 : 60000);
    }
    r->ops->close(r);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_end_in_one_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_end_one_by_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_in_one_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_one_by_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_claimed_apart_acked_together, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clock_set_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_list_in_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_list_over_holes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_list_over_a_far_hole, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
