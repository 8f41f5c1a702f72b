/* SPDX-License-Identifier: Apache-2.0 */
/* What answers show: jobs, queues, events, payloads of every kind. */
#include "unit/base/support.h"

#include "api/json_members.h"
#include "api/v1/event_names.h"
#include "api/v1/jobs/job_view.h"
#include "api/v1/queues/policy_fields.h"
#include "api/v1/queues/queue_view.h"
#include "core/limits.h"

#define NOW_MS INT64_C(1800000000000) /* 2027-01-15T08:00:00.000Z */

static struct buf out;
static struct json_writer w;

static int begin(void **state)
{
    (void)state;
    buf_init(&out);
    return 0;
}

static int end(void **state)
{
    (void)state;
    buf_done(&out);
    return 0;
}

static void fresh(void)
{
    buf_clear(&out);
    json_writer_init(&w, &out);
}

static const char *written(void)
{
    assert_int_equal(json_writer_finish(&w), 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    assert_int_equal(json_check(span_text(out.data), NULL, NULL), 0);
    return out.data;
}

static void expect_bytes(uint8_t kind, struct span bytes, const char *text)
{
    fresh();
    json_write_object(&w);
    write_bytes(&w, "payload", kind, bytes);
    json_write_object_end(&w);
    assert_string_equal(written(), text);
}

static void payloads(void **state)
{
    (void)state;
    expect_bytes(PAYLOAD_NONE, span_of(NULL, 0), "{\"payload\":null}");
    expect_bytes(PAYLOAD_JSON, SPAN_LITERAL("{\"a\" :\n 1e999}"),
                 "{\"payload\":{\"a\" :\n 1e999}}");
    expect_bytes(PAYLOAD_BYTES, SPAN_LITERAL("a\"b\\\x01\n\xc3\xa4"),
                 "{\"payload_text\":\"a\\\"b\\\\\\u0001\\n\xc3\xa4\"}");
    expect_bytes(PAYLOAD_BYTES, span_of(NULL, 0), "{\"payload_text\":\"\"}");
    expect_bytes(PAYLOAD_BYTES, SPAN_LITERAL("a\0b"), "{\"payload_base64\":\"YQBi\"}");
    expect_bytes(PAYLOAD_BYTES, SPAN_LITERAL("\xff"), "{\"payload_base64\":\"/w==\"}");
    expect_bytes(PAYLOAD_BYTES, SPAN_LITERAL("\xed\xa0\x80"), "{\"payload_base64\":\"7aCA\"}");
}

static struct job_view sample(void)
{
    return (struct job_view){
        .job = {.seq = 7,
                .id_hi = id_hi((struct wall_time){NOW_MS}, 0),
                .priority = -3,
                .since = {NOW_MS + 1},
                .failures = 1,
                .state = STATE_RUNNING,
                .payload_bytes = 3,
                .payload_kind = PAYLOAD_JSON},
        .queue = SPAN_LITERAL("q\"\n"),
        .token = {.counter = 5, .epoch = 2},
        .lease_ms = 30000,
        .lease_left_ms = 1000,
        .worker = SPAN_LITERAL("w"),
        .has_body = true,
        .payload = SPAN_LITERAL("[1]"),
        .extra = {.unique = SPAN_LITERAL("u"), .label = SPAN_LITERAL("low")},
    };
}

static void a_job(void **state)
{
    (void)state;
    struct job_view v = sample();
    struct wall_time now = {NOW_MS + 2};
    fresh();
    job_view_write(&w, &v, now, VIEW_PAYLOAD);
    assert_string_equal(
        written(),
        "{\"id\":\"01MCC5RM00E008000000000007\",\"seq\":7,"
        "\"uuid\":\"01a3185c-5000-7000-8000-000000000007\",\"queue\":\"q\\\"\\n\","
        "\"state\":\"running\",\"priority\":-3,\"attempts\":2,"
        "\"failures\":1,\"crashes\":0,\"created_at\":\"2027-01-15T08:00:00.000Z\","
        "\"state_since\":\"2027-01-15T08:00:00.001Z\","
        "\"lease_until\":\"2027-01-15T08:00:01.002Z\",\"worker\":\"w\","
        "\"unique\":\"u\",\"priority_label\":\"low\",\"payload_bytes\":3,\"payload\":[1]}");
    fresh();
    v.job.state = STATE_DEAD;
    v.job.reason = REASON_REJECTED;
    v.error = SPAN_LITERAL("boo");
    v.error_kind = ERROR_BUSINESS;
    v.result_kind = PAYLOAD_BYTES;
    job_view_write(&w, &v, now, 0);
    const char *text = written();
    assert_non_null(strstr(text, "\"state\":\"dead\",\"reason\":\"rejected\""));
    assert_non_null(strstr(text, "\"error\":\"boo\",\"error_kind\":\"business\"}"));
    assert_null(strstr(text, "\"payload\""));
    assert_null(strstr(text, "result"));
    assert_null(strstr(text, "lease_until"));
    assert_null(strstr(text, "history"));
    fresh();
    v.job.state = STATE_DONE;
    v.job.reason = REASON_NONE;
    job_view_write(&w, &v, now, 0);
    assert_null(strstr(written(), "error"));
}

static void own_options_and_attributes(void **state)
{
    (void)state;
    struct job_view v = sample();
    struct job_options o = {.max_crashes = 4,
                            .lease_ms = 1500,
                            .has_backoff = true,
                            .backoff = {.kind = BACKOFF_LIST, .step_count = 1, .step_ms = {9}}};
    struct buf options;
    buf_init(&options);
    assert_int_equal(options_encode(&o, &options), 0);
    v.extra.options = buf_span(&options);
    v.extra.attributes = SPAN_LITERAL("{\"a\": 1}");
    fresh();
    job_view_write(&w, &v, (struct wall_time){NOW_MS}, 0);
    const char *text = written();
    assert_non_null(strstr(text, "\"max_crashes\":4,\"lease_ms\":1500,"
                                 "\"backoff\":{\"type\":\"list\",\"steps_ms\":[9]}"));
    assert_non_null(strstr(text, "\"attributes\":{\"a\": 1}"));
    assert_null(strstr(text, "max_attempts"));
    buf_done(&options);
}

/* A client that may read must not be able to ack. */
static void a_view_never_shows_a_token(void **state)
{
    (void)state;
    struct job_view v = sample();
    char token[TOKEN_TEXT_BYTES];
    token_text(v.token, token);
    fresh();
    job_view_write(&w, &v, (struct wall_time){NOW_MS}, VIEW_PAYLOAD | VIEW_HISTORY);
    assert_null(strstr(written(), token));
    fresh();
    job_claim_write(&w, &v, (struct wall_time){NOW_MS});
    assert_non_null(strstr(written(), token));
}

static void a_claimed_job(void **state)
{
    (void)state;
    struct job_view v = sample();
    v.expires_at = (struct wall_time){NOW_MS + 5000};
    v.max_attempts = 10;
    fresh();
    job_claim_write(&w, &v, (struct wall_time){NOW_MS});
    assert_string_equal(written(),
                        "{\"id\":\"01MCC5RM00E008000000000007\",\"seq\":7,\"queue\":\"q\\\"\\n\","
                        "\"token\":\"2-5\",\"attempt\":2,\"max_attempts\":10,"
                        "\"priority\":-3,\"lease_ms\":30000,"
                        "\"lease_until\":\"2027-01-15T08:00:01.000Z\","
                        "\"created_at\":\"2027-01-15T08:00:00.000Z\",\"payload\":[1],"
                        "\"unique\":\"u\",\"priority_label\":\"low\","
                        "\"expires_at\":\"2027-01-15T08:00:05.000Z\"}");
}

static void a_history(void **state)
{
    (void)state;
    struct attempt_view attempts[2] = {
        {.number = 1,
         .worker = SPAN_LITERAL("w"),
         .started_at = {NOW_MS},
         .ended_at = {NOW_MS + 1},
         .outcome = ATTEMPT_FAILED,
         .error = SPAN_LITERAL("e")},
        {.number = 2, .started_at = {NOW_MS + 2}, .outcome = ATTEMPT_RUNNING},
    };
    struct job_view v = sample();
    v.attempts = attempts;
    v.attempt_count = 2;
    fresh();
    job_view_write(&w, &v, (struct wall_time){NOW_MS}, VIEW_HISTORY);
    assert_non_null(strstr(
        written(),
        "\"history\":[{\"number\":1,\"worker\":\"w\",\"started_at\":\"2027-01-15T08:00:00.000Z\","
        "\"ended_at\":\"2027-01-15T08:00:00.001Z\",\"outcome\":\"failed\",\"error\":\"e\","
        "\"error_kind\":\"app\"},{\"number\":2,\"worker\":\"\",\"started_at\":"
        "\"2027-01-15T08:00:00.002Z\",\"ended_at\":null,\"outcome\":\"running\"}]"));
}

static void own_options_are_shown(void **state)
{
    (void)state;
    struct job_options o = {.max_attempts = 3};
    struct buf encoded;
    struct job_view v = sample();
    buf_init(&encoded);
    assert_int_equal(options_encode(&o, &encoded), 0);
    v.extra.options = buf_span(&encoded);
    fresh();
    job_view_write(&w, &v, (struct wall_time){NOW_MS}, 0);
    assert_non_null(strstr(written(), "\"max_attempts\":3"));
    buf_done(&encoded);
}

/* ---- queues ---- */

static void expect_pause(int64_t until_ms, const char *text)
{
    struct queue_policy policy;
    policy_default(&policy);
    struct queue_view q = {.name = SPAN_LITERAL("q"),
                           .policy = &policy,
                           .paused_until = {until_ms},
                           .counts = {.oldest_ready_ms = -1}};
    fresh();
    queue_view_write(&w, &q, (struct wall_time){NOW_MS});
    if (!strstr(written(), text))
        fail_msg("%s in %s", text, out.data);
}

static void pauses(void **state)
{
    (void)state;
    expect_pause(0, "\"paused\":false,\"paused_until\":null");
    expect_pause(NOW_MS, "\"paused\":false,\"paused_until\":null");
    expect_pause(NOW_MS + 1, "\"paused\":true,\"paused_until\":\"2027-01-15T08:00:00.001Z\"");
    expect_pause(LIMIT_WALL_MS, "\"paused\":true,\"paused_until\":null");
    expect_pause(0, "\"oldest_ready_ms\":null,\"next_due\":null");
}

/* A policy that is written and read again is the same policy. */
static void policies_come_back(void **state)
{
    (void)state;
    struct queue_policy policies[3];
    policy_default(&policies[0]);
    policies[1] = policies[2] = policies[0];
    policies[1].backoff = (struct backoff){.kind = BACKOFF_LIST, .step_count = 2};
    policies[1].backoff.step_ms[1] = 77;
    policies[1].lease_end = LEASE_END_FAIL;
    policies[1].unique_mode = UNIQUE_REPLACE;
    policies[1].unique_scope = UNIQUE_KEPT;
    policies[1].durability = DURABILITY_RELAXED;
    policies[1].priority = -9;
    policies[1].refuse_new = policies[1].require_token = policies[1].ranked = true;
    policies[1].enqueue_rate = (struct rate_limit){RATE_CORRELATION, 3, 5000};
    policies[2].keep_done_ms = policies[2].keep_dead_ms = INT64_MAX;
    policies[2].keep_done = policies[2].keep_dead = policies[2].capacity = UINT64_MAX;
    policies[2].lease_end = LEASE_END_COUNTED;
    policies[2].warn_depth = UINT32_MAX;
    policies[2].unique_scope = UNIQUE_NONE;
    for (size_t i = 0; i < COUNT_OF(policies); i++) {
        struct arena arena;
        struct problem p = {0};
        struct policy_in in = {0};
        arena_init(&arena);
        fresh();
        policy_write(&w, &policies[i]);
        struct field_reader r = {
            .table = policy_rows(&arena), .arena = &arena, .problem = &p, .into = &in};
        assert_int_equal(fields_read(&r, span_text(written())), 0);
        assert_int_equal(policy_in_take(&in, &r), 0);
        assert_memory_equal(&in.policy.backoff, &policies[i].backoff, sizeof in.policy.backoff);
        struct buf a, b;
        buf_init(&a);
        buf_init(&b);
        assert_int_equal(policy_encode(&policies[i], &a), 0);
        assert_int_equal(policy_encode(&in.policy, &b), 0);
        assert_true(span_equal(buf_span(&a), buf_span(&b)));
        buf_done(&a);
        buf_done(&b);
        arena_done(&arena);
    }
}

/* ---- events ---- */

static void every_event_has_its_word(void **state)
{
    (void)state;
    for (unsigned k = 0; k < EVENT_KIND_COUNT; k++)
        assert_string_equal(event_names[k], event_name(k));
    assert_null(event_names[EVENT_KIND_COUNT]);
}

static void an_event(void **state)
{
    (void)state;
    struct broker_event e = {.event = {.id = UINT64_C(1099511627777),
                                       .kind = EVENT_DEAD,
                                       .at = {NOW_MS},
                                       .seq = 7,
                                       .id_hi = id_hi((struct wall_time){NOW_MS}, 0),
                                       .queue = SPAN_LITERAL("q"),
                                       .state = STATE_DEAD,
                                       .reason = REASON_FAILED,
                                       .attempts = 3},
                             .correlation = SPAN_LITERAL("c")};
    fresh();
    event_write(&w, &e);
    assert_string_equal(written(), "{\"id\":\"1099511627777\",\"event\":\"dead\","
                                   "\"at\":\"2027-01-15T08:00:00.000Z\",\"queue\":\"q\","
                                   "\"job\":{\"id\":\"01MCC5RM00E008000000000007\",\"seq\":7,"
                                   "\"state\":\"dead\",\"reason\":\"failed\",\"attempts\":3,"
                                   "\"correlation_id\":\"c\"}}");
    e = (struct broker_event){.event = {.id = 1,
                                        .kind = EVENT_QUEUE_PURGED,
                                        .at = {NOW_MS},
                                        .queue = SPAN_LITERAL("q"),
                                        .count = 4}};
    fresh();
    event_write(&w, &e);
    assert_string_equal(written(),
                        "{\"id\":\"1\",\"event\":\"queue_purged\","
                        "\"at\":\"2027-01-15T08:00:00.000Z\",\"queue\":\"q\",\"count\":4}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payloads),
        cmocka_unit_test(a_job),
        cmocka_unit_test(own_options_and_attributes),
        cmocka_unit_test(a_view_never_shows_a_token),
        cmocka_unit_test(a_claimed_job),
        cmocka_unit_test(a_history),
        cmocka_unit_test(own_options_are_shown),
        cmocka_unit_test(pauses),
        cmocka_unit_test(policies_come_back),
        cmocka_unit_test(every_event_has_its_word),
        cmocka_unit_test(an_event),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
