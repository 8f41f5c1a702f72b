/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers with units: what is read, what is refused, and that what is printed is read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "config/units.h"

static const struct {
    const char *text;
    enum unit_kind kind;
    int err;
    int64_t value;
} cases[] = {
    {"0", UNIT_NONE, 0, 0},
    {"-5", UNIT_NONE, 0, -5},
    {"9223372036854775807", UNIT_NONE, 0, INT64_MAX},
    {"9223372036854775808", UNIT_NONE, -ERR_RANGE, 0},
    {"", UNIT_NONE, -ERR_SYNTAX, 0},
    {"-", UNIT_NONE, -ERR_SYNTAX, 0},
    {"+5", UNIT_NONE, -ERR_SYNTAX, 0},
    {"1.0", UNIT_NONE, -ERR_SYNTAX, 0},
    {"007", UNIT_NONE, -ERR_SYNTAX, 0},
    {"5s", UNIT_NONE, -ERR_SYNTAX, 0},
    {"1_000", UNIT_NONE, -ERR_SYNTAX, 0},
    {" 1", UNIT_NONE, -ERR_SYNTAX, 0},
    {"1 ", UNIT_NONE, -ERR_SYNTAX, 0},
    {"65536", UNIT_BYTES, 0, 65536},
    {"64MiB", UNIT_BYTES, 0, 64 << 20},
    {"64 mib", UNIT_BYTES, 0, 64 << 20},
    {"64  MiB", UNIT_BYTES, -ERR_SYNTAX, 0},
    {"1.5KiB", UNIT_BYTES, 0, 1536},
    {"2GB", UNIT_BYTES, 0, INT64_C(2000000000)},
    {"-1", UNIT_BYTES, -ERR_SYNTAX, 0},
    {"1.5", UNIT_BYTES, -ERR_SYNTAX, 0},
    {"1.", UNIT_BYTES, -ERR_SYNTAX, 0},
    {".5MB", UNIT_BYTES, -ERR_SYNTAX, 0},
    {"64M", UNIT_BYTES, -ERR_SYNTAX, 0},
    {"8388608TiB", UNIT_BYTES, -ERR_RANGE, 0},
    {"8388607TiB", UNIT_BYTES, 0, INT64_C(8388607) << 40},
    {"500", UNIT_MS, 0, 500},
    {"30s", UNIT_MS, 0, 30000},
    {"1.5h", UNIT_MS, 0, 5400000},
    {"2min", UNIT_MS, 0, 120000},
    {"1w", UNIT_MS, 0, INT64_C(604800000)},
    {"0.0001s", UNIT_MS, -ERR_SYNTAX, 0},
    {"0.001s", UNIT_MS, 0, 1},
    {"1.0000000001s", UNIT_MS, -ERR_SYNTAX, 0},
    {"5y", UNIT_MS, -ERR_SYNTAX, 0},
    {"500", UNIT_DURATION, -ERR_SYNTAX, 0},
    {"0.5", UNIT_DURATION, -ERR_SYNTAX, 0},
    {"0", UNIT_DURATION, 0, 0},
    {"1.5s", UNIT_DURATION, 0, 1500},
    {"2.0", UNIT_SECONDS, 0, 2000},
    {"2", UNIT_SECONDS, 0, 2000},
    {"250ms", UNIT_SECONDS, 0, 250},
};

static void numbers_are_read_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t value = -77;
        int err = units_parse(span_text(cases[i].text), cases[i].kind, &value);
        if (err != cases[i].err || value != (err < 0 ? -77 : cases[i].value))
            fail_msg("'%s' kind %d: %d, %lld", cases[i].text, (int)cases[i].kind, err,
                     (long long)value);
    }
}

static void what_is_printed_is_read_back(void **state)
{
    (void)state;
    static const int64_t values[] = {0,     1,        999,     1000,    1024,      1536,
                                     60000, 86400000, 1 << 20, 3600001, 604800000, INT64_MAX};
    for (int kind = UNIT_NONE; kind <= UNIT_SECONDS; kind++) {
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            char text[UNITS_TEXT_MAX];
            int64_t back = -1;
            units_text(values[i], (enum unit_kind)kind, text);
            assert_int_equal(units_parse(span_text(text), (enum unit_kind)kind, &back), 0);
            assert_int_equal(back, values[i]);
        }
    }
}

static void the_largest_unit_is_printed(void **state)
{
    (void)state;
    char text[UNITS_TEXT_MAX];
    assert_string_equal(units_text(2 << 20, UNIT_BYTES, text), "2MiB");
    assert_string_equal(units_text(1000, UNIT_BYTES, text), "1000");
    assert_string_equal(units_text(90000, UNIT_MS, text), "90s");
    assert_string_equal(units_text(86400000, UNIT_MS, text), "1d");
    assert_string_equal(units_text(500, UNIT_MS, text), "500");
    assert_string_equal(units_text(500, UNIT_SECONDS, text), "500ms");
    assert_string_equal(units_text(-7, UNIT_NONE, text), "-7");
}

static void quoted_text_cannot_steer_a_terminal(void **state)
{
    (void)state;
    char out[QUOTED_MAX];
    char longer[400];
    assert_string_equal(quoted(span_text("plain"), out), "'plain'");
    assert_string_equal(quoted(span_text("a\033[2Jb\nc\177"), out), "'a?[2Jb?c?'");
    assert_string_equal(quoted(span_text("\xc2\x9b"
                                         "1m"),
                               out),
                        "'?1m'");
    assert_string_equal(quoted(span_text("gr\xc3\xbc\xc3\x9f"), out), "'gr\xc3\xbc\xc3\x9f'");
    assert_string_equal(quoted(span_text("\xffx\xc3"), out), "'?x?'");
    assert_string_equal(quoted(span_of("a\0b", 3), out), "'a?b'");
    for (size_t len = 0; len < sizeof longer / 4; len++) {
        for (size_t i = 0; i < len; i++)
            memcpy(longer + 4 * i, "\xf0\x9f\x98\x80", 4);
        quoted(span_of(longer, 4 * len), out);
        assert_true(strlen(out) < QUOTED_MAX);
        assert_true(len < 30 || strstr(out, "'\xe2\x80\xa6"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_read_or_refused),
        cmocka_unit_test(what_is_printed_is_read_back),
        cmocka_unit_test(the_largest_unit_is_printed),
        cmocka_unit_test(quoted_text_cannot_steer_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
