/* SPDX-License-Identifier: Apache-2.0 */
/* The field reader: names, types, limits, from bodies and from queries. */
#include "unit/base/support.h"

#include "api/fields/fields.h"
#include "base/mem.h"
#include "core/limits.h"
#include "unit/broker/broker_rig.h"

struct target {
    struct span text, cut, raw;
    int64_t number, open;
    bool flag;
    struct wall_time time;
    uint8_t word;
    uint64_t words;
    struct priority_in priority;
    struct backoff backoff;
    struct texts_in texts;
    struct job_ref job;
    struct job_token token;
};

static const char *const words[] = {"alpha", "beta", "gamma", NULL};

#define AT(member) offsetof(struct target, member)
static const struct field rows[] = {
    {"text", FIELD_TEXT, AT(text), 0, 4, NULL, 0},
    {"cut", FIELD_CUT, AT(cut), 0, 4, NULL, 0},
    {"number", FIELD_INT, AT(number), 5, 10, NULL, 0},
    {"open", FIELD_INT, AT(open), 0, INT64_MAX, NULL, FIELD_NULLABLE},
    {"flag", FIELD_BOOL, AT(flag), 0, 0, NULL, 0},
    {"time", FIELD_TIME, AT(time), 0, 0, NULL, 0},
    {"word", FIELD_ENUM, AT(word), 1, 0, words, 0},
    {"words", FIELD_ENUM_SET, AT(words), 1, 0, words, 0},
    {"priority", FIELD_PRIORITY, AT(priority), 0, 0, NULL, 0},
    {"steps", FIELD_STEPS, AT(backoff), 0, 0, NULL, 0},
    {"backoff", FIELD_BACKOFF, AT(backoff), 0, 0, NULL, 0},
    {"texts", FIELD_TEXTS, AT(texts), 0, 3, NULL, 0},
    {"objects", FIELD_OBJECTS, AT(texts), 0, 3, NULL, 0},
    {"job", FIELD_JOB, AT(job), 0, 0, NULL, 0},
    {"token", FIELD_TOKEN, AT(token), 0, 0, NULL, 0},
    {"raw", FIELD_RAW, AT(raw), 0, 0, NULL, 0},
};
static const struct field required_rows[] = {
    {"text", FIELD_TEXT, AT(text), 0, 4, NULL, 0},
    {"token", FIELD_TOKEN, AT(token), 0, 0, NULL, FIELD_REQUIRED},
};

static struct broker_rig rig;
static struct arena arena;
static struct target target;
static struct problem problem;
static struct field_reader reader;

static int begin(void **state)
{
    (void)state;
    broker_rig_init(&rig, "memory:");
    arena_init(&arena);
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_done(&arena);
    broker_rig_done(&rig);
    return 0;
}

static void fresh(struct fields table)
{
    arena_reset(&arena);
    target = (struct target){0};
    problem = (struct problem){0};
    reader = (struct field_reader){.table = table,
                                   .broker = rig.broker,
                                   .arena = &arena,
                                   .problem = &problem,
                                   .into = &target};
}

static void body(const char *text)
{
    fresh(FIELDS(rows));
    if (fields_read(&reader, span_text(text)) != 0)
        fail_msg("%s: %s", text, problem.detail ? problem.detail : problem_name(problem.code));
}

static void query(const char *text)
{
    fresh(FIELDS(rows));
    if (fields_read_query(&reader, span_text(text)) != 0)
        fail_msg("%s: %s", text, problem.detail ? problem.detail : problem_name(problem.code));
}

static void expect_problem(int err, const char *text, enum problem_code code, const char *field)
{
    if (err != -ERR_INVALID || problem.code != code)
        fail_msg("%s: %d, %s", text, err, problem_name(problem.code));
    if (field)
        assert_string_equal(problem.field, field);
    else
        assert_null(problem.field);
}

static void body_refused(const char *text, enum problem_code code, const char *field)
{
    fresh(FIELDS(rows));
    expect_problem(fields_read(&reader, span_text(text)), text, code, field);
}

static void query_refused(const char *text, enum problem_code code, const char *field)
{
    fresh(FIELDS(rows));
    expect_problem(fields_read_query(&reader, span_text(text)), text, code, field);
}

static void expect_span(struct span got, const char *want)
{
    assert_int_equal(got.len, strlen(want));
    assert_memory_equal(got.at, want, got.len);
}

static void unknown_names_get_the_nearest(void **state)
{
    (void)state;
    body_refused("{\"numbr\":7}", PROBLEM_UNKNOWN_FIELD, "numbr");
    assert_non_null(strstr(problem.detail, "did you mean number?"));
    assert_int_equal(problem.allowed_count, COUNT_OF(rows));
    assert_string_equal(problem.allowed[0], "text");
    body_refused("{\"zzzzzz\":7}", PROBLEM_UNKNOWN_FIELD, "zzzzzz");
    assert_null(strstr(problem.detail, "did you mean"));
    query_refused("txet=a", PROBLEM_UNKNOWN_FIELD, "txet");
    /* Shown names are cut between characters. */
    char text[400] = "{\"x";
    for (int i = 0; i < 100; i++)
        memcpy(text + 3 + (size_t)i * 2, "\xc3\xa4", 3);
    memcpy(text + 203, "\":1}", 5);
    fresh(FIELDS(rows));
    assert_int_equal(fields_read(&reader, span_text(text)), -ERR_INVALID);
    assert_int_equal(strlen(problem.field), 63);
}

static void twice_is_malformed(void **state)
{
    (void)state;
    body_refused("{\"number\":7,\"number\":7}", PROBLEM_MALFORMED_JSON, NULL);
    body_refused("{\"number\":7,\"numb\\u0065r\":7}", PROBLEM_MALFORMED_JSON, NULL);
    query_refused("number=7&number=7", PROBLEM_INVALID_FIELD, "number");
}

static void broken_texts(void **state)
{
    (void)state;
    body_refused("", PROBLEM_MALFORMED_JSON, NULL);
    body_refused("{\"number\":", PROBLEM_MALFORMED_JSON, NULL);
    body_refused("{\"raw\":[1,}", PROBLEM_MALFORMED_JSON, NULL);
    body_refused("{} x", PROBLEM_MALFORMED_JSON, NULL);
    body_refused("{\"words\":[\"alpha\"", PROBLEM_MALFORMED_JSON, NULL);
    body_refused("[]", PROBLEM_INVALID_FIELD, NULL);
    body_refused("7", PROBLEM_INVALID_FIELD, NULL);
    query_refused("text=%zz", PROBLEM_INVALID_FIELD, NULL);
    query_refused("text=%ff", PROBLEM_INVALID_FIELD, NULL);
    query_refused("text=%00", PROBLEM_INVALID_FIELD, NULL);
}

/* Each type with each kind of value that it is not. */
static void wrong_types(void **state)
{
    (void)state;
    static const char *const values[] = {"null", "true", "7", "\"x y\"", "[1]", "{}"};
    static const struct {
        const char *name;
        unsigned takes; /* mask of values */
    } types[] = {
        {"text", 1u << 3},     {"cut", 1u << 3},
        {"number", 1u << 2},   {"open", 1u << 0 | 1u << 2},
        {"flag", 1u << 1},     {"time", 0},
        {"word", 0},           {"words", 0},
        {"priority", 1u << 2}, {"steps", 1u << 4},
        {"backoff", 1u << 5},  {"texts", 0},
        {"objects", 1u << 4},  {"token", 0},
        {"raw", 63},
    };
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        for (size_t v = 0; v < COUNT_OF(values); v++) {
            char text[64];
            snprintf(text, sizeof text, "{\"%s\":%s}", types[t].name, values[v]);
            if (types[t].takes >> v & 1)
                body(text);
            else
                body_refused(text, PROBLEM_INVALID_FIELD, types[t].name);
        }
    }
    body_refused("{\"number\":\"7\"}", PROBLEM_INVALID_FIELD, "number");
    assert_string_equal(problem.detail, "number is a string; it must be a whole number");
}

static void numbers_at_their_limits(void **state)
{
    (void)state;
    body_refused("{\"number\":4}", PROBLEM_INVALID_FIELD, "number");
    assert_string_equal(problem.detail, "number must be a whole number from 5 to 10");
    body("{\"number\":5}");
    assert_int_equal(target.number, 5);
    body("{\"number\":1e1}");
    assert_int_equal(target.number, 10);
    body_refused("{\"number\":11}", PROBLEM_INVALID_FIELD, "number");
    body_refused("{\"number\":5.5}", PROBLEM_INVALID_FIELD, "number");
    body_refused("{\"number\":99999999999999999999}", PROBLEM_INVALID_FIELD, "number");
    query_refused("number=4", PROBLEM_INVALID_FIELD, "number");
    query("number=5");
    query("number=10");
    query_refused("number=11", PROBLEM_INVALID_FIELD, "number");
    query_refused("number=", PROBLEM_INVALID_FIELD, "number");
    query_refused("number=7%208", PROBLEM_INVALID_FIELD, "number");
    query_refused("number=x", PROBLEM_INVALID_FIELD, "number");
    body("{\"open\":null}");
    assert_int_equal(target.open, INT64_MAX);
    body_refused("{\"open\":-1}", PROBLEM_INVALID_FIELD, "open");
}

static void texts_at_their_limits(void **state)
{
    (void)state;
    body("{\"text\":\"abc\"}");
    body("{\"text\":\"ab\\u00e4\"}");
    expect_span(target.text, "ab\xc3\xa4");
    body_refused("{\"text\":\"abcde\"}", PROBLEM_INVALID_FIELD, "text");
    assert_string_equal(problem.detail, "text has 5 bytes; 4 are allowed");
    body_refused("{\"text\":\"a\\u0000\"}", PROBLEM_INVALID_FIELD, "text");
    body_refused("{\"text\":\"\\ud800\"}", PROBLEM_INVALID_FIELD, "text");
    query("text=a%20b+");
    expect_span(target.text, "a b ");
    query_refused("text=abcde", PROBLEM_INVALID_FIELD, "text");
    body("{\"cut\":\"abcd\"}");
    expect_span(target.cut, "abcd");
    body("{\"cut\":\"abcde\"}");
    expect_span(target.cut, "abcd");
    body("{\"cut\":\"abc\\u00e4\"}");
    expect_span(target.cut, "abc");
    body("{\"cut\":\"ab\\u0000c\"}");
    expect_span(target.cut, "ab");
}

static void flags_and_times(void **state)
{
    (void)state;
    body("{\"flag\":true}");
    assert_true(target.flag);
    query("flag=true");
    assert_true(target.flag);
    query("flag=false");
    assert_false(target.flag);
    assert_true(fields_has(&reader, "flag"));
    assert_false(fields_has(&reader, "text"));
    query_refused("flag=1", PROBLEM_INVALID_FIELD, "flag");
    body("{\"time\":\"1970-01-01T00:00:01.5+00:00\"}");
    assert_int_equal(target.time.ms, 1500);
    body("{\"time\":\"1970-01-01T00:00:00Z\"}");
    assert_int_equal(target.time.ms, 1);
    body("{\"time\":\"0001-01-01T00:00:00Z\"}");
    assert_int_equal(target.time.ms, 1);
    body("{\"time\":\"9999-12-31T23:59:59.999Z\"}");
    assert_int_equal(target.time.ms, LIMIT_WALL_MS - 1);
    body_refused("{\"time\":\"yesterday\"}", PROBLEM_INVALID_FIELD, "time");
    query("time=1970-01-01T00:00:02Z");
    assert_int_equal(target.time.ms, 2000);
}

static void words_and_labels(void **state)
{
    (void)state;
    body("{\"word\":\"beta\"}");
    assert_int_equal(target.word, 2);
    body_refused("{\"word\":\"bta\"}", PROBLEM_INVALID_FIELD, "word");
    assert_non_null(strstr(problem.detail, "did you mean beta?"));
    assert_int_equal(problem.allowed_count, 3);
    body("{\"words\":[\"gamma\",\"alpha\"]}");
    assert_int_equal(target.words, 1u << 3 | 1u << 1);
    query("words=alpha,beta");
    assert_int_equal(target.words, 1u << 1 | 1u << 2);
    query_refused("words=alpha,", PROBLEM_INVALID_FIELD, "words");
    body_refused("{\"words\":[\"alpha\",7]}", PROBLEM_INVALID_FIELD, "words");
    body("{\"priority\":-9223372036854775808}");
    assert_int_equal(target.priority.value, INT64_MIN);
    body_refused("{\"priority\":9223372036854775808}", PROBLEM_INVALID_FIELD, "priority");
    body("{\"priority\":\"high\"}");
    assert_int_equal(target.priority.value, 10);
    expect_span(target.priority.label, "high");
    query("priority=low");
    assert_int_equal(target.priority.value, -10);
    query("priority=-3");
    assert_int_equal(target.priority.value, -3);
    assert_int_equal(target.priority.label.len, 0);
    body_refused("{\"priority\":\"urgent\"}", PROBLEM_INVALID_FIELD, "priority");
    assert_int_equal(problem.allowed_count, 3);
    assert_string_equal(problem.allowed[0], "high");
}

static void steps_text(char *out, size_t room, size_t count, bool json)
{
    size_t at = (size_t)snprintf(out, room, json ? "{\"steps\":[" : "steps=");
    for (size_t i = 0; i < count; i++)
        at += (size_t)snprintf(out + at, room - at, "%s%zu", i ? "," : "", i);
    snprintf(out + at, room - at, json ? "]}" : "");
}

static void backoff_lists(void **state)
{
    (void)state;
    char text[512];
    for (int json = 0; json < 2; json++) {
        steps_text(text, sizeof text, LIMIT_BACKOFF_STEPS, json);
        json ? body(text) : query(text);
        assert_int_equal(target.backoff.kind, BACKOFF_LIST);
        assert_int_equal(target.backoff.step_count, LIMIT_BACKOFF_STEPS);
        assert_int_equal(target.backoff.step_ms[31], 31);
        steps_text(text, sizeof text, LIMIT_BACKOFF_STEPS + 1, json);
        if (json)
            body_refused(text, PROBLEM_INVALID_FIELD, "steps");
        else
            query_refused(text, PROBLEM_INVALID_FIELD, "steps");
    }
    body("{\"steps\":[2592000000]}");
    body_refused("{\"steps\":[2592000001]}", PROBLEM_INVALID_FIELD, "steps");
    body_refused("{\"steps\":[-1]}", PROBLEM_INVALID_FIELD, "steps");
    body("{\"steps\":[]}");
    assert_int_equal(target.backoff.step_count, 0);
}

static void backoff_objects(void **state)
{
    (void)state;
    body("{\"backoff\":{\"type\":\"exponential\",\"base_ms\":5,\"max_ms\":6}}");
    assert_int_equal(target.backoff.kind, BACKOFF_EXPONENTIAL);
    assert_int_equal(target.backoff.base_ms, 5);
    assert_int_equal(target.backoff.max_ms, 6);
    assert_int_equal(target.backoff.jitter_percent, 10);
    body("{\"backoff\":{\"steps_ms\":[1,2]}}");
    assert_int_equal(target.backoff.kind, BACKOFF_LIST);
    assert_int_equal(target.backoff.step_count, 2);
    body_refused("{\"backoff\":{\"base_ms\":7,\"max_ms\":6}}", PROBLEM_INVALID_FIELD, "backoff");
    body_refused("{\"backoff\":{\"type\":\"list\"}}", PROBLEM_INVALID_FIELD, "backoff");
    body_refused("{\"backoff\":{\"type\":\"list\",\"steps_ms\":[1],\"base_ms\":1}}",
                 PROBLEM_INVALID_FIELD, "backoff");
    body_refused("{\"backoff\":{\"type\":\"exponential\",\"steps_ms\":[1]}}", PROBLEM_INVALID_FIELD,
                 "backoff");
    body_refused("{\"backoff\":{\"jitter_percent\":101}}", PROBLEM_INVALID_FIELD, "jitter_percent");
    body_refused("{\"backoff\":{\"bas_ms\":1}}", PROBLEM_UNKNOWN_FIELD, "bas_ms");
    query_refused("backoff=1", PROBLEM_INVALID_FIELD, "backoff");
}

static void lists_and_values(void **state)
{
    (void)state;
    body("{\"texts\":[\"a\",\"\\u0062\",\"c\"]}");
    assert_int_equal(target.texts.count, 3);
    expect_span(target.texts.list[1], "b");
    body_refused("{\"texts\":[\"a\",\"b\",\"c\",\"d\"]}", PROBLEM_INVALID_FIELD, "texts");
    body_refused("{\"texts\":[]}", PROBLEM_INVALID_FIELD, "texts");
    body("{\"objects\":[{ \"a\" : [1] },7]}");
    assert_int_equal(target.texts.count, 2);
    expect_span(target.texts.list[0], "{ \"a\" : [1] }");
    body("{\"raw\": {\"b\" : 1e400,\n\"c\":\"\\ud800\"} ,\"number\":7}");
    expect_span(target.raw, "{\"b\" : 1e400,\n\"c\":\"\\ud800\"}");
    assert_int_equal(target.number, 7);
    query_refused("raw=1", PROBLEM_INVALID_FIELD, "raw");
}

static void jobs_and_tokens(void **state)
{
    (void)state;
    body("{\"job\":17}");
    assert_int_equal(target.job.seq, 17);
    body("{\"job\":\"17\"}");
    assert_int_equal(target.job.seq, 17);
    body("{\"job\":\"0000000001E008000000000007\"}");
    assert_int_equal(target.job.seq, 7);
    body_refused("{\"job\":\"x\"}", PROBLEM_INVALID_ID, "job");
    body_refused("{\"job\":1.5}", PROBLEM_INVALID_ID, "job");
    body("{\"token\":\"2-3\"}");
    assert_int_equal(target.token.epoch, 2);
    assert_int_equal(target.token.counter, 3);
    body_refused("{\"token\":\"nonsense\"}", PROBLEM_INVALID_FIELD, "token");
    body_refused("{\"token\":\"\"}", PROBLEM_INVALID_FIELD, "token");
}

static void required_and_both(void **state)
{
    (void)state;
    fresh(FIELDS(required_rows));
    expect_problem(fields_read_optional(&reader, span_of(NULL, 0)), "", PROBLEM_MISSING_FIELD,
                   "token");
    fresh(FIELDS(required_rows));
    expect_problem(fields_read(&reader, SPAN_LITERAL("{\"text\":\"a\"}")), "",
                   PROBLEM_MISSING_FIELD, "token");
    fresh(FIELDS(required_rows));
    assert_int_equal(fields_read(&reader, SPAN_LITERAL("{\"token\":\"1-1\"}")), 0);
    assert_int_equal(fields_exclude(&reader, "text", "token"), 0);
    fresh(FIELDS(required_rows));
    assert_int_equal(fields_read(&reader, SPAN_LITERAL("{\"token\":\"1-1\",\"text\":\"a\"}")), 0);
    expect_problem(fields_exclude(&reader, "text", "token"), "", PROBLEM_INVALID_FIELD, "token");
}

/* Wherever memory runs out, the answer is 503 and nothing leaks. */
static void memory_runs_out(void **state)
{
    (void)state;
    static const char text[] = "{\"text\":\"\\u0061\",\"texts\":[\"\\u0061\"],\"backoff\":{},"
                               "\"words\":[\"alph\"]}";
    for (long nth = 1;; nth++) {
        fresh(FIELDS(rows));
        arena_done(&arena);
        arena_init(&arena);
        mem_fail_at(nth, 1);
        int err = fields_read(&reader, SPAN_LITERAL(text));
        bool over = mem_calls() < nth;
        mem_fail_at(0, 0);
        assert_int_equal(err, -ERR_INVALID);
        if (over)
            break;
        assert_true(problem.code == PROBLEM_UNAVAILABLE || problem.code == PROBLEM_INVALID_FIELD);
    }
    assert_int_equal(problem.code, PROBLEM_INVALID_FIELD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_names_get_the_nearest),
        cmocka_unit_test(twice_is_malformed),
        cmocka_unit_test(broken_texts),
        cmocka_unit_test(wrong_types),
        cmocka_unit_test(numbers_at_their_limits),
        cmocka_unit_test(texts_at_their_limits),
        cmocka_unit_test(flags_and_times),
        cmocka_unit_test(words_and_labels),
        cmocka_unit_test(backoff_lists),
        cmocka_unit_test(backoff_objects),
        cmocka_unit_test(lists_and_values),
        cmocka_unit_test(jobs_and_tokens),
        cmocka_unit_test(required_and_both),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
