/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that depend on others, in the engine: the same records say the same again, the work is done
 * in slices, and a job without dependencies costs nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "backend/local/engine/engine_impl.h"
#include "base/mem.h"
#include "core/jobs/dependency.h"
#include "core/limits.h"
#include "unit/backend/local/engine/engine_rig.h"

#define SLICE 100
#define MANY 10000

static const struct span q = {"q", 1};

static void open_sliced(struct engine_rig *r, unsigned defects)
{
    struct engine_config config;
    engine_config_default(&config);
    config.seed = 7;
    config.slice = SLICE;
    config.stall_ms = INT64_MAX;
    config.defects = defects;
    engine_rig_open(r, &config);
}

static uint64_t put(struct engine_rig *r)
{
    struct op op = engine_rig_enqueue(q);
    const struct reply *reply = engine_rig_step(r, &op);
    assert_int_equal(reply->outcome, OUT_OK);
    return reply->seq;
}

/* A job that depends on these. */
static uint64_t put_after(struct engine_rig *r, const uint64_t *parents, uint32_t count,
                          uint8_t rule)
{
    struct dependency_ref *refs = mem_array(count ? count : 1, sizeof *refs);
    struct op_depends d = {.parents = refs, .count = count, .rule = rule};
    struct op op = engine_rig_enqueue(q);
    for (uint32_t i = 0; i < count; i++)
        refs[i].job.seq = parents[i];
    op.enqueue.depends = &d;
    const struct reply *reply = engine_rig_step(r, &op);
    assert_int_equal(reply->outcome, OUT_OK);
    uint64_t seq = reply->seq;
    mem_free(refs);
    return seq;
}

static enum job_state state_of(struct engine_rig *r, uint64_t seq)
{
    return engine_job_state(r->engine, seq);
}

static void ack_next(struct engine_rig *r, uint64_t expected)
{
    struct op claim = engine_rig_claim(&q, 1);
    const struct reply *reply = engine_rig_step(r, &claim);
    assert_int_equal(reply->job_count, 1);
    struct op ack = {
        .kind = OP_ACK,
        .lease = {.job = {.seq = reply->jobs[0].job.seq}, .token = reply->jobs[0].token}};
    if (expected)
        assert_int_equal(reply->jobs[0].job.seq, expected);
    assert_int_equal(engine_rig_step(r, &ack)->outcome, OUT_OK);
}

static void one_op(struct engine_rig *r, enum op_kind kind, uint64_t seq, enum outcome expected)
{
    struct op op = {.kind = kind, .job = {.job = {.seq = seq}}};
    assert_int_equal(engine_rig_step(r, &op)->outcome, expected);
}

/* The ack of the last parent and the change of the child are one step, and so one frame. */
static void the_last_ack_makes_it_ready(void **state)
{
    (void)state;
    struct engine_rig r;
    open_sliced(&r, 0);
    uint64_t parents[] = {put(&r), put(&r)};
    uint64_t child = put_after(&r, parents, 2, DEPENDENCY_CANCEL);
    assert_int_equal(state_of(&r, child), STATE_BLOCKED);
    ack_next(&r, parents[0]);
    assert_int_equal(state_of(&r, child), STATE_BLOCKED);
    ack_next(&r, parents[1]);
    assert_int_equal(state_of(&r, child), STATE_READY);
    engine_rig_same_replayed(&r);
    ack_next(&r, child);
    engine_rig_same_replayed(&r);
    engine_rig_close(&r);
}

static void fan_in(void **state)
{
    (void)state;
    struct engine_rig r;
    open_sliced(&r, 0);
    uint64_t *parents = mem_array(MANY, sizeof *parents);
    for (uint32_t i = 0; i < MANY; i++)
        parents[i] = put(&r);
    uint64_t child = put_after(&r, parents, MANY, DEPENDENCY_CANCEL);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(state_of(&r, child), STATE_BLOCKED);
        ack_next(&r, parents[i]);
    }
    assert_int_equal(state_of(&r, child), STATE_READY);
    engine_rig_same_replayed(&r);
    mem_free(parents);
    engine_rig_close(&r);
}

/* 10,000 children of one parent are told in slices; what happens to the parent meanwhile does not
 * change what they are told. */
static void fan_out(void **state)
{
    (void)state;
    struct engine_rig r;
    for (int way = 0; way < 2; way++) {
        open_sliced(&r, 0);
        uint64_t parent = put(&r), first = 0;
        for (uint32_t i = 0; i < MANY; i++) {
            uint64_t child = put_after(&r, &parent, 1, DEPENDENCY_CANCEL);
            first = first ? first : child;
        }
        if (way == 0)
            ack_next(&r, parent);
        else
            one_op(&r, OP_CANCEL, parent, OUT_OK);
        assert_int_equal(state_of(&r, first), STATE_BLOCKED); /* the newest come first */
        engine_rig_same_replayed(&r);
        one_op(&r, way == 0 ? OP_REMOVE : OP_REQUEUE, parent, OUT_OK);
        engine_rig_same_replayed(&r);
        assert_in_range(engine_rig_quiet(&r), MANY / SLICE - 5, MANY / SLICE + 5);
        for (uint32_t i = 0; i < MANY; i++)
            assert_int_equal(state_of(&r, first + i), way == 0 ? STATE_READY : STATE_CANCELLED);
        engine_rig_same_replayed(&r);
        engine_rig_close(&r);
    }
}

/* A child that is cancelled drops its dependencies in slices. */
static void child_cancelled(void **state)
{
    (void)state;
    struct engine_rig r;
    open_sliced(&r, 0);
    uint64_t parents[1000];
    for (uint32_t i = 0; i < 1000; i++)
        parents[i] = put(&r);
    uint64_t child = put_after(&r, parents, 1000, DEPENDENCY_RUN);
    one_op(&r, OP_CANCEL, child, OUT_OK);
    assert_in_range(engine_rig_quiet(&r), 1000 / SLICE - 2, 1000 / SLICE + 5);
    one_op(&r, OP_REQUEUE, child, OUT_OK);
    assert_int_equal(state_of(&r, child), STATE_READY);
    for (uint32_t i = 0; i < 1000; i++)
        ack_next(&r, parents[i]);
    ack_next(&r, child);
    one_op(&r, OP_REMOVE, child, OUT_OK);
    engine_rig_quiet(&r);
    engine_rig_same_replayed(&r);
    engine_rig_close(&r);
}

/* Each in one step: a chain of cancelled jobs ends in slices, too. */
static void chain(void **state)
{
    (void)state;
    struct engine_rig r;
    open_sliced(&r, 0);
    uint64_t first = put(&r), last = first;
    for (int i = 0; i < 1000; i++)
        last = put_after(&r, &last, 1, i % 2 ? DEPENDENCY_CANCEL : DEPENDENCY_DEAD);
    one_op(&r, OP_CANCEL, first, OUT_OK);
    engine_rig_quiet(&r);
    for (uint64_t seq = first + 1; seq <= last; seq++)
        assert_int_equal(state_of(&r, seq), (seq - first) % 2 ? STATE_DEAD : STATE_CANCELLED);
    engine_rig_same_replayed(&r);
    engine_rig_close(&r);
}

/* Purged parents are removed in slices; their children follow. */
static void purge_and_delete(void **state)
{
    (void)state;
    struct engine_rig r;
    open_sliced(&r, 0);
    static const struct span other = {"other", 5};
    uint64_t parents[300];
    for (uint32_t i = 0; i < 300; i++)
        parents[i] = put(&r);
    struct dependency_ref refs[300];
    for (uint32_t i = 0; i < 300; i++)
        refs[i] = (struct dependency_ref){.job = {.seq = parents[i]}};
    struct op_depends d = {.parents = refs, .count = 300, .rule = DEPENDENCY_RUN};
    struct op op = engine_rig_enqueue(other);
    op.enqueue.depends = &d;
    uint64_t child = engine_rig_step(&r, &op)->seq;
    struct op purge = {.kind = OP_PURGE, .queue = {.name = q}};
    assert_int_equal(engine_rig_step(&r, &purge)->outcome, OUT_OK);
    assert_int_equal(state_of(&r, child), STATE_BLOCKED);
    engine_rig_quiet(&r);
    assert_int_equal(state_of(&r, child), STATE_READY);
    engine_rig_same_replayed(&r);
    /* … and a queue whose jobs are children goes, with what they wait for. */
    uint64_t parent = put(&r);
    for (uint32_t i = 0; i < 300; i++) {
        struct dependency_ref ref = {.job = {.seq = parent}};
        struct op_depends one = {.parents = &ref, .count = 1};
        op.enqueue.depends = &one;
        assert_int_equal(engine_rig_step(&r, &op)->outcome, OUT_OK);
    }
    struct op del = {.kind = OP_QUEUE_DELETE, .queue = {.name = other}};
    assert_int_equal(engine_rig_step(&r, &del)->outcome, OUT_OK);
    engine_rig_quiet(&r);
    ack_next(&r, parent);
    engine_rig_quiet(&r);
    engine_rig_same_replayed(&r);
    engine_rig_close(&r);
}

static uint64_t memory_of(struct engine_rig *r)
{
    struct engine_figures f;
    engine_figures(r->engine, &f);
    return f.bytes;
}

/* A job without dependencies has no node, in memory and in the journal no byte more. */
static void jobs_without_cost_nothing(void **state)
{
    (void)state;
    struct engine_rig r;
    open_sliced(&r, 0);
    for (int i = 0; i < 1000; i++)
        put(&r);
    size_t log = r.log.len;
    put(&r);
    assert_in_range(r.log.len - log, 40, 80);
    ack_next(&r, 0);
    assert_int_equal(dependencies_bytes(r.engine), 0);
    assert_int_equal(sizeof(struct live),
                     sizeof(struct job) + sizeof(uint64_t) + 4 * sizeof(uint32_t));
    engine_rig_close(&r);
}

static void cost_of_an_edge(void **state)
{
    (void)state;
    struct engine_rig r;
    open_sliced(&r, 0);
    uint64_t *parents = mem_array(MANY, sizeof *parents);
    for (uint32_t i = 0; i < MANY; i++)
        parents[i] = put(&r);
    size_t log = r.log.len;
    uint64_t before = memory_of(&r);
    put_after(&r, parents, MANY, DEPENDENCY_RUN);
    uint64_t bytes = memory_of(&r) - before;
    print_message("%llu bytes of memory for %d parents, %zu bytes of journal\n",
                  (unsigned long long)bytes, MANY, r.log.len - log);
    assert_true(bytes < (UINT64_C(8) << 20)); /* slabs come in chunks of 2 MiB */
    assert_in_range(r.log.len - log, MANY, 2 * MANY);
    mem_free(parents);
    engine_rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_ack_makes_it_ready),
        cmocka_unit_test(fan_in),
        cmocka_unit_test(fan_out),
        cmocka_unit_test(child_cancelled),
        cmocka_unit_test(chain),
        cmocka_unit_test(purge_and_delete),
        cmocka_unit_test(jobs_without_cost_nothing),
        cmocka_unit_test(cost_of_an_edge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
