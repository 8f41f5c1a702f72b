/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 3339 in both directions compared with the C library, at the limits, and invalid time stamps.
 */
#include "unit/base/support.h"

#include <time.h>

#include "base/err.h"
#include "base/system/clock.h"

#define FIRST_MS INT64_C(-62135596800000) /* 0001-01-01T00:00:00.000Z */
#define LAST_MS INT64_C(253402300799999)  /* 9999-12-31T23:59:59.999Z */

static void assert_text(int64_t ms, const char *expected)
{
    char text[WALL_TEXT_BYTES];
    wall_text((struct wall_time){ms}, text);
    assert_string_equal(text, expected);
}

static int parse(const char *text, int64_t *ret)
{
    struct wall_time t = {-1};
    int r = wall_parse(text, strlen(text), &t);
    *ret = t.ms;
    return r;
}

static void assert_parses(const char *text, int64_t expected)
{
    int64_t ms;
    int r = parse(text, &ms);
    if (r != 0 || ms != expected)
        fail_msg("%s gave %d, %lld; expected %lld", text, r, (long long)ms, (long long)expected);
}

static void assert_refused(const char *text, int expected)
{
    int64_t ms;
    int r = parse(text, &ms);
    if (r != expected || ms != -1)
        fail_msg("\"%s\" gave %s", text, err_name(r));
}

static void known_moments(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {999, "1970-01-01T00:00:00.999Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {951868799999, "2000-02-29T23:59:59.999Z"},
        {951868800000, "2000-03-01T00:00:00.000Z"},
        {1769860800000, "2026-01-31T12:00:00.000Z"},
        {INT64_C(4107542400000), "2100-03-01T00:00:00.000Z"},
        {INT64_C(4107542399999), "2100-02-28T23:59:59.999Z"},
        {FIRST_MS, "0001-01-01T00:00:00.000Z"},
        {LAST_MS, "9999-12-31T23:59:59.999Z"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_text(rows[i].ms, rows[i].text);
        assert_parses(rows[i].text, rows[i].ms);
    }
}

/* What has no text is shown as the nearest moment that has. */
static void outside_the_years(void **state)
{
    (void)state;
    assert_text(FIRST_MS - 1, "0001-01-01T00:00:00.000Z");
    assert_text(INT64_MIN, "0001-01-01T00:00:00.000Z");
    assert_text(LAST_MS + 1, "9999-12-31T23:59:59.999Z");
    assert_text(INT64_MAX, "9999-12-31T23:59:59.999Z");
}

static void agrees_with_the_library(void **state)
{
    (void)state;
    struct random r;
    seeded(&r, "wall_text");
    for (int i = 0; i < 200000; i++) {
        int64_t ms = random_between(&r, FIRST_MS, LAST_MS);
        int64_t s = (ms - (ms % 1000 + 1000) % 1000) / 1000;
        time_t seconds = (time_t)s;
        struct tm tm;
        char text[WALL_TEXT_BYTES], expected[64];
        assert_non_null(gmtime_r(&seconds, &tm));
        snprintf(expected, sizeof expected, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                 tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                 (int)(ms - s * 1000));
        wall_text((struct wall_time){ms}, text);
        if (strcmp(text, expected) != 0)
            fail_msg("%lld: %s, expected %s", (long long)ms, text, expected);
        struct wall_time back;
        assert_int_equal(wall_parse(text, strlen(text), &back), 0);
        EXPECT(back.ms == ms);
    }
}

static void every_day_both_ways(void **state)
{
    (void)state;
    for (int64_t ms = FIRST_MS; ms <= LAST_MS; ms += 86400000) {
        char text[WALL_TEXT_BYTES];
        struct wall_time back;
        wall_text((struct wall_time){ms}, text);
        EXPECT(wall_parse(text, 24, &back) == 0 && back.ms == ms);
    }
}

static void offsets_and_fractions(void **state)
{
    (void)state;
    assert_parses("2026-01-31T12:00:00Z", 1769860800000);
    assert_parses("2026-01-31t12:00:00z", 1769860800000);
    assert_parses("2026-01-31T12:00:00+00:00", 1769860800000);
    assert_parses("2026-01-31T12:00:00-00:00", 1769860800000);
    assert_parses("2026-01-31T14:30:00+02:30", 1769860800000);
    assert_parses("2026-01-31T02:00:00-10:00", 1769860800000);
    assert_parses("2026-02-01T11:59:00+23:59", 1769860800000);
    assert_parses("2026-01-31T12:00:00.1Z", 1769860800100);
    assert_parses("2026-01-31T12:00:00.12+00:00", 1769860800120);
    assert_parses("2026-01-31T12:00:00.123456789Z", 1769860800123);
    assert_parses("2026-01-31T12:00:00.999999999Z", 1769860800999);
    assert_parses("1969-12-31T23:59:59.9999Z", -1);
    assert_parses("0001-01-01T00:00:00-00:01", FIRST_MS + 60000);
    assert_parses("0000-12-31T23:59:00-00:01", FIRST_MS);
    assert_parses("9999-12-31T23:59:59.999+00:00", LAST_MS);
}

static void leap_seconds(void **state)
{
    (void)state;
    assert_parses("2016-12-31T23:59:60Z", 1483228800000);
    assert_parses("2017-01-01T01:59:60.5+02:00", 1483228800500);
    assert_parses("1990-12-31T15:59:60-08:00", 662688000000);
    assert_parses("1972-06-30T23:59:60Z", 78796800000);
    assert_refused("2016-12-30T23:59:60Z", -ERR_RANGE);
    assert_refused("2016-12-31T23:58:60Z", -ERR_RANGE);
    assert_refused("2016-12-31T22:59:60Z", -ERR_RANGE);
    assert_refused("2016-12-31T23:59:60+01:00", -ERR_RANGE);
    assert_refused("2016-12-31T23:59:61Z", -ERR_RANGE);
    assert_refused("9999-12-31T23:59:60Z", -ERR_RANGE);
}

static void out_of_range(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "2026-00-10T00:00:00Z",      "2026-13-10T00:00:00Z",      "2026-01-00T00:00:00Z",
        "2026-01-32T00:00:00Z",      "2026-04-31T00:00:00Z",      "2026-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",      "1900-02-29T00:00:00Z",      "2024-02-30T00:00:00Z",
        "2026-01-01T24:00:00Z",      "2026-01-01T23:60:00Z",      "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00+00:60", "0000-06-01T00:00:00Z",      "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00-23:59",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        assert_refused(texts[i], -ERR_RANGE);
    assert_parses("2024-02-29T00:00:00Z", 1709164800000);
}

static void malformed(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "2026",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-01-31 12:00:00Z",
        "2026-01-31T12:00Z",
        "2026-1-31T12:00:00Z",
        "26-01-31T12:00:00Z",
        "02026-01-31T12:00:00Z",
        "+2026-01-31T12:00:00Z",
        "-026-01-31T12:00:00Z",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00,5Z",
        "2026-01-31T12:00:00.1234567890Z",
        "2026-01-31T12:00:00Z ",
        " 2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00+0200",
        "2026-01-31T12:00:00+02",
        "2026-01-31T12:00:00+2:00",
        "2026-01-31T12:00:00+02:00Z",
        "2026-01-31T12:00:00ZZ",
        "2026-01-31T12:00:0aZ",
        "2026/01/31T12:00:00Z",
        "20260131T120000Z",
        "now",
        "0",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        assert_refused(texts[i], -ERR_SYNTAX);
    struct wall_time t;
    assert_int_equal(wall_parse("2026-01-31T12:00:00Z\0", 21, &t), -ERR_SYNTAX);
    assert_int_equal(wall_parse("2026-01-31T12:00:00Z", 19, &t), -ERR_SYNTAX);
}

/* Cut or changed anywhere, a time stamp is refused or still in range; never read past its end. */
static void mutations(void **state)
{
    (void)state;
    struct random r;
    seeded(&r, "mutations");
    for (int i = 0; i < 100000; i++) {
        char *text = malloc(30);
        struct wall_time t;
        memcpy(text, "2026-01-31T12:34:56.789+01:30", 30);
        size_t len = random_below(&r, 30);
        if (len > 0)
            text[random_below(&r, len)] = (char)random_next(&r);
        text = realloc(text, len + 1);
        int e = wall_parse(text, len, &t);
        EXPECT(e == -ERR_SYNTAX || e == -ERR_RANGE || (e == 0 && t.ms >= FIRST_MS));
        free(text);
    }
}

static void manual_clock(void **state)
{
    (void)state;
    struct clock_manual m = {{{100}, {5000}}};
    struct clock c = clock_manual(&m);
    assert_int_equal(clock_now(&c).mono.ms, 100);
    assert_int_equal(clock_now(&c).wall.ms, 5000);
    clock_manual_advance(&m, 50);
    m.at.wall.ms -= 1000;
    assert_int_equal(clock_now(&c).mono.ms, 150);
    assert_int_equal(clock_now(&c).wall.ms, 4050);
    assert_true(c.manual);
}

static void system_clock(void **state)
{
    (void)state;
    struct clock c = clock_system();
    struct now a = clock_now(&c), b = clock_now(&c);
    uint64_t ns = clock_ns();
    assert_true(b.mono.ms >= a.mono.ms);
    assert_true(a.wall.ms > 1700000000000);
    assert_true(clock_ns() >= ns);
    assert_false(c.manual);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_moments),
        cmocka_unit_test(outside_the_years),
        cmocka_unit_test(agrees_with_the_library),
        cmocka_unit_test(every_day_both_ways),
        cmocka_unit_test(offsets_and_fractions),
        cmocka_unit_test(leap_seconds),
        cmocka_unit_test(out_of_range),
        cmocka_unit_test(malformed),
        cmocka_unit_test(mutations),
        cmocka_unit_test(manual_clock),
        cmocka_unit_test(system_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
