/* SPDX-License-Identifier: Apache-2.0 */
/* Which replies of a store are accepted, and how the connection to its server is classified. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/shared/row_check.h"
#include "backend/shared/shared.h"

static struct row good_row(void)
{
    return (struct row){.job = {.seq = 1, .queue = 1, .state = STATE_READY, .payload_kind = 1}};
}

static void expect_row(struct row r, bool sound)
{
    assert_int_equal(sound_row(&r), sound);
}

#define ROW_WITH(member, value, sound)                                                             \
    do {                                                                                           \
        struct row with = good_row();                                                              \
        with.member = (value);                                                                     \
        expect_row(with, sound);                                                                   \
    } while (0)

static void rows_within_bounds(void **state)
{
    (void)state;
    expect_row(good_row(), true);
    ROW_WITH(job.seq, 0, false);
    ROW_WITH(job.seq, LIMIT_SEQ, true);
    ROW_WITH(job.seq, LIMIT_SEQ + 1, false);
    ROW_WITH(job.state, STATE_NONE, false);
    ROW_WITH(job.state, STATE_COUNT, false);
    ROW_WITH(job.reason, REASON_COUNT, false);
    ROW_WITH(job.payload_kind, PAYLOAD_BYTES + 1, false);
    ROW_WITH(job.payload_bytes, LIMIT_PAYLOAD_BYTES + 1, false);
    ROW_WITH(job.run_at.ms, -1, false);
    ROW_WITH(job.since.ms, LIMIT_WALL_MS + 1, false);
    ROW_WITH(job.crashes, UINT16_MAX, true);
    ROW_WITH(extra.expires_at.ms, INT64_MIN, false);
    ROW_WITH(extra.unique, span_of("x", LIMIT_KEY_BYTES + 1), false);
    ROW_WITH(extra.options, span_text("no options"), false);
    ROW_WITH(extra.undelivered, span_text("no keys"), false);
    ROW_WITH(lease_ms, LIMIT_LEASE_MS + 1, false);
    ROW_WITH(until_ms, INT64_MAX, false);
    ROW_WITH(reply_kind, OP_KIND_COUNT + 1, false);
    ROW_WITH(reply_state, STATE_COUNT, false);
    ROW_WITH(result_kind, PAYLOAD_BYTES + 1, false);
    ROW_WITH(error_kind, ERROR_BUSINESS + 1, false);
}

static void queues_within_bounds(void **state)
{
    (void)state;
    struct wqueue q = {.number = 1, .name = SPAN_LITERAL("q")};
    policy_default(&q.policy);
    assert_true(sound_queue(&q));
    q.number = 0;
    assert_false(sound_queue(&q));
    q.number = 1;
    q.name = SPAN_LITERAL("\n");
    assert_false(sound_queue(&q));
    q.name = SPAN_LITERAL("q");
    q.paused_until.ms = -1;
    assert_false(sound_queue(&q));
    q.paused_until.ms = 0;
    q.policy.lease_ms = 0;
    assert_false(sound_queue(&q));
}

static void numbers_to_give_out(void **state)
{
    (void)state;
    uint64_t seqs[] = {7, 0};
    uint32_t numbers[] = {3, UINT32_MAX};
    struct unit u = {.now = {1}, .seqs = seqs, .seq_count = 1, .numbers = numbers};
    u.number_count = 1;
    assert_true(sound_drawn(&u));
    u.seq_count = 2;
    assert_false(sound_drawn(&u));
    u.seq_count = 1;
    u.number_count = 2;
    assert_false(sound_drawn(&u));
    u.number_count = 1;
    u.now.ms = 0;
    assert_false(sound_drawn(&u));
    u.now.ms = LIMIT_WALL_MS + 1;
    assert_false(sound_drawn(&u));
}

static void values_are_brought_into_bounds(void **state)
{
    (void)state;
    assert_int_equal(sound_time(INT64_MIN), 0);
    assert_int_equal(sound_time(INT64_MAX), LIMIT_WALL_MS);
    assert_int_equal(sound_sum(INT64_MIN), -(int64_t)LIMIT_SEQ);
    assert_int_equal(sound_sum(-5), -5);
    assert_int_equal(sound_count(-5), 0);
    assert_int_equal(sound_count(INT64_MAX), LIMIT_SEQ);
    assert_int_equal(sound_kind(3, 3), 0);
    assert_int_equal(sound_kind(2, 3), 2);
    assert_int_equal(sound_kind(-1, 3), 0);
}

static void hosts_of_this_machine(void **state)
{
    (void)state;
    static const char *const local[] = {"",          "/run/postgresql", "@abstract", "localhost",
                                        "127.0.0.1", "127.8.0.1",       "::1"};
    static const char *const far[] = {"10.0.0.1", "192.168.1.7", "db.example", "2001:db8::1",
                                      "localhost.example"};
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        assert_true(shared_host_local(local[i]));
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        assert_false(shared_host_local(far[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_within_bounds),    cmocka_unit_test(queues_within_bounds),
        cmocka_unit_test(numbers_to_give_out),   cmocka_unit_test(values_are_brought_into_bounds),
        cmocka_unit_test(hosts_of_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
