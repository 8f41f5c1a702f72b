/* SPDX-License-Identifier: Apache-2.0 */
/* The time of the store, estimated from replies that may be late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/shared/shared.h"

#define AHEAD_MS 100000 /* the clock of the store is this far ahead */

static struct now at;

static struct now read_at(void *ctx)
{
    (void)ctx;
    return at;
}

static int64_t theirs(void)
{
    return at.mono.ms + AHEAD_MS;
}

/* Reported this long ago. */
static void hear(struct shared *s, int64_t late_ms)
{
    shared_clock_heard(s, theirs() - late_ms);
}

static int64_t behind(const struct shared *s)
{
    return theirs() - shared_now(s);
}

static void begin(struct shared *s)
{
    at = (struct now){{5000}, {1800000000000}};
    *s = (struct shared){.config = {.clock = {read_at, NULL, false}}};
    arena_init(&s->alerts.arena);
}

static void pass(int64_t ms)
{
    at.mono.ms += ms;
    at.wall.ms += ms;
}

static void test_late_answers_do_not_slow_it(void **state)
{
    (void)state;
    struct shared s;
    begin(&s);
    hear(&s, 30);
    assert_int_equal(behind(&s), 30);
    hear(&s, 2); /* nearer */
    assert_int_equal(behind(&s), 2);
    for (int i = 0; i < 40; i++) {
        pass(100);
        hear(&s, 70);
        assert_int_equal(behind(&s), 2);
    }
    pass(1000); /* the store's clock may have been set: old estimates are dropped */
    hear(&s, 70);
    assert_int_equal(behind(&s), 70);
    hear(&s, -500); /* set forward */
    assert_int_equal(behind(&s), -500);
    arena_done(&s.alerts.arena);
}

static void test_another_server_has_another_clock(void **state)
{
    (void)state;
    struct shared s;
    begin(&s);
    hear(&s, 0);
    shared_store_opened(&s);
    hear(&s, 3000);
    assert_int_equal(behind(&s), 3000);
    arena_done(&s.alerts.arena);
}

/* Heartbeats report it again and again. */
static void test_a_store_that_answers_still_is_no_other(void **state)
{
    (void)state;
    struct shared s;
    begin(&s);
    shared_store_opened(&s);
    hear(&s, 2);
    s.alerts.version = 7;
    shared_store_opened(&s);
    hear(&s, 70);
    assert_int_equal(behind(&s), 2);
    assert_int_equal(s.alerts.version, 7);
    shared_store_lost(&s, "gone");
    shared_store_opened(&s);
    assert_int_equal(s.alerts.version, 0); /* it may have forgotten a change */
    arena_done(&s.alerts.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_answers_do_not_slow_it),
        cmocka_unit_test(test_another_server_has_another_clock),
        cmocka_unit_test(test_a_store_that_answers_still_is_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
