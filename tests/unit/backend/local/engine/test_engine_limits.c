/* SPDX-License-Identifier: Apache-2.0 */
/* HF-9, HF-28, HF-29: limits at the claim and fair share in the engine: slots come from leases, a
 * blocked group blocks no other, claims that wait are woken, a policy change takes effect. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "backend/local/engine/jobs/limits.h"
#include "unit/backend/local/engine/engine_rig.h"

static const struct span q = {"q", 1};

static struct queue_policy plain(void)
{
    struct queue_policy p;
    policy_default(&p);
    return p;
}

static void put_policy(struct engine_rig *r, struct queue_policy policy)
{
    struct op op = {.kind = OP_QUEUE_PUT, .queue = {.name = q, .policy = &policy}};
    assert_int_equal(engine_rig_step(r, &op)->outcome, OUT_OK);
}

static void open_with(struct engine_rig *r, struct queue_policy policy)
{
    engine_rig_open(r, NULL);
    put_policy(r, policy);
}

/* group NULL = none. */
static uint64_t put_at(struct engine_rig *r, const char *group, int64_t priority)
{
    struct op op = engine_rig_enqueue(q);
    if (group)
        op.enqueue.extra.group = span_text(group);
    op.enqueue.has_priority = true;
    op.enqueue.priority = priority;
    const struct reply *reply = engine_rig_step(r, &op);
    assert_int_equal(reply->outcome, OUT_OK);
    return reply->seq;
}

static uint64_t put(struct engine_rig *r, const char *group)
{
    return put_at(r, group, 0);
}

struct got {
    uint64_t seq;
    struct job_token token;
};

/* The next job; seq 0 = none can start. */
static struct got take(struct engine_rig *r)
{
    struct op op = engine_rig_claim(&q, 1);
    const struct reply *reply = engine_rig_step(r, &op);
    assert_int_equal(reply->outcome, OUT_OK);
    if (reply->job_count == 0)
        return (struct got){0};
    return (struct got){reply->jobs[0].job.seq, reply->jobs[0].token};
}

static void ack(struct engine_rig *r, struct got g)
{
    struct op op = {.kind = OP_ACK, .lease = {.job = {.seq = g.seq}, .token = g.token}};
    assert_int_equal(engine_rig_step(r, &op)->outcome, OUT_OK);
}

/* Whether the last step has woken the claims that wait for the queue. */
static bool woke(const struct engine_rig *r)
{
    return r->out.wake_count > 0;
}

static struct queue_counts counts(struct engine_rig *r)
{
    struct op op = {.kind = OP_QUEUE_GET, .queue = {.name = q}};
    return engine_rig_step(r, &op)->queues[0].counts;
}

static void a_queue_runs_no_more_than_its_limit(void **state)
{
    (void)state;
    struct engine_rig r;
    struct queue_policy p = plain();
    p.max_running = 2;
    open_with(&r, p);
    for (int i = 0; i < 5; i++)
        put(&r, NULL);
    struct op many = engine_rig_claim(&q, 5);
    const struct reply *reply = engine_rig_step(&r, &many);
    assert_int_equal(reply->job_count, 2);
    struct got first = {reply->jobs[0].job.seq, reply->jobs[0].token};
    assert_int_equal(take(&r).seq, 0);
    assert_int_equal(counts(&r).limited[CLAIM_QUEUE_LIMIT], 3);
    put(&r, NULL);
    assert_false(woke(&r)); /* no claim could have it */
    ack(&r, first);
    assert_true(woke(&r));
    assert_int_equal(counts(&r).limited[CLAIM_QUEUE_LIMIT], 0);
    assert_int_not_equal(take(&r).seq, 0);
    assert_int_equal(take(&r).seq, 0);
    engine_rig_same_replayed(&r);
    engine_rig_close(&r);
}

/* Each way in which a lease ends gives the slot back. */
static void every_end_of_a_lease_frees_its_slot(void **state)
{
    (void)state;
    struct engine_rig r;
    struct queue_policy p = plain();
    p.max_running = 1;
    p.lease_ms = 1000;
    open_with(&r, p);
    for (int i = 0; i < 6; i++)
        put(&r, NULL);
    static const enum op_kind ends[] = {OP_ACK, OP_FAIL, OP_RELEASE, OP_CANCEL, OP_TICK};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct got g = take(&r);
        assert_int_not_equal(g.seq, 0);
        assert_int_equal(take(&r).seq, 0);
        struct op op = {.kind = ends[i]};
        if (ends[i] == OP_CANCEL) {
            op.job.job.seq = g.seq;
            op.job.force = true;
        } else if (ends[i] == OP_TICK) {
            engine_rig_pass(&r, 500);
            engine_look(r.engine, r.now);
            engine_rig_pass(&r, 500);
        } else {
            op.lease.job.seq = g.seq;
            op.lease.token = g.token;
        }
        assert_int_equal(engine_rig_step(&r, &op)->outcome, OUT_OK);
        assert_true(woke(&r));
    }
    engine_rig_same_replayed(&r);
    engine_rig_close(&r);
}

static void a_blocked_group_blocks_no_other(void **state)
{
    (void)state;
    struct engine_rig r;
    struct queue_policy p = plain();
    p.max_running_per_group = 1;
    open_with(&r, p);
    uint64_t a = put(&r, "a");
    for (int i = 0; i < 3000; i++)
        put(&r, "a");
    uint64_t none = put(&r, NULL), b = put(&r, "b");
    put(&r, NULL); /* jobs without a group are one group */
    struct got first = take(&r);
    assert_int_equal(first.seq, a);
    assert_int_equal(take(&r).seq, none);
    assert_int_equal(take(&r).seq, b);
    assert_int_equal(take(&r).seq, 0);
    assert_int_equal(counts(&r).limited[CLAIM_GROUP_LIMIT], 3001);
    put(&r, "a");
    assert_false(woke(&r));
    ack(&r, first);
    assert_true(woke(&r));
    assert_int_equal(take(&r).seq, a + 1);
    assert_int_equal(take(&r).seq, 0);
    engine_rig_same_replayed(&r);
    engine_rig_close(&r);
}

static void priorities_hold_between_groups(void **state)
{
    (void)state;
    struct engine_rig r;
    struct queue_policy p = plain();
    p.max_running_per_group = 2;
    open_with(&r, p);
    uint64_t low = put_at(&r, "a", 0), high = put_at(&r, "b", 5), other = put_at(&r, "a", 9);
    assert_int_equal(take(&r).seq, other);
    assert_int_equal(take(&r).seq, high);
    assert_int_equal(take(&r).seq, low);
    engine_rig_close(&r);
}

static void a_new_limit_holds_at_once(void **state)
{
    (void)state;
    struct engine_rig r;
    struct queue_policy p = plain();
    open_with(&r, p);
    struct got got[4];
    for (int i = 0; i < 10; i++)
        put(&r, "g");
    for (int i = 0; i < 4; i++)
        got[i] = take(&r);
    p.max_running = 2; /* lower than what runs */
    put_policy(&r, p);
    assert_int_equal(take(&r).seq, 0);
    ack(&r, got[0]);
    ack(&r, got[1]);
    assert_int_equal(take(&r).seq, 0);
    ack(&r, got[2]);
    assert_true(woke(&r));
    assert_int_not_equal(take(&r).seq, 0);
    p.max_running = 0;
    p.max_running_per_group = 2;
    put_policy(&r, p);
    assert_int_equal(take(&r).seq, 0);
    p.max_running_per_group = 3;
    put_policy(&r, p);
    assert_true(woke(&r));
    assert_int_not_equal(take(&r).seq, 0);
    put_policy(&r, plain());
    assert_true(woke(&r));
    assert_int_not_equal(take(&r).seq, 0);
    engine_rig_quiet(&r);
    engine_rig_same_replayed(&r);
    engine_rig_close(&r);
}

static void tokens_come_with_time(uint8_t per, const char *group)
{
    struct engine_rig r;
    struct op tick = {.kind = OP_TICK};
    struct queue_policy p = plain();
    p.claim_rate = (struct rate_limit){per, 2, 1000};
    open_with(&r, p);
    for (int i = 0; i < 4; i++)
        put(&r, group);
    ack(&r, take(&r));
    ack(&r, take(&r));
    assert_int_equal(take(&r).seq, 0);
    assert_int_equal(counts(&r).limited[CLAIM_RATE], 2);
    assert_int_equal(engine_next_tick_ms(r.engine, r.now), 500);
    engine_rig_pass(&r, 499);
    assert_int_equal(take(&r).seq, 0);
    engine_rig_pass(&r, 1);
    engine_rig_step(&r, &tick);
    assert_true(woke(&r));
    ack(&r, take(&r));
    assert_int_equal(take(&r).seq, 0);
    engine_rig_pass(&r, 500); /* a claim need not wait for the tick */
    ack(&r, take(&r));
    engine_rig_pass(&r, 500);
    engine_rig_pass(&r, 500);
    engine_rig_quiet(&r);
    assert_int_equal(r.engine->lines.used, 0); /* a full bucket is not kept */
    engine_rig_same_replayed(&r);
    engine_rig_close(&r);
}

static void rates_of_queue_and_group(void **state)
{
    (void)state;
    tokens_come_with_time(RATE_QUEUE, NULL);
    tokens_come_with_time(RATE_GROUP, "a");
    tokens_come_with_time(RATE_GROUP, NULL);
}

/* 1000 to 1: each gets half, and the small group waits for one job of the other. */
static void a_large_backlog_does_not_delay_a_small_one(void **state)
{
    (void)state;
    struct engine_rig r;
    struct queue_policy p = plain();
    p.fair = FAIR_GROUP;
    open_with(&r, p);
    for (int i = 0; i < 10000; i++)
        put(&r, "large");
    uint64_t large_last = put(&r, "large");
    for (int i = 0; i < 10; i++)
        put(&r, "small");
    unsigned small = 0;
    for (int i = 0; i < 20; i++) {
        struct got g = take(&r);
        small += g.seq > large_last;
        ack(&r, g);
    }
    assert_in_range(small, 9, 11); /* 45 to 55 % */
    engine_rig_same_replayed(&r);
    engine_rig_close(&r);
}

/* Random backlogs: no group gets less than 0.8 of its share while it has jobs. */
static void many_groups_get_equal_shares(void **state)
{
    (void)state;
    enum { GROUPS = 10000, ROUNDS = 5 };
    static uint16_t served[GROUPS];
    static uint32_t group_of[GROUPS * 20];
    struct engine_rig r;
    struct random random;
    struct queue_policy p = plain();
    char name[16];
    random_seed(&random, 42);
    p.fair = FAIR_GROUP;
    p.keep_done = 0;
    open_with(&r, p);
    uint64_t first = 0, n = 0;
    for (uint32_t g = 0; g < GROUPS; g++) {
        uint64_t jobs = ROUNDS + random_below(&random, 10);
        snprintf(name, sizeof name, "g%u", g);
        for (uint64_t i = 0; i < jobs; i++, n++) {
            uint64_t seq = put(&r, name);
            first = first ? first : seq;
            group_of[seq - first] = g;
        }
    }
    for (uint32_t i = 0; i < GROUPS * ROUNDS; i++) {
        struct got g = take(&r);
        served[group_of[g.seq - first]]++;
        ack(&r, g);
    }
    for (uint32_t g = 0; g < GROUPS; g++)
        assert_true(served[g] * 10 >= ROUNDS * 8);
    engine_rig_close(&r);
}

/* A group that sends one job at a time gets no more than one that always has some. */
static void leaving_and_returning_gains_nothing(void **state)
{
    (void)state;
    struct engine_rig r;
    struct queue_policy p = plain();
    p.fair = FAIR_GROUP;
    p.keep_done = 0;
    open_with(&r, p);
    unsigned steady = 0;
    for (int i = 0; i < 1000; i++)
        put(&r, "steady");
    for (int i = 0; i < 200; i++) {
        uint64_t one = put(&r, "single");
        struct got g = take(&r);
        steady += g.seq != one;
        ack(&r, g);
        if (g.seq != one)
            ack(&r, take(&r));
    }
    assert_true(steady >= 99);
    engine_rig_close(&r);
}

static void age_raises_a_job(void **state)
{
    (void)state;
    struct engine_rig r;
    struct queue_policy p = plain();
    p.ageing_ms = 100;
    open_with(&r, p);
    uint64_t old = put_at(&r, NULL, 0);
    engine_rig_pass(&r, 250);
    uint64_t same = put_at(&r, NULL, 2), higher = put_at(&r, NULL, 4), lower = put_at(&r, NULL, 1);
    assert_int_equal(take(&r).seq, higher);
    assert_int_equal(take(&r).seq, old);
    assert_int_equal(take(&r).seq, same);
    assert_int_equal(take(&r).seq, lower);
    engine_rig_same_replayed(&r);
    engine_rig_close(&r);
}

/* Between queues, the age counts, too. */
static void age_counts_between_queues(void **state)
{
    (void)state;
    struct engine_rig r;
    struct queue_policy p = plain();
    const struct span both[] = {SPAN_LITERAL("q"), SPAN_LITERAL("other")};
    p.ageing_ms = 100;
    open_with(&r, p);
    uint64_t old = put_at(&r, NULL, 0);
    struct op op = engine_rig_enqueue(both[1]);
    op.enqueue.has_priority = true;
    op.enqueue.priority = 5;
    uint64_t other = engine_rig_step(&r, &op)->seq;
    struct op claim = {.kind = OP_CLAIM, .claim = {.queues = both, .queue_count = 2, .count = 1}};
    engine_rig_pass(&r, 400);
    assert_int_equal(engine_rig_step(&r, &claim)->jobs[0].job.seq, other);
    assert_int_equal(engine_rig_step(&r, &claim)->jobs[0].job.seq, old);
    old = put_at(&r, NULL, 0);
    engine_rig_pass(&r, 700);
    other = engine_rig_step(&r, &op)->seq;
    assert_int_equal(engine_rig_step(&r, &claim)->jobs[0].job.seq, old);
    assert_int_equal(engine_rig_step(&r, &claim)->jobs[0].job.seq, other);
    engine_rig_close(&r);
}

/* A new order of a long backlog takes effect in slices, and loses and doubles no job. */
static void a_backlog_is_sorted_in_slices(void **state)
{
    (void)state;
    enum { JOBS = 25000, GROUPS = 100 };
    struct engine_rig r;
    struct queue_policy p = plain();
    char name[16];
    open_with(&r, p);
    for (int i = 0; i < JOBS; i++) {
        snprintf(name, sizeof name, "g%d", i % GROUPS);
        put(&r, i % 10 ? name : NULL);
    }
    struct queue_policy grouped = p, aged = p;
    grouped.max_running_per_group = 2;
    aged.ageing_ms = 1000;
    struct queue_policy turns[] = {grouped, aged, grouped, p, aged, grouped, grouped, p};
    unsigned taken = 0;
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        put_policy(&r, turns[i]);
        ack(&r, take(&r)); /* there is a job for a claim all the time */
        taken++;
        if (i % 2)
            engine_rig_quiet(&r);
        engine_rig_same_replayed(&r);
    }
    assert_int_equal(r.engine->lines.used, 0);
    struct got g;
    while ((g = take(&r)).seq != 0) {
        ack(&r, g);
        taken++;
    }
    assert_int_equal(taken, JOBS);
    engine_rig_close(&r);
}

static void a_purge_empties_the_groups(void **state)
{
    (void)state;
    struct engine_rig r;
    struct queue_policy p = plain();
    p.max_running_per_group = 1;
    open_with(&r, p);
    for (int i = 0; i < 10; i++)
        put(&r, i % 2 ? "a" : "b");
    struct got a = take(&r);
    struct op op = {.kind = OP_PURGE, .queue = {.name = q}};
    assert_int_equal(engine_rig_step(&r, &op)->outcome, OUT_OK);
    assert_int_equal(take(&r).seq, 0);
    assert_int_equal(counts(&r).limited[CLAIM_GROUP_LIMIT], 0);
    put(&r, "b"); /* of which one still runs */
    uint64_t other = put(&r, "a");
    assert_int_equal(take(&r).seq, other);
    assert_int_equal(take(&r).seq, 0);
    ack(&r, a);
    assert_int_not_equal(take(&r).seq, 0);
    engine_rig_quiet(&r);
    engine_rig_same_replayed(&r);
    op.kind = OP_QUEUE_DELETE;
    put(&r, "a");
    assert_int_equal(engine_rig_step(&r, &op)->outcome, OUT_OK);
    engine_rig_quiet(&r);
    assert_int_equal(r.engine->lines.used, 0);
    engine_rig_close(&r);
}

static void claims_by_id_stay_within_the_limits(void **state)
{
    (void)state;
    struct engine_rig r;
    struct queue_policy p = plain();
    p.max_running_per_group = 1;
    open_with(&r, p);
    uint64_t a = put(&r, "a"), second = put(&r, "a"), b = put(&r, "b");
    struct op one = {.kind = OP_CLAIM, .claim = {.one = {.seq = second}, .count = 1}};
    assert_int_equal(engine_rig_step(&r, &one)->job_count, 1);
    one.claim.one.seq = a;
    const struct reply *reply = engine_rig_step(&r, &one);
    assert_int_equal(reply->outcome, OUT_ILLEGAL);
    assert_non_null(reply->note);
    assert_int_equal(take(&r).seq, b);
    assert_int_equal(take(&r).seq, 0);
    engine_rig_same_replayed(&r);
    engine_rig_close(&r);
}

/* Queues without limits have none of this, and neither have their jobs. */
static void nothing_for_queues_without_limits(void **state)
{
    (void)state;
    struct engine_rig r;
    open_with(&r, plain());
    put(&r, "a");
    assert_null(queue_at(r.engine, 1)->flow);
    assert_int_equal(r.engine->lines.used, 0);
    assert_true(sizeof(struct live) <= 112 && sizeof(struct extra) == 28);
    engine_rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_runs_no_more_than_its_limit),
        cmocka_unit_test(every_end_of_a_lease_frees_its_slot),
        cmocka_unit_test(a_blocked_group_blocks_no_other),
        cmocka_unit_test(priorities_hold_between_groups),
        cmocka_unit_test(a_new_limit_holds_at_once),
        cmocka_unit_test(rates_of_queue_and_group),
        cmocka_unit_test(a_large_backlog_does_not_delay_a_small_one),
        cmocka_unit_test(many_groups_get_equal_shares),
        cmocka_unit_test(leaving_and_returning_gains_nothing),
        cmocka_unit_test(age_raises_a_job),
        cmocka_unit_test(age_counts_between_queues),
        cmocka_unit_test(a_backlog_is_sorted_in_slices),
        cmocka_unit_test(a_purge_empties_the_groups),
        cmocka_unit_test(claims_by_id_stay_within_the_limits),
        cmocka_unit_test(nothing_for_queues_without_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
