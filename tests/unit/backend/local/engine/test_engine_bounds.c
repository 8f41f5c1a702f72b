/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a client can accumulate is processed in slices, so n items need a number of ticks that
 * grows with n. A tick that did not count what it examines would need only one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "unit/backend/local/engine/engine_rig.h"

#define SLICE 100
#define MANY 5000

static const struct span q = {"q", 1};

static void open_sliced(struct engine_rig *r)
{
    struct engine_config config;
    engine_config_default(&config);
    config.seed = 7;
    config.slice = SLICE;
    config.stall_ms = INT64_MAX;
    engine_rig_open(r, &config);
}

static void cancel(struct engine_rig *r, uint64_t seq)
{
    struct op op = {.kind = OP_CANCEL, .job = {.job = {.seq = seq}}};
    assert_int_equal(engine_rig_step(r, &op)->outcome, OUT_OK);
}

/* Takes at least as many ticks as there are slices, and not many more. */
static void expect_slices(struct engine_rig *r, size_t things)
{
    size_t ticks = engine_rig_quiet(r);
    assert_in_range(ticks, things / SLICE, things / SLICE + 5);
    engine_rig_same_replayed(r);
}

static void stale_due_entries(void **state)
{
    (void)state;
    struct engine_rig r;
    open_sliced(&r);
    struct op op = engine_rig_enqueue(q);
    op.enqueue.delay_ms = 1000;
    for (uint64_t i = 0; i < MANY; i++)
        engine_rig_step(&r, &op);
    op.enqueue.delay_ms = 2000;
    uint64_t last = engine_rig_step(&r, &op)->seq;
    for (uint64_t seq = 1; seq <= MANY; seq++)
        cancel(&r, seq);
    engine_rig_pass(&r, 1000);
    expect_slices(&r, MANY);
    /* Asking for what is due next walks no further than a slice, either, and comes to the answer.
     */
    struct op get = {.kind = OP_QUEUE_GET, .queue = {.name = q}};
    assert_int_equal(engine_rig_step(&r, &get)->queues[0].counts.next_due.ms,
                     ENGINE_RIG_WALL + 2000);
    engine_rig_pass(&r, 1000);
    engine_rig_quiet(&r);
    struct op claim = engine_rig_claim(&q, 1);
    assert_int_equal(engine_rig_step(&r, &claim)->jobs[0].job.seq, last);
    engine_rig_close(&r);
}

static void question_about_stale_entries(void **state)
{
    (void)state;
    struct engine_rig r;
    open_sliced(&r);
    struct op op = engine_rig_enqueue(q), get = {.kind = OP_QUEUE_GET, .queue = {.name = q}};
    op.enqueue.delay_ms = 1000;
    for (uint64_t i = 0; i < MANY; i++)
        engine_rig_step(&r, &op);
    op.enqueue.delay_ms = 2000;
    engine_rig_step(&r, &op);
    for (uint64_t seq = 1; seq <= MANY; seq++)
        cancel(&r, seq);
    int64_t due;
    size_t questions = 0;
    do {
        due = engine_rig_step(&r, &get)->queues[0].counts.next_due.ms;
        assert_true(due == ENGINE_RIG_WALL + 1000 || due == ENGINE_RIG_WALL + 2000);
        questions++;
    } while (due != ENGINE_RIG_WALL + 2000); /* too early until all are cleared, never too late */
    assert_in_range(questions, MANY / SLICE, MANY / SLICE + 2);
    cancel(&r, MANY + 1);
    assert_int_equal(engine_rig_step(&r, &get)->queues[0].counts.next_due.ms, 0);
    engine_rig_close(&r);
}

static void stale_expiries(void **state)
{
    (void)state;
    struct engine_rig r;
    open_sliced(&r);
    struct op op = engine_rig_enqueue(q);
    op.enqueue.extra.expires_at.ms = ENGINE_RIG_WALL + 1000;
    for (uint64_t i = 0; i < MANY; i++)
        engine_rig_step(&r, &op);
    for (uint64_t seq = 1; seq <= MANY; seq++)
        cancel(&r, seq);
    engine_rig_pass(&r, 1000);
    expect_slices(&r, MANY);
    engine_rig_close(&r);
}

static void extended_leases(void **state)
{
    (void)state;
    struct engine_rig r;
    open_sliced(&r);
    struct op enqueue = engine_rig_enqueue(q), claim = engine_rig_claim(&q, 1);
    claim.claim.lease_ms = 1000;
    for (uint64_t i = 0; i < MANY; i++) {
        engine_rig_step(&r, &enqueue);
        engine_rig_step(&r, &claim);
        struct op extend = {.kind = OP_EXTEND,
                            .lease = {.job = {.seq = i + 1}, .any_token = true, .lease_ms = 9000}};
        assert_int_equal(engine_rig_step(&r, &extend)->outcome, OUT_OK);
    }
    engine_rig_pass(&r, 1000);
    expect_slices(&r, MANY); /* no record, but every entry is looked at */
    engine_rig_close(&r);
}

static void queues_resumed_at_once(void **state)
{
    (void)state;
    enum { QUEUES = 1000 };
    struct engine_rig r;
    char name[16];
    open_sliced(&r);
    for (int i = 0; i < QUEUES; i++) {
        snprintf(name, sizeof name, "q%d", i);
        struct op put = {.kind = OP_QUEUE_PUT, .queue = {.name = span_text(name)}};
        engine_rig_step(&r, &put);
        struct op pause = {.kind = OP_PAUSE,
                           .queue = {.name = span_text(name), .until = {ENGINE_RIG_WALL + 1000}}};
        assert_int_equal(engine_rig_step(&r, &pause)->outcome, OUT_OK);
    }
    engine_rig_pass(&r, 1000);
    expect_slices(&r, QUEUES);
    engine_rig_close(&r);
}

static uint64_t keys_of(const struct engine_rig *r)
{
    struct engine_figures f;
    engine_figures(r->engine, &f);
    return f.keys;
}

static void enqueue_keyed(struct engine_rig *r, unsigned number)
{
    char key[16];
    struct op op = engine_rig_enqueue(q);
    snprintf(key, sizeof key, "k%u", number);
    op.enqueue.idempotency_key = span_text(key);
    const struct reply *reply = engine_rig_step(r, &op);
    assert_int_equal(reply->outcome, OUT_OK);
    assert_false(reply->repeat);
}

/* Idempotency keys of one moment. */
static void equal_expiries(void **state)
{
    (void)state;
    struct engine_rig r;
    struct op tick = {.kind = OP_TICK};
    open_sliced(&r);
    for (unsigned i = 0; i < MANY; i++)
        enqueue_keyed(&r, i);
    assert_int_equal(keys_of(&r), MANY);
    engine_rig_pass(&r, INT64_C(24) * 3600 * 1000);
    engine_rig_step(&r, &tick);
    assert_in_range(keys_of(&r), MANY - SLICE, MANY - 1);
    engine_rig_same_replayed(&r); /* in the middle of it */
    expect_slices(&r, MANY - SLICE);
    assert_int_equal(keys_of(&r), 0);
    engine_rig_close(&r);
}

/* A key that has expired but is still there makes way for its successor, and it alone. */
static void one_key_among_many(void **state)
{
    (void)state;
    struct engine_rig r;
    open_sliced(&r);
    for (unsigned i = 0; i < MANY; i++)
        enqueue_keyed(&r, i);
    engine_rig_pass(&r, INT64_C(24) * 3600 * 1000);
    static const unsigned again[] = {MANY / 2, 0, MANY - 1};
    for (size_t i = 0; i < 3; i++) {
        enqueue_keyed(&r, again[i]);
        assert_int_equal(keys_of(&r), MANY);
        engine_rig_same_replayed(&r);
    }
    expect_slices(&r, MANY - 3);
    assert_int_equal(keys_of(&r), 3);
    engine_rig_pass(&r, INT64_C(24) * 3600 * 1000);
    engine_rig_quiet(&r);
    assert_int_equal(keys_of(&r), 0);
    engine_rig_close(&r);
}

/* --- unique scope --- */

static const struct reply *set_scope(struct engine_rig *r, uint8_t scope)
{
    struct queue_policy p;
    policy_default(&p);
    p.unique_scope = scope;
    struct op put = {.kind = OP_QUEUE_PUT, .queue = {.name = q, .policy = &p}};
    return engine_rig_step(r, &put);
}

static uint64_t enqueue_unique(struct engine_rig *r, unsigned number, enum outcome should)
{
    char key[16];
    struct op op = engine_rig_enqueue(q);
    snprintf(key, sizeof key, "u%u", number);
    op.enqueue.extra.unique = span_text(key);
    const struct reply *reply = engine_rig_step(r, &op);
    assert_int_equal(reply->outcome, should);
    return reply->seq;
}

static void finish_next(struct engine_rig *r)
{
    struct op claim = engine_rig_claim(&q, 1);
    const struct reply *reply = engine_rig_step(r, &claim);
    assert_int_equal(reply->job_count, 1);
    struct op ack = {.kind = OP_ACK,
                     .lease = {.job = {.seq = reply->jobs[0].job.seq}, .any_token = true}};
    assert_int_equal(engine_rig_step(r, &ack)->outcome, OUT_OK);
}

/* Changing the scope of a long queue costs what it costs for a short one: by processor time, with
 * a wide margin. Walking through the jobs for each change would take minutes. */
static void scope_changes_are_cheap(void **state)
{
    (void)state;
    enum { JOBS = 20000, CHANGES = 5000 };
    struct engine_rig r;
    open_sliced(&r);
    for (unsigned i = 0; i < JOBS; i++)
        enqueue_unique(&r, i, OUT_OK);
    clock_t began = clock();
    for (int i = 0; i < CHANGES; i++)
        assert_int_equal(set_scope(&r, i % 2 ? UNIQUE_LIVE : UNIQUE_KEPT)->outcome, OUT_OK);
    assert_true((clock() - began) / CLOCKS_PER_SEC < 10);
    engine_rig_close(&r);
}

/* Two jobs that share a key, in every way they can come to, keep the scope from being widened; once
 * they no longer do, it is not kept from it. */
static void scope_is_widened_only_without_twins(void **state)
{
    (void)state;
    struct engine_rig r;
    open_sliced(&r);
    struct op purge = {.kind = OP_PURGE, .queue = {.name = q}};
    uint64_t done = enqueue_unique(&r, 1, OUT_OK);
    finish_next(&r);
    uint64_t live = enqueue_unique(&r, 1, OUT_OK);
    const struct reply *reply = set_scope(&r, UNIQUE_KEPT);
    assert_int_equal(reply->outcome, OUT_DUPLICATE);
    assert_true(reply->seq == live || reply->seq == done);
    cancel(&r, live); /* cancelled jobs hold no key */
    assert_int_equal(set_scope(&r, UNIQUE_KEPT)->outcome, OUT_OK);
    assert_int_equal(enqueue_unique(&r, 1, OUT_DUPLICATE), done);
    assert_int_equal(set_scope(&r, UNIQUE_LIVE)->outcome, OUT_OK);
    uint64_t waiting = enqueue_unique(&r, 1, OUT_OK);
    assert_int_equal(enqueue_unique(&r, 1, OUT_DUPLICATE), waiting);
    assert_int_equal(engine_rig_step(&r, &purge)->changed, 1);
    /* Purged, not yet removed: it does not exist. */
    assert_int_equal(set_scope(&r, UNIQUE_KEPT)->outcome, OUT_OK);
    assert_int_equal(enqueue_unique(&r, 1, OUT_DUPLICATE), done);
    engine_rig_same_replayed(&r);
    engine_rig_quiet(&r);
    assert_int_equal(set_scope(&r, UNIQUE_LIVE)->outcome, OUT_OK);
    enqueue_unique(&r, 1, OUT_OK);
    assert_int_equal(engine_rig_step(&r, &purge)->changed, 1);
    enqueue_unique(&r, 1, OUT_OK); /* takes the purged one's place */
    assert_int_equal(set_scope(&r, UNIQUE_KEPT)->outcome, OUT_DUPLICATE);
    struct op remove = {.kind = OP_REMOVE, .job = {.job = {.seq = done}}};
    assert_int_equal(engine_rig_step(&r, &remove)->outcome, OUT_OK);
    assert_int_equal(set_scope(&r, UNIQUE_KEPT)->outcome, OUT_OK);
    engine_rig_same_replayed(&r);
    engine_rig_quiet(&r);
    engine_rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stale_due_entries),
        cmocka_unit_test(question_about_stale_entries),
        cmocka_unit_test(stale_expiries),
        cmocka_unit_test(extended_leases),
        cmocka_unit_test(queues_resumed_at_once),
        cmocka_unit_test(equal_expiries),
        cmocka_unit_test(one_key_among_many),
        cmocka_unit_test(scope_changes_are_cheap),
        cmocka_unit_test(scope_is_widened_only_without_twins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
