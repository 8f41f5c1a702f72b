/* SPDX-License-Identifier: Apache-2.0 */
/* Which jobs a filter means: each field alone, at its ends, and all together. */
#include "core/filter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define CREATED INT64_C(1700000000000)

static struct job a_job(void)
{
    return (struct job){
        .seq = 100,
        .id_hi = id_hi((struct wall_time){CREATED}, 3),
        .priority = 5,
        .queue = 7,
        .state = STATE_DEAD,
        .reason = REASON_FAILED,
        .flags = JOB_HAS_EXTRA,
    };
}

static struct job_extra an_extra(void)
{
    return (struct job_extra){
        .unique = SPAN_LITERAL("u"),
        .group = SPAN_LITERAL("g"),
        .correlation = SPAN_LITERAL("c"),
    };
}

static bool matches(struct job_filter f)
{
    struct job j = a_job();
    struct job_extra extra = an_extra();
    return filter_match(&f, &j, &extra);
}

static void test_an_empty_filter_means_all(void **state)
{
    (void)state;
    struct job_filter f = {0};
    struct job j = {0};
    assert_true(matches(f));
    assert_true(filter_match(&f, &j, NULL));
}

static void test_numbers(void **state)
{
    (void)state;
    assert_true(matches((struct job_filter){.queue = 7}));
    assert_false(matches((struct job_filter){.queue = 8}));
    assert_true(matches((struct job_filter){.states = STATE_BIT(STATE_DEAD)}));
    assert_true(matches((struct job_filter){.states = STATES_ALL}));
    assert_false(matches((struct job_filter){.states = STATES_LIVE | STATES_FINISHED}));
    assert_true(matches((struct job_filter){.reasons = 1u << REASON_FAILED}));
    assert_false(matches((struct job_filter){.reasons = 1u << REASON_CRASH_LOOP | 1}));
    assert_true(matches((struct job_filter){.seq_min = 100}));
    assert_false(matches((struct job_filter){.seq_min = 101}));
    assert_true(matches((struct job_filter){.seq_max = 100}));
    assert_false(matches((struct job_filter){.seq_max = 99}));
}

static void test_priorities(void **state)
{
    (void)state;
    struct job_filter f = {.has_priority = true, .priority_min = 5, .priority_max = 5};
    assert_true(matches(f));
    f.priority_min = 6;
    f.priority_max = INT64_MAX;
    assert_false(matches(f));
    f.priority_min = INT64_MIN;
    f.priority_max = 4;
    assert_false(matches(f));
    f.has_priority = false;
    assert_true(matches(f));
}

static void test_times_are_from_to_but_not_with(void **state)
{
    (void)state;
    assert_true(matches((struct job_filter){.created_from = {CREATED}}));
    assert_false(matches((struct job_filter){.created_from = {CREATED + 1}}));
    assert_false(matches((struct job_filter){.created_to = {CREATED}}));
    assert_true(matches((struct job_filter){.created_to = {CREATED + 1}}));
}

static void test_texts(void **state)
{
    (void)state;
    assert_true(matches((struct job_filter){.group = SPAN_LITERAL("g")}));
    assert_false(matches((struct job_filter){.group = SPAN_LITERAL("G")}));
    assert_false(matches((struct job_filter){.group = SPAN_LITERAL("gg")}));
    assert_true(matches((struct job_filter){.unique = SPAN_LITERAL("u")}));
    assert_false(matches((struct job_filter){.unique = SPAN_LITERAL("g")}));
    assert_true(matches((struct job_filter){.correlation = SPAN_LITERAL("c")}));
    assert_false(matches((struct job_filter){.correlation = SPAN_LITERAL("u")}));
    struct job j = a_job();
    struct job_filter f = {.group = SPAN_LITERAL("g")};
    assert_false(filter_match(&f, &j, NULL));
    f = (struct job_filter){.queue = 7};
    assert_true(filter_match(&f, &j, NULL));
}

/* All fields set and met; then one at a time missed. */
static void test_all_must_hold(void **state)
{
    (void)state;
    const struct job_filter all = {
        .queue = 7,
        .states = STATE_BIT(STATE_DEAD),
        .group = SPAN_LITERAL("g"),
        .unique = SPAN_LITERAL("u"),
        .correlation = SPAN_LITERAL("c"),
        .seq_min = 1,
        .seq_max = 200,
        .has_priority = true,
        .priority_min = 0,
        .priority_max = 9,
        .created_from = {CREATED - 1},
        .created_to = {CREATED + 1},
        .reasons = 1u << REASON_FAILED,
    };
    assert_true(matches(all));
    for (int missed = 0; missed < 9; missed++) {
        struct job j = a_job();
        struct job_extra x = an_extra();
        switch (missed) {
        case 0:
            j.queue = 1;
            break;
        case 1:
            j.state = STATE_READY;
            break;
        case 2:
            x.group.len = 0;
            break;
        case 3:
            x.unique.len = 0;
            break;
        case 4:
            x.correlation.len = 0;
            break;
        case 5:
            j.seq = 201;
            break;
        case 6:
            j.priority = 10;
            break;
        case 7:
            j.id_hi = id_hi((struct wall_time){CREATED + 1}, 3);
            break;
        default:
            j.reason = REASON_REJECTED;
            break;
        }
        assert_false(filter_match(&all, &j, &x));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_empty_filter_means_all),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_priorities),
        cmocka_unit_test(test_times_are_from_to_but_not_with),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_all_must_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
