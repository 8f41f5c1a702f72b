/* SPDX-License-Identifier: Apache-2.0 */
/* PDQ-7: alert rules on failover, and the notices of both stores. */
#include "unit/backend/failover/failover_rig.h"

/* --- alert rules on failover --- */

static const struct reply *take_notices(void)
{
    return fr_run(
        (struct op){.kind = OP_NOTICE_TAKE,
                    .notice_take = {.limit = 10, .hold_ms = 60000, .give_up_ms = 3600000}});
}

/* Waits for a notice of the rule, checks it and reports its delivery. */
static void expect_notice(const char *alert, enum notice_edge edge, const char *text)
{
    const struct reply *r = take_notices();
    while (r->notice_count == 0) {
        uv_run(&fr.loop, UV_RUN_ONCE);
        r = take_notices();
    }
    assert_int_equal(r->notice_count, 1);
    const struct notice_view *v = &r->notices[0];
    assert_int_equal(v->notice.on, ALERT_FAILOVER);
    assert_int_equal(v->notice.edge, edge);
    assert_true(span_equal(v->notice.alert, span_text(alert)));
    assert_int_equal(v->notice.queue.len, 0);
    assert_non_null(memmem(v->notice.text.at, v->notice.text.len, text, strlen(text)));
    assert_non_null(memmem(v->notice.text.at, v->notice.text.len, "node 3", 6));
    assert_true(id_spooled(v->notice.number));
    struct op ended = {.kind = OP_NOTICE_END,
                       .notice_end = {.number = v->notice.number, .delivered = true}};
    assert_int_equal(fr_run(ended)->outcome, OUT_OK);
    assert_int_equal(take_notices()->notice_count, 0);
}

static const struct alert_view *alert(const char *name)
{
    const struct reply *r =
        fr_run((struct op){.kind = OP_ALERT_LIST, .alert = {.name = span_text(name)}});
    return r->outcome == OUT_OK ? &r->alerts[0] : NULL;
}

static struct op rule_op(const char *name, struct alert_rule *rule, enum alert_on on)
{
    alert_rule_default(on, rule);
    rule->url = SPAN_LITERAL("https://hooks.example/in");
    rule->secret = SPAN_LITERAL("s");
    return (struct op){.kind = OP_ALERT_PUT, .alert = {.name = span_text(name), .rule = rule}};
}

/* PDQ-7: a rule on failover is raised and cleared by each node that works on its spool, whether it
 * leads or not, and its notices are delivered by that node. */
static void test_a_rule_reports_failover(void **state)
{
    struct alert_rule rule, other;
    (void)state;
    fr_begin();
    assert_true(backend_leads_any(fr.b));
    assert_int_equal(fr_run(rule_op("f", &rule, ALERT_FAILOVER))->outcome, OUT_OK);
    assert_int_equal(fr_run(rule_op("d", &other, ALERT_DEAD))->outcome, OUT_OK);
    fr_until_copied();
    switched_lead(fr.primary, false);
    assert_true(backend_leads_any(fr.b));
    assert_int_equal(take_notices()->notice_count, 0);
    fr_outage();
    fr_enqueue();
    expect_notice("f", EDGE_RAISED, "off");
    assert_int_equal(alert("f")->raised_count, 1);
    assert_null(alert("d")); /* OUT_UNAVAILABLE: only the primary knows */
    switched_set(fr.primary, SWITCH_ON);
    fr_until_moved();
    expect_notice("f", EDGE_CLEARED, "available again");
    assert_int_equal(alert("f")->raised_count, 0);
    assert_non_null(alert("d"));
    /* What is changed or deleted in the primary is so in the spool, too. */
    rule.enabled = false;
    assert_int_equal(fr_run((struct op){.kind = OP_ALERT_PUT,
                                        .alert = {.name = SPAN_LITERAL("f"), .rule = &rule}})
                         ->outcome,
                     OUT_OK);
    fr_until_copied();
    fr_outage();
    assert_int_equal(alert("f")->raised_count, 0);
    switched_set(fr.primary, SWITCH_ON);
    fr_until_up(true);
    assert_int_equal(
        fr_run((struct op){.kind = OP_ALERT_DELETE, .alert = {.name = SPAN_LITERAL("f")}})->outcome,
        OUT_OK);
    fr_until_copied();
    fr_outage();
    assert_null(alert("f"));
    fr_end();
}

/* The rule of the settings also reports an outage that begins before the first start. */
static void test_the_rule_of_the_settings(void **state)
{
    (void)state;
    fr_begin_with(false);
    fr.alert_url = "https://hooks.example/in";
    fr_open();
    expect_notice(FAILOVER_ALERT, EDGE_RAISED, "no server listens");
    fr_listening = true;
    fr_until_up(true);
    expect_notice(FAILOVER_ALERT, EDGE_CLEARED, "available again");
    fr_until_copied();
    const struct reply *r = fr_run_at(
        switched_backend(fr.primary),
        (struct op){.kind = OP_ALERT_LIST, .alert = {.name = SPAN_LITERAL(FAILOVER_ALERT)}});
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->alerts[0].rule.on, ALERT_FAILOVER);
    fr_end();
}

/* A notice that is not delivered stays in the outbox of the spool and can be listed and discarded,
 * during the outage and afterwards. */
static void test_notices_of_both_stores(void **state)
{
    struct alert_rule rule, dead;
    (void)state;
    fr_begin();
    assert_int_equal(fr_run(rule_op("f", &rule, ALERT_FAILOVER))->outcome, OUT_OK);
    assert_int_equal(fr_run(rule_op("d", &dead, ALERT_DEAD))->outcome, OUT_OK);
    fr_until_copied();
    fr_enqueue();
    struct op fail = fr_lease_op(OP_FAIL, &fr_claim(1)->jobs[0]);
    fail.lease.no_retry = true;
    assert_int_equal(fr_run(fail)->outcome, OUT_OK);
    fr_outage();
    struct op list = {.kind = OP_NOTICE_LIST, .notice = {.limit = 10}};
    while (fr_run(list)->notice_count == 0)
        uv_run(&fr.loop, UV_RUN_ONCE);
    switched_set(fr.primary, SWITCH_ON);
    fr_until_up(true);
    const struct reply *r = fr_run(list);
    assert_int_equal(r->notice_count, 1); /* of the primary, and there is another page */
    assert_false(id_spooled(r->notices[0].notice.number));
    assert_int_not_equal(r->notice_cursor, 0);
    list.notice.after = r->notices[0].notice.number;
    while (fr_run(list)->notice_count < 2) /* raised and cleared */
        uv_run(&fr.loop, UV_RUN_ONCE);
    r = fr_run(list);
    assert_true(id_spooled(r->notices[0].notice.number));
    list.notice.after = r->notices[0].notice.number;
    assert_int_equal(fr_run(list)->notice_count, 1);
    struct job_ref id = {r->notices[0].notice.number, r->notices[0].notice.id_hi};
    struct op one = {.kind = OP_NOTICE_LIST, .notice = {.id = id}};
    assert_int_equal(fr_run(one)->notice_count, 1);
    one.kind = OP_NOTICE_AGAIN;
    assert_int_equal(fr_run(one)->outcome, OUT_OK);
    one.kind = OP_NOTICE_DISCARD;
    assert_int_equal(fr_run(one)->outcome, OUT_OK);
    one.kind = OP_NOTICE_LIST;
    assert_int_equal(fr_run(one)->outcome, OUT_NOT_FOUND);
    fr_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rule_reports_failover),
        cmocka_unit_test(test_the_rule_of_the_settings),
        cmocka_unit_test(test_notices_of_both_stores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
