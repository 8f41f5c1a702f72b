/* SPDX-License-Identifier: Apache-2.0 */
/* Cron expressions: what is read, what is refused, which moments they mean (HF-8, ORC-15). */
#include "core/schedules/cron.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/system/clock.h"

static int64_t moment(const char *text)
{
    struct wall_time t;
    if (wall_parse(text, strlen(text), &t) != 0)
        fail_msg("bad time in the test: %s", text);
    return t.ms / 1000;
}

static struct cron parsed(const char *text)
{
    struct cron c;
    struct err_note note = {""};
    if (cron_parse(span_text(text), &c, &note) != 0)
        fail_msg("%s is refused: %s", text, note.text);
    return c;
}

static void expect_next(const char *expression, const char *after, const char *next)
{
    struct cron c = parsed(expression);
    struct cron_dst dst = cron_dst_default(&c);
    int64_t at = 0;
    if (!cron_next(&c, &cron_utc, &dst, moment(after), &at) || at != moment(next)) {
        char found[WALL_TEXT_BYTES];
        wall_text((struct wall_time){at * 1000}, found);
        fail_msg("%s after %s: %s, expected %s", expression, after, found, next);
    }
}

static void test_moments(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"},
        {"* * * * *", "2026-01-01T00:00:59Z", "2026-01-01T00:01:00Z"},
        {"*/15 * * * * *", "2026-01-01T00:00:15Z", "2026-01-01T00:00:30Z"},
        {"30 5 1 1 *", "2026-01-01T05:30:00Z", "2027-01-01T05:30:00Z"},
        {"0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
        {"0 0 29 2 ?", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"}, /* 2100 has none */
        {"0 0 31 * *", "2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z"},
        {"0 0 L * *", "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z"},
        {"0 0 15,L * *", "2026-02-15T00:00:00Z", "2026-02-28T00:00:00Z"},
        {"0 0 L 2 *", "2026-03-01T00:00:00Z", "2027-02-28T00:00:00Z"},
        {"0 12 * * MON-FRI", "2026-01-02T12:00:00Z", "2026-01-05T12:00:00Z"},
        {"0 12 * * sat-sun", "2026-01-03T12:00:00Z", "2026-01-04T12:00:00Z"},
        {"0 12 * * 7", "2026-01-01T00:00:00Z", "2026-01-04T12:00:00Z"},
        {"0 12 * * 0", "2026-01-01T00:00:00Z", "2026-01-04T12:00:00Z"},
        {"0 12 * * 5-7", "2026-01-03T12:00:00Z", "2026-01-04T12:00:00Z"},
        {"0 0 1 FEB,jul *", "2026-02-01T00:00:00Z", "2026-07-01T00:00:00Z"},
        {"5/20 * * * *", "2026-01-01T00:25:00Z", "2026-01-01T00:45:00Z"},
        {"10-30/10 8-10/2 * * *", "2026-01-01T08:30:00Z", "2026-01-01T10:10:00Z"},
        {"  0\t0  1 1   *  ", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
        {"59 59 23 31 12 *", "2026-01-01T00:00:00Z", "2026-12-31T23:59:59Z"},
        {"@yearly", "2026-06-01T00:00:00Z", "2027-01-01T00:00:00Z"},
        {"@ANNUALLY", "2026-06-01T00:00:00Z", "2027-01-01T00:00:00Z"},
        {"@monthly", "2026-06-01T00:00:00Z", "2026-07-01T00:00:00Z"},
        {"@weekly", "2026-06-01T00:00:00Z", "2026-06-07T00:00:00Z"},
        {"@daily", "2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z"},
        {"@midnight", "2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z"},
        {"@hourly", "2026-06-01T00:00:00Z", "2026-06-01T01:00:00Z"},
        {"0 0 1 1 *", "1969-06-01T00:00:00Z", "1970-01-01T00:00:00Z"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_next(cases[i][0], cases[i][1], cases[i][2]);
}

/* Both restricted: either; one of them begins with a star: both. */
static void test_both_day_fields(void **state)
{
    (void)state;
    expect_next("0 0 13 * FRI", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    expect_next("0 0 13 * FRI", "2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z");
    expect_next("0 0 */2 * FRI", "2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z");
    expect_next("0 0 13 * */5", "2026-01-01T00:00:00Z", "2026-02-13T00:00:00Z");
    expect_next("0 0 13 * ?", "2026-01-01T00:00:00Z", "2026-01-13T00:00:00Z");
    expect_next("0 0 ? * FRI", "2026-01-03T00:00:00Z", "2026-01-09T00:00:00Z");
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "0 fields"},
        {"* * * *", "4 fields"},
        {"* * * * * * *", "7 fields"},
        {"60 * * * *", "\"60\" as its minute"},
        {"* 24 * * *", "\"24\" as its hour; allowed are 0 to 23"},
        {"* * 0 * *", "day of month"},
        {"* * 32 * *", "day of month"},
        {"* * * 13 *", "month; allowed are 1 to 12 or JAN to DEC"},
        {"* * * * 8", "day of week"},
        {"* * * * XYZ", "\"XYZ\" as its day of week"},
        {"60 * * * * *", "second"},
        {"5-1 * * * *", "ends before it begins"},
        {"*/0 * * * *", "step"},
        {"*/x * * * *", "step"},
        {"*/60 * * * *", "step"},
        {"1,,2 * * * *", "empty part"},
        {", * * * *", "empty part"},
        {"1- * * * *", "minute"},
        {"-1 * * * *", "minute"},
        {"L * * * *", "minute"},
        {"? * * * *", "minute"},
        {"00005 * * * *", "minute"},
        {"0 0 30 2 *", "none of its months"},
        {"0 0 31 4,6 *", "none of its months"},
        {"@often", "@often"},
        {"@daily 1", "2 fields"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cron c;
        struct err_note note = {""};
        assert_int_equal(cron_parse(span_text(cases[i][0]), &c, &note), -ERR_INVALID);
        if (!strstr(note.text, cases[i][1]) || strncmp(note.text, "cron ", 5) != 0)
            fail_msg("%s: %s", cases[i][0], note.text);
    }
    char longer[CRON_BYTES_MAX + 2];
    memset(longer, '1', sizeof longer);
    struct cron c;
    assert_int_equal(cron_parse(span_of(longer, sizeof longer), &c, NULL), -ERR_INVALID);
}

/* A zone of the test's own: one hour is skipped at 1000 hours, and comes twice at 2000 hours. */
#define H INT64_C(3600)
static int32_t own_offset(const void *ctx, int64_t at)
{
    (void)ctx;
    return at >= 1000 * H && at < 2000 * H ? 7200 : 3600;
}
static int64_t own_next_change(const void *ctx, int64_t at)
{
    (void)ctx;
    return at < 1000 * H ? 1000 * H : at < 2000 * H ? 2000 * H : INT64_MAX;
}
static const struct cron_zone own_zone = {NULL, own_offset, own_next_change};

static int64_t own_next(const char *expression, struct cron_dst dst, int64_t after)
{
    struct cron c = parsed(expression);
    int64_t at = -1;
    assert_true(cron_next(&c, &own_zone, &dst, after, &at));
    return at;
}

/* 1000 hours are 41 days 16 hours: local 17:00 becomes 18:00. 2000 hours: 83 days 8 hours, 10:00
 * becomes 9:00. */
static void test_gap(void **state)
{
    (void)state;
    const struct cron_dst skip = {false, false}, run = {true, false};
    int64_t before = 1000 * H - 60;
    assert_int_equal(own_next("30 17 * * *", run, before), 1000 * H);
    assert_int_equal(own_next("30 17 * * *", run, 1000 * H), 1023 * H + 1800);
    assert_int_equal(own_next("30 17 * * *", skip, before), 1023 * H + 1800);
    /* Several in the gap make one; one that is due right then makes no second. */
    assert_int_equal(own_next("*/10 17 * * *", run, before), 1000 * H);
    assert_int_equal(own_next("*/10 17,18 * * *", run, before), 1000 * H);
    assert_int_equal(own_next("*/10 17,18 * * *", run, 1000 * H), 1000 * H + 600);
    assert_int_equal(own_next("0 18 * * *", skip, before), 1000 * H);
    struct cron c = parsed("30 17 * * *");
    assert_int_equal(cron_note(&c, &own_zone, 1000 * H), CRON_MOVED);
    assert_int_equal(cron_note(&c, &own_zone, 1000 * H + 5 * H), CRON_NEAR);
    assert_int_equal(cron_note(&c, &own_zone, 1000 * H + 30 * H), CRON_PLAIN);
}

static void test_fold(void **state)
{
    (void)state;
    const struct cron_dst once = {false, false}, twice = {false, true};
    int64_t first = 2000 * H - 1800, second = 2000 * H + 1800;
    assert_int_equal(own_next("30 9 * * *", once, first - 1), first);
    assert_int_equal(own_next("30 9 * * *", once, first), second + 24 * H);
    assert_int_equal(own_next("30 9 * * *", twice, first), second);
    assert_int_equal(own_next("30 9 * * *", twice, second), second + 24 * H);
    /* Asked from within the repeated hour. */
    assert_int_equal(own_next("*/10 * * * *", once, 2000 * H + 60), 2001 * H);
    assert_int_equal(own_next("*/10 * * * *", twice, 2000 * H + 60), 2000 * H + 600);
    struct cron c = parsed("30 9 * * *");
    assert_int_equal(cron_note(&c, &own_zone, first), CRON_FIRST);
    assert_int_equal(cron_note(&c, &own_zone, second), CRON_SECOND);
    assert_string_equal(cron_note_name(CRON_SECOND), "second");
    assert_null(cron_note_name(CRON_PLAIN));
}

/* The default: by local time, or by elapsed time if the hour is a star. */
static void test_defaults(void **state)
{
    (void)state;
    struct cron daily = parsed("30 2 * * *"), hourly = parsed("30 * * * *");
    assert_true(cron_dst_default(&daily).run_after_gap);
    assert_false(cron_dst_default(&daily).fold_twice);
    assert_false(cron_dst_default(&hourly).run_after_gap);
    assert_true(cron_dst_default(&hourly).fold_twice);
}

static void test_end_of_time(void **state)
{
    (void)state;
    struct cron c = parsed("0 0 1 1 *");
    struct cron_dst dst = cron_dst_default(&c);
    int64_t at;
    assert_false(cron_next(&c, &cron_utc, &dst, moment("9999-06-01T00:00:00Z"), &at));
}

static void test_interval(void **state)
{
    (void)state;
    assert_int_equal(cron_interval_next(1000, 60, 10), 1000);
    assert_int_equal(cron_interval_next(1000, 60, 999), 1000);
    assert_int_equal(cron_interval_next(1000, 60, 1000), 1060);
    assert_int_equal(cron_interval_next(1000, 60, 1059), 1060);
    assert_int_equal(cron_interval_next(1000, 60, 1060), 1120);
    assert_int_equal(cron_interval_next(1000, 60, 1000000), 1000060);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moments),  cmocka_unit_test(test_both_day_fields),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_gap),
        cmocka_unit_test(test_fold),     cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_interval), cmocka_unit_test(test_end_of_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
