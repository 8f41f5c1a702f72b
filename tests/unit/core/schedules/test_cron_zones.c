/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluator against brute force, in every zone of the tz database (HF-8).
 *
 * Brute force walks through time (minute by minute, or second by second) around each change of
 * offset, reads the clock on the wall with the C library's calendar, and asks each field of the
 * expression text by itself, those of skipped local times included. Elsewhere days are sampled.
 * HF_CRON_YEARS=N looks at N years from 1975 on instead of one of our days. */
#include "core/schedules/cron.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <cmocka.h>

#include "base/digest/random.h"
#include "base/system/zone.h"

#define SEED 20260329
#define MARGIN_S 10800
#define WINDOW_MAX 4096 /* steps */
#define YEAR_S INT64_C(31557600)

static struct zones *zones;

/* ---- brute force ---- */

static int number_of(const char *text, const char *names)
{
    static const char months[] = "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC";
    static const char days[] = "SUNMONTUEWEDTHUFRISAT";
    const char *list = names[0] == 'm' ? months : days;
    if (text[0] >= '0' && text[0] <= '9')
        return (int)strtol(text, NULL, 10);
    for (int i = 0; list[3 * i]; i++)
        if (strncasecmp(list + 3 * i, text, 3) == 0)
            return i + (names[0] == 'm');
    return -1;
}

/* Does a value fulfil one part of a list? */
static bool part_means(char *part, int value, int min, int max, const char *names)
{
    char *slash = strchr(part, '/'), *dash = NULL;
    int step = slash ? (int)strtol(slash + 1, NULL, 10) : 1, first, last;
    if (slash)
        *slash = '\0';
    dash = strchr(part, '-');
    if (part[0] == '*' || part[0] == '?') {
        first = min;
        last = max;
    } else if (dash) {
        first = number_of(part, names);
        last = number_of(dash + 1, names);
    } else {
        first = number_of(part, names);
        last = slash ? max : first;
    }
    return value >= first && value <= last && (value - first) % step == 0;
}

static bool field_means(const char *text, int value, int min, int max, const char *names)
{
    char copy[64], *rest = copy;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *part; (part = strsep(&rest, ",")) != NULL;)
        if (part_means(part, value, min, max, names))
            return true;
    return false;
}

struct expression {
    const char *text;
    bool seconds;
    struct cron cron;
    char field[6][64];
};

static bool wall_means(const struct expression *x, int64_t local)
{
    time_t t = (time_t)local;
    struct tm tm;
    gmtime_r(&t, &tm);
    if (!field_means(x->field[0], tm.tm_sec, 0, 59, "") ||
        !field_means(x->field[1], tm.tm_min, 0, 59, "") ||
        !field_means(x->field[2], tm.tm_hour, 0, 23, "") ||
        !field_means(x->field[4], tm.tm_mon + 1, 1, 12, "month"))
        return false;
    bool day = field_means(x->field[3], tm.tm_mday, 1, 31, "");
    bool weekday = field_means(x->field[5], tm.tm_wday, 0, 6, "day") ||
                   (tm.tm_wday == 0 && field_means(x->field[5], 7, 0, 7, "day"));
    bool either = strchr("*?", x->field[3][0]) == NULL && strchr("*?", x->field[5][0]) == NULL;
    return either ? day || weekday : day && weekday;
}

static struct expression expressions[] = {
    {.text = "* * * * *"},
    {.text = "*/7 * * * *"},
    {.text = "30 2 * * *"},
    {.text = "0,30 0-3 * * *"},
    {.text = "15 1,2,3 * * SUN"},
    {.text = "0 0 * * *"},
    {.text = "5 */2 1-31/2 * MON"},
    {.text = "0 3 29 MAR,OCT SUN,TUE"},
    {.text = "59 23 31 12 *"},
    {.text = "*/20 * * * * *", .seconds = true},
    {.text = "59 59 1,2 * * *", .seconds = true},
};
#define EXPRESSIONS (sizeof expressions / sizeof *expressions)

static void expressions_read(void)
{
    for (size_t i = 0; i < EXPRESSIONS; i++) {
        struct expression *x = &expressions[i];
        struct err_note note;
        if (cron_parse(span_text(x->text), &x->cron, &note) != 0)
            fail_msg("%s: %s", x->text, note.text);
        if (!x->seconds)
            snprintf(x->field[0], sizeof x->field[0], "0");
        char copy[128], *rest = copy;
        snprintf(copy, sizeof copy, "%s", x->text);
        for (int f = x->seconds ? 0 : 1; f < 6; f++)
            snprintf(x->field[f], sizeof x->field[f], "%s", strsep(&rest, " "));
    }
}

/* A stretch of time around one change, walked through once for all expressions. */
struct window {
    const struct zone *zone;
    const char *name;
    int64_t from, to, step;
    int64_t change, before, after; /* moment; offsets before and from it on */
};

/* The walk: for each step the local time and whether the expression means it; and whether it means
 * one of the local times that the change skips. */
struct walk {
    size_t steps;
    int64_t local[WINDOW_MAX];
    bool means[WINDOW_MAX];
    bool skipped;
};

static void walk_through(const struct window *w, const struct expression *x, struct walk *walk)
{
    walk->steps = 0;
    walk->skipped = false;
    for (int64_t at = w->from; at < w->to; at += w->step) {
        size_t i = walk->steps++;
        assert_true(i < WINDOW_MAX);
        walk->local[i] = at + zone_offset(w->zone, at);
        walk->means[i] = wall_means(x, walk->local[i]);
    }
    if (w->change == INT64_MAX)
        return;
    for (int64_t t = w->change + w->before; t < w->change + w->after && !walk->skipped;
         t += w->step)
        walk->skipped = wall_means(x, t);
}

/* The moments in the window at which the expression is due. */
static size_t brute_force(const struct window *w, const struct walk *walk, struct cron_dst dst,
                          int64_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < walk->steps; i++) {
        int64_t at = w->from + (int64_t)i * w->step;
        bool due = walk->means[i];
        /* Was it this late already before the clock was put back? */
        if (!dst.fold_twice && at >= w->change && walk->local[i] < w->change + w->before)
            due = false;
        if (at == w->change && dst.run_after_gap && walk->skipped)
            due = true;
        if (due)
            out[n++] = at;
    }
    return n;
}

static void compare(const struct window *w, const struct expression *x, const struct walk *walk,
                    struct cron_dst dst)
{
    static int64_t right[WINDOW_MAX];
    const struct cron_zone zone = {w->zone, zone_offset, zone_next_change};
    size_t count = brute_force(w, walk, dst, right);
    int64_t at = w->from - 1;
    for (size_t i = 0; i <= count; i++) {
        bool found = cron_next(&x->cron, &zone, &dst, at, &at);
        int64_t expected = i < count ? right[i] : INT64_MAX;
        if (i == count ? !found || at >= w->to : found && at == expected)
            continue;
        fail_msg("%s in %s (gap %s, fold %s): firing %zu from %lld on is %lld, brute force says "
                 "%lld",
                 x->text, w->name, dst.run_after_gap ? "run_after" : "skip",
                 dst.fold_twice ? "twice" : "once", i, (long long)w->from,
                 found ? (long long)at : -1, (long long)expected);
    }
}

static struct walk walk;

static void compare_all(struct window *w)
{
    static const struct cron_dst policies[] = {
        {false, false}, {false, true}, {true, false}, {true, true}};
    int64_t margin = w->after > w->before ? w->after - w->before : w->before - w->after;
    for (size_t i = 0; i < EXPRESSIONS; i++) {
        const struct expression *x = &expressions[i];
        /* Second by second only right at the change, and not the day that one zone skipped. */
        int64_t around = x->seconds ? 300 : MARGIN_S + margin;
        w->step = x->seconds ? 1 : 60;
        if (x->seconds && margin > 1200)
            continue;
        w->from = w->change - around;
        w->to = w->change + around;
        walk_through(w, x, &walk);
        for (size_t p = 0; p < 4; p++)
            compare(w, x, &walk, policies[p]);
    }
}

static int64_t years_asked(int64_t *from)
{
    const char *text = getenv("HF_CRON_YEARS");
    *from = text ? 5 * YEAR_S : 56 * YEAR_S; /* 1975, 2026 */
    return text ? (int)strtol(text, NULL, 10) : 1;
}

static void test_around_changes(void **state)
{
    (void)state;
    size_t count, windows = 0;
    const char *const *names = zones_names(zones, &count);
    int64_t from, years = years_asked(&from);
    for (size_t i = 0; i < count; i++) {
        struct window w = {.name = names[i]};
        assert_int_equal(zones_open(zones, span_text(names[i]), &w.zone, NULL), 0);
        for (w.change = zone_next_change(w.zone, from); w.change < from + years * YEAR_S;
             w.change = zone_next_change(w.zone, w.change)) {
            w.before = zone_offset(w.zone, w.change - 1);
            w.after = zone_offset(w.zone, w.change);
            compare_all(&w);
            windows++;
        }
    }
    print_message("%zu changes of offset\n", windows);
    assert_true(windows > 300);
}

/* The half hour of Lord Howe, the skipped day of Samoa, a change second by second. */
static void test_odd_changes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t about;
    } odd[] = {{"Australia/Lord_Howe", 1775000000}, {"Pacific/Apia", 1325239200 - 86400},
               {"Africa/Casablanca", 1771000000},   {"America/Caracas", 1462000000},
               {"Asia/Pyongyang", 1525000000},      {"Africa/Juba", 1612000000}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct window w = {.name = odd[i].name};
        assert_int_equal(zones_open(zones, span_text(w.name), &w.zone, NULL), 0);
        w.change = zone_next_change(w.zone, odd[i].about);
        assert_true(w.change < odd[i].about + YEAR_S);
        w.before = zone_offset(w.zone, w.change - 1);
        w.after = zone_offset(w.zone, w.change);
        compare_all(&w);
    }
}

/* Days far from any change. */
static void test_plain_days(void **state)
{
    (void)state;
    struct random random;
    size_t count;
    const char *const *names = zones_names(zones, &count);
    random_seed(&random, SEED);
    for (int i = 0; i < 60; i++) {
        size_t pick = (size_t)random_between(&random, 0, (int64_t)count - 1);
        struct window w = {.name = names[pick], .step = 60, .change = INT64_MAX};
        assert_int_equal(zones_open(zones, span_text(w.name), &w.zone, NULL), 0);
        w.from = random_between(&random, 0, 100 * 365) * 86400;
        w.to = w.from + 86400;
        if (zone_next_change(w.zone, w.from - 3 * 86400) < w.to)
            continue;
        for (size_t x = 0; x < EXPRESSIONS; x++) {
            if (expressions[x].seconds)
                continue;
            walk_through(&w, &expressions[x], &walk);
            compare(&w, &expressions[x], &walk, cron_dst_default(&expressions[x].cron));
        }
    }
}

static int setup(void **state)
{
    (void)state;
    int err = zones_new(&zones);
    if (err == 0)
        expressions_read();
    return err;
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
        cmocka_unit_test(test_around_changes),
        cmocka_unit_test(test_odd_changes),
        cmocka_unit_test(test_plain_days),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
