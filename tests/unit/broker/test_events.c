/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners hear what happened, in order and once; figures and workers add up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/backend/fake_backend.h"
#include "unit/broker/broker_rig.h"

struct heard {
    uint64_t ids[20000];
    uint8_t kinds[20000];
    char correlation[64], schedule[64];
    size_t count, gaps, room; /* room 0 = takes no more */
    bool ended;
};

static bool event_cb(void *ctx, const struct broker_event *e)
{
    struct heard *h = ctx;
    if (h->room == 0)
        return false;
    h->room--;
    if (h->count > 0)
        assert_true(e->event.id > h->ids[h->count - 1]);
    h->ids[h->count] = e->event.id;
    h->kinds[h->count++] = (uint8_t)e->event.kind;
    if (e->correlation.len)
        snprintf(h->correlation, sizeof h->correlation, "%.*s", (int)e->correlation.len,
                 e->correlation.at);
    if (e->event.schedule.len)
        snprintf(h->schedule, sizeof h->schedule, "%.*s", (int)e->event.schedule.len,
                 e->event.schedule.at);
    return true;
}

static bool gap_cb(void *ctx, uint64_t oldest)
{
    struct heard *h = ctx;
    assert_true(oldest > 0);
    h->gaps++;
    assert_true(h->gaps < 10);
    return true;
}

static void ended_cb(void *ctx)
{
    ((struct heard *)ctx)->ended = true;
}

static struct broker_listener *listen_to(struct broker_rig *r, struct heard *h, const char *queue,
                                         uint64_t kinds, const uint64_t *after)
{
    struct broker_listener_config config = {
        .queue = span_text(queue),
        .kinds = kinds,
        .resume = after != NULL,
        .after = after ? *after : 0,
        .event = event_cb,
        .gap = gap_cb,
        .ended = ended_cb,
        .ctx = h,
    };
    struct broker_listener *l = NULL;
    assert_int_equal(broker_listen(r->broker, &config, &l), 0);
    return l;
}

static struct heard h1, h2;

static void setup(struct broker_rig *r)
{
    h1 = (struct heard){.room = SIZE_MAX};
    h2 = (struct heard){.room = SIZE_MAX};
    broker_rig_init(r, "memory:");
}

static void one_life(struct broker_rig *r, const char *queue)
{
    do_enqueue(r, queue, "1");
    struct told t = do_claim_now(r, queue);
    assert_int_equal(do_ack(r, t.held[0]).outcome, OUT_OK);
}

/* A job of the queue "q" was enqueued, claimed and acked while h1 listened. */
static struct broker_listener *one_life_heard(struct broker_rig *r)
{
    setup(r);
    struct broker_listener *l = listen_to(r, &h1, NULL, 0, NULL);
    one_life(r, "q");
    broker_rig_turns(r, 20);
    return l;
}

static void test_a_life_is_heard(void **state)
{
    (void)state;
    struct broker_rig r;
    struct broker_listener *l = one_life_heard(&r);
    const uint8_t kinds[] = {EVENT_QUEUE_CREATED, EVENT_ENQUEUED, EVENT_CLAIMED, EVENT_DONE};
    assert_int_equal(h1.count, sizeof kinds);
    assert_memory_equal(h1.kinds, kinds, sizeof kinds);
    broker_listener_close(l);
    broker_rig_done(&r);
}

static void test_filters(void **state)
{
    (void)state;
    struct broker_rig r;
    setup(&r);
    struct broker_listener *a = listen_to(&r, &h1, "a", 0, NULL);
    struct broker_listener *done = listen_to(&r, &h2, NULL, UINT64_C(1) << EVENT_DONE, NULL);
    one_life(&r, "a");
    one_life(&r, "b");
    broker_rig_turns(&r, 20);
    assert_int_equal(h1.count, 4);
    assert_int_equal(h2.count, 2);
    broker_listener_close(a);
    broker_listener_close(done);
    broker_rig_done(&r);
}

static void test_resume(void **state)
{
    (void)state;
    struct broker_rig r;
    struct broker_listener *l = one_life_heard(&r);
    broker_listener_close(l);
    one_life(&r, "q");
    struct broker_listener *again = listen_to(&r, &h2, NULL, 0, &h1.ids[h1.count - 1]);
    broker_rig_turns(&r, 20);
    assert_int_equal(h2.gaps, 0);
    assert_int_equal(h2.count, 3);
    assert_true(h2.ids[0] > h1.ids[h1.count - 1]);
    broker_listener_close(again);
    broker_rig_done(&r);
}

static void test_a_gap_is_told(void **state)
{
    (void)state;
    struct broker_rig r;
    struct broker_listener *l = one_life_heard(&r);
    broker_listener_close(l);
    struct op ops[100];
    for (int i = 0; i < 100; i++)
        ops[i] = do_enqueue_op("q", "1");
    for (int i = 0; i < 200; i++) { /* more than are kept */
        struct told t = {0};
        assert_int_equal(broker_submit(r.broker, ops, 100, told_cb, &t), 0);
        while (t.times < 100)
            broker_rig_turns(&r, 1);
    }
    struct broker_listener *again = listen_to(&r, &h2, NULL, 0, &h1.ids[0]);
    broker_rig_turns(&r, 2000);
    assert_int_equal(h2.gaps, 1);
    assert_true(h2.count > 10000 && h2.count < 20000);
    broker_listener_close(again);
    broker_rig_done(&r);
}

static void test_a_slow_client_misses_nothing(void **state)
{
    (void)state;
    struct broker_rig r;
    setup(&r);
    h1.room = 2;
    struct broker_listener *l = listen_to(&r, &h1, NULL, 0, NULL);
    for (int i = 0; i < 50; i++)
        one_life(&r, "q");
    broker_rig_turns(&r, 20);
    assert_int_equal(h1.count, 2);
    for (int i = 0; i < 200 && h1.count < 151; i++) {
        h1.room = 7;
        broker_listener_resume(l);
        broker_rig_turns(&r, 5);
    }
    assert_int_equal(h1.count, 151);
    assert_int_equal(h1.gaps, 0);
    broker_listener_close(l);
    broker_rig_done(&r);
}

/* What waits for a client with room is the listener's own, whatever goes meanwhile. */
static void test_a_schedule_that_goes_has_its_name(void **state)
{
    (void)state;
    struct broker_rig r;
    setup(&r);
    h1.room = 0;
    struct broker_listener *l = listen_to(&r, &h1, NULL, UINT64_C(1) << EVENT_SCHEDULE_FIRED, NULL);
    struct schedule_spec spec;
    schedule_default(&spec, SCHEDULE_CRON);
    spec.cron = SPAN_LITERAL("0 0 1 1 *");
    spec.queue = SPAN_LITERAL("q");
    struct op op = {
        .kind = OP_SCHEDULE_PUT,
        .schedule = {.name = SPAN_LITERAL("yearly"), .spec = &spec, .next_at = {LIMIT_WALL_MS}}};
    assert_int_equal(do_op(&r, &op).outcome, OUT_OK);
    op.kind = OP_FIRE;
    op.schedule = (struct op_schedule){.name = SPAN_LITERAL("yearly"), .now = true};
    assert_int_equal(do_op(&r, &op).outcome, OUT_OK);
    broker_rig_turns(&r, 20);
    op.kind = OP_SCHEDULE_DELETE;
    assert_int_equal(do_op(&r, &op).outcome, OUT_OK);
    h1.room = 1;
    broker_listener_resume(l);
    assert_int_equal(h1.count, 1);
    assert_string_equal(h1.schedule, "yearly");
    broker_listener_close(l);
    broker_rig_done(&r);
}

/* A disk that stands still while the ring goes round: all that is durable is lost, all that is kept
 * is not durable. Who looks then must neither loop nor be told twice. */
static void test_nothing_durable_is_left(void **state)
{
    (void)state;
    struct broker_rig r;
    bool gone = false;
    broker_rig_loop(&r);
    struct fake_backend *fake = fake_new(&r.loop, &gone);
    broker_rig_init_with(&r, &fake->base);
    memset(&h1, 0, sizeof h1);
    memset(&h2, 0, sizeof h2);
    h1.room = h2.room = 100;
    fake->events_last = 5;
    struct broker_listener *early = listen_to(&r, &h1, NULL, 0, NULL);
    broker_rig_turns(&r, 5);
    fake->events_oldest = 10;
    struct broker_listener *late = listen_to(&r, &h2, NULL, 0, NULL);
    broker_rig_turns(&r, 5);
    assert_int_equal(h1.gaps + h2.gaps + h1.count + h2.count, 0);
    fake->events_last = 12;
    fake->news_fn(fake->news_ctx);
    assert_int_equal(h1.gaps, 1);
    assert_int_equal(h2.gaps, 1);
    assert_int_equal(h1.count, 3);
    assert_int_equal(h2.ids[0], 10);
    broker_listener_close(early);
    broker_listener_close(late);
    broker_rig_done(&r);
}

/* PDQ-11: the correlation id travels into the events. */
static void test_correlation(void **state)
{
    (void)state;
    struct broker_rig r;
    setup(&r);
    struct broker_listener *l = listen_to(&r, &h1, NULL, UINT64_C(1) << EVENT_CLAIMED, NULL);
    struct op op = do_enqueue_op("q", "1");
    op.enqueue.extra.correlation = SPAN_LITERAL("order-66");
    do_op(&r, &op);
    do_claim_now(&r, "q");
    broker_rig_turns(&r, 20);
    assert_int_equal(h1.count, 1);
    assert_string_equal(h1.correlation, "order-66");
    broker_listener_close(l);
    broker_rig_done(&r);
}

static void test_closing_with_texts_under_way(void **state)
{
    (void)state;
    struct broker_rig r;
    setup(&r);
    struct broker_listener *l = listen_to(&r, &h1, NULL, 0, NULL);
    struct op op = do_enqueue_op("q", "1");
    op.enqueue.extra.correlation = SPAN_LITERAL("x");
    do_op(&r, &op);
    broker_listener_close(l);
    broker_rig_turns(&r, 10);
    struct broker_listener *other = listen_to(&r, &h2, NULL, 0, NULL);
    broker_drain(r.broker);
    assert_true(h2.ended);
    broker_listener_close(other);
    broker_rig_done(&r);
}

static void workers_cb(void *ctx, const struct broker_worker *workers, size_t count, int error)
{
    bool *told = ctx;
    assert_int_equal(error, 0);
    assert_int_equal(count, 2);
    assert_memory_equal(workers[0].name.at, "ann", 3);
    assert_int_equal(workers[0].running, 1);
    assert_int_equal(workers[0].claimed, 1);
    assert_int_equal(workers[0].state, WORKER_SILENT);
    assert_memory_equal(workers[1].name.at, "bob", 3);
    assert_int_equal(workers[1].running, 0);
    assert_int_equal(workers[1].done, 1);
    assert_int_equal(workers[1].state, WORKER_ACTIVE);
    *told = true;
}

static struct told claim_as(struct broker_rig *r, const char *worker)
{
    struct span name = SPAN_LITERAL("q");
    struct op_claim want = {.queues = &name,
                            .queue_count = 1,
                            .count = 1,
                            .lease_ms = 3600000,
                            .worker = span_text(worker)};
    struct told t = {0};
    struct broker_claim *c;
    assert_int_equal(broker_claim(r->broker, &want, 0, told_cb, &t, &c), 0);
    broker_rig_until(r, &t.yes);
    assert_string_equal(t.worker, worker);
    return t;
}

static void one_worker_cb(void *ctx, const struct broker_worker *workers, size_t count, int error)
{
    assert_int_equal(error, 0);
    assert_int_equal(count, 1);
    assert_int_equal(workers[0].running, 1);
    *(struct broker_worker *)ctx = workers[0];
}

static struct broker_worker the_worker(struct broker_rig *r)
{
    struct broker_worker w = {0};
    assert_int_equal(broker_workers(r->broker, one_worker_cb, &w), 0);
    while (w.running == 0)
        broker_rig_turns(r, 1);
    return w;
}

static void closed_cb(void *ctx)
{
    *(bool *)ctx = true;
}

/* A new broker on a store with claimed jobs: no worker counts as silent because of requests that
 * this broker did not see. */
static void test_silence_counts_from_the_start(void **state)
{
    (void)state;
    struct broker_rig r;
    bool closed = false;
    setup(&r);
    do_enqueue(&r, "q", "1");
    claim_as(&r, "ann");
    broker_close(r.broker, closed_cb, &closed);
    broker_rig_until(&r, &closed);
    broker_rig_init_with(&r, r.backend);
    struct broker_worker w = the_worker(&r);
    assert_int_equal(w.state, WORKER_ACTIVE);
    assert_true(w.last_seen.ms == 0);
    broker_rig_advance(&r, 60001);
    assert_int_equal(the_worker(&r).state, WORKER_SILENT);
    broker_rig_done(&r);
}

static void test_workers_and_figures(void **state)
{
    (void)state;
    struct broker_rig r;
    setup(&r);
    do_enqueue(&r, "q", "1");
    do_enqueue(&r, "q", "2");
    broker_rig_advance(&r, 500);
    claim_as(&r, "ann");
    broker_rig_advance(&r, 61000);
    struct told t = claim_as(&r, "bob");
    assert_int_equal(t.waited_ms, 61500);
    broker_rig_advance(&r, 250);
    struct told acked = do_ack(&r, t.held[0]);
    assert_int_equal(acked.ran_ms, 250);
    bool told = false;
    assert_int_equal(broker_workers(r.broker, workers_cb, &told), 0);
    broker_rig_until(&r, &told);
    struct broker_queue_figures f;
    assert_true(broker_queue_figures_of(r.broker, SPAN_LITERAL("q"), &f));
    assert_int_equal(f.enqueued, 2);
    assert_int_equal(f.dequeued, 2);
    assert_int_equal(f.acked, 1);
    assert_int_equal(f.waited_us.count, 2);
    assert_int_equal(f.waited_us.sum, 500 * 1000 + 61500 * 1000);
    assert_int_equal(f.ran_us.sum, 250 * 1000);
    assert_false(broker_queue_figures_of(r.broker, SPAN_LITERAL("other"), &f));
    broker_rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_life_is_heard),
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_a_gap_is_told),
        cmocka_unit_test(test_a_slow_client_misses_nothing),
        cmocka_unit_test(test_a_schedule_that_goes_has_its_name),
        cmocka_unit_test(test_nothing_durable_is_left),
        cmocka_unit_test(test_correlation),
        cmocka_unit_test(test_closing_with_texts_under_way),
        cmocka_unit_test(test_silence_counts_from_the_start),
        cmocka_unit_test(test_workers_and_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
