/* SPDX-License-Identifier: Apache-2.0 */
/* Streams hold no more than their prefetch, and give back what their connection held. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/broker/broker_rig.h"

struct taker {
    struct broker_held held[64];
    unsigned count, refused;
    unsigned room; /* jobs it takes at most; 0 = any number */
    bool full;     /* takes no more */
    bool ended;
};

static bool job_cb(void *ctx, const struct job_view *job)
{
    struct taker *t = ctx;
    assert_true(job->has_body);
    if (t->full || (t->room > 0 && t->count == t->room)) {
        t->refused++;
        return false;
    }
    t->held[t->count++] = (struct broker_held){job->job.seq, job->token};
    return true;
}

static void ended_cb(void *ctx)
{
    ((struct taker *)ctx)->ended = true;
}

static struct broker_stream *open_stream(struct broker_rig *r, struct taker *t, uint32_t prefetch)
{
    struct broker_stream_config config = {
        .queue = SPAN_LITERAL("q"),
        .worker = SPAN_LITERAL("s1"),
        .lease_ms = 10000,
        .prefetch = prefetch,
        .job = job_cb,
        .ended = ended_cb,
        .ctx = t,
    };
    struct broker_stream *s = NULL;
    assert_int_equal(broker_stream_open(r->broker, &config, &s), 0);
    return s;
}

static void test_prefetch_and_ack(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    for (int i = 0; i < 5; i++)
        do_enqueue(&r, "q", "1");
    struct taker t = {0};
    struct broker_stream *s = open_stream(&r, &t, 2);
    broker_rig_turns(&r, 30);
    assert_int_equal(t.count, 2);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(do_ack(&r, t.held[i]).outcome, OUT_OK);
        broker_rig_turns(&r, 20);
        assert_int_equal(t.count, i + 3 > 5 ? 5 : i + 3);
    }
    do_enqueue(&r, "q", "later");
    broker_rig_turns(&r, 20);
    assert_int_equal(t.count, 6);
    broker_stream_close(s, false);
    broker_rig_done(&r);
}

static void test_a_lost_connection_counts_as_a_crash(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    struct told job = do_enqueue(&r, "q", "1");
    struct taker t = {0};
    struct broker_stream *s = open_stream(&r, &t, 10);
    broker_rig_turns(&r, 20);
    assert_int_equal(t.count, 1);
    broker_stream_close(s, true);
    broker_rig_turns(&r, 20);
    struct told seen = do_get(&r, job.seq);
    assert_int_equal(seen.job.state, STATE_READY);
    assert_int_equal(seen.job.crashes, 1);
    broker_rig_done(&r);
}

static void test_a_lease_that_ran_out_frees_its_place(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    struct told job = do_enqueue(&r, "q", "1");
    struct taker t = {0};
    struct broker_stream *s = open_stream(&r, &t, 1);
    broker_rig_turns(&r, 20);
    assert_int_equal(t.count, 1);
    broker_rig_advance(&r, 10001);
    broker_rig_turns(&r, 50);
    /* It is the only job and the only consumer: handed out again, under a newer token. */
    assert_int_equal(t.count, 2);
    assert_int_equal(t.held[1].seq, job.seq);
    assert_int_equal(do_ack(&r, t.held[0]).outcome, OUT_LEASE_LOST);
    assert_int_equal(do_ack(&r, t.held[1]).outcome, OUT_OK);
    do_enqueue(&r, "q", "2");
    broker_rig_turns(&r, 20);
    assert_int_equal(t.count, 3);
    broker_stream_close(s, false);
    broker_rig_done(&r);
}

/* The other stream has the job before the first one's check of its leases is answered. */
static void test_a_lease_that_moved_to_another_stream(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    struct told job = do_enqueue(&r, "q", "1");
    struct taker a = {0}, b = {0};
    struct broker_stream *first = open_stream(&r, &a, 1);
    broker_rig_turns(&r, 20);
    struct broker_stream *second = open_stream(&r, &b, 1);
    broker_rig_turns(&r, 20);
    assert_int_equal(a.count, 1);
    broker_rig_advance(&r, 10001);
    broker_rig_turns(&r, 50);
    assert_int_equal(b.count, 1);
    assert_int_equal(b.held[0].seq, job.seq);
    struct told other = do_enqueue(&r, "q", "2");
    broker_rig_turns(&r, 20);
    assert_int_equal(a.count, 2); /* its place is free, the second's is not */
    assert_int_equal(a.held[1].seq, other.seq);
    do_enqueue(&r, "q", "3");
    broker_rig_turns(&r, 20);
    assert_int_equal(a.count + b.count, 3);
    assert_int_equal(do_ack(&r, b.held[0]).outcome, OUT_OK);
    broker_rig_turns(&r, 20);
    assert_int_equal(b.count, 2);
    broker_stream_close(first, true);
    broker_stream_close(second, true);
    broker_rig_turns(&r, 20);
    assert_int_equal(do_get(&r, other.seq).job.crashes, 1);
    assert_int_equal(do_get(&r, b.held[1].seq).job.crashes, 1);
    broker_rig_done(&r);
}

static void test_a_full_client_gets_nothing(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    struct taker t = {.full = true};
    struct broker_stream *s = open_stream(&r, &t, 4);
    struct told job = do_enqueue(&r, "q", "1");
    broker_rig_turns(&r, 50);
    assert_int_equal(t.refused, 1);
    struct told seen = do_get(&r, job.seq);
    assert_int_equal(seen.job.state, STATE_READY);
    assert_int_equal(seen.job.crashes + seen.job.failures, 0);
    t.full = false;
    broker_stream_resume(s);
    broker_rig_turns(&r, 20);
    assert_int_equal(t.count, 1);
    broker_stream_close(s, false);
    broker_rig_done(&r);
}

/* Claimed and given back for nothing: the first handful, then about one for each that it takes. */
static void test_a_slow_client_is_asked_for_what_it_takes(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    for (int i = 0; i < 60; i++)
        do_enqueue(&r, "q", "1");
    struct taker t = {.room = 1};
    struct broker_stream *s = open_stream(&r, &t, 60);
    for (; t.room <= 40; t.room++) {
        broker_stream_resume(s);
        broker_rig_turns(&r, 20);
        assert_int_equal(t.count, t.room);
    }
    assert_in_range(t.refused, 1, 60);
    broker_stream_close(s, false);
    broker_rig_done(&r);
}

static void test_drain_ends_streams_uncounted(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    struct told job = do_enqueue(&r, "q", "1");
    struct taker t = {0};
    struct broker_stream *s = open_stream(&r, &t, 4);
    broker_rig_turns(&r, 20);
    broker_drain(r.broker);
    assert_true(t.ended);
    broker_stream_close(s, false);
    broker_rig_turns(&r, 20);
    struct told seen = do_get(&r, job.seq);
    assert_int_equal(seen.job.state, STATE_READY);
    assert_int_equal(seen.job.crashes, 0);
    broker_rig_done(&r);
}

static void test_deleting_the_queue_frees_the_places(void **state)
{
    (void)state;
    struct broker_rig r;
    broker_rig_init(&r, "memory:");
    do_enqueue(&r, "q", "1");
    struct taker t = {0};
    struct broker_stream *s = open_stream(&r, &t, 1);
    broker_rig_turns(&r, 20);
    assert_int_equal(t.count, 1);
    struct op op = {.kind = OP_QUEUE_DELETE, .queue = {.name = SPAN_LITERAL("q")}};
    assert_int_equal(do_op(&r, &op).outcome, OUT_OK);
    broker_rig_turns(&r, 20);
    do_enqueue(&r, "q", "2");
    broker_rig_turns(&r, 50);
    assert_int_equal(t.count, 2);
    broker_stream_close(s, false);
    broker_rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefetch_and_ack),
        cmocka_unit_test(test_a_lost_connection_counts_as_a_crash),
        cmocka_unit_test(test_a_lease_that_ran_out_frees_its_place),
        cmocka_unit_test(test_a_lease_that_moved_to_another_stream),
        cmocka_unit_test(test_a_full_client_gets_nothing),
        cmocka_unit_test(test_a_slow_client_is_asked_for_what_it_takes),
        cmocka_unit_test(test_drain_ends_streams_uncounted),
        cmocka_unit_test(test_deleting_the_queue_frees_the_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
