/* SPDX-License-Identifier: Apache-2.0 */
/* HF-9, HF-28: slots, rates, ageing and rounds of claims. */
#include "core/queues/claim_limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct queue_policy plain(void)
{
    struct queue_policy p;
    policy_default(&p);
    return p;
}

static void test_only_its_members_limit(void **state)
{
    (void)state;
    struct queue_policy p = plain();
    assert_false(claim_limited(&p) || claim_grouped(&p));
    p.max_running = 1;
    assert_true(claim_limited(&p) && !claim_grouped(&p));
    p = plain();
    p.ageing_ms = 1;
    assert_true(claim_limited(&p) && !claim_grouped(&p));
    p = plain();
    p.max_running_per_group = 1;
    assert_true(claim_limited(&p) && claim_grouped(&p));
    p = plain();
    p.fair = FAIR_GROUP;
    assert_true(claim_limited(&p) && claim_grouped(&p));
    p = plain();
    p.claim_rate = (struct rate_limit){RATE_QUEUE, 1, 1000};
    assert_true(claim_limited(&p) && !claim_grouped(&p));
    p.claim_rate.per = RATE_GROUP;
    assert_true(claim_grouped(&p));
}

static void test_slots(void **state)
{
    (void)state;
    struct queue_policy p = plain();
    struct claim_use use = {.running = 1000};
    int64_t at = -1;
    assert_int_equal(claim_queue_block(&p, &use, 0, &at), CLAIM_FREE);
    assert_int_equal(at, 0);
    p.max_running = 2;
    p.max_running_per_group = 1;
    use.running = 1;
    assert_int_equal(claim_queue_block(&p, &use, 0, &at), CLAIM_FREE);
    assert_int_equal(claim_group_block(&p, &use, 0, &at), CLAIM_GROUP_LIMIT);
    use.running = 3; /* the limit was lowered */
    assert_int_equal(claim_queue_block(&p, &use, 0, &at), CLAIM_QUEUE_LIMIT);
}

/* Count at once, then one each window / count, never more than count in store. */
static void test_tokens(void **state)
{
    (void)state;
    struct queue_policy p = plain();
    struct claim_use use = {0};
    int64_t at, now = 5000000;
    p.claim_rate = (struct rate_limit){RATE_QUEUE, 4, 1000};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(claim_queue_block(&p, &use, now, &at), CLAIM_FREE);
        use.full_us = claim_token_take(&p.claim_rate, use.full_us, now);
    }
    assert_int_equal(claim_queue_block(&p, &use, now, &at), CLAIM_RATE);
    assert_int_equal(at, now + 250000);
    assert_int_equal(claim_queue_block(&p, &use, at - 1, &at), CLAIM_RATE);
    assert_int_equal(claim_queue_block(&p, &use, now + 250000, &at), CLAIM_FREE);
    assert_int_equal(claim_group_block(&p, &use, now, &at), CLAIM_FREE); /* another bucket */
    now += 3600000000; /* a long pause fills it once */
    for (int i = 0; i < 4; i++)
        use.full_us = claim_token_take(&p.claim_rate, use.full_us, now);
    assert_int_equal(claim_queue_block(&p, &use, now, &at), CLAIM_RATE);
}

static void test_tokens_beyond_resolution(void **state)
{
    (void)state;
    struct rate_limit rate = {RATE_QUEUE, 1000000, 1}; /* more than one each microsecond */
    assert_int_equal(claim_token_take(&rate, 0, 100), 101);
    assert_true(claim_token_at_us(&rate, 0, 100) <= 100);
}

static void test_ageing(void **state)
{
    (void)state;
    struct queue_policy p = plain();
    assert_int_equal(claim_priority(&p, -7, (struct wall_time){123456}), -7);
    assert_int_equal(claim_priority_now(&p, -7, (struct wall_time){123456}), -7);
    p.ageing_ms = 1000;
    int64_t old = claim_priority(&p, 0, (struct wall_time){10000});
    int64_t young = claim_priority(&p, 5, (struct wall_time){14999});
    assert_true(young > old); /* 5 s younger, and 5 higher */
    young = claim_priority(&p, 5, (struct wall_time){15000});
    assert_int_equal(young, old); /* then by sequence */
    assert_true(claim_priority(&p, 5, (struct wall_time){16000}) < old);
    assert_int_equal(claim_priority_now(&p, old, (struct wall_time){10500}), 0);
    assert_int_equal(claim_priority_now(&p, old, (struct wall_time){13000}), 3);
}

static void test_ageing_keeps_within_range(void **state)
{
    (void)state;
    struct queue_policy p = plain();
    p.ageing_ms = 1;
    assert_int_equal(claim_priority(&p, INT64_MIN, (struct wall_time){1}), INT64_MIN);
    assert_int_equal(claim_priority_now(&p, INT64_MAX, (struct wall_time){1}), INT64_MAX);
    struct err_note note;
    p.by_due = true;
    assert_int_equal(policy_check(&p, &note), -ERR_INVALID);
    assert_non_null(strstr(note.text, "by_due"));
}

/* A group that waits gets one job for each of the others'; a newcomer waits for the next round. */
static void test_rounds(void **state)
{
    (void)state;
    uint64_t queue = 0, a = claim_round_join(queue), b = a;
    claim_round_serve(&queue, &a);
    assert_true(b < a);
    uint64_t late = claim_round_join(queue);
    assert_int_equal(late, a);
    claim_round_serve(&queue, &b);
    assert_int_equal(a, b);
    for (int i = 0; i < 1000; i++) /* b is kept back */
        claim_round_serve(&queue, &a);
    assert_true(b < a);
    claim_round_serve(&queue, &b); /* once before the others */
    assert_int_equal(b, a);
}

static void test_places(void **state)
{
    (void)state;
    struct claim_place urgent = {5, 9, 9}, turn = {0, 1, 8}, older = {0, 2, 3}, newer = {0, 2, 4};
    assert_true(claim_place_before(&urgent, &turn));
    assert_true(claim_place_before(&turn, &older));
    assert_true(claim_place_before(&older, &newer));
    assert_false(claim_place_before(&newer, &older));
    assert_false(claim_place_before(&newer, &newer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_its_members_limit),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_tokens_beyond_resolution),
        cmocka_unit_test(test_ageing),
        cmocka_unit_test(test_ageing_keeps_within_range),
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
