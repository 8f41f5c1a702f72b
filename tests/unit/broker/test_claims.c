/* SPDX-License-Identifier: Apache-2.0 */
/* Claims that wait: woken by what becomes ready, first come first served, nothing lost (PDQ-4). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/digest/random.h"
#include "base/mem.h"
#include "unit/backend/fake_backend.h"
#include "unit/broker/broker_rig.h"

static void flag_cb(void *ctx)
{
    *(bool *)ctx = true;
}

static void test_one_turn_is_one_batch(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    struct told told[10] = {0};
    struct op op = do_enqueue_op("q", "1");
    for (unsigned i = 0; i < 10; i++) {
        op.tag = 100 + i;
        assert_int_equal(broker_submit(r.broker, &op, 1, told_cb, &told[i]), 0);
    }
    broker_rig_until(&r, &told[9].yes);
    struct broker_figures f;
    broker_figures(r.broker, &f);
    assert_int_equal(f.batches, 1);
    assert_int_equal(f.ops, 10);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(told[i].times, 1);
        assert_int_equal(told[i].tag, 100 + i);
    }
    broker_rig_done(&r);
}

static void test_empty_answers_at_once_without_waiting(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    struct told t = do_claim_now(&r, "none");
    assert_int_equal(t.outcome, OUT_OK);
    assert_int_equal(t.job_count, 0);
    broker_rig_done(&r);
}

static void test_waiters_are_served_in_order(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    struct told told[3] = {0};
    for (int i = 0; i < 3; i++) {
        do_claim_wait(&r, "q", 60000, &told[i]);
        broker_rig_turns(&r, 5);
    }
    struct broker_figures f;
    broker_figures(r.broker, &f);
    assert_int_equal(f.waiting, 3);
    for (int i = 0; i < 3; i++) {
        struct told job = do_enqueue(&r, "q", "1");
        broker_rig_until(&r, &told[i].yes);
        assert_int_equal(told[i].job_count, 1);
        assert_int_equal(told[i].held[0].seq, job.seq);
        for (int later = i + 1; later < 3; later++)
            assert_false(told[later].yes);
    }
    broker_rig_done(&r);
}

static void test_one_batch_feeds_all_who_wait(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    struct told told[40] = {0};
    for (int i = 0; i < 40; i++)
        do_claim_wait(&r, "q", 60000, &told[i]);
    broker_rig_turns(&r, 20);
    struct op ops[40];
    struct told enqueued[1] = {0};
    for (int i = 0; i < 40; i++)
        ops[i] = do_enqueue_op("q", "1");
    assert_int_equal(broker_submit(r.broker, ops, 40, told_cb, enqueued), 0);
    for (int i = 0; i < 40; i++) {
        broker_rig_until(&r, &told[i].yes);
        assert_int_equal(told[i].job_count, 1);
        for (int j = 0; j < i; j++)
            assert_true(told[j].held[0].seq != told[i].held[0].seq);
    }
    broker_rig_done(&r);
}

#define CROWD 200

/* The chain doubles: it must not take a turn for each of them, or for each two. */
static void test_a_batch_reaches_a_crowd_in_few_turns(void **state)
{
    (void)state;
    static struct told told[CROWD], enqueued;
    static struct op ops[CROWD];
    struct broker_rig r;
    struct broker_figures before, after;
    broker_rig_init(&r, "memory:");
    memset(told, 0, sizeof told);
    for (int i = 0; i < CROWD; i++) {
        do_claim_wait(&r, "q", 60000, &told[i]);
        ops[i] = do_enqueue_op("q", "1");
    }
    broker_rig_turns(&r, 20);
    broker_figures(r.broker, &before);
    assert_int_equal(before.waiting, CROWD);
    assert_int_equal(broker_submit(r.broker, ops, CROWD, told_cb, &enqueued), 0);
    for (int i = 0; i < CROWD; i++) {
        broker_rig_until(&r, &told[i].yes);
        assert_int_equal(told[i].job_count, 1);
        if (i > 0) /* first come, first served */
            assert_true(told[i].held[0].seq > told[i - 1].held[0].seq);
    }
    broker_figures(r.broker, &after);
    assert_in_range(after.batches - before.batches, 8, 20);
    broker_rig_done(&r);
}

static void test_no_memory_delays_a_wake_up(void **state)
{
    (void)state;
    struct broker_rig r;
    bool gone = false;
    broker_rig_loop(&r);
    struct fake_backend *fake = fake_new(&r.loop, &gone);
    broker_rig_init_with(&r, &fake->base);
    struct told waits = {0}, other = {0};
    fake->empty = true;
    do_claim_wait(&r, "q", 60000, &waits);
    broker_rig_turns(&r, 5);
    /* With a batch under way and none to spare, the next one takes memory. */
    fake->manual = true;
    struct op op = {.kind = OP_PAUSE, .queue = {.name = SPAN_LITERAL("p")}};
    assert_int_equal(broker_submit(r.broker, &op, 1, told_cb, &other), 0);
    broker_rig_turns(&r, 5);
    mem_fail_at(1, 1);
    fake_signal(fake);
    mem_fail_at(0, 0);
    assert_int_equal(fake_count(fake, OP_CLAIM), 1);
    while (fake_count(fake, OP_CLAIM) < 2)
        uv_run(&r.loop, UV_RUN_ONCE);
    assert_false(waits.yes);
    fake->manual = fake->empty = false;
    broker_rig_done(&r);
    assert_true(waits.yes && other.yes && gone);
}

static void test_a_clock_that_cannot_be_moved_stands_still(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    int64_t before = broker_now(r.broker).wall.ms;
    bool moved = false;
    mem_fail_at(1, 1);
    int err = broker_clock_advance(r.broker, 1000, flag_cb, &moved);
    mem_fail_at(0, 0);
    assert_int_equal(err, -ERR_NOMEM);
    assert_true(broker_now(r.broker).wall.ms == before);
    broker_rig_advance(&r, 1000);
    assert_true(broker_now(r.broker).wall.ms == before + 1000);
    assert_false(moved);
    broker_rig_done(&r);
}

static void test_a_newcomer_does_not_overtake(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    struct told first = {0}, second = {0}, enqueued = {0};
    do_claim_wait(&r, "q", 60000, &first);
    broker_rig_turns(&r, 10);
    /* In one turn: a job, and somebody new who asks for it. */
    struct op op = do_enqueue_op("q", "1");
    assert_int_equal(broker_submit(r.broker, &op, 1, told_cb, &enqueued), 0);
    struct broker_claim *late = do_claim_wait(&r, "q", 60000, &second);
    broker_rig_until(&r, &first.yes);
    broker_rig_turns(&r, 20);
    assert_int_equal(first.job_count, 1);
    assert_false(second.yes);
    broker_claim_cancel(r.broker, late);
    broker_rig_done(&r);
}

/* No claim is parked: a claim that comes while others are outstanding need not wait for their
 * replies. */
static void test_those_who_come_together_are_asked_together(void **state)
{
    enum { MANY = 8 };
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    struct told told[MANY] = {0};
    for (int i = 0; i < MANY; i++)
        do_enqueue(&r, "q", "1");
    for (int i = 0; i < MANY; i++)
        do_claim_wait(&r, "q", 60000, &told[i]);
    while (!told[0].yes)
        broker_rig_turns(&r, 1);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(told[i].job_count, 1);
    broker_rig_done(&r);
}

static void test_the_wait_runs_out(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    struct told t = {0};
    uv_update_time(&r.loop); /* the wait counts from the loop's time */
    uint64_t begun = uv_hrtime();
    do_claim_wait(&r, "q", 30, &t);
    while (!t.yes)
        uv_run(&r.loop, UV_RUN_ONCE);
    assert_int_equal(t.outcome, OUT_OK);
    assert_int_equal(t.job_count, 0);
    assert_true(uv_hrtime() - begun >= 29 * 1000000u);
    /* And nothing is left behind: a job that comes now is for others. */
    do_enqueue(&r, "q", "1");
    broker_rig_turns(&r, 10);
    assert_int_equal(t.times, 1);
    assert_int_equal(do_claim_now(&r, "q").job_count, 1);
    broker_rig_done(&r);
}

static void test_a_cancelled_claim_keeps_nothing(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    struct told t = {0};
    struct broker_claim *parked = do_claim_wait(&r, "q", 60000, &t);
    broker_rig_turns(&r, 10);
    broker_claim_cancel(r.broker, parked);
    struct told job = do_enqueue(&r, "q", "1");
    /* Cancelled with the op under way: the job it was given comes back, uncounted. */
    struct broker_claim *asked = do_claim_wait(&r, "q", 60000, &t);
    broker_claim_cancel(r.broker, asked);
    broker_rig_turns(&r, 20);
    assert_false(t.yes);
    struct told seen = do_get(&r, job.seq);
    assert_int_equal(seen.job.state, STATE_READY);
    assert_int_equal(seen.job.failures + seen.job.crashes, 0);
    broker_rig_done(&r);
}

static void test_a_claim_that_ends_its_wait_takes_what_is_there(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    struct told parked = {0}, asked = {0}, vain = {0};
    struct broker_claim *c = do_claim_wait(&r, "q", 60000, &parked);
    broker_rig_turns(&r, 10);
    broker_claim_end_wait(r.broker, c);
    assert_true(parked.yes && parked.outcome == OUT_OK && parked.job_count == 0);
    do_enqueue(&r, "q", "1");
    broker_claim_end_wait(r.broker, do_claim_wait(&r, "q", 60000, &asked));
    broker_rig_until(&r, &asked.yes);
    assert_int_equal(asked.job_count, 1);
    broker_claim_end_wait(r.broker, do_claim_wait(&r, "q", 60000, &vain));
    broker_rig_until(&r, &vain.yes);
    assert_int_equal(vain.job_count, 0);
    broker_rig_done(&r);
}

static void test_several_queues(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    struct span names[] = {SPAN_LITERAL("a"), SPAN_LITERAL("b"), SPAN_LITERAL("c")};
    struct op_claim want = {.queues = names, .queue_count = 3, .count = 10};
    for (int i = 0; i < 3; i++) {
        struct told t = {0};
        struct broker_claim *c;
        assert_int_equal(broker_claim(r.broker, &want, 60000, told_cb, &t, &c), 0);
        broker_rig_turns(&r, 10);
        assert_false(t.yes);
        char name[2] = {names[i].at[0], 0};
        struct told job = do_enqueue(&r, name, "1");
        broker_rig_until(&r, &t.yes);
        assert_int_equal(t.job_count, 1);
        assert_int_equal(t.held[0].seq, job.seq);
    }
    broker_rig_done(&r);
}

static void test_a_scheduled_job_wakes_when_due(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    struct op op = do_enqueue_op("q", "1");
    op.enqueue.delay_ms = 5000;
    assert_int_equal(do_op(&r, &op).outcome, OUT_OK);
    struct told t = {0};
    do_claim_wait(&r, "q", 60000, &t);
    broker_rig_advance(&r, 4999);
    broker_rig_turns(&r, 20);
    assert_false(t.yes);
    broker_rig_advance(&r, 1);
    broker_rig_until(&r, &t.yes);
    assert_int_equal(t.job_count, 1);
    broker_rig_done(&r);
}

struct pair {
    struct broker *broker;
    struct broker_claim *other;
    unsigned times;
};

static void cancel_other_cb(void *ctx, const struct reply *reply)
{
    struct pair *p = ctx;
    (void)reply;
    p->times++;
    if (p->other)
        broker_claim_cancel(p->broker, p->other);
    p->other = NULL;
}

/* An answer may cost another connection its memory, and with it its claim. */
static void test_one_that_drains_cancels_another(void **state)
{
    (void)state;
    struct broker_rig r;
    struct span q = SPAN_LITERAL("q");
    struct op_claim want = {.queues = &q, .queue_count = 1, .count = 1};
    broker_rig_init(&r, "memory:");
    struct pair pairs[2] = {{.broker = r.broker}, {.broker = r.broker}};
    struct broker_claim *claims[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(broker_claim(r.broker, &want, BROKER_WAIT_FOREVER, cancel_other_cb,
                                      &pairs[i], &claims[i]),
                         0);
    broker_rig_turns(&r, 5);
    pairs[0].other = claims[1];
    pairs[1].other = claims[0];
    broker_drain(r.broker);
    assert_int_equal(pairs[0].times + pairs[1].times, 1);
    broker_rig_done(&r);
}

/* PDQ-5: enqueue while draining is refused; what waits is answered; what drains goes on. */
static void test_draining(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    do_enqueue(&r, "q", "1");
    do_enqueue(&r, "q", "2");
    struct told held = do_claim_now(&r, "q");
    struct told parked = {0};
    do_claim_wait(&r, "other", 60000, &parked);
    broker_rig_turns(&r, 10);
    broker_drain(r.broker);
    assert_true(parked.yes);
    assert_int_equal(parked.job_count, 0);
    struct op op = do_enqueue_op("q", "3");
    assert_int_equal(do_op(&r, &op).outcome, OUT_UNAVAILABLE);
    assert_int_equal(do_ack(&r, held.held[0]).outcome, OUT_OK);
    struct told t = {0};
    do_claim_wait(&r, "q", 60000, &t);
    broker_rig_until(&r, &t.yes);
    assert_int_equal(t.job_count, 1);
    broker_rig_done(&r);
}

/* An unknown claim is given back by its nonce until the backend says that it was. */
static void test_an_unknown_claim_is_given_back(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_loop(&r);
    bool gone = false;
    struct fake_backend *fake = fake_new(&r.loop, &gone);
    broker_rig_init_with(&r, &fake->base);
    fake->outcome = OUT_UNKNOWN;
    struct told t = do_claim_now(&r, "q");
    assert_int_equal(t.outcome, OUT_UNAVAILABLE);
    uint64_t nonce = fake->seen[0].claim.nonce;
    assert_true(nonce != 0);
    while (fake_count(fake, OP_RELEASE_CLAIM) < 3)
        uv_run(&r.loop, UV_RUN_ONCE);
    for (size_t i = 1; i < fake->count; i++)
        assert_int_equal(fake->seen[i].release_claim.nonce, nonce);
    fake->outcome = OUT_OK;
    broker_rig_done(&r); /* ends only when it was answered */
}

/* ---- many at once ---- */

struct consumer {
    struct storm *storm;
    struct broker_claim *claim; /* NULL: not asking */
    struct told told;
};

struct storm {
    struct broker_rig r;
    struct random random;
    struct consumer consumers[24];
    unsigned enqueued, acked, enqueue_answers, acks_out;
};

static void ask(struct consumer *c);

static void acked_cb(void *ctx, const struct reply *reply)
{
    struct storm *s = ctx;
    s->acks_out--;
    if (reply->outcome == OUT_OK && !reply->repeat)
        s->acked++;
}

static void claimed_cb(void *ctx, const struct reply *reply)
{
    struct consumer *c = ctx;
    struct storm *s = c->storm;
    c->claim = NULL;
    for (uint32_t i = 0; i < reply->job_count; i++) {
        struct op op = {
            .kind = OP_ACK,
            .lease = {.job = {.seq = reply->jobs[i].job.seq}, .token = reply->jobs[i].token}};
        assert_int_equal(broker_submit(s->r.broker, &op, 1, acked_cb, s), 0);
        s->acks_out++;
    }
}

static void ask(struct consumer *c)
{
    struct storm *s = c->storm;
    struct span names[2] = {SPAN_LITERAL("a"), SPAN_LITERAL("b")};
    size_t from = (size_t)random_below(&s->random, 2);
    struct op_claim want = {.queues = names + from,
                            .queue_count = from ? 1 : 1 + (uint32_t)random_below(&s->random, 2),
                            .count = 1 + (uint32_t)random_below(&s->random, 3),
                            .lease_ms = 3600000};
    assert_int_equal(broker_claim(s->r.broker, &want, 60000, claimed_cb, c, &c->claim), 0);
}

static void enqueued_cb(void *ctx, const struct reply *reply)
{
    struct storm *s = ctx;
    s->enqueue_answers++;
    if (reply->outcome == OUT_OK)
        s->enqueued++;
}

static void storm_turn(struct storm *s)
{
    struct op op = do_enqueue_op(random_chance(&s->random, 50) ? "a" : "b", "1");
    for (uint64_t n = random_below(&s->random, 4); n > 0; n--)
        assert_int_equal(broker_submit(s->r.broker, &op, 1, enqueued_cb, s), 0);
    struct consumer *c = &s->consumers[random_below(&s->random, 24)];
    if (!c->claim) {
        ask(c);
    } else if (random_chance(&s->random, 40)) {
        broker_claim_cancel(s->r.broker, c->claim);
        c->claim = NULL;
    }
    broker_rig_turns(&s->r, (unsigned)random_below(&s->random, 3));
}

/* Whatever is enqueued reaches somebody, with clients that come and go all the time. */
static void storm_run(const char *url, uint64_t seed)
{
    static struct storm s;
    s = (struct storm){0};
    broker_rig_init(&s.r, url);
    random_seed(&s.random, seed);
    for (int i = 0; i < 24; i++)
        s.consumers[i].storm = &s;
    for (int i = 0; i < 3000; i++)
        storm_turn(&s);
    /* Everyone asks until all is done: a lost wake-up would leave a job and parked claims. */
    for (unsigned turns = 0; turns < 200000; turns++) {
        for (int i = 0; i < 24; i++)
            if (!s.consumers[i].claim)
                ask(&s.consumers[i]);
        broker_rig_turns(&s.r, 1);
        struct op stats = {.kind = OP_QUEUE_GET, .queue = {.name = SPAN_LITERAL("a")}};
        struct told a = do_op(&s.r, &stats);
        stats.queue.name = SPAN_LITERAL("b");
        struct told b = do_op(&s.r, &stats);
        if (a.outcome == OUT_OK && b.outcome == OUT_OK && s.acks_out == 0 &&
            a.by_state[STATE_READY] + b.by_state[STATE_READY] == 0)
            break;
        if (turns == 199999)
            fail_msg("seed %llu: %llu and %llu jobs are ready and no claim gets them",
                     (unsigned long long)seed, (unsigned long long)a.by_state[STATE_READY],
                     (unsigned long long)b.by_state[STATE_READY]);
    }
    assert_true(s.acked > 1000);
    broker_rig_done(&s.r);
}

static void test_storm(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        storm_run("memory:", seed);
}

static void test_storm_over_faults(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        storm_run("fault+memory:", seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_turn_is_one_batch),
        cmocka_unit_test(test_empty_answers_at_once_without_waiting),
        cmocka_unit_test(test_waiters_are_served_in_order),
        cmocka_unit_test(test_one_batch_feeds_all_who_wait),
        cmocka_unit_test(test_a_batch_reaches_a_crowd_in_few_turns),
        cmocka_unit_test(test_no_memory_delays_a_wake_up),
        cmocka_unit_test(test_a_clock_that_cannot_be_moved_stands_still),
        cmocka_unit_test(test_a_newcomer_does_not_overtake),
        cmocka_unit_test(test_those_who_come_together_are_asked_together),
        cmocka_unit_test(test_the_wait_runs_out),
        cmocka_unit_test(test_a_cancelled_claim_keeps_nothing),
        cmocka_unit_test(test_a_claim_that_ends_its_wait_takes_what_is_there),
        cmocka_unit_test(test_several_queues),
        cmocka_unit_test(test_a_scheduled_job_wakes_when_due),
        cmocka_unit_test(test_one_that_drains_cancels_another),
        cmocka_unit_test(test_draining),
        cmocka_unit_test(test_an_unknown_claim_is_given_back),
        cmocka_unit_test(test_storm),
        cmocka_unit_test(test_storm_over_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
