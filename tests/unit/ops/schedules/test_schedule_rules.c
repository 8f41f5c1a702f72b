/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of schedules that all stores share: which times may be fired, the state afterwards, the
 * content of the job, and which triggers would form a ring. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/limits.h"
#include "ops/schedules/schedule_rules.h"

#define NOW ((struct wall_time){1000000})

static enum outcome fire(enum op_kind kind, const struct op_schedule *want, uint8_t spec_kind,
                         bool eager, const struct schedule_state *state, bool paused)
{
    struct op op = {.kind = kind, .schedule = *want};
    struct schedule_spec spec = {.kind = spec_kind, .eager = eager};
    const char *note = NULL;
    return schedule_fire_right(&op, &spec, state, paused, NOW, &note);
}

/* ORC-17: a time is fired once, and only when it is the next one or later. */
static void test_a_time_is_fired_once(void **state)
{
    (void)state;
    struct schedule_state s = {.next_at = {500}, .last_at = {400}};
    struct op_schedule want = {.at = {500}, .next_at = {600}};
    assert_int_equal(fire(OP_FIRE, &want, SCHEDULE_CRON, false, &s, false), OUT_OK);
    assert_int_equal(fire(OP_FIRE, &want, SCHEDULE_CRON, false, &s, true), OUT_NOT_DUE);
    struct schedule_state after = schedule_moved_on(&want, &s);
    assert_int_equal(after.next_at.ms, 600);
    assert_int_equal(after.last_at.ms, 500);
    assert_int_equal(fire(OP_FIRE, &want, SCHEDULE_CRON, false, &after, false), OUT_NOT_DUE);
    want.at.ms = 499;
    assert_int_equal(fire(OP_FIRE, &want, SCHEDULE_CRON, false, &s, false), OUT_NOT_DUE);
    want = (struct op_schedule){.at = {500}, .next_at = {500}};
    assert_int_equal(fire(OP_FIRE, &want, SCHEDULE_CRON, false, &s, false), OUT_INVALID);
    assert_int_equal(fire(OP_TRIGGER, &want, SCHEDULE_CRON, false, &s, false), OUT_INVALID);
    want.now = true; /* on request, also when it is paused */
    assert_int_equal(fire(OP_FIRE, &want, SCHEDULE_CRON, false, &after, true), OUT_OK);
    assert_int_equal(schedule_moved_on(&want, &after).next_at.ms, 600);
}

static void test_an_eager_trigger_needs_no_time(void **state)
{
    (void)state;
    struct schedule_state s = {.next_at = {NOW.ms + 9000}};
    struct op_schedule want = {.at = NOW, .next_at = {NOW.ms + 1}};
    assert_int_equal(fire(OP_TRIGGER, &want, SCHEDULE_QUEUE, false, &s, false), OUT_NOT_DUE);
    assert_int_equal(fire(OP_TRIGGER, &want, SCHEDULE_QUEUE, true, &s, false), OUT_OK);
    assert_int_equal(fire(OP_TRIGGER, &want, SCHEDULE_QUEUE, true, &s, true), OUT_NOT_DUE);
    want.next_at = NOW;
    assert_int_equal(fire(OP_TRIGGER, &want, SCHEDULE_QUEUE, true, &s, false), OUT_INVALID);
}

/* ORC-20: failures are counted and delay the next attempt; problems of the server do not count. */
static void test_failures(void **state)
{
    (void)state;
    struct op_schedule want = {.at = NOW};
    struct schedule_state s = {.failures = 1};
    assert_true(schedule_failed(&want, OUT_QUEUE_FULL, NOW, &s));
    assert_int_equal(s.failures, 2);
    assert_int_equal(s.error, SCHEDULE_QUEUE_FULL);
    assert_int_equal(s.retry_at.ms, NOW.ms + schedule_retry_ms(2));
    assert_true(schedule_failed(&want, OUT_KEYS_FULL, NOW, &s));
    assert_int_equal(s.error, SCHEDULE_OTHER);
    s.failures = UINT32_MAX;
    assert_true(schedule_failed(&want, OUT_INVALID, (struct wall_time){LIMIT_WALL_MS}, &s));
    assert_true(s.failures == UINT32_MAX);
    assert_int_equal(s.retry_at.ms, LIMIT_WALL_MS);
    assert_false(schedule_failed(&want, OUT_UNAVAILABLE, NOW, &s));
    want.now = true;
    assert_false(schedule_failed(&want, OUT_QUEUE_FULL, NOW, &s));
}

static void test_what_a_job_says(void **state)
{
    (void)state;
    struct schedule_origin origin = {.name = SPAN_LITERAL("n"), .at = {0}};
    struct schedule_spec spec = {.payload_kind = PAYLOAD_JSON, .payload = SPAN_LITERAL("[7]")};
    struct schedule_item item = {.seq = 1, .id_hi = 1, .token = {1, 1}};
    struct buf b;
    size_t split;
    buf_init(&b);
    assert_int_equal(schedule_job_text(&origin, &spec, NULL, 0, &b, &split), 0);
    struct span expected = SPAN_LITERAL("{\"source\":\"TRIGGER\",\"schedule\":\"n\",\"fire_time\":"
                                        "\"1970-01-01T00:00:00.000Z\"}");
    assert_true(split == b.len && span_equal(buf_span(&b), expected));
    buf_clear(&b);
    origin.owner = SPAN_LITERAL("api");
    origin.number = 3;
    assert_int_equal(schedule_job_text(&origin, &spec, &item, 1, &b, &split), 0);
    assert_true(split > 0 && split < b.len);
    struct span payload = span_of(b.data + split, b.len - split);
    struct span end = SPAN_LITERAL("\"}],\"payload\":[7]}");
    assert_memory_equal(payload.at + payload.len - end.len, end.at, end.len);
    struct span start =
        SPAN_LITERAL("{\"source\":\"TRIGGER\",\"schedule\":\"n\",\"owner\":\"api\",\"number\":3,");
    assert_memory_equal(payload.at, start.at, start.len);
    assert_memory_equal(b.data, start.at, start.len);
    buf_done(&b);
}

static bool ring(const struct schedule_flow *flows, size_t count, const char *source,
                 const char *queue)
{
    struct schedule_flow more = {span_text(source), span_text(queue)};
    struct arena arena;
    bool found = false;
    arena_init(&arena);
    assert_int_equal(schedule_ring(flows, count, &more, &arena, &found), 0);
    arena_done(&arena);
    return found;
}

/* ORC-15: also across forks and across rings of other triggers. */
static void test_rings(void **state)
{
    (void)state;
    const struct schedule_flow flows[] = {
        {SPAN_LITERAL("a"), SPAN_LITERAL("b")}, {SPAN_LITERAL("b"), SPAN_LITERAL("c")},
        {SPAN_LITERAL("b"), SPAN_LITERAL("d")}, {SPAN_LITERAL("x"), SPAN_LITERAL("y")},
        {SPAN_LITERAL("y"), SPAN_LITERAL("x")},
    };
    assert_true(ring(flows, 5, "c", "a"));
    assert_true(ring(flows, 5, "d", "a"));
    assert_true(ring(flows, 5, "b", "a"));
    assert_false(ring(flows, 5, "a", "c"));
    assert_false(ring(flows, 5, "c", "e"));
    assert_false(ring(flows, 5, "q", "x")); /* the search ends although a ring exists */
    assert_false(ring(flows, 0, "c", "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_time_is_fired_once),
        cmocka_unit_test(test_an_eager_trigger_needs_no_time),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_what_a_job_says),
        cmocka_unit_test(test_rings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
