/* SPDX-License-Identifier: Apache-2.0 */
/* NOM-11: each condition at its mark, in the band below it, and beyond. */
#include "core/alerts/condition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct condition c;
static uint64_t value, mark;

static struct alert_rule rule_of(enum alert_on on)
{
    struct alert_rule r;
    alert_rule_default(on, &r);
    return r;
}

static enum verdict look(const struct alert_rule *r, struct sighting s)
{
    return condition_look(&c, r, &s, &value, &mark);
}

static void begin(struct sighting s, enum condition_past past)
{
    condition_begin(&c, &s, past);
}

static void depth(void **state)
{
    (void)state;
    struct alert_rule r = rule_of(ALERT_DEEP);
    begin((struct sighting){0}, PAST_UNKNOWN);
    /* NOM-11: without a number 10,000. */
    assert_int_equal(look(&r, (struct sighting){.ready = 8999}), VERDICT_HOLDS_NOT);
    assert_int_equal(look(&r, (struct sighting){.ready = 9999}), VERDICT_NONE);
    assert_int_equal(look(&r, (struct sighting){.ready = 10000}), VERDICT_HOLDS);
    assert_int_equal(look(&r, (struct sighting){.ready = 9999, .warn_depth = 100}), VERDICT_NONE);
    assert_int_equal(mark, 10000);
    /* 0: the warn_depth of the queue, otherwise 10,000. */
    r.depth = 0;
    assert_int_equal(look(&r, (struct sighting){.ready = 9999}), VERDICT_NONE);
    assert_int_equal(look(&r, (struct sighting){.ready = 10000}), VERDICT_HOLDS);
    assert_int_equal(look(&r, (struct sighting){.ready = 99, .warn_depth = 100}), VERDICT_NONE);
    assert_int_equal(look(&r, (struct sighting){.ready = 40, .scheduled = 60, .warn_depth = 100}),
                     VERDICT_HOLDS);
    assert_int_equal(value, 100);
    assert_int_equal(mark, 100);
    assert_int_equal(look(&r, (struct sighting){.ready = 90, .warn_depth = 100}), VERDICT_NONE);
    assert_int_equal(look(&r, (struct sighting){.ready = 89, .warn_depth = 100}),
                     VERDICT_HOLDS_NOT);
    assert_int_equal(look(&r, (struct sighting){.running = 500, .warn_depth = 100}),
                     VERDICT_HOLDS_NOT); /* these do not wait */
    r.depth = 5;                         /* the rule's own */
    assert_int_equal(look(&r, (struct sighting){.ready = 5, .warn_depth = 100}), VERDICT_HOLDS);
    assert_int_equal(mark, 5);
    r.depth = 1;
    assert_int_equal(look(&r, (struct sighting){.ready = 0}), VERDICT_HOLDS_NOT);
}

static void share_of_capacity(void **state)
{
    (void)state;
    struct alert_rule r = rule_of(ALERT_CAPACITY);
    begin((struct sighting){0}, PAST_UNKNOWN);
    assert_int_equal(look(&r, (struct sighting){.ready = 5}), VERDICT_HOLDS_NOT); /* no limit */
    assert_int_equal(
        look(&r, (struct sighting){.ready = 30, .scheduled = 30, .running = 30, .capacity = 100}),
        VERDICT_HOLDS);
    assert_int_equal(value, 90);
    assert_int_equal(look(&r, (struct sighting){.ready = 89, .capacity = 100}), VERDICT_NONE);
    assert_int_equal(look(&r, (struct sighting){.ready = 81, .capacity = 100}), VERDICT_NONE);
    assert_int_equal(look(&r, (struct sighting){.ready = 80, .capacity = 100}), VERDICT_HOLDS_NOT);
    assert_int_equal(look(&r, (struct sighting){.ready = 5, .capacity = UINT64_MAX}),
                     VERDICT_HOLDS_NOT);
}

static struct sighting waiting(int64_t at, uint64_t claimed, int64_t oldest)
{
    return (struct sighting){
        .at = {at}, .ready = oldest < 0 ? 0 : 3, .claimed = claimed, .oldest_ready_ms = oldest};
}

static void no_claims(void **state)
{
    (void)state;
    struct alert_rule r = rule_of(ALERT_NO_CLAIM);
    begin(waiting(0, 7, 500000), PAST_UNKNOWN); /* as after a restart */
    assert_int_equal(look(&r, waiting(1000, 7, 501000)), VERDICT_NONE);
    assert_int_equal(look(&r, waiting(59999, 7, 559999)), VERDICT_NONE);
    assert_int_equal(look(&r, waiting(60000, 7, 560000)), VERDICT_HOLDS);
    assert_int_equal(value, 60000);
    assert_int_equal(look(&r, waiting(61000, 8, 561000)), VERDICT_HOLDS_NOT); /* a claim */
    assert_int_equal(look(&r, waiting(120999, 8, 621000)), VERDICT_HOLDS_NOT);
    assert_int_equal(look(&r, waiting(121000, 8, 621000)), VERDICT_HOLDS);
    assert_int_equal(look(&r, waiting(122000, 8, 59999)), VERDICT_HOLDS_NOT); /* ready lately */
    assert_int_equal(look(&r, waiting(123000, 8, -1)), VERDICT_HOLDS_NOT);    /* nothing is ready */
    struct sighting paused = waiting(500000, 8, 400000);
    paused.paused = true;
    assert_int_equal(look(&r, paused), VERDICT_HOLDS_NOT);
    /* A new queue without any claim: its whole age counts. */
    struct sighting fresh = waiting(70000, 0, 60000);
    fresh.age_ms = 65000;
    begin(fresh, PAST_ALL);
    assert_int_equal(look(&r, fresh), VERDICT_HOLDS);
}

static struct sighting ended(int64_t at, uint64_t ends, uint64_t errors)
{
    return (struct sighting){.at = {at}, .ends = ends, .errors = errors, .oldest_ready_ms = -1};
}

static void share_of_errors(void **state)
{
    (void)state;
    struct alert_rule r = rule_of(ALERT_ERROR_SHARE);                  /* 10 %, 5 min, 20 */
    begin(ended(0, 1000, 900), PAST_UNKNOWN);                          /* history does not count */
    assert_int_equal(look(&r, ended(1000, 1019, 919)), VERDICT_NONE);  /* too few, window young */
    assert_int_equal(look(&r, ended(2000, 1020, 903)), VERDICT_HOLDS); /* 3 of 20 */
    assert_int_equal(value, 15);
    assert_int_equal(look(&r, ended(3000, 1030, 903)), VERDICT_NONE);      /* 3 of 30: not more */
    assert_int_equal(look(&r, ended(4000, 1034, 903)), VERDICT_HOLDS_NOT); /* 8.8 % */
    begin(ended(0, 50, 50), PAST_SINCE_BOOT);
    assert_int_equal(look(&r, ended(1000, 50, 50)), VERDICT_HOLDS);
    assert_int_equal(value, 100);
}

/* Second by second: what lies more than a window back counts no more, to a thirtieth. */
static void window_slides(void **state)
{
    (void)state;
    struct alert_rule r = rule_of(ALERT_ERROR_SHARE);
    r.window_ms = 60000;
    begin(ended(0, 0, 0), PAST_UNKNOWN);
    for (int64_t s = 1; s <= 30; s++)
        look(&r, ended(s * 1000, (uint64_t)s, (uint64_t)s));
    assert_int_equal(value, 100);
    int64_t cleared = 0;
    for (int64_t s = 31; s <= 200 && !cleared; s++)
        if (look(&r, ended(s * 1000, 30 + (uint64_t)(s - 30) * 2, 30)) == VERDICT_HOLDS_NOT)
            cleared = s;
    assert_in_range(cleared, 81, 84);
}

static void long_silence(void **state)
{
    (void)state;
    struct alert_rule r = rule_of(ALERT_ERROR_SHARE);
    begin(ended(0, 0, 0), PAST_UNKNOWN);
    assert_int_equal(look(&r, ended(1000, 30, 30)), VERDICT_HOLDS);
    assert_int_equal(look(&r, ended(400000, 30, 30)),
                     VERDICT_HOLDS_NOT); /* one look, after a gap */
    for (int64_t s = 401; s < 2000; s++)
        look(&r, ended(s * 1000, 30, 30));
    assert_int_equal(look(&r, ended(2000000, 60, 60)), VERDICT_HOLDS);
}

static void another_queue_of_the_same_name(void **state)
{
    (void)state;
    struct alert_rule r = rule_of(ALERT_ERROR_SHARE);
    begin(ended(0, 500, 500), PAST_UNKNOWN);
    look(&r, ended(1000, 600, 500));
    assert_int_equal(look(&r, ended(2000, 25, 25)), VERDICT_HOLDS);
    assert_int_equal(value, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depth),
        cmocka_unit_test(share_of_capacity),
        cmocka_unit_test(no_claims),
        cmocka_unit_test(share_of_errors),
        cmocka_unit_test(window_slides),
        cmocka_unit_test(long_silence),
        cmocka_unit_test(another_queue_of_the_same_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
