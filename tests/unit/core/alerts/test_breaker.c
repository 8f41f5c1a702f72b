/* SPDX-License-Identifier: Apache-2.0 */
/* PDQ-9: the breaker, state by state. */
#include "core/alerts/breaker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct breaker_rules rules = {
    .failure_threshold = 3, .open_cooldown_seconds = 10, .half_open_probe_count = 2};

static struct wall_time at(int64_t ms)
{
    return (struct wall_time){1000000 + ms};
}

static struct breaker opened(int64_t ms)
{
    struct breaker b = {0};
    for (uint32_t i = 0; i < rules.failure_threshold; i++)
        breaker_call_ended(&b, &rules, false, at(ms));
    assert_int_equal(b.state, BREAKER_OPEN);
    return b;
}

static void failures_in_a_row_open_it(void **state)
{
    (void)state;
    struct breaker b = {0};
    breaker_call_ended(&b, &rules, false, at(0));
    breaker_call_ended(&b, &rules, false, at(1));
    assert_int_equal(b.state, BREAKER_CLOSED);
    assert_true(breaker_ask(&b, &rules, at(2)));
    breaker_call_ended(&b, &rules, true, at(2)); /* a success resets */
    assert_int_equal(b.failures, 0);
    breaker_call_ended(&b, &rules, false, at(3));
    breaker_call_ended(&b, &rules, false, at(4));
    assert_int_equal(b.state, BREAKER_CLOSED);
    breaker_call_ended(&b, &rules, false, at(5));
    assert_int_equal(b.state, BREAKER_OPEN);
    assert_int_equal(b.changed_at.ms, at(5).ms);
    assert_int_equal(b.until.ms, at(10005).ms);
}

static void open_denies_until_the_cooldown_is_over(void **state)
{
    (void)state;
    struct breaker b = opened(0), before = b;
    assert_false(breaker_ask(&b, &rules, at(0)));
    assert_false(breaker_ask(&b, &rules, at(9999)));
    assert_true(breaker_equal(&b, &before)); /* a denied call changes nothing */
    assert_true(breaker_ask(&b, &rules, at(10000)));
    assert_int_equal(b.state, BREAKER_HALF_OPEN);
    assert_int_equal(b.probes, 1);
}

static void half_open_lets_its_probes_through(void **state)
{
    (void)state;
    struct breaker b = opened(0);
    assert_true(breaker_ask(&b, &rules, at(10000)));
    assert_true(breaker_ask(&b, &rules, at(10001)));
    assert_false(breaker_ask(&b, &rules, at(10002)));
    breaker_call_ended(&b, &rules, true, at(10003));
    assert_int_equal(b.state, BREAKER_CLOSED);
    assert_int_equal(b.failures, 0);
    assert_int_equal(b.until.ms, 0);
    assert_true(breaker_ask(&b, &rules, at(10004)));
}

static void a_failed_probe_opens_it_again(void **state)
{
    (void)state;
    struct breaker b = opened(0);
    assert_true(breaker_ask(&b, &rules, at(10000)));
    breaker_call_ended(&b, &rules, false, at(10500));
    assert_int_equal(b.state, BREAKER_OPEN);
    assert_int_equal(b.until.ms, at(20500).ms);
    breaker_call_ended(&b, &rules, false, at(10600)); /* of a call from before: nothing new */
    assert_int_equal(b.until.ms, at(20500).ms);
    assert_false(breaker_ask(&b, &rules, at(20499)));
    assert_true(breaker_ask(&b, &rules, at(20500)));
}

/* The process that made them may have been killed. */
static void probes_without_an_answer_are_given_up(void **state)
{
    (void)state;
    struct breaker b = opened(0);
    assert_true(breaker_ask(&b, &rules, at(10000)));
    assert_true(breaker_ask(&b, &rules, at(10000)));
    assert_false(breaker_ask(&b, &rules, at(19999)));
    assert_true(breaker_ask(&b, &rules, at(20000)));
    assert_int_equal(b.state, BREAKER_HALF_OPEN);
    assert_int_equal(b.probes, 1);
    assert_int_equal(b.changed_at.ms, at(10000).ms);
}

static void a_late_success_closes_it(void **state)
{
    (void)state;
    struct breaker b = opened(0);
    breaker_call_ended(&b, &rules, true, at(1));
    assert_int_equal(b.state, BREAKER_CLOSED);
}

static void a_clock_set_back_does_not_lengthen_the_wait(void **state)
{
    (void)state;
    struct breaker b = opened(0);
    assert_false(breaker_ask(&b, &rules, at(-BREAKER_SKEW_MS)));
    assert_true(breaker_ask(&b, &rules, at(-BREAKER_SKEW_MS - 1)));
}

/* PDQ-9: nodes that share a store do not have exactly the same time. */
static void a_node_that_is_behind_gets_no_more_probes(void **state)
{
    (void)state;
    struct breaker b = opened(0);
    assert_false(breaker_ask(&b, &rules, at(-1)));
    assert_true(breaker_ask(&b, &rules, at(10005)));
    assert_true(breaker_ask(&b, &rules, at(10004)));
    assert_true(breaker_ask(&b, &rules, at(30000)));
    assert_true(breaker_ask(&b, &rules, at(30000)));
    assert_false(breaker_ask(&b, &rules, at(29999)));
    assert_false(breaker_ask(&b, &rules, at(30000 - BREAKER_SKEW_MS)));
    assert_true(breaker_ask(&b, &rules, at(30000 - BREAKER_SKEW_MS - 1)));
}

/* PDQ-9: each probe has the whole cooldown for its report. */
static void a_late_probe_does_not_lapse_early(void **state)
{
    (void)state;
    struct breaker b = opened(0);
    assert_true(breaker_ask(&b, &rules, at(10000)));
    assert_true(breaker_ask(&b, &rules, at(19000)));
    assert_false(breaker_ask(&b, &rules, at(28999)));
    assert_int_equal(breaker_retry_ms(&b, at(28999)), 1);
    assert_true(breaker_ask(&b, &rules, at(29000)));
}

static void a_rate_limit_holds_it_open(void **state)
{
    (void)state;
    struct breaker b = {0};
    breaker_call_ended(&b, &rules, false, at(0));
    breaker_hold(&b, at(60000));
    assert_int_equal(b.state, BREAKER_CLOSED);
    breaker_call_ended(&b, &rules, false, at(1));
    breaker_call_ended(&b, &rules, false, at(2));
    assert_int_equal(b.state, BREAKER_OPEN);
    assert_false(breaker_ask(&b, &rules, at(59999)));
    breaker_hold(&b, at(30000)); /* never shorter */
    assert_int_equal(b.until.ms, at(60000).ms);
    assert_true(breaker_ask(&b, &rules, at(60000)));
    breaker_call_ended(&b, &rules, true, at(60001));
    assert_int_equal(b.until.ms, 0);
    breaker_hold(&b, at(90000));
    breaker_call_ended(&b, &rules, true, at(60002)); /* a success resets that, too */
    assert_int_equal(b.until.ms, 0);
}

static void own_rules_come_before_defaults(void **state)
{
    (void)state;
    struct breaker b = {.own = {.half_open_probe_count = 7}};
    struct breaker_rules r = breaker_rules_of(&b, &rules);
    assert_int_equal(r.failure_threshold, 3);
    assert_int_equal(r.open_cooldown_seconds, 10);
    assert_int_equal(r.half_open_probe_count, 7);
}

static void unused_ones(void **state)
{
    (void)state;
    struct breaker b = {0};
    breaker_used(&b, at(0));
    breaker_used(&b, at(BREAKER_USED_STEP_MS - 1)); /* not recorded this often */
    assert_int_equal(b.used_at.ms, at(0).ms);
    breaker_used(&b, at(BREAKER_USED_STEP_MS));
    assert_int_equal(b.used_at.ms, at(BREAKER_USED_STEP_MS).ms);
    struct wall_time late = at(BREAKER_USED_STEP_MS + BREAKER_UNUSED_MS);
    assert_false(breaker_is_unused(&b, at(BREAKER_UNUSED_MS)));
    assert_true(breaker_is_unused(&b, late));
    b.until.ms = late.ms + 1; /* held open */
    assert_false(breaker_is_unused(&b, late));
    b.until.ms = 0;
    b.own.failure_threshold = 5;
    assert_false(breaker_is_unused(&b, late));
}

static void names_of_named_ones(void **state)
{
    (void)state;
    struct err_note note;
    assert_int_equal(breaker_name_check(SPAN_LITERAL("api.example-1_X"), &note), 0);
    assert_int_equal(breaker_name_check(SPAN_LITERAL("a b"), &note), -ERR_INVALID);
    assert_int_equal(breaker_name_check(SPAN_LITERAL(""), &note), -ERR_INVALID);
    assert_true(breaker_is_named(SPAN_LITERAL("api.example")));
    assert_false(breaker_is_named(SPAN_LITERAL("http://api.example:80")));
    assert_int_equal(breaker_rules_check(&rules, &note), 0);
    assert_int_equal(breaker_rules_check(&(struct breaker_rules){1, 86401, 1}, &note),
                     -ERR_INVALID);
    assert_string_equal(note.text, "open_cooldown_seconds must be from 1 to 86400");
}

static void names(void **state)
{
    (void)state;
    assert_string_equal(breaker_state_name(BREAKER_CLOSED), "closed");
    assert_string_equal(breaker_state_name(BREAKER_OPEN), "open");
    assert_string_equal(breaker_state_name(BREAKER_HALF_OPEN), "half_open");
    assert_null(breaker_state_name(BREAKER_STATE_COUNT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_in_a_row_open_it),
        cmocka_unit_test(open_denies_until_the_cooldown_is_over),
        cmocka_unit_test(half_open_lets_its_probes_through),
        cmocka_unit_test(a_failed_probe_opens_it_again),
        cmocka_unit_test(probes_without_an_answer_are_given_up),
        cmocka_unit_test(a_late_success_closes_it),
        cmocka_unit_test(a_clock_set_back_does_not_lengthen_the_wait),
        cmocka_unit_test(a_node_that_is_behind_gets_no_more_probes),
        cmocka_unit_test(a_late_probe_does_not_lapse_early),
        cmocka_unit_test(a_rate_limit_holds_it_open),
        cmocka_unit_test(own_rules_come_before_defaults),
        cmocka_unit_test(unused_ones),
        cmocka_unit_test(names_of_named_ones),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
