/* SPDX-License-Identifier: Apache-2.0 */
/* The buckets of rate limits: bounded, dropped when they are full, no part of what is replayed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "backend/local/engine/engine_impl.h"
#include "unit/backend/local/engine/engine_rig.h"

static const struct span q = {"q", 1};

static void open_limited(struct engine_rig *r, uint32_t count, uint32_t window_ms)
{
    struct queue_policy policy;
    struct op op = {.kind = OP_QUEUE_PUT, .queue = {.name = q, .policy = &policy}};
    policy_default(&policy);
    policy.enqueue_rate = (struct rate_limit){RATE_CORRELATION, count, window_ms};
    engine_rig_open(r, NULL);
    assert_int_equal(engine_rig_step(r, &op)->outcome, OUT_OK);
}

static enum outcome enqueue(struct engine_rig *r, unsigned key)
{
    char text[16];
    struct op op = engine_rig_enqueue(q);
    op.enqueue.extra.correlation = span_of(text, (size_t)snprintf(text, sizeof text, "%u", key));
    return engine_rig_step(r, &op)->outcome;
}

/* PDQ-13: buckets that are full again go as others come. */
static void full_ones_are_dropped(void **state)
{
    (void)state;
    struct engine_rig r;
    open_limited(&r, 1, 1000);
    for (unsigned i = 0; i < 500; i++)
        assert_int_equal(enqueue(&r, i), OUT_OK);
    assert_int_equal(r.engine->rates.used, 500);
    assert_int_equal(enqueue(&r, 0), OUT_RATE_LIMIT);
    engine_rig_pass(&r, 1000);
    for (unsigned i = 1000; i < 1500; i++)
        assert_int_equal(enqueue(&r, i), OUT_OK);
    assert_int_equal(r.engine->rates.used, 500);
    assert_int_equal(map128_count(&r.engine->rate_map), 500);
    engine_rig_same_replayed(&r);
    engine_rig_close(&r);
}

/* Above the limit only the least recently used entry is removed. */
static void they_are_bounded(void **state)
{
    (void)state;
    struct engine_rig r;
    open_limited(&r, 2, 86400000);
    for (unsigned i = 0; i < RATES_MAX; i++)
        assert_int_equal(enqueue(&r, i), OUT_OK);
    assert_int_equal(enqueue(&r, 0), OUT_OK); /* used again: no longer the oldest */
    assert_int_equal(enqueue(&r, RATES_MAX), OUT_OK);
    assert_true(r.engine->rates.used <= RATES_MAX);
    assert_int_equal(enqueue(&r, 0), OUT_RATE_LIMIT);
    assert_int_equal(enqueue(&r, 1), OUT_OK);
    assert_int_equal(enqueue(&r, 1), OUT_OK); /* it had been forgotten */
    engine_rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_ones_are_dropped),
        cmocka_unit_test(they_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
