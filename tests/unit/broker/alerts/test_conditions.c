/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions in queues of several stores, of which one is away: what was not seen stays as it is.
 * What conditions hold is tested in core, how they are told from outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/router/router.h"
#include "broker/alerts/webhook_delivery.h"
#include "core/alerts/alert.h"
#include "unit/backend/switched.h"
#include "unit/broker/broker_rig.h"

/* "mail*" is kept by number 1. */
static struct world {
    struct broker_rig rig;
    struct switched *parts[2];
    struct conditions *c;
    char raised[64]; /* the queues of the rule's list, each with a blank behind it */
    bool told;
} w;

static struct backend *open_part(unsigned i)
{
    struct backend_config config = {
        .loop = &w.rig.loop, .clock = clock_manual(&w.rig.clock), .seed = 7};
    struct backend *inner;
    struct err_note note;
    assert_int_equal(backend_open("memory:", &config, &inner, &note), 0);
    w.parts[i] = switched_new(inner, &w.rig.loop);
    return switched_backend(w.parts[i]);
}

static void begin(void)
{
    struct backend *router;
    struct alert_rule rule;
    w = (struct world){.told = false};
    broker_rig_loop(&w.rig);
    struct router_child children[] = {{open_part(0), 0}, {open_part(1), 1}};
    struct router_route routes[] = {{"mail*", 1}};
    struct backend_config config = {.loop = &w.rig.loop, .clock = clock_manual(&w.rig.clock)};
    assert_int_equal(backend_open_router(children, 2, routes, 1, &config, &router), 0);
    broker_rig_init_with(&w.rig, router);
    assert_int_equal(conditions_open(w.rig.broker, &w.c), 0);
    alert_rule_default(ALERT_DEEP, &rule);
    rule.queue = SPAN_LITERAL("*");
    rule.depth = 2;
    struct op op = {.kind = OP_ALERT_PUT, .alert = {.name = SPAN_LITERAL("deep"), .rule = &rule}};
    assert_int_equal(do_op(&w.rig, &op).outcome, OUT_OK);
}

static void end(void)
{
    conditions_close(w.c);
    broker_rig_done(&w.rig);
}

static void fill(const char *queue, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(do_enqueue(&w.rig, queue, "1").outcome, OUT_OK);
}

static void set_flag(void *ctx)
{
    *(bool *)ctx = true;
}

static void pass(void)
{
    bool ended = false;
    conditions_pass(w.c, set_flag, &ended);
    broker_rig_until(&w.rig, &ended);
}

static void raised_cb(void *ctx, const struct reply *r)
{
    size_t n = 0;
    (void)ctx;
    assert_int_equal(r->outcome, OUT_OK);
    for (uint32_t i = 0; i < r->alerts[0].raised_count; i++) {
        struct span queue = r->alerts[0].raised[i].queue;
        n += (size_t)snprintf(w.raised + n, sizeof w.raised - n, "%.*s ", (int)queue.len, queue.at);
    }
    w.raised[n] = '\0';
    w.told = true;
}

/* In the stores that answer, those longest so first. */
static const char *raised(void)
{
    struct op op = {.kind = OP_ALERT_LIST, .alert.partial = true};
    w.told = false;
    assert_int_equal(backend_submit(w.rig.backend, &op, 1, raised_cb, NULL), 0);
    broker_rig_until(&w.rig, &w.told);
    return w.raised;
}

static size_t edges(unsigned part)
{
    return switched_met(w.parts[part], OP_ALERT_EDGE);
}

/* The store goes while a pass is under way: it has told what is raised, but not its queues. */
static void pass_that_loses_mail(void)
{
    size_t before = switched_passed(w.parts[1], OP_ALERT_LIST);
    bool ended = false;
    conditions_changed(w.c);
    conditions_pass(w.c, set_flag, &ended);
    while (switched_passed(w.parts[1], OP_ALERT_LIST) == before)
        broker_rig_turns(&w.rig, 1);
    switched_set(w.parts[1], SWITCH_OFF);
    broker_rig_until(&w.rig, &ended);
}

static void delete_mail(void)
{
    struct op op = {.kind = OP_QUEUE_DELETE, .queue = {.name = SPAN_LITERAL("mail")}};
    assert_int_equal(do_op(&w.rig, &op).outcome, OUT_OK);
}

/* HF-12, NOM-11 */
static void test_unseen_stays(void **state)
{
    (void)state;
    begin();
    fill("mail", 2);
    pass();
    assert_string_equal(raised(), "mail ");
    size_t told = edges(1);
    pass_that_loses_mail();
    /* While it is away the others are looked at. */
    broker_rig_advance(&w.rig, 1000);
    fill("q", 2);
    pass();
    assert_string_equal(raised(), "q ");
    assert_int_equal(edges(1), told);
    /* It is remembered what was told. */
    switched_set(w.parts[1], SWITCH_ON);
    conditions_changed(w.c);
    pass();
    assert_string_equal(raised(), "mail q ");
    assert_int_equal(edges(1), told);
    /* Seen, it is cleared; and so is what is gone. */
    delete_mail();
    pass();
    assert_string_equal(raised(), "q ");
    end();
}

/* A node that begins to check conditions while the store does not answer asks again what is raised
 * there. */
static void test_learnt_when_it_is_back(void **state)
{
    (void)state;
    begin();
    fill("mail", 2);
    pass();
    conditions_close(w.c);
    assert_int_equal(conditions_open(w.rig.broker, &w.c), 0);
    switched_set(w.parts[1], SWITCH_OFF);
    pass();
    switched_set(w.parts[1], SWITCH_ON);
    assert_string_equal(raised(), "mail ");
    delete_mail();
    pass();
    assert_string_equal(raised(), "");
    end();
}

/* HF-12, NOM-11: a queue of the same name elsewhere says nothing about the one that is away. */
static void test_stand_in_is_not_looked_at(void **state)
{
    struct op stray = do_enqueue_op("mail", "1");
    struct told told = {.yes = false};
    (void)state;
    begin();
    fill("mail", 2);
    assert_int_equal(backend_submit(switched_backend(w.parts[0]), &stray, 1, told_cb, &told), 0);
    broker_rig_until(&w.rig, &told.yes);
    pass();
    size_t before = edges(1);
    switched_set(w.parts[1], SWITCH_OFF);
    pass();
    switched_set(w.parts[1], SWITCH_ON);
    pass();
    assert_int_equal(edges(1), before);
    assert_string_equal(raised(), "mail ");
    end();
}

/* Without the default store there are no rules to go by. */
static void test_default_away(void **state)
{
    (void)state;
    begin();
    fill("mail", 2);
    switched_set(w.parts[0], SWITCH_OFF);
    pass();
    assert_int_equal(edges(1), 0);
    switched_set(w.parts[0], SWITCH_ON);
    pass();
    assert_string_equal(raised(), "mail ");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unseen_stays),
        cmocka_unit_test(test_learnt_when_it_is_back),
        cmocka_unit_test(test_stand_in_is_not_looked_at),
        cmocka_unit_test(test_default_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
