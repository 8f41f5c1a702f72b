/* SPDX-License-Identifier: Apache-2.0 */
/* HF-19: reads with payloads are handed to the store a few at a time, and all are answered in
 * order. */
#include "unit/base/support.h"

#include "unit/broker/broker_rig.h"

#define READS 40

struct seen {
    unsigned count;
    uint64_t tags[READS];
};

static void seen_cb(void *ctx, const struct reply *r)
{
    struct seen *s = ctx;
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->job_count, 1);
    s->tags[s->count++] = r->tag;
}

static void lists_go_a_few_at_a_time(void **state)
{
    (void)state;
    struct broker_rig r;
    struct broker_figures before, after;
    struct seen seen = {0};
    bool all = false;
    broker_rig_init(&r, "memory:");
    do_enqueue(&r, "q", "\"x\"");
    broker_figures(r.broker, &before);
    for (uint64_t i = 0; i < READS; i++) {
        struct op op = {
            .kind = OP_PEEK,
            .tag = i,
            .peek = {
                .queue = SPAN_LITERAL("q"), .state = STATE_READY, .limit = 10, .want_body = true}};
        assert_int_equal(broker_submit(r.broker, &op, 1, seen_cb, &seen), 0);
    }
    while (!all) {
        uint64_t ops = (broker_figures(r.broker, &after), after.ops);
        unsigned answered = seen.count;
        broker_rig_turns(&r, 1);
        broker_figures(r.broker, &after);
        assert_in_range(after.ops - ops, 0, 4);
        assert_true(after.ops - before.ops <= answered + 4);
        all = seen.count == READS;
    }
    for (uint64_t i = 0; i < READS; i++)
        assert_int_equal(seen.tags[i], i);
    assert_true(after.batches - before.batches >= READS / 4);
    broker_rig_done(&r);
}

static void others_do_not_wait(void **state)
{
    (void)state;
    struct broker_rig r;
    struct seen seen = {0};
    broker_rig_init(&r, "memory:");
    struct told job = do_enqueue(&r, "q", "\"x\"");
    struct op peek = {
        .kind = OP_PEEK,
        .peek = {.queue = SPAN_LITERAL("q"), .state = STATE_READY, .limit = 10, .want_body = true}};
    for (uint64_t i = 0; i < READS; i++)
        assert_int_equal(broker_submit(r.broker, &peek, 1, seen_cb, &seen), 0);
    struct told without_body = do_get(&r, job.seq);
    assert_int_equal(without_body.outcome, OUT_OK);
    assert_true(seen.count < READS);
    broker_rig_done(&r); /* the others are answered before it closes */
    assert_int_equal(seen.count, READS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_go_a_few_at_a_time),
        cmocka_unit_test(others_do_not_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
