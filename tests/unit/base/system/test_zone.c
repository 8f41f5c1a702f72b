/* SPDX-License-Identifier: Apache-2.0 */
/* Time zones: every name of the tz database, against the C library's own reading of it (HF-8). */
#include "base/system/zone.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define FROM INT64_C(315532800) /* 1980 */
#define TO INT64_C(4102444800)  /* 2100 */

static struct zones *zones;

static const struct zone *open_zone(const char *name)
{
    const struct zone *z = NULL;
    struct err_note note = {""};
    if (zones_open(zones, span_text(name), &z, &note) != 0)
        fail_msg("%s: %s", name, note.text);
    return z;
}

static int32_t c_library_offset(int64_t at)
{
    time_t t = (time_t)at;
    struct tm tm;
    assert_non_null(localtime_r(&t, &tm));
    return (int32_t)tm.tm_gmtoff;
}

static void use_in_c_library(const char *name)
{
    char value[80];
    snprintf(value, sizeof value, ":%s", name);
    assert_int_equal(setenv("TZ", value, 1), 0);
    tzset();
}

static void expect_offset(const char *name, const struct zone *z, int64_t at)
{
    int32_t found = zone_offset(z, at), right = c_library_offset(at);
    if (found != right)
        fail_msg("%s at %lld: offset %d, the C library says %d", name, (long long)at, found, right);
}

/* GLib reads a rule in which winter is the time that is set apart wrongly, where only a rule is
 * left: from 2038 on (docs/decisions/016-time-zones.md). */
static int64_t right_until(const char *name)
{
    bool irish = strcmp(name, "Europe/Dublin") == 0 || strcmp(name, "Eire") == 0;
    return irish ? INT64_C(2145916800) : TO;
}

/* Just before and at each change of 120 years, and half-way to the next. */
static void test_offsets_of_all_zones(void **state)
{
    (void)state;
    size_t count, changes = 0;
    const char *const *names = zones_names(zones, &count);
    assert_true(count > 400);
    for (size_t i = 0; i < count; i++) {
        const struct zone *z = open_zone(names[i]);
        use_in_c_library(names[i]);
        int64_t to = right_until(names[i]);
        for (int64_t at = FROM; at < to; changes++) {
            int64_t next = zone_next_change(z, at);
            expect_offset(names[i], z, at);
            if (next > to)
                break;
            expect_offset(names[i], z, at + (next - at) / 2);
            expect_offset(names[i], z, next - 1);
            assert_true(next > at && zone_offset(z, next) != zone_offset(z, next - 1));
            at = next;
        }
    }
    assert_true(changes > 10000);
}

/* No change is missed: between two changes the C library sees none either. */
static void test_no_change_is_missed(void **state)
{
    (void)state;
    size_t count;
    const char *const *names = zones_names(zones, &count);
    int64_t from = INT64_C(1767225600), to = from + INT64_C(2) * 366 * 86400; /* 2026, 2027 */
    for (size_t i = 0; i < count; i++) {
        const struct zone *z = open_zone(names[i]);
        use_in_c_library(names[i]);
        int64_t next = zone_next_change(z, from);
        for (int64_t at = from; at < to; at += 6 * 3600) {
            int64_t was = at - 6 * 3600;
            bool changed = at > from && c_library_offset(at) != c_library_offset(was);
            if (changed != (next <= at))
                fail_msg("%s: a change near %lld is missed", names[i], (long long)at);
            if (next <= at)
                next = zone_next_change(z, next);
        }
    }
}

static void test_names(void **state)
{
    (void)state;
    const struct zone *z = NULL;
    struct err_note note;
    assert_int_equal(zone_offset(open_zone(""), 0), 0);
    assert_ptr_equal(open_zone("UTC"), open_zone(""));
    assert_ptr_equal(open_zone("Europe/Berlin"), open_zone("Europe/Berlin"));
    assert_int_equal(zone_offset(open_zone("Asia/Kolkata"), 0), 19800);
    assert_int_equal(zone_next_change(open_zone("UTC"), 0), INT64_MAX);
    assert_int_equal(zones_open(zones, SPAN_LITERAL("Europe/Berln"), &z, &note), -ERR_INVALID);
    assert_non_null(strstr(note.text, "did you mean \"Europe/Berlin\"?"));
    assert_int_equal(zones_open(zones, SPAN_LITERAL("Mars/Olympus"), &z, &note), -ERR_INVALID);
    assert_non_null(strstr(note.text, "timezone is \"Mars/Olympus\", which is not known;"));
    /* GLib would take these: other clocks, paths, rules. */
    static const char *const others[] = {"right/Europe/Berlin",
                                         "posix/Europe/Berlin",
                                         "/etc/localtime",
                                         "../zoneinfo/UTC",
                                         ":UTC",
                                         "CET-1CEST",
                                         "+05:30",
                                         "Europe/Berlin ",
                                         "europe/berlin"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(zones_open(zones, span_text(others[i]), &z, &note), -ERR_INVALID);
    assert_null(z);
}

static int setup(void **state)
{
    (void)state;
    return zones_new(&zones);
}

static int teardown(void **state)
{
    (void)state;
    zones_free(zones);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_offsets_of_all_zones),
        cmocka_unit_test(test_no_change_is_missed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
