/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens, and the number of attempts. */
#include "core/jobs/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest/random.h"

#define SEED 66001

static void test_tokens_survive(void **state)
{
    (void)state;
    struct random random;
    random_seed(&random, SEED);
    print_message("seed %d\n", SEED);
    for (int i = 0; i < 50000; i++) {
        struct job_token t = {random_next(&random) >> random_below(&random, 64),
                              (uint32_t)(random_next(&random) >> (32 + random_below(&random, 32)))};
        if (t.counter == 0)
            t.counter = 1;
        char text[TOKEN_TEXT_BYTES];
        token_text(t, text);
        assert_true(strlen(text) < TOKEN_TEXT_BYTES);
        assert_int_equal(strspn(text, "0123456789abcdefghijklmnopqrstuvwxyz-"), strlen(text));
        struct job_token again = {0};
        assert_int_equal(token_parse(span_text(text), &again), 0);
        assert_true(token_equal(t, again));
    }
}

static void test_spelling(void **state)
{
    (void)state;
    static const struct {
        struct job_token token;
        const char *text;
    } cases[] = {
        {{1, 0}, "0-1"},     {{31, 1}, "1-z"},
        {{32, 33}, "11-10"}, {{UINT64_MAX, UINT32_MAX}, "3zzzzzz-fzzzzzzzzzzzz"},
        {{0, 7}, ""}, /* no token */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[TOKEN_TEXT_BYTES];
        token_text(cases[i].token, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void test_only_that_spelling_is_read(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "-",
        "1",
        "1-",
        "-1",
        "0-0",
        "01-1",
        "00-1",
        "1-01",
        "1-0",
        "1--1",
        "1-1-",
        "1-1 ",
        " 1-1",
        "1-1\n",
        "1-A",
        "1-i",
        "1-l",
        "1-o",
        "1-u",
        "1_1",
        "1-1.",
        "A-1",
        "4000000-1",
        "1-g000000000000",
        "1-zzzzzzzzzzzzz",
        "1-10000000000000",
        "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz-1",
    };
    struct job_token kept = {5, 6};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int err = token_parse(span_text(wrong[i]), &kept);
        if (err != -ERR_SYNTAX)
            fail_msg("'%s' gives %d", wrong[i], err);
    }
    assert_int_equal(token_parse((struct span){NULL, 0}, &kept), -ERR_SYNTAX);
    assert_int_equal(token_parse(SPAN_LITERAL("1-1\0"), &kept), -ERR_SYNTAX);
    assert_int_equal(token_parse(SPAN_LITERAL("\0-1"), &kept), -ERR_SYNTAX);
    assert_int_equal(kept.counter, 5);
    assert_int_equal(kept.epoch, 6);
}

/* Random texts over the alphabet: whatever parses is spelled the same again. */
static void test_no_second_spelling(void **state)
{
    (void)state;
    static const char alphabet[] = "0123456789abcdefghijklmnopqrstuvwxyzAZ-_";
    struct random random;
    random_seed(&random, SEED + 1);
    size_t parsed = 0;
    for (int i = 0; i < 100000; i++) {
        char text[TOKEN_TEXT_BYTES + 2], again[TOKEN_TEXT_BYTES];
        size_t len = random_below(&random, 6);
        for (size_t k = 0; k < len; k++)
            text[k] = alphabet[random_below(&random, sizeof alphabet - 1)];
        if (len > 2)
            text[1] = '-';
        text[len] = 0;
        struct job_token t;
        if (token_parse(span_text(text), &t) < 0)
            continue;
        parsed++;
        token_text(t, again);
        assert_string_equal(text, again);
    }
    assert_true(parsed > 10000);
}

static void test_order(void **state)
{
    (void)state;
    struct job_token first = {9, 1}, second = {10, 1}, later_boot = {1, 2};
    assert_true(token_older(first, second));
    assert_false(token_older(second, first));
    assert_false(token_older(first, first));
    assert_true(token_older(second, later_boot));
    assert_false(token_older(later_boot, second));
    assert_true(token_equal(first, (struct job_token){9, 1}));
    assert_false(token_equal(first, later_boot));
}

static void test_attempts(void **state)
{
    (void)state;
    struct job j = {.failures = 2, .crashes = 3};
    static const uint32_t expected[STATE_COUNT] = {
        [STATE_NONE] = 5, [STATE_SCHEDULED] = 5, [STATE_READY] = 5,     [STATE_RUNNING] = 6,
        [STATE_DONE] = 6, [STATE_DEAD] = 5,      [STATE_CANCELLED] = 5, [STATE_BLOCKED] = 5,
    };
    for (unsigned s = 0; s < STATE_COUNT; s++) {
        j.state = (uint8_t)s;
        assert_int_equal(job_attempts(&j), expected[s]);
    }
    j = (struct job){.failures = UINT16_MAX, .crashes = UINT16_MAX, .state = STATE_RUNNING};
    assert_int_equal(job_attempts(&j), 2u * UINT16_MAX + 1);
}

/* TF-1: the priority and the due time of an order, and numbers that are no order. */
static void order_by_due(void **state)
{
    (void)state;
    static const int64_t priorities[] = {-1000000, -10, -1, 0, 1, 10, 1000000};
    static const int64_t dues[] = {2000000, 1763500000000, (INT64_C(1) << 42) - 1};
    for (size_t i = 0; i < sizeof priorities / sizeof *priorities; i++)
        for (size_t k = 0; k < sizeof dues / sizeof *dues; k++) {
            int64_t order = priority_by_due(priorities[i], (struct wall_time){.ms = dues[k]});
            assert_int_equal(priority_given(order), priorities[i]);
            assert_int_equal(priority_due(order).ms, dues[k]);
            assert_int_equal(priority_by_due(order, (struct wall_time){.ms = 1}), order);
        }
    for (size_t i = 0; i < sizeof priorities / sizeof *priorities; i++)
        assert_int_equal(priority_due(priorities[i]).ms, 0);
    assert_int_equal(priority_due(5000000).ms, 0); /* of a queue that was by_due later */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_survive),
        cmocka_unit_test(test_spelling),
        cmocka_unit_test(test_only_that_spelling_is_read),
        cmocka_unit_test(test_no_second_spelling),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_attempts),
        cmocka_unit_test(order_by_due),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
