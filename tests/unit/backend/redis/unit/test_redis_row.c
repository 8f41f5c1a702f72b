/* SPDX-License-Identifier: Apache-2.0 */
/* How a Redis store encodes jobs, queues and notices: every field is decoded again, the fields that
 * scripts read are at their places, members sort in the order of claims, and damaged bytes are
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/redis/unit/row.h"
#include "core/kvkey.h"

static struct shared store;

static char encoded[2][64];

/* The options of a job, and the keys at which it leaves its payload, in their encoding. */
static struct span real_options(void)
{
    struct buf b;
    buf_init(&b);
    assert_int_equal(options_encode(&(struct job_options){.max_attempts = 3}, &b), 0);
    assert_true(b.len <= sizeof encoded[0]);
    memcpy(encoded[0], b.data, b.len);
    struct span s = span_of(encoded[0], b.len);
    buf_done(&b);
    return s;
}

static struct span real_keys(void)
{
    struct buf list, key;
    struct kv_part part = {.kind = KV_TEXT, .text = SPAN_LITERAL("k")};
    buf_init(&list);
    buf_init(&key);
    assert_int_equal(kvkey_append(&key, &part), 0);
    assert_int_equal(record_span_append(&list, buf_span(&key)), 0);
    assert_true(list.len <= sizeof encoded[1]);
    memcpy(encoded[1], list.data, list.len);
    struct span s = span_of(encoded[1], list.len);
    buf_done(&list);
    buf_done(&key);
    return s;
}

static struct row full_row(void)
{
    return (struct row){
        .job = {.seq = 77,
                .id_hi = UINT64_MAX,
                .priority = -5,
                .run_at = {1},
                .since = {LIMIT_WALL_MS},
                .queue = 0x01020304,
                .payload_bytes = 5000,
                .failures = UINT16_MAX,
                .crashes = 2,
                .generation = 9,
                .state = STATE_RUNNING,
                .reason = REASON_FAILED,
                .payload_kind = PAYLOAD_JSON,
                .flags = JOB_BOUND | JOB_HAS_EXTRA},
        .extra = {.unique = SPAN_LITERAL("key\0"),
                  .group = SPAN_LITERAL("g"),
                  .correlation = SPAN_LITERAL("c"),
                  .label = SPAN_LITERAL("l"),
                  .attributes = SPAN_LITERAL("{}"),
                  .expires_at = {3},
                  .options = real_options(),
                  .undelivered = real_keys()},
        .token = {UINT64_MAX, 4000000000u},
        .lease_ms = 30000,
        .until_ms = LIMIT_WALL_MS,
        .worker = SPAN_LITERAL("w"),
        .nonce = 42,
        .started_at = {6},
        .reply_kind = 3,
        .reply_state = 4,
        .reply_run_at = {8},
        .outcome_counts = {1, 2, 3, 4, 5},
        .result_kind = PAYLOAD_BYTES,
        .error_kind = ERROR_BUSINESS,
        .result = SPAN_LITERAL("r"),
        .set_result = true,
        .step_index = SPAN_LITERAL("12345678\5\0\0\0"),
    };
}

static void test_a_row_comes_back(void **state)
{
    (void)state;
    struct unit u;
    struct row r = full_row(), back = {.gone = false};
    assert_int_equal(unit_init(&u, &store), 0);
    struct span packed = redis_row_encode(&u, &r);
    assert_true(packed.len > 0);
    assert_int_equal(redis_row_decode(77, packed, &back), 0);
    assert_memory_equal(&back.job, &r.job, sizeof r.job);
    assert_true(span_equal(back.extra.unique, r.extra.unique));
    assert_true(span_equal(back.extra.undelivered, r.extra.undelivered));
    assert_true(span_equal(back.extra.attributes, r.extra.attributes));
    assert_int_equal(back.extra.expires_at.ms, 3);
    assert_true(token_equal(back.token, r.token));
    assert_int_equal(back.until_ms, r.until_ms);
    assert_int_equal(back.nonce, 42);
    assert_true(span_equal(back.worker, r.worker));
    assert_true(span_equal(back.step_index, r.step_index));
    assert_memory_equal(&back.outcome_counts, &r.outcome_counts, sizeof r.outcome_counts);
    assert_int_equal(back.reply_run_at.ms, 8);
    assert_int_equal(back.result_kind, PAYLOAD_BYTES);
    assert_int_equal(back.error_kind, ERROR_BUSINESS);
    /* As lua/common.lua has it: revision, what it has, state, queue. */
    assert_memory_equal(packed.at, "\3\0\0\0\1", ROW_REVISION_BYTES);
    assert_int_equal(redis_packed_bits(packed), ROW_EXPIRES | ROW_PAYLOAD | ROW_RESULT | ROW_BOUND);
    assert_int_equal(packed.at[6], STATE_RUNNING);
    assert_memory_equal(packed.at + 7, "\1\2\3\4", 4);
    assert_memory_equal(packed.at + 59, "\0\4key", 5);
    /* The next change has another revision, and keeps the fields that it does not change. */
    struct span next = redis_row_encode(&u, &back);
    assert_memory_equal(next.at, "\3\0\0\0\2", ROW_REVISION_BYTES);
    assert_int_equal(redis_packed_bits(next), redis_packed_bits(packed));
    unit_done(&u);
}

static void test_damage_is_refused(void **state)
{
    (void)state;
    struct unit u;
    struct row r = full_row(), back = {.gone = false};
    assert_int_equal(unit_init(&u, &store), 0);
    struct span packed = redis_row_encode(&u, &r);
    for (size_t len = 0; len < packed.len; len++)
        assert_int_equal(redis_row_decode(77, span_of(packed.at, len), &back), -ERR_CORRUPT);
    char copy[400];
    assert_true(packed.len < sizeof copy);
    memcpy(copy, packed.at, packed.len);
    copy[0] = ROW_VERSION + 1; /* a version that is not known */
    assert_int_equal(redis_row_decode(77, span_of(copy, packed.len), &back), -ERR_CORRUPT);
    copy[0] = ROW_VERSION;
    copy[6] = STATE_COUNT;
    assert_int_equal(redis_row_decode(77, span_of(copy, packed.len), &back), -ERR_CORRUPT);
    copy[6] = STATE_RUNNING;
    assert_int_equal(redis_row_decode(0, span_of(copy, packed.len), &back), -ERR_CORRUPT);
    assert_int_equal(redis_row_decode(1, span_of(copy, packed.len), &back), 0);
    unit_done(&u);
}

static void test_members_sort_as_claims_go(void **state)
{
    (void)state;
    static const struct {
        int64_t priority;
        uint64_t seq;
    } order[] = {{INT64_MAX, 9}, {5, 1}, {5, 256}, {0, 3}, {-1, 2}, {INT64_MIN, 1}};
    char before[READY_MEMBER_BYTES], now[READY_MEMBER_BYTES];
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        redis_ready_member(order[i].priority, order[i].seq, now);
        if (i > 0)
            assert_true(memcmp(before, now, sizeof now) < 0);
        memcpy(before, now, sizeof now);
    }
}

static void test_a_queue_comes_back(void **state)
{
    (void)state;
    struct unit u;
    struct wqueue q = {.number = 7,
                       .generation = 2,
                       .name = SPAN_LITERAL("mail"),
                       .owner = SPAN_LITERAL("me"),
                       .note = SPAN_LITERAL("n"),
                       .created_at = {5},
                       .updated_at = {6},
                       .paused_until = {LIMIT_WALL_MS}};
    struct wqueue back = {.number = 0};
    policy_default(&q.policy);
    q.policy.keep_done = UINT64_MAX; /* all: more than scripts can count */
    assert_int_equal(unit_init(&u, &store), 0);
    struct span packed = redis_queue_encode(&u, &q);
    assert_int_equal(redis_queue_decode(packed, &back), 0);
    assert_int_equal(back.number, 7);
    assert_int_equal(back.generation, 2);
    assert_true(span_equal(back.name, q.name));
    assert_true(span_equal(back.note, q.note));
    assert_int_equal(back.paused_until.ms, LIMIT_WALL_MS);
    assert_true(back.policy.keep_done == UINT64_MAX);
    assert_memory_equal(packed.at + 18, "\0\x10\0\0\0\0\0\0", 8); /* 2^52 */
    for (size_t len = 0; len < packed.len; len++)
        assert_int_not_equal(redis_queue_decode(span_of(packed.at, len), &back), 0);
    unit_done(&u);
}

static void test_the_others_come_back(void **state)
{
    (void)state;
    struct unit u;
    char packed[IDEM_BYTES];
    struct row r = full_row();
    struct ended ended = {.row = &r,
                          .number = 3,
                          .started_at = {1},
                          .at = {2},
                          .outcome = ATTEMPT_FAILED,
                          .error_kind = 1,
                          .worker = SPAN_LITERAL("w"),
                          .error = SPAN_LITERAL("why")};
    struct attempt_view attempt = {.number = 0};
    struct kept_reply word = {.seq = 4, .kind = 2, .state = 4, .run_at = {9}},
                      word_back = {.seq = 0};
    struct idem idem = {.fingerprint = UINT64_MAX, .seq = 5, .id_hi = 6, .expires_at = {7}},
                idem_back;
    assert_int_equal(unit_init(&u, &store), 0);
    assert_int_equal(redis_attempt_decode(redis_attempt_encode(&u, &ended), &attempt), 0);
    assert_int_equal(attempt.number, 3);
    assert_int_equal(attempt.ended_at.ms, 2);
    assert_true(span_equal(attempt.error, ended.error));
    assert_int_equal(redis_reply_decode(redis_reply_encode(&u, &word), &word_back), 0);
    assert_int_equal(word_back.seq, 4);
    assert_int_equal(word_back.run_at.ms, 9);
    redis_idem_encode(&idem, packed);
    assert_int_equal(redis_idem_decode(span_of(packed, sizeof packed), &idem_back), 0);
    assert_true(idem_back.fingerprint == UINT64_MAX && idem_back.seq == 5);
    assert_int_equal(idem_back.expires_at.ms, 7);
    assert_int_equal(redis_idem_decode(span_of(packed, 31), &idem_back), -ERR_CORRUPT);
    unit_done(&u);
}

static struct wnotice full_notice(void)
{
    return (struct wnotice){
        .notice = {.id_hi = UINT64_MAX,
                   .on = ALERT_DEAD,
                   .edge = EDGE_RAISED,
                   .at = {5},
                   .alert = SPAN_LITERAL("ops"),
                   .queue = SPAN_LITERAL("mail"),
                   .job_seq = 77,
                   .job_hi = 78,
                   .reason = REASON_FAILED,
                   .attempts = UINT32_MAX,
                   .value = UINT64_MAX,
                   .mark = 3,
                   .subject = SPAN_LITERAL("nightly"),
                   .text = SPAN_LITERAL("no such user")},
        .tried = {.state = NOTICE_DEAD,
                  .tries = 9,
                  .since = {6},
                  .due = {LIMIT_WALL_MS},
                  .status = 500,
                  .error = SPAN_LITERAL("answered 500")},
        .look_ms = 1,
        .held = true,
    };
}

static void test_a_notice_comes_back(void **state)
{
    (void)state;
    struct unit u;
    struct wnotice n = full_notice(), back;
    assert_int_equal(unit_init(&u, &store), 0);
    struct span packed = redis_notice_encode(&u, &n);
    assert_int_equal(redis_notice_decode(LIMIT_SEQ, packed, &back), 0);
    assert_true(back.notice.number == LIMIT_SEQ && back.tried.number == LIMIT_SEQ);
    assert_true(back.notice.id_hi == UINT64_MAX && back.notice.value == UINT64_MAX);
    assert_int_equal(back.notice.on, ALERT_DEAD);
    assert_int_equal(back.notice.edge, EDGE_RAISED);
    assert_int_equal(back.notice.at.ms, 5);
    assert_true(span_equal(back.notice.alert, n.notice.alert));
    assert_true(span_equal(back.notice.queue, n.notice.queue));
    assert_true(back.notice.job_seq == 77 && back.notice.job_hi == 78);
    assert_int_equal(back.notice.reason, REASON_FAILED);
    assert_true(back.notice.attempts == UINT32_MAX && back.notice.mark == 3);
    assert_true(span_equal(back.notice.subject, n.notice.subject));
    assert_true(span_equal(back.notice.text, n.notice.text));
    assert_int_equal(back.tried.state, NOTICE_DEAD);
    assert_int_equal(back.tried.tries, 9);
    assert_int_equal(back.tried.since.ms, 6);
    assert_int_equal(back.tried.due.ms, LIMIT_WALL_MS);
    assert_int_equal(back.tried.status, 500);
    assert_true(span_equal(back.tried.error, n.tried.error));
    /* The time of the next check and the holder are in their own keys. */
    assert_true(back.look_ms == 0 && !back.held);
    /* As lua/notices.lua has it: revision, due, its alert. */
    char due[8];
    redis_seq_encode((uint64_t)LIMIT_WALL_MS, due);
    assert_memory_equal(packed.at, "\3\0\0\0\1", ROW_REVISION_BYTES);
    assert_memory_equal(packed.at + 5, due, sizeof due);
    assert_memory_equal(packed.at + 13, "\3ops", 4);
    struct span next = redis_notice_encode(&u, &back);
    assert_memory_equal(next.at, "\3\0\0\0\2", ROW_REVISION_BYTES);
    assert_int_equal(next.len, packed.len);
    unit_done(&u);
}

static void test_a_damaged_notice_is_refused(void **state)
{
    (void)state;
    struct unit u;
    struct wnotice n = full_notice(), back;
    char copy[400] = {0};
    assert_int_equal(unit_init(&u, &store), 0);
    struct span packed = redis_notice_encode(&u, &n);
    for (size_t len = 0; len < packed.len; len++)
        assert_int_equal(redis_notice_decode(7, span_of(packed.at, len), &back), -ERR_CORRUPT);
    assert_int_equal(redis_notice_decode(0, packed, &back), -ERR_CORRUPT);
    assert_true(packed.len < sizeof copy);
    memcpy(copy, packed.at, packed.len);
    assert_int_equal(redis_notice_decode(7, span_of(copy, packed.len), &back), 0);
    assert_int_equal(redis_notice_decode(7, span_of(copy, packed.len + 1), &back), -ERR_CORRUPT);
    copy[0] = ROW_VERSION + 1; /* a version that is not known */
    assert_int_equal(redis_notice_decode(7, span_of(copy, packed.len), &back), -ERR_CORRUPT);
    copy[0] = 1;
    copy[13] = 4; /* the name of its alert would reach into what follows */
    assert_int_equal(redis_notice_decode(7, span_of(copy, packed.len), &back), -ERR_CORRUPT);
    unit_done(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_row_comes_back),
        cmocka_unit_test(test_damage_is_refused),
        cmocka_unit_test(test_members_sort_as_claims_go),
        cmocka_unit_test(test_a_queue_comes_back),
        cmocka_unit_test(test_the_others_come_back),
        cmocka_unit_test(test_a_notice_comes_back),
        cmocka_unit_test(test_a_damaged_notice_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
