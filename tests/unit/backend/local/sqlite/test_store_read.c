/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of the SQLite store: what a call costs, what it may not hold, and reading while the
 * applier writes. What they return is compared in test_store_history.c. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/local/sqlite/read.h"
#include "base/mem.h"
#include "core/limits.h"
#include "unit/backend/local/sqlite/store_history.h"
#include "unit/backend/local/sqlite/store_rig.h"

static struct rig_dir dir;
static struct history *history;
static struct store *store;
static struct store_reader *reader;
static struct arena arena;

static int setup(void **state)
{
    (void)state;
    rig_dir_make(&dir);
    history = history_new(1, 1);
    store = rig_open(dir.path);
    assert_int_equal(store->ops->reader_open(store, &reader, NULL), 0);
    arena_init(&arena);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_done(&arena);
    reader->ops->close(reader);
    store->ops->close(store);
    history_free(history);
    rig_dir_remove(&dir);
    return 0;
}

static void enqueue_many(unsigned slot, unsigned count)
{
    history_begin(history);
    for (unsigned i = 0; i < count; i++)
        history_enqueue(history, slot, NULL, SPAN_LITERAL("payload"));
    rig_apply(store, history_end(history));
}

static int list(const struct op_list *q, uint32_t *ret_count)
{
    struct job_view *jobs;
    uint64_t cursor, as_of;
    arena_reset(&arena);
    return reader->ops->list(reader, q, &arena, &jobs, ret_count, &cursor, &as_of);
}

/* ---- costs ---- */

/* Steps of SQLite's machine that one page takes. */
static int steps_of(const struct op_list *q, uint32_t expected)
{
    struct reader_sqlite *r = reader_sqlite_of(reader);
    uint32_t count;
    int steps = 0;
    for (int i = 0; i < READ_COUNT; i++)
        if (r->stmts[i])
            sqlite3_stmt_status(r->stmts[i], SQLITE_STMTSTATUS_VM_STEP, 1);
    assert_int_equal(list(q, &count), 0);
    assert_int_equal(count, expected);
    for (int i = 0; i < READ_COUNT; i++)
        if (r->stmts[i])
            steps += sqlite3_stmt_status(r->stmts[i], SQLITE_STMTSTATUS_VM_STEP, 1);
    return steps;
}

/* ORC-6, NOM-12: a page of dead or cancelled jobs of a queue costs the same, however many jobs
 * there are around them. */
static void test_rare_states(void **state)
{
    (void)state;
    uint32_t mine, other;
    history_begin(history);
    for (unsigned i = 0; i < 20; i++) {
        uint64_t seq = history_enqueue(history, 0, NULL, SPAN_LITERAL("x"));
        history_claim(history, seq, SPAN_LITERAL("anna"));
        history_bury(history, seq, SPAN_LITERAL("broken"));
        history_cancel(history, history_enqueue(history, 1, NULL, SPAN_LITERAL("y")));
    }
    rig_apply(store, history_end(history));
    mine = history->queues[0].number;
    other = history->queues[1].number;
    struct op_list dead = {.filter = {.queue = mine, .states = STATE_BIT(STATE_DEAD)}, .limit = 10};
    struct op_list none = {.filter = {.queue = mine, .states = STATE_BIT(STATE_CANCELLED)},
                           .limit = 10};
    struct op_list both = {.filter = {.states = STATES_ASIDE}, .limit = 10, .newest_first = true};
    struct op_list cancelled = {.filter = {.queue = other, .states = STATE_BIT(STATE_CANCELLED)},
                                .limit = 10,
                                .newest_first = true};
    int before[] = {steps_of(&dead, 10), steps_of(&none, 0), steps_of(&both, 10),
                    steps_of(&cancelled, 10)};
    enqueue_many(0, 5000);
    enqueue_many(1, 5000);
    int after[] = {steps_of(&dead, 10), steps_of(&none, 0), steps_of(&both, 10),
                   steps_of(&cancelled, 10)};
    for (int i = 0; i < 4; i++)
        assert_int_equal(before[i], after[i]);
    /* A page out of the middle of a long queue is as cheap as the first. */
    struct op_list first = {.filter = {.queue = mine}, .limit = 10};
    struct op_list middle = {.filter = {.queue = mine}, .limit = 10, .after = 2000};
    assert_true(steps_of(&middle, 10) <= 2 * steps_of(&first, 10));
}

static void ahead_read(const uint64_t *seqs, size_t count, struct stored_body *bodies)
{
    struct store_query query = {.seqs = seqs, .count = count, .ahead = true};
    assert_int_equal(reader->ops->read(reader, &query, &arena, bodies), 0);
}

/* What is read ahead is what a claim shows, or nothing: jobs with more to show are left out. */
static void test_ahead(void **state)
{
    (void)state;
    static const uint64_t seqs[] = {1, 2, 3, 4, 5, 6};
    struct job_extra extra = {.group = SPAN_LITERAL("g"), .expires_at = {77}};
    struct stored_body ahead[6], whole[6];
    struct record noted = {.kind = REC_JOB_NOTED,
                           .job_noted = {.seq = 4, .has_error = true, .error = SPAN_LITERAL("e")}};
    struct record back = {
        .kind = REC_JOB_BACK,
        .job_back = {.seq = 5, .state = STATE_READY, .reason = REASON_RELEASED, .at = RIG_NOW}};
    history_begin(history);
    history_enqueue(history, 0, NULL, SPAN_LITERAL("plain"));
    history_enqueue(history, 0, &extra, SPAN_LITERAL("with keys"));
    for (int i = 3; i <= 5; i++)
        history_enqueue(history, 0, NULL, i == 3 ? span_of(NULL, 0) : SPAN_LITERAL("x"));
    history_add(history, &noted);
    history_claim(history, 5, SPAN_LITERAL("anna"));
    history_add(history, &back);
    rig_apply(store, history_end(history));
    ahead_read(seqs, 6, ahead);
    assert_int_equal(rig_read(reader, seqs, 6, &arena, whole), 0);
    for (int i = 0; i < 6; i++)
        assert_int_equal(ahead[i].found, i < 2);
    for (int i = 0; i < 2; i++) {
        assert_true(whole[i].found && span_equal(ahead[i].payload, whole[i].payload));
        assert_true(span_equal(ahead[i].extra.group, whole[i].extra.group));
        assert_int_equal(ahead[i].extra.expires_at.ms, whole[i].extra.expires_at.ms);
    }
    assert_true(span_equal(ahead[1].extra.group, SPAN_LITERAL("g")));
}

/* A scan that finds nothing is cut, and the reader is good for the next call. */
static void test_cut(void **state)
{
    (void)state;
    uint32_t count = 0;
    uint64_t seq = 1;
    struct stored_body body;
    struct op_list nothing = {
        .filter = {.has_priority = true, .priority_min = 99, .priority_max = 99}};
    struct op_list some = {.limit = 5};
    for (int i = 0; i < 3; i++)
        enqueue_many(0, 5000);
    sqlite_reader_limit(reader, 0);
    assert_int_equal(list(&nothing, &count), -ERR_TIMEOUT);
    sqlite_reader_limit(reader, 5000);
    assert_int_equal(list(&nothing, &count), 0);
    assert_int_equal(list(&some, &count), 0);
    assert_int_equal(count, 5);
    assert_int_equal(rig_read(reader, &seq, 1, &arena, &body), 0);
    assert_true(body.found);
}

/* ---- what it may not hold ---- */

static void test_holds_nothing(void **state)
{
    (void)state;
    struct op_list some = {.limit = 5, .want_body = true};
    uint64_t seqs[] = {1, 2, 999};
    struct stored_body bodies[3];
    uint32_t count;
    int pages, moved;
    enqueue_many(0, 100);
    assert_int_equal(list(&some, &count), 0);
    assert_int_equal(rig_read(reader, seqs, 3, &arena, bodies), 0);
    assert_false(bodies[2].found);
    sqlite_reader_limit(reader, 0); /* also not after a failure */
    (void)list(&some, &count);
    assert_int_equal(sqlite3_wal_checkpoint_v2(store_sqlite_of(store)->db, "main",
                                               SQLITE_CHECKPOINT_TRUNCATE, &pages, &moved),
                     SQLITE_OK);
    assert_int_equal(pages, 0);
}

static void test_cannot_write(void **state)
{
    (void)state;
    struct reader_sqlite *r = reader_sqlite_of(reader);
    enqueue_many(0, 1);
    assert_int_not_equal(sqlite3_exec(r->db, "DELETE FROM jobs", NULL, NULL, NULL), SQLITE_OK);
    assert_int_not_equal(sqlite3_exec(r->db, "PRAGMA user_version = 2", NULL, NULL, NULL),
                         SQLITE_OK);
}

static void test_without_memory(void **state)
{
    (void)state;
    struct op_list all = {.limit = 100, .want_body = true};
    struct store_reader *other;
    struct job_extra extra = {.unique = SPAN_LITERAL("key")};
    uint32_t count;
    history_begin(history);
    for (int i = 0; i < 50; i++)
        history_enqueue(history, 0, &extra, SPAN_LITERAL("payload"));
    rig_apply(store, history_end(history));
    arena_done(&arena);
    arena_init(&arena);
    mem_fail_at(1, 1);
    int rc = list(&all, &count);
    int opened = store->ops->reader_open(store, &other, NULL);
    mem_fail_at(0, 0);
    assert_int_equal(rc, -ERR_NOMEM);
    assert_int_equal(opened, -ERR_NOMEM);
    assert_int_equal(list(&all, &count), 0);
    assert_int_equal(count, 50);
}

/* A row that cannot be a job is damage, not an answer. */
static void test_damage(void **state)
{
    (void)state;
    struct op_list all = {.limit = 100};
    uint32_t count;
    enqueue_many(0, 3);
    assert_int_equal(
        sql_exec(store_sqlite_of(store)->db, "UPDATE jobs SET since = -1 WHERE seq = 2", NULL), 0);
    assert_int_equal(list(&all, &count), -ERR_CORRUPT);
}

/* ---- while the applier writes ---- */

struct watcher {
    struct store_reader *reader;
    atomic_bool stop;
    unsigned looks;
    bool wrong;
};

/* Every frame enqueues two jobs: an odd number would be half a frame. */
static void *watch(void *arg)
{
    struct watcher *w = arg;
    struct arena mine;
    uint64_t last = 0;
    arena_init(&mine);
    do {
        struct op_list q = {.limit = LIMIT_BATCH, .want_body = true};
        struct job_view *jobs;
        uint32_t count;
        uint64_t cursor, as_of;
        if (w->reader->ops->list(w->reader, &q, &mine, &jobs, &count, &cursor, &as_of) != 0 ||
            count % 2 != 0 || as_of < last)
            w->wrong = true;
        for (uint32_t i = 0; i < count; i++)
            if (jobs[i].payload.len != 7)
                w->wrong = true;
        last = as_of;
        w->looks++;
        arena_reset(&mine);
    } while (!atomic_load(&w->stop));
    arena_done(&mine);
    return NULL;
}

static void test_beside_the_applier(void **state)
{
    (void)state;
    struct watcher w = {.reader = reader};
    pthread_t thread;
    bool more;
    enqueue_many(0, 2);
    assert_int_equal(pthread_create(&thread, NULL, watch, &w), 0);
    for (int i = 0; i < 150; i++) {
        enqueue_many((unsigned)i % 2, 2);
        if (i % 50 == 0)
            assert_int_equal(store->ops->tidy(store, &more, NULL), 0);
    }
    atomic_store(&w.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(w.wrong);
    assert_true(w.looks > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rare_states, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_holds_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cannot_write, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_beside_the_applier, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
