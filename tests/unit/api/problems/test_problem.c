/* SPDX-License-Identifier: Apache-2.0 */
/* Problems: the table is whole, and each is written as the API says. */
#include "unit/base/support.h"

#include "api/problems/problem.h"

static struct arena arena;

static int begin(void **state)
{
    (void)state;
    arena_init(&arena);
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_done(&arena);
    return 0;
}

static void expect_json(const struct problem *p, const char *text)
{
    struct buf b;
    struct json_writer w;
    buf_init(&b);
    json_writer_init(&w, &b);
    problem_write(&w, p);
    assert_int_equal(json_writer_finish(&w), 0);
    assert_int_equal(buf_append(&b, "", 1), 0);
    assert_string_equal(b.data, text);
    buf_done(&b);
}

/* Codes and statuses as docs/reference/problems.md prints them. */
static const struct {
    const char *name;
    unsigned status;
} known[] = {
    {"malformed_json", 400},
    {"invalid_field", 422},
    {"unknown_field", 422},
    {"missing_field", 422},
    {"invalid_id", 422},
    {"not_found", 404},
    {"no_queue", 404},
    {"no_route", 404},
    {"method_not_allowed", 405},
    {"duplicate", 409},
    {"lease_lost", 409},
    {"cancelled", 409},
    {"illegal_move", 409},
    {"gone", 410},
    {"exists", 409},
    {"queue_full", 429},
    {"server_full", 429},
    {"keys_full", 429},
    {"refused_new", 409},
    {"too_big", 413},
    {"key_reused", 422},
    {"disk_full", 507},
    {"unavailable", 503},
    {"unknown", 504},
    {"draining", 503},
    {"busy", 409},
    {"not_supported", 409},
    {"store_failed", 500},
    {"no_key", 404},
    {"version_mismatch", 412},
    {"kv_full", 507},
    {"steps_full", 413},
    {"damaged", 500},
    {"rate_limited", 429},
    {"no_alert", 404},
    {"no_notice", 404},
    {"no_breaker", 404},
    {"breakers_full", 507},
    {"no_schedule", 404},
    {"not_due", 409},
    {"queues_full", 429},
    {"bad_request", 400},
    {"forbidden", 403},
    {"request_timeout", 408},
    {"uri_too_long", 414},
    {"expectation_failed", 417},
    {"misdirected", 421},
    {"head_too_large", 431},
    {"not_implemented", 501},
    {"version_not_supported", 505},
};

static void every_code_has_its_row(void **state)
{
    (void)state;
    assert_int_equal(COUNT_OF(known), PROBLEM_CODE_COUNT - 1);
    for (unsigned c = PROBLEM_NONE + 1; c < PROBLEM_CODE_COUNT; c++) {
        size_t i = 0;
        while (i < COUNT_OF(known) && strcmp(known[i].name, problem_name(c)) != 0)
            i++;
        if (i == COUNT_OF(known))
            fail_msg("%s is not in the list", problem_name(c));
        assert_int_equal(problem_status(c), known[i].status);
    }
}

static void every_outcome_has_a_code(void **state)
{
    (void)state;
    bool used[PROBLEM_CODE_COUNT] = {false};
    assert_int_equal(problem_of_outcome(OUT_OK), PROBLEM_NONE);
    for (unsigned o = OUT_OK + 1; o < OUT_COUNT; o++) {
        enum problem_code code = problem_of_outcome(o);
        assert_int_not_equal(code, PROBLEM_NONE);
        assert_false(used[code]);
        used[code] = true;
    }
}

static void a_problem_in_json(void **state)
{
    (void)state;
    static const char *const words[] = {"a", "b\"c"};
    struct problem p;
    problem_set(&p, &arena, PROBLEM_INVALID_FIELD, "priority", "%s is \"%d\"", "priority", 7);
    p.allowed = words;
    p.allowed_count = 2;
    expect_json(&p, "{\"type\":\"/problems/invalid_field\",\"title\":\"A field "
                    "has an invalid value\",\"status\":422,\"detail\":\"priority is "
                    "\\\"7\\\"\",\"code\":\"invalid_field\",\"field\":\"priority\",\"allowed\":["
                    "\"a\",\"b\\\"c\"]}");
}

static void the_state_and_what_it_allows(void **state)
{
    (void)state;
    struct reply r = {.kind = OP_CANCEL,
                      .outcome = OUT_ILLEGAL,
                      .state = STATE_DEAD,
                      .seq = 7,
                      .id_hi = id_hi((struct wall_time){1}, 0)};
    struct problem p;
    problem_of_reply(&p, &arena, &r, false);
    p.detail = "d";
    expect_json(&p, "{\"type\":\"/problems/illegal_move\",\"title\":\"Not "
                    "allowed in the job's state\",\"status\":409,\"detail\":\"d\",\"code\":"
                    "\"illegal_move\",\"id\":\"0000000001E008000000000007\",\"seq\":7,\"state\":"
                    "\"dead\",\"legal_moves\":[\"requeue\",\"remove\",\"discard\"]}");
}

static void the_holder_of_a_key(void **state)
{
    (void)state;
    struct reply r = {.kind = OP_ENQUEUE,
                      .outcome = OUT_DUPLICATE,
                      .state = STATE_READY,
                      .seq = 7,
                      .id_hi = id_hi((struct wall_time){1}, 0)};
    struct problem p;
    problem_of_reply(&p, &arena, &r, false);
    p.detail = "d";
    expect_json(&p, "{\"type\":\"/problems/duplicate\",\"title\":\"A job with "
                    "this unique key exists\",\"status\":409,\"detail\":\"d\",\"code\":"
                    "\"duplicate\",\"id\":\"0000000001E008000000000007\",\"seq\":7,"
                    "\"duplicate_of\":\"0000000001E008000000000007\",\"state\":\"ready\"}");
}

/* The same refusal has another name for enqueues while the server ends. */
static void draining_is_for_enqueues(void **state)
{
    (void)state;
    struct reply r = {.kind = OP_ENQUEUE, .outcome = OUT_UNAVAILABLE};
    struct problem p;
    problem_of_reply(&p, &arena, &r, true);
    assert_int_equal(p.code, PROBLEM_DRAINING);
    problem_of_reply(&p, &arena, &r, false);
    assert_int_equal(p.code, PROBLEM_UNAVAILABLE);
    r.kind = OP_ACK;
    problem_of_reply(&p, &arena, &r, true);
    assert_int_equal(p.code, PROBLEM_UNAVAILABLE);
    problem_of_error(&p, -ERR_CLOSED);
    assert_int_equal(p.code, PROBLEM_DRAINING);
}

static void notes_name_fields(void **state)
{
    (void)state;
    assert_string_equal(problem_note_field(&arena, "lease_ms is 5; it must be more"), "lease_ms");
    assert_string_equal(problem_note_field(&arena, "backoff.base_ms is 5"), "backoff.base_ms");
    assert_null(problem_note_field(&arena, "the queue name has 300 bytes"));
    assert_null(problem_note_field(&arena, "a step of backoff_ms is 5"));
    assert_null(problem_note_field(&arena, ""));
    assert_null(problem_note_field(&arena, NULL));
    struct reply r = {.outcome = OUT_INVALID, .note = "group has 600 bytes; 512 are allowed"};
    struct problem p;
    problem_of_reply(&p, &arena, &r, false);
    assert_string_equal(p.field, "group");
    assert_string_equal(p.detail, r.note);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_its_row), cmocka_unit_test(every_outcome_has_a_code),
        cmocka_unit_test(a_problem_in_json),      cmocka_unit_test(the_state_and_what_it_allows),
        cmocka_unit_test(the_holder_of_a_key),    cmocka_unit_test(draining_is_for_enqueues),
        cmocka_unit_test(notes_name_fields),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
