/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule that changes while it is being fired. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "broker/broker_impl.h"
#include "core/limits.h"
#include "core/schedules/schedule.h"
#include "unit/backend/fake_backend.h"
#include "unit/broker/broker_rig.h"

#define NAME "each-second"

static struct schedule_view view_of(const struct broker_rig *r)
{
    struct schedule_view v = {.name = SPAN_LITERAL(NAME), .state = {.next_at = r->clock.at.wall}};
    schedule_default(&v.spec, SCHEDULE_INTERVAL);
    v.spec.every_ms = 1000;
    v.spec.queue = SPAN_LITERAL("q");
    return v;
}

/* Answers with what the schedule is like now. */
static void answer(struct broker_rig *r, struct fake_backend *f, size_t index)
{
    struct fake_pending *p = &f->pending[index];
    struct schedule_view v = view_of(r);
    struct reply reply = {
        .kind = p->op->kind, .tag = p->op->tag, .schedules = &v, .schedule_count = 1};
    p->answered = true;
    p->fn(p->ctx, &reply);
}

/* The first op of this kind; lists are answered as they come. */
static size_t await_op(struct broker_rig *r, struct fake_backend *f, enum op_kind kind)
{
    for (size_t i = 0;; i++) {
        while (i == f->count)
            uv_run(&r->loop, UV_RUN_ONCE);
        if (f->seen[i].kind == kind)
            return i;
        if (f->seen[i].kind == OP_SCHEDULE_LIST && !f->pending[i].answered)
            answer(r, f, i);
    }
}

/* The op under way keeps its name: a store that nodes share may read it after the answer to the
 * change has come. */
static void test_a_change_while_it_is_fired(void **state)
{
    (void)state;
    struct broker_rig r;
    bool gone = false;
    broker_rig_loop(&r);
    struct fake_backend *f = fake_new(&r.loop, &gone);
    f->manual = true;
    broker_rig_init_with(&r, &f->base);
    broker_schedules_start(r.broker);
    const struct op *fire = f->pending[await_op(&r, f, OP_FIRE)].op;
    struct schedule_spec spec = view_of(&r).spec;
    struct op put = {.kind = OP_SCHEDULE_PUT,
                     .schedule = {.name = SPAN_LITERAL(NAME), .spec = &spec}};
    struct told told = {0};
    assert_int_equal(broker_submit(r.broker, &put, 1, told_cb, &told), 0);
    answer(&r, f, await_op(&r, f, OP_SCHEDULE_PUT));
    assert_true(told.yes);
    assert_true(span_equal(fire->schedule.name, SPAN_LITERAL(NAME)));
    f->manual = false;
    broker_rig_done(&r);
    assert_true(gone);
}

/* LIMIT_WALL_MS is never: a store whose clock says so must not make the search for the last time
 * that passed go on for ever. */
static void test_a_clock_at_its_end(void **state)
{
    (void)state;
    struct schedule_spec spec;
    schedule_default(&spec, SCHEDULE_INTERVAL);
    spec.every_ms = 1000;
    spec.start_at.ms = 1800000000000;
    struct times t = {.spec = &spec};
    struct wall_time due = {LIMIT_WALL_MS - 60999}, end = {LIMIT_WALL_MS};
    struct plan plan = times_plan(&t, due, end);
    assert_true(plan.at.ms >= due.ms && plan.at.ms < LIMIT_WALL_MS);
    assert_int_equal(plan.next_at.ms, LIMIT_WALL_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_change_while_it_is_fired),
        cmocka_unit_test(test_a_clock_at_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
