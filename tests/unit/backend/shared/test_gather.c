/* SPDX-License-Identifier: Apache-2.0 */
/* How many operations one unit of a shared store accepts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/shared/shared.h"

static void answered_cb(void *ctx, const struct reply *reply)
{
    (void)reply;
    ++*(size_t *)ctx;
}

/* A claim over many queues may find all its jobs in any of them: it reads this many in each. */
static void test_claims_weigh_by_queues(void **state)
{
    (void)state;
    static struct span names[100];
    static struct op ops[60];
    struct shared s = {.first = NULL};
    struct unit u = {.s = &s, .turns = mem_array(UNIT_OPS_MAX, sizeof *u.turns)};
    size_t answers = 0, most = 0, units = 0;
    assert_non_null(u.turns);
    for (size_t i = 0; i < 60; i++)
        ops[i] = (struct op){.kind = OP_CLAIM,
                             .claim = {.queues = names, .queue_count = 100, .count = 1}};
    ops[7].claim.count = 1000; /* too much for any unit: it gets its own */
    assert_int_equal(shared_batch_add(&s, ops, 60, answered_cb, &answers), 0);
    while (s.first) {
        shared_gather(&u, CLASS_UNIT, UNIT_OPS_MAX);
        assert_true(u.count > 0);
        size_t looked_at = 0;
        for (size_t i = 0; i < u.count; i++)
            looked_at += (size_t)u.turns[i].op->claim.count * 100;
        assert_true(looked_at <= UNIT_CLAIMS_MAX || u.count == 1);
        most = u.count > most ? u.count : most;
        units++;
        unit_turns_refuse(&u, OUT_UNAVAILABLE, NULL);
    }
    assert_int_equal(answers, 60);
    assert_int_equal(most, UNIT_CLAIMS_MAX / 100);
    assert_true(units < 60);
    mem_free(u.turns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_claims_weigh_by_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
