/* SPDX-License-Identifier: Apache-2.0 */
/* The table of legal moves, every move × from × to, against a listing written down separately. */
#include "core/jobs/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct triple {
    enum job_move move;
    enum job_state from, to;
};

static const struct triple legal[] = {
    {MOVE_ENQUEUE, STATE_NONE, STATE_SCHEDULED},
    {MOVE_ENQUEUE, STATE_NONE, STATE_READY},
    {MOVE_IMPORT, STATE_NONE, STATE_SCHEDULED},
    {MOVE_IMPORT, STATE_NONE, STATE_READY},
    {MOVE_IMPORT, STATE_NONE, STATE_DONE},
    {MOVE_IMPORT, STATE_NONE, STATE_DEAD},
    {MOVE_IMPORT, STATE_NONE, STATE_CANCELLED},
    {MOVE_IMPORT, STATE_NONE, STATE_BLOCKED},
    {MOVE_ENQUEUE, STATE_NONE, STATE_BLOCKED},
    {MOVE_PROMOTE, STATE_SCHEDULED, STATE_READY},
    {MOVE_CLAIM, STATE_READY, STATE_RUNNING},
    {MOVE_SEIZE, STATE_SCHEDULED, STATE_RUNNING},
    {MOVE_SEIZE, STATE_READY, STATE_RUNNING},
    {MOVE_SEIZE, STATE_DEAD, STATE_RUNNING},
    {MOVE_ACK, STATE_RUNNING, STATE_DONE},
    {MOVE_FAIL, STATE_RUNNING, STATE_SCHEDULED},
    {MOVE_FAIL, STATE_RUNNING, STATE_READY},
    {MOVE_FAIL, STATE_RUNNING, STATE_DEAD},
    {MOVE_LEASE_END, STATE_RUNNING, STATE_SCHEDULED},
    {MOVE_LEASE_END, STATE_RUNNING, STATE_READY},
    {MOVE_LEASE_END, STATE_RUNNING, STATE_DEAD},
    {MOVE_RELEASE, STATE_RUNNING, STATE_SCHEDULED},
    {MOVE_RELEASE, STATE_RUNNING, STATE_READY},
    {MOVE_EXTEND, STATE_RUNNING, STATE_RUNNING},
    {MOVE_EXPIRE, STATE_SCHEDULED, STATE_DEAD},
    {MOVE_EXPIRE, STATE_READY, STATE_DEAD},
    {MOVE_EXPIRE, STATE_BLOCKED, STATE_DEAD},
    {MOVE_CANCEL, STATE_BLOCKED, STATE_CANCELLED},
    {MOVE_PATCH, STATE_BLOCKED, STATE_BLOCKED},
    {MOVE_REMOVE, STATE_BLOCKED, STATE_NONE},
    {MOVE_PURGE, STATE_BLOCKED, STATE_NONE},
    {MOVE_DISCARD, STATE_BLOCKED, STATE_CANCELLED},
    {MOVE_UNBLOCK, STATE_BLOCKED, STATE_SCHEDULED},
    {MOVE_UNBLOCK, STATE_BLOCKED, STATE_READY},
    {MOVE_DEPENDENCY_FAILED, STATE_BLOCKED, STATE_CANCELLED},
    {MOVE_DEPENDENCY_FAILED, STATE_BLOCKED, STATE_DEAD},
    {MOVE_CANCEL, STATE_SCHEDULED, STATE_CANCELLED},
    {MOVE_CANCEL, STATE_READY, STATE_CANCELLED},
    {MOVE_CANCEL, STATE_RUNNING, STATE_CANCELLED},
    {MOVE_REQUEUE, STATE_SCHEDULED, STATE_READY},
    {MOVE_REQUEUE, STATE_SCHEDULED, STATE_SCHEDULED},
    {MOVE_REQUEUE, STATE_DEAD, STATE_READY},
    {MOVE_REQUEUE, STATE_DEAD, STATE_SCHEDULED},
    {MOVE_REQUEUE, STATE_CANCELLED, STATE_READY},
    {MOVE_REQUEUE, STATE_CANCELLED, STATE_SCHEDULED},
    {MOVE_PATCH, STATE_SCHEDULED, STATE_SCHEDULED},
    {MOVE_PATCH, STATE_SCHEDULED, STATE_READY},
    {MOVE_PATCH, STATE_READY, STATE_SCHEDULED},
    {MOVE_PATCH, STATE_READY, STATE_READY},
    {MOVE_REMOVE, STATE_SCHEDULED, STATE_NONE},
    {MOVE_REMOVE, STATE_READY, STATE_NONE},
    {MOVE_REMOVE, STATE_DONE, STATE_NONE},
    {MOVE_REMOVE, STATE_DEAD, STATE_NONE},
    {MOVE_REMOVE, STATE_CANCELLED, STATE_NONE},
    {MOVE_PURGE, STATE_SCHEDULED, STATE_NONE},
    {MOVE_PURGE, STATE_READY, STATE_NONE},
    {MOVE_PURGE, STATE_RUNNING, STATE_NONE},
    {MOVE_PURGE, STATE_DONE, STATE_NONE},
    {MOVE_PURGE, STATE_DEAD, STATE_NONE},
    {MOVE_PURGE, STATE_CANCELLED, STATE_NONE},
    {MOVE_DISCARD, STATE_SCHEDULED, STATE_CANCELLED},
    {MOVE_DISCARD, STATE_READY, STATE_CANCELLED},
    {MOVE_DISCARD, STATE_RUNNING, STATE_CANCELLED},
    {MOVE_DISCARD, STATE_DONE, STATE_CANCELLED},
    {MOVE_DISCARD, STATE_DEAD, STATE_CANCELLED},
};

static bool listed(enum job_move m, enum job_state from, enum job_state to)
{
    for (size_t i = 0; i < sizeof legal / sizeof legal[0]; i++) {
        if (legal[i].move == m && legal[i].from == from && legal[i].to == to)
            return true;
    }
    return false;
}

static void test_every_triple(void **state)
{
    (void)state;
    size_t allowed = 0;
    for (unsigned m = 0; m < MOVE_COUNT; m++) {
        for (unsigned from = 0; from < STATE_COUNT; from++) {
            bool starts = false;
            for (unsigned to = 0; to < STATE_COUNT; to++) {
                if (move_allowed(m, from, to) != listed(m, from, to))
                    fail_msg("%s from %s to %s", move_name(m), state_name(from), state_name(to));
                starts = starts || listed(m, from, to);
                allowed += move_allowed(m, from, to);
            }
            assert_int_equal(move_starts_from(m, from), starts);
        }
    }
    assert_int_equal(allowed, sizeof legal / sizeof legal[0]);
}

static void test_out_of_range_is_never_allowed(void **state)
{
    (void)state;
    const unsigned far[] = {STATE_COUNT, 31, 32, 64, 255, UINT32_MAX};
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        assert_false(move_allowed(MOVE_CLAIM, far[i], STATE_RUNNING));
        assert_false(move_allowed(MOVE_CLAIM, STATE_READY, far[i]));
        assert_false(move_starts_from(MOVE_CLAIM, far[i]));
        assert_null(state_name(far[i]));
        assert_string_equal(state_legal_moves(far[i]), "");
    }
    assert_false(move_allowed(MOVE_COUNT, STATE_READY, STATE_RUNNING));
    assert_false(move_starts_from(UINT32_MAX, STATE_READY));
    assert_null(move_name(MOVE_COUNT));
    assert_null(reason_name(REASON_COUNT));
}

/* NOM-2 pending → running → completed | error; error → pending; nothing else in those words. */
static void test_nom_2_strict_machine(void **state)
{
    (void)state;
    assert_true(move_allowed(MOVE_CLAIM, STATE_READY, STATE_RUNNING));
    assert_true(move_allowed(MOVE_ACK, STATE_RUNNING, STATE_DONE));
    assert_true(move_allowed(MOVE_FAIL, STATE_RUNNING, STATE_DEAD));
    assert_true(move_allowed(MOVE_REQUEUE, STATE_DEAD, STATE_READY));

    const enum job_move machine[] = {MOVE_CLAIM, MOVE_ACK, MOVE_FAIL, MOVE_REQUEUE};
    const enum job_state four[] = {STATE_READY, STATE_RUNNING, STATE_DONE, STATE_DEAD};
    size_t legal_pairs = 0;
    for (size_t from = 0; from < 4; from++) {
        for (size_t to = 0; to < 4; to++) {
            bool any = false;
            for (size_t m = 0; m < 4; m++)
                any = any || move_allowed(machine[m], four[from], four[to]);
            legal_pairs += any;
        }
    }
    /* the four above, and a failure that is retried: running → pending */
    assert_int_equal(legal_pairs, 5);
    assert_false(move_starts_from(MOVE_REQUEUE, STATE_DONE));
    assert_false(move_starts_from(MOVE_REQUEUE, STATE_RUNNING));
}

static void test_legal_moves_text_agrees_with_the_table(void **state)
{
    (void)state;
    static const enum job_move client[] = {MOVE_CLAIM,   MOVE_ACK,    MOVE_FAIL,    MOVE_EXTEND,
                                           MOVE_RELEASE, MOVE_CANCEL, MOVE_REQUEUE, MOVE_PATCH,
                                           MOVE_REMOVE,  MOVE_DISCARD};
    for (unsigned s = 0; s < STATE_COUNT; s++) {
        char expected[200] = "";
        size_t len = 0;
        for (size_t i = 0; i < sizeof client / sizeof client[0]; i++) {
            if (move_starts_from(client[i], s))
                len += (size_t)snprintf(expected + len, sizeof expected - len, "%s%s",
                                        len ? ", " : "", move_name(client[i]));
        }
        assert_string_equal(state_legal_moves(s), expected);
    }
}

static void test_names(void **state)
{
    (void)state;
    static const char *const states[] = {"none", "scheduled", "ready",     "running",
                                         "done", "dead",      "cancelled", "blocked"};
    static const char *const reasons[] = {
        "none",      "failed",    "rejected",  "crash_loop",       "lease_expired",
        "expired",   "cancelled", "replaced",  "released",         "restarted",
        "discarded", "damaged",   "timed_out", "dependency_failed"};
    for (unsigned s = 0; s < STATE_COUNT; s++)
        assert_string_equal(state_name(s), states[s]);
    for (unsigned r = 0; r < REASON_COUNT; r++)
        assert_string_equal(reason_name(r), reasons[r]);
    for (unsigned a = 0; a < MOVE_COUNT; a++) {
        for (unsigned b = 0; b < a; b++)
            assert_string_not_equal(move_name(a), move_name(b));
    }
}

static void test_state_parse(void **state)
{
    (void)state;
    for (unsigned s = STATE_SCHEDULED; s < STATE_COUNT; s++) {
        enum job_state parsed = STATE_NONE;
        const char *name = state_name(s);
        assert_true(state_parse(name, strlen(name), &parsed));
        assert_int_equal(parsed, s);
        assert_false(state_parse(name, strlen(name) - 1, &parsed));
    }
    enum job_state kept = STATE_DEAD;
    assert_false(state_parse("none", 4, &kept));
    assert_false(state_parse("Ready", 5, &kept));
    assert_false(state_parse("readyx", 6, &kept));
    assert_false(state_parse(NULL, 0, &kept));
    assert_int_equal(kept, STATE_DEAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_triple),
        cmocka_unit_test(test_out_of_range_is_never_allowed),
        cmocka_unit_test(test_nom_2_strict_machine),
        cmocka_unit_test(test_legal_moves_text_agrees_with_the_table),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_state_parse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
