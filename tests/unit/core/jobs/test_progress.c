/* SPDX-License-Identifier: Apache-2.0 */
/* Progress and logs: stored forms, what is shown of them, the pace of events. */
#include "core/jobs/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/limits.h"

static void round_trip(void **state)
{
    (void)state;
    uint8_t room[256];
    struct progress back, p = {.token = {.counter = 7, .epoch = 3},
                               .at = {1000},
                               .has_percent = true,
                               .percent_100 = 10000,
                               .message = SPAN_LITERAL("m"),
                               .data = SPAN_LITERAL("{}")};
    struct span stored = span_of(room, progress_encode(&p, room));
    assert_true(stored.len <= progress_bytes_max(&p));
    assert_int_equal(progress_decode(stored, &back), 0);
    assert_int_equal(back.percent_100, 10000);
    assert_true(back.has_percent && span_equal(back.data, p.data));
    assert_int_equal(progress_shown(stored, p.token).len, stored.len);
    assert_int_equal(progress_shown(stored, (struct job_token){8, 3}).len, 0);
    assert_int_equal(progress_decode(span_of(room, stored.len - 1), &back), -ERR_CORRUPT);
}

static void log_lines(void **state)
{
    (void)state;
    struct buf b;
    struct joblog_line line = {{5}, 2, SPAN_LITERAL("a\n\nb")}, got;
    buf_init(&b);
    assert_int_equal(joblog_append(&b, &line), 0);
    struct span log = joblog_begin(buf_span(&b));
    const char *const want[] = {"a", "", "b"};
    for (size_t i = 0; i < 3; i++) {
        assert_true(joblog_next(&log, &got));
        assert_int_equal(got.at.ms, 5);
        assert_int_equal(got.attempt, 2);
        assert_true(span_equal(got.text, span_text(want[i])));
    }
    assert_false(joblog_next(&log, &got));
    buf_done(&b);
}

/* An entry that was cut is not shown, however it looks. */
static void cut_entry(void **state)
{
    (void)state;
    struct buf b;
    struct joblog_line line = {{1234567890123}, 1, SPAN_LITERAL("x 1 y")}, got;
    buf_init(&b);
    while (b.len <= 2 * LIMIT_LOG_BYTES)
        assert_int_equal(joblog_append(&b, &line), 0);
    struct span log = joblog_begin(buf_span(&b));
    assert_true(log.len < LIMIT_LOG_BYTES);
    while (joblog_next(&log, &got))
        assert_int_equal(got.at.ms, 1234567890123);
    buf_done(&b);
}

static void pace(void **state)
{
    (void)state;
    struct progress_pace p;
    progress_pace_init(&p);
    assert_true(progress_pace_take(&p, 1, 10000));
    assert_false(progress_pace_take(&p, 1, 10999));
    assert_true(progress_pace_take(&p, 2, 10999));
    assert_true(progress_pace_take(&p, 1, 11000));
    assert_false(progress_pace_take(&p, 2, 11998));
    assert_true(progress_pace_take(&p, 2, 11999));
    progress_pace_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip), cmocka_unit_test(log_lines),
                                       cmocka_unit_test(cut_entry), cmocka_unit_test(pace)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
