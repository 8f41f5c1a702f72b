/* SPDX-License-Identifier: Apache-2.0 */
/* ORC-18, NOM-11: alert rules, their defaults, patterns and back-off. */
#include "core/alerts/alert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest/random.h"

static void defaults(void **state)
{
    (void)state;
    struct alert_rule r;
    struct err_note note = {""};
    for (unsigned on = 1; on < ALERT_ON_COUNT; on++) {
        alert_rule_default(on, &r);
        assert_true(r.enabled);
        assert_true(span_equal(r.queue, SPAN_LITERAL("*")));
        if (alert_rule_check(&r, &note) != 0)
            fail_msg("%s: %s", alert_on_name(on), note.text);
    }
    alert_rule_default(ALERT_ERROR_SHARE, &r);
    assert_int_equal(r.percent, 10);
    assert_int_equal(r.window_ms, 300000);
    assert_int_equal(r.min_ends, 20);
    alert_rule_default(ALERT_NO_CLAIM, &r);
    assert_int_equal(r.after_ms, 60000);
    assert_false(alert_is_condition(ALERT_DEAD));
    assert_false(alert_is_condition(ALERT_SCHEDULE_FAILED));
    assert_true(alert_is_condition(ALERT_DEEP));
    assert_true(alert_is_condition(ALERT_FAILOVER));
    assert_true(alert_is_of_node(ALERT_FAILOVER));
    assert_false(alert_is_of_node(ALERT_CAPACITY));
    assert_null(alert_on_name(0));
    assert_null(alert_on_name(ALERT_ON_COUNT));
}

static void check_refuses(struct alert_rule r, const char *begins)
{
    struct err_note note = {""};
    assert_int_equal(alert_rule_check(&r, &note), -ERR_INVALID);
    if (strncmp(note.text, begins, strlen(begins)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", note.text, begins);
}

static void refused(void **state)
{
    (void)state;
    struct alert_rule dead, share, r;
    alert_rule_default(ALERT_DEAD, &dead);
    alert_rule_default(ALERT_ERROR_SHARE, &share);
    r = dead, r.on = 0, check_refuses(r, "on ");
    r = dead, r.on = ALERT_ON_COUNT, check_refuses(r, "on ");
    r = dead, r.queue.len = 0, check_refuses(r, "queue ");
    r = dead, r.depth = 1, check_refuses(r, "depth cannot be set");
    r = dead, r.url = SPAN_LITERAL("ftp://x/"), check_refuses(r, "url ");
    r = dead, r.secret = SPAN_LITERAL("s"), check_refuses(r, "secret ");
    r = share, r.percent = 0, check_refuses(r, "percent ");
    r = share, r.percent = 101, check_refuses(r, "percent ");
    r = share, r.window_ms = 999, check_refuses(r, "window_ms ");
    r = share, r.min_ends = 0, check_refuses(r, "min_ends ");
    r = share, r.with_payload = true, check_refuses(r, "with_payload ");
    alert_rule_default(ALERT_NO_CLAIM, &r);
    r.after_ms = 999;
    check_refuses(r, "after_ms ");
    alert_rule_default(ALERT_FAILOVER, &r);
    r.queue = SPAN_LITERAL("q*");
    check_refuses(r, "queue must be *");
    assert_int_equal(alert_name_check(SPAN_LITERAL("ops"), NULL), 0);
    assert_int_equal(alert_name_check(SPAN_LITERAL(""), NULL), -ERR_INVALID);
    assert_int_equal(alert_name_check(SPAN_LITERAL("-x"), NULL), -ERR_INVALID);
}

static void patterns(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool matches;
    } all[] = {
        {"mail", "mail", true},
        {"mail", "mails", false},
        {"mail", "mai", false},
        {"*", "", true},
        {"*", "x", true},
        {"mail*", "mail", true},
        {"mail*", "mail-eu", true},
        {"mail*", "xmail", false},
        {"*mail", "xmail", true},
        {"*mail", "mailx", false},
        {"a*b*c", "aXbYc", true},
        {"a*b*c", "abbc", true},
        {"a*b*c", "acb", false},
        {"*ab*ab", "xabyab", true},
        {"*ab*ab", "xab", false},
        {"**", "x", true},
        {"", "", true},
        {"", "x", false},
        {"?ail", "mail", false},
        {"a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (alert_matches(span_text(all[i].pattern), span_text(all[i].name)) != all[i].matches)
            fail_msg("\"%s\" and \"%s\"", all[i].pattern, all[i].name);
}

static void what_begins_again(void **state)
{
    (void)state;
    struct alert_rule a, b;
    alert_rule_default(ALERT_ERROR_SHARE, &a);
    b = a, b.url = SPAN_LITERAL("http://x/"), b.secret = SPAN_LITERAL("s");
    assert_true(alert_same_condition(&a, &b));
    b = a, b.percent = 11;
    assert_false(alert_same_condition(&a, &b));
    b = a, b.enabled = false;
    assert_false(alert_same_condition(&a, &b));
    b = a, b.queue = SPAN_LITERAL("mail");
    assert_false(alert_same_condition(&a, &b));
}

static void waits(void **state)
{
    (void)state;
    struct random random;
    random_seed(&random, 7);
    for (unsigned round = 0; round < 1000; round++) {
        int64_t middle = 1000;
        for (uint32_t tries = 1; tries < 40; tries++) {
            int64_t ms = notice_backoff_ms(tries, &random);
            assert_in_range(ms, middle - middle / 10, middle + middle / 10);
            middle = middle * 2 > 3600000 ? 3600000 : middle * 2;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),          cmocka_unit_test(refused), cmocka_unit_test(patterns),
        cmocka_unit_test(what_begins_again), cmocka_unit_test(waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
