/* SPDX-License-Identifier: Apache-2.0 */
/* The fault wrapper fulfils the contract of backend.h: one reply for each op, never inside submit,
 * effects in order, nothing lost on close. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "unit/backend/wrapper_rig.h"
#include "wrappers/fault.h"

static struct rig rig;

static void open_fault(const struct fault_config *config)
{
    rig_init(&rig);
    assert_int_equal(backend_open_fault(&rig.fake->base, &rig.config, config, &rig.b), 0);
}

static void end(void)
{
    rig_close(&rig);
    rig_done(&rig);
    for (size_t i = 0; i < rig.op_count; i++)
        assert_int_equal(rig.answers[i], 1);
    assert_int_equal(rig.order_count, rig.op_count);
    assert_true(rig.texts_ok);
}

static void submit_some(size_t batches, size_t size, struct op op)
{
    struct op ops[16];
    assert_true(size <= 16);
    for (size_t i = 0; i < size; i++)
        ops[i] = op;
    for (size_t i = 0; i < batches; i++)
        assert_int_equal(rig_submit(&rig, ops, size), 0);
}

static bool order_kept(void)
{
    for (size_t i = 1; i < rig.order_count; i++) {
        if (rig.order[i] < rig.order[i - 1])
            return false;
    }
    return true;
}

static void test_transparent(void **state)
{
    (void)state;
    open_fault(&(struct fault_config){.seed = 1});
    assert_string_equal(backend_kind(rig.b), "fault+fake");
    assert_int_equal(backend_caps(rig.b), CAP_STRICT_ORDER | CAP_SHARED);
    submit_some(3, 4, rig_claim());
    struct backend_figures figures;
    backend_figures(rig.b, &figures);
    assert_int_equal(figures.jobs, 12);
    rig_drain(&rig);
    assert_true(order_kept());
    assert_int_equal(rig.fake->count, 12);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(rig.outcomes[i], OUT_OK);
    end();
}

static void test_late_keeps_order_unless_told(void **state)
{
    (void)state;
    open_fault(&(struct fault_config){.seed = 3, .late_percent = 50, .late_turns = 5});
    for (int i = 0; i < 20; i++) {
        submit_some(1, 3, i % 2 ? rig_claim() : (struct op){.kind = OP_QUEUE_GET});
        rig_turn(&rig, 1);
    }
    assert_true(rig.order_count < rig.op_count); /* some are held */
    rig_drain(&rig);
    assert_true(order_kept());
    end();
}

static void test_late_is_bounded(void **state)
{
    (void)state;
    open_fault(&(struct fault_config){.seed = 5, .late_percent = 100, .late_turns = 4});
    submit_some(1, 16, rig_claim());
    rig_turn(&rig, 1); /* the fake replies in the first iteration */
    assert_int_equal(rig.order_count, 0);
    rig_turn(&rig, 4);
    assert_int_equal(rig.order_count, 16);
    end();
}

static void test_reordered_across_batches(void **state)
{
    (void)state;
    open_fault(&(struct fault_config){
        .seed = 4, .late_percent = 50, .late_turns = 8, .reorder_percent = 50});
    for (int i = 0; i < 30; i++) {
        submit_some(1, 3, rig_claim());
        rig_turn(&rig, 1);
    }
    rig_drain(&rig);
    assert_false(order_kept());
    for (size_t i = 0; i < rig.fake->count; i++) /* the ops were not reordered */
        assert_int_equal(rig.fake->seen[i].tag >> 2, i % 3);
    end();
}

static void test_dropped_denied_lost(void **state)
{
    (void)state;
    open_fault(&(struct fault_config){.seed = 1, .unknown_undone_percent = 100});
    submit_some(1, 2, rig_ack(5));
    rig_drain(&rig);
    assert_int_equal(rig.fake->count, 0);
    assert_int_equal(rig.outcomes[1], OUT_UNKNOWN);
    end();

    open_fault(&(struct fault_config){.seed = 1, .unavailable_percent = 100});
    submit_some(1, 2, rig_ack(5));
    rig_drain(&rig);
    assert_int_equal(rig.fake->count, 0);
    assert_int_equal(rig.outcomes[1], OUT_UNAVAILABLE);
    end();

    open_fault(&(struct fault_config){.seed = 1, .unknown_done_percent = 100});
    submit_some(1, 2, rig_ack(5));
    rig_drain(&rig);
    assert_int_equal(fake_count(rig.fake, OP_ACK), 2);
    assert_int_equal(rig.outcomes[1], OUT_UNKNOWN);
    end();
}

static void test_a_query_is_never_unknown(void **state)
{
    (void)state;
    open_fault(&(struct fault_config){
        .seed = 1, .unknown_done_percent = 100, .unknown_undone_percent = 100});
    static const enum op_kind queries[] = {OP_GET,        OP_PEEK,       OP_LIST,   OP_QUEUE_GET,
                                           OP_QUEUE_LIST, OP_EXCEPTIONS, OP_WORKERS};
    for (size_t i = 0; i < 7; i++)
        submit_some(1, 1, (struct op){.kind = queries[i]});
    rig_drain(&rig);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(rig.outcomes[i], OUT_OK);
    end();
}

static void test_same_seed_same_faults(void **state)
{
    (void)state;
    static size_t order[2][300];
    static enum outcome outcomes[2][300];
    for (int run = 0; run < 2; run++) {
        open_fault(&(struct fault_config){.seed = 99,
                                          .late_percent = 40,
                                          .late_turns = 3,
                                          .reorder_percent = 50,
                                          .unknown_done_percent = 10,
                                          .unknown_undone_percent = 10,
                                          .unavailable_percent = 10,
                                          .meddle_percent = 30});
        for (int i = 0; i < 100; i++) {
            submit_some(1, 3, i % 3 ? rig_claim() : rig_ack(1));
            rig_turn(&rig, 1);
        }
        rig_drain(&rig);
        memcpy(order[run], rig.order, sizeof order[run]);
        memcpy(outcomes[run], rig.outcomes, sizeof outcomes[run]);
        end();
    }
    assert_memory_equal(order[0], order[1], sizeof order[0]);
    assert_memory_equal(outcomes[0], outcomes[1], sizeof outcomes[0]);
}

static void open_meddling(unsigned kinds)
{
    open_fault(&(struct fault_config){.seed = 1, .meddle_percent = 100, .meddling = kinds});
}

static void test_meddle_touch(void **state)
{
    (void)state;
    open_meddling(MEDDLE_TOUCH);
    submit_some(1, 1, rig_claim());
    assert_int_equal(rig.fake->count, 3);
    const struct op *seen = rig.fake->seen;
    assert_int_equal(seen[0].kind, OP_CLAIM);
    assert_int_equal(seen[0].claim.count, 1);
    assert_int_equal(seen[1].kind, OP_RELEASE_CLAIM);
    assert_true(seen[0].claim.nonce == seen[1].release_claim.nonce);
    assert_true(seen[0].claim.nonce != 0);
    assert_int_equal(seen[2].kind, OP_CLAIM);
    assert_true(seen[2].claim.nonce == 0);
    submit_some(1, 1, rig_get(1)); /* no interference applies to a query */
    assert_int_equal(rig.fake->count, 4);
    end();
}

static void test_meddle_hold(void **state)
{
    (void)state;
    open_meddling(MEDDLE_HOLD);
    rig.fake->manual = true;
    submit_some(1, 1, rig_claim());
    assert_int_equal(fake_count(rig.fake, OP_CLAIM), 2);
    fake_answer(rig.fake, 1); /* the caller's, first: the other node still holds its job */
    fake_answer(rig.fake, 0);
    assert_int_equal(rig.order_count, 0);
    assert_int_equal(rig.fake->count, 3);
    const struct op *release = &rig.fake->seen[2];
    assert_int_equal(release->kind, OP_RELEASE);
    assert_true(release->lease.token.counter == 2 && release->lease.job.seq == 102);
    fake_answer(rig.fake, 2);
    assert_int_equal(rig.order_count, 1);
    end();
}

static void test_meddle_hold_finds_nothing(void **state)
{
    (void)state;
    open_meddling(MEDDLE_HOLD);
    rig.fake->outcome = OUT_UNAVAILABLE;
    submit_some(1, 1, rig_claim());
    rig_drain(&rig);
    assert_int_equal(rig.fake->count, 2);
    end();
}

static void test_meddle_twice(void **state)
{
    (void)state;
    open_meddling(MEDDLE_TWICE);
    submit_some(1, 1, rig_ack(9));
    assert_int_equal(fake_count(rig.fake, OP_ACK), 2);
    struct op by_id = rig_ack(9);
    by_id.lease.any_token = true;
    submit_some(1, 1, by_id);
    assert_int_equal(fake_count(rig.fake, OP_ACK), 3);
    submit_some(1, 1, (struct op){.kind = OP_ENQUEUE});
    assert_int_equal(fake_count(rig.fake, OP_ENQUEUE), 1);
    struct op keyed = {.kind = OP_ENQUEUE, .enqueue = {.idempotency_key = SPAN_LITERAL("k")}};
    submit_some(1, 1, keyed);
    assert_int_equal(fake_count(rig.fake, OP_ENQUEUE), 3);
    rig_drain(&rig);
    end();
}

static void test_meddle_cancel_only_when_asked_for(void **state)
{
    (void)state;
    open_meddling(MEDDLE_CANCEL);
    submit_some(1, 1, rig_ack(9));
    assert_int_equal(rig.fake->seen[0].kind, OP_CANCEL);
    assert_true(rig.fake->seen[0].job.job.seq == 9);
    end();

    open_meddling(0);
    submit_some(1, 8, rig_ack(9));
    submit_some(1, 8, rig_claim());
    submit_some(1, 1, (struct op){.kind = OP_PATCH});
    assert_int_equal(fake_count(rig.fake, OP_CANCEL), 0);
    end();
}

static void test_nothing_happens_to_what_is_not_passed_on(void **state)
{
    (void)state;
    open_fault(
        &(struct fault_config){.seed = 1, .unavailable_percent = 100, .meddle_percent = 100});
    submit_some(2, 8, rig_ack(9));
    submit_some(2, 8, rig_claim());
    assert_int_equal(rig.fake->count, 0);
    end();
}

static void test_inner_order_does_not_matter(void **state)
{
    (void)state;
    open_fault(&(struct fault_config){
        .seed = 21, .meddle_percent = 60, .late_percent = 30, .late_turns = 3});
    rig.fake->backwards = true;
    for (int i = 0; i < 40; i++) {
        submit_some(1, 5, i % 2 ? rig_claim() : rig_ack(4));
        rig_turn(&rig, 1);
    }
    rig_drain(&rig);
    end();
}

static void test_refused_submit(void **state)
{
    (void)state;
    open_fault(&(struct fault_config){.seed = 1, .meddle_percent = 100});
    rig.fake->submit_rc = -ERR_NOMEM;
    struct op op = rig_claim();
    assert_int_equal(rig_submit(&rig, &op, 1), -ERR_NOMEM);
    rig.fake->submit_rc = 0;
    assert_int_equal(rig_submit(&rig, NULL, 0), 0);
    end();
}

static void test_close_answers_what_is_held(void **state)
{
    (void)state;
    open_fault(&(struct fault_config){.seed = 7,
                                      .late_percent = 100,
                                      .late_turns = 1000,
                                      .reorder_percent = 50,
                                      .meddle_percent = 50});
    submit_some(4, 8, rig_claim());
    rig_turn(&rig, 3);
    submit_some(4, 8, rig_ack(3));
    assert_int_equal(rig.order_count, 0);
    end();
}

static void test_close_answers_what_inner_holds(void **state)
{
    (void)state;
    open_fault(&(struct fault_config){.seed = 7});
    rig.fake->manual = true;
    submit_some(4, 8, rig_claim());
    rig_turn(&rig, 3);
    assert_int_equal(rig.order_count, 0);
    end();
}

static void close_in_callback_cb(void *ctx, const struct reply *reply)
{
    struct rig *r = ctx;
    (void)reply;
    if (r->order_count == 3) {
        backend_close(r->b, rig_closed_cb, r);
        struct op op = rig_claim();
        assert_int_equal(rig_submit(r, &op, 1), -ERR_CLOSED);
    }
}

static void test_close_inside_a_reply(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        open_fault(&(struct fault_config){.seed = seed,
                                          .late_percent = 50,
                                          .late_turns = 4,
                                          .reorder_percent = 50,
                                          .meddle_percent = 50});
        rig.also = close_in_callback_cb;
        rig.also_ctx = &rig;
        submit_some(4, 4, rig_claim());
        rig_drain(&rig);
        rig_turn(&rig, 10);
        assert_true(rig.closed);
        rig_done(&rig);
        for (size_t i = 0; i < rig.op_count; i++)
            assert_int_equal(rig.answers[i], 1);
    }
}

static void resubmit_cb(void *ctx, const struct reply *reply)
{
    struct rig *r = ctx;
    (void)reply;
    if (r->op_count < 200) {
        struct op op = rig_claim();
        assert_int_equal(rig_submit(r, &op, 1), 0);
    }
}

static void test_submit_inside_a_reply(void **state)
{
    (void)state;
    open_fault(&(struct fault_config){.seed = 2,
                                      .late_percent = 50,
                                      .late_turns = 4,
                                      .reorder_percent = 50,
                                      .meddle_percent = 50});
    rig.also = resubmit_cb;
    rig.also_ctx = &rig;
    submit_some(2, 4, rig_claim());
    rig_drain(&rig);
    assert_int_equal(rig.op_count, 200);
    end();
}

static void test_signals(void **state)
{
    (void)state;
    open_fault(&(struct fault_config){.seed = 2, .late_percent = 50, .late_turns = 4});
    struct backend_watch *w;
    assert_int_equal(backend_watch(rig.b, SPAN_LITERAL("q"), rig_signal_cb, &rig, &w), 0);
    for (unsigned i = 0; i < 20; i++) { /* at least one after each, however late */
        unsigned before = rig.signals;
        fake_signal(rig.fake);
        rig_turn(&rig, 6);
        assert_true(rig.signals > before);
    }
    fake_signal(rig.fake);
    fake_signal(rig.fake);
    backend_unwatch(rig.b, w);
    unsigned last = rig.signals;
    rig_turn(&rig, 6);
    assert_int_equal(rig.signals, last);
    backend_unwatch(rig.b, NULL);
    end();
}

static void test_spurious_signals(void **state)
{
    (void)state;
    open_fault(&(struct fault_config){.seed = 2, .spurious_percent = 100});
    submit_some(1, 1, rig_claim()); /* without a watch */
    rig_turn(&rig, 3);
    struct backend_watch *w;
    assert_int_equal(backend_watch(rig.b, SPAN_LITERAL("q"), rig_signal_cb, &rig, &w), 0);
    submit_some(3, 1, rig_claim());
    assert_int_equal(rig.signals, 0);
    rig_turn(&rig, 3);
    assert_int_equal(rig.signals, 3);
    end(); /* with a watch left over */
}

static struct backend_watch *watches[2];
static void unwatch_all_cb(void *ctx)
{
    (void)ctx;
    for (size_t i = 0; i < 2; i++) {
        backend_unwatch(rig.b, watches[i]);
        watches[i] = NULL;
    }
}

static void test_unwatch_inside_a_signal(void **state)
{
    (void)state;
    open_fault(&(struct fault_config){.seed = 2, .spurious_percent = 100, .late_percent = 100});
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(backend_watch(rig.b, SPAN_LITERAL("q"), unwatch_all_cb, NULL, &watches[i]),
                         0);
    fake_signal(rig.fake);
    submit_some(2, 1, rig_claim());
    rig_turn(&rig, 5);
    assert_null(watches[0]);
    end();
}

static void count_cb(void *ctx)
{
    ++*(unsigned *)ctx;
}

/* Settled means that late signals have been sent, too. */
static void test_settle_waits_for_late_signals(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        open_fault(&(struct fault_config){.seed = seed, .late_percent = 100, .late_turns = 4});
        struct backend_watch *w;
        unsigned settled = 0;
        assert_int_equal(backend_watch(rig.b, SPAN_LITERAL("q"), rig_signal_cb, &rig, &w), 0);
        assert_int_equal(backend_settle(rig.b, count_cb, &settled), 0);
        fake_signal(rig.fake); /* held back */
        fake_settled(rig.fake);
        assert_int_equal(settled + rig.signals, 0);
        for (unsigned turns = 0; settled == 0; turns++) {
            assert_true(turns < 10);
            rig_turn(&rig, 1);
        }
        assert_int_equal(rig.signals, 1);
        backend_unwatch(rig.b, w);
        end();
    }
}

static void test_close_answers_a_settle(void **state)
{
    (void)state;
    open_fault(&(struct fault_config){.seed = 1, .late_percent = 100, .late_turns = 4});
    unsigned settled = 0;
    assert_int_equal(backend_settle(rig.b, count_cb, &settled), 0);
    end(); /* the inner backend answers it when it closes */
    assert_int_equal(settled, 1);
}

static void test_events_pass(void **state)
{
    (void)state;
    open_fault(&(struct fault_config){.seed = 1, .late_percent = 100});
    struct backend_event v[4];
    uint64_t oldest;
    unsigned news = 0;
    rig.fake->events_last = 3;
    assert_int_equal(backend_events_last(rig.b), 3);
    assert_int_equal(backend_events(rig.b, 1, 0, v, 4, &oldest), 2);
    assert_int_equal(v[1].id, 3);
    assert_int_equal(oldest, 1);
    assert_false(backend_events_missed(rig.b, 0));
    assert_true(backend_events_missed(rig.b, 4));
    backend_on_news(rig.b, count_cb, &news);
    rig.fake->news_fn(rig.fake->news_ctx);
    assert_int_equal(news, 1);
    rig.fake->events_last = 0; /* a backend that keeps none */
    assert_false(backend_events_missed(rig.b, 0));
    assert_false(backend_events_missed(rig.b, 7));
    end();
}

/* Whichever allocation fails: the batch is refused, or each op is answered once. */
static void test_without_memory(void **state)
{
    (void)state;
    for (long nth = 1; nth <= 12; nth++) {
        open_fault(&(struct fault_config){
            .seed = 11, .late_percent = 70, .late_turns = 3, .meddle_percent = 70});
        struct op ops[3] = {rig_claim(), rig_ack(2), rig_get(3)};
        mem_fail_at(nth, 1);
        int rc = rig_submit(&rig, ops, 3);
        assert_true(rc == 0 || rc == -ERR_NOMEM);
        rig_turn(&rig, 10);
        mem_fail_at(0, 0);
        end();
    }
}

static void test_open_without_memory(void **state)
{
    (void)state;
    rig_init(&rig);
    mem_fail_at(1, 0);
    assert_int_equal(
        backend_open_fault(&rig.fake->base, &rig.config, &(struct fault_config){0}, &rig.b),
        -ERR_NOMEM);
    mem_fail_at(0, 0);
    rig_done(&rig);
    assert_true(rig.fake_gone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transparent),
        cmocka_unit_test(test_late_keeps_order_unless_told),
        cmocka_unit_test(test_late_is_bounded),
        cmocka_unit_test(test_reordered_across_batches),
        cmocka_unit_test(test_dropped_denied_lost),
        cmocka_unit_test(test_a_query_is_never_unknown),
        cmocka_unit_test(test_same_seed_same_faults),
        cmocka_unit_test(test_meddle_touch),
        cmocka_unit_test(test_meddle_hold),
        cmocka_unit_test(test_meddle_hold_finds_nothing),
        cmocka_unit_test(test_meddle_twice),
        cmocka_unit_test(test_meddle_cancel_only_when_asked_for),
        cmocka_unit_test(test_nothing_happens_to_what_is_not_passed_on),
        cmocka_unit_test(test_inner_order_does_not_matter),
        cmocka_unit_test(test_refused_submit),
        cmocka_unit_test(test_close_answers_what_is_held),
        cmocka_unit_test(test_close_answers_what_inner_holds),
        cmocka_unit_test(test_close_inside_a_reply),
        cmocka_unit_test(test_submit_inside_a_reply),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_spurious_signals),
        cmocka_unit_test(test_unwatch_inside_a_signal),
        cmocka_unit_test(test_settle_waits_for_late_signals),
        cmocka_unit_test(test_close_answers_a_settle),
        cmocka_unit_test(test_events_pass),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_open_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
