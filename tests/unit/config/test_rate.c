/* SPDX-License-Identifier: Apache-2.0 */
/* Rates as text: what is read, what is refused, and that what is printed is read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "config/rate.h"

#define PERS "queue|group|correlation_id"

static const struct {
    const char *text;
    int err;
    struct rate_limit rate;
    const char *printed;
} cases[] = {
    {"none", 0, {0, 0, 0}, "none"},
    {"100/1m", 0, {0, 100, 60000}, "100/1m"},
    {"100/60000ms", 0, {0, 100, 60000}, "100/1m"},
    {"100/m", 0, {0, 100, 60000}, "100/1m"},
    {"1/1.5s", 0, {0, 1, 1500}, "1/1500ms"},
    {"10/1s/group", 0, {1, 10, 1000}, "10/1s/group"},
    {"10/s/queue", 0, {0, 10, 1000}, "10/1s"},
    {"10/1s/correlation_id", 0, {2, 10, 1000}, "10/1s/correlation_id"},
    {"1000000/1d", 0, {0, 1000000, 86400000}, "1000000/1d"},
    {"1000001/1d", -ERR_RANGE, {0, 0, 0}, NULL},
    {"1/86400001ms", -ERR_RANGE, {0, 0, 0}, NULL},
    {"0/1s", -ERR_RANGE, {0, 0, 0}, NULL},
    {"1/0", -ERR_RANGE, {0, 0, 0}, NULL},
    {"-1/1s", -ERR_RANGE, {0, 0, 0}, NULL},
    {"", -ERR_SYNTAX, {0, 0, 0}, NULL},
    {"/", -ERR_SYNTAX, {0, 0, 0}, NULL},
    {"10", -ERR_SYNTAX, {0, 0, 0}, NULL},
    {"10/", -ERR_SYNTAX, {0, 0, 0}, NULL},
    {"10/500", -ERR_SYNTAX, {0, 0, 0}, NULL},
    {"10/1.5/group", -ERR_SYNTAX, {0, 0, 0}, NULL},
    {"/1s", -ERR_SYNTAX, {0, 0, 0}, NULL},
    {"10/1s/", -ERR_SYNTAX, {0, 0, 0}, NULL},
    {"10/1s/grou", -ERR_SYNTAX, {0, 0, 0}, NULL},
    {"10/1s/group/", -ERR_SYNTAX, {0, 0, 0}, NULL},
    {"10/1s/queue|group", -ERR_SYNTAX, {0, 0, 0}, NULL},
    {"10/parsecs", -ERR_SYNTAX, {0, 0, 0}, NULL},
    {"10/averylongnameofaunit", -ERR_SYNTAX, {0, 0, 0}, NULL},
    {"None", -ERR_SYNTAX, {0, 0, 0}, NULL},
};

static void rates_are_read_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rate_limit rate = {9, 9, 9};
        char text[RATE_TEXT_MAX];
        int err = rate_parse(span_text(cases[i].text), PERS, &rate);
        if (err != cases[i].err)
            fail_msg("%s gave %d", cases[i].text, err);
        if (err < 0) {
            assert_int_equal(rate.count, 9);
            continue;
        }
        assert_int_equal(rate.per, cases[i].rate.per);
        assert_int_equal(rate.count, cases[i].rate.count);
        assert_int_equal(rate.window_ms, cases[i].rate.window_ms);
        assert_string_equal(rate_text(&rate, PERS, text), cases[i].printed);
        struct rate_limit back;
        assert_int_equal(rate_parse(span_text(text), PERS, &back), 0);
        assert_int_equal(back.per, rate.per);
        assert_int_equal(back.count, rate.count);
        assert_int_equal(back.window_ms, rate.window_ms);
    }
}

static void what_is_right_names_the_words(void **state)
{
    (void)state;
    char text[RATE_EXPECTED_MAX];
    assert_non_null(strstr(rate_expected(PERS, text), "(one of " PERS ")"));
    assert_non_null(strstr(text, "at most 1000000 jobs and 1d"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_read_or_refused),
        cmocka_unit_test(what_is_right_names_the_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
