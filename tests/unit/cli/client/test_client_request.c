/* SPDX-License-Identifier: Apache-2.0 */
/* Requests out of options: encoded paths, members of bodies, and the same as a query. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cli/client/request.h"

static const struct option options[] = {
    {"name", 0, "X", "", OPTION_TEXT},       {"wait", 0, "X", "", OPTION_DURATION},
    {"priority", 0, "X", "", OPTION_TEXT},   {"backoff", 0, "X", "", OPTION_TEXT},
    {"new", 0, "yes|no", "", OPTION_CHOICE}, {"no_retry", 0, NULL, "", OPTION_FLAG},
};
static const struct client_field fields[] = {
    {"name", "name", CLIENT_FIELD_TEXT},
    {"wait", "wait_ms", CLIENT_FIELD_NUMBER},
    {"priority", "priority", CLIENT_FIELD_NUMBER_OR_TEXT},
    {"backoff", "backoff_ms", CLIENT_FIELD_MS_LIST},
    {"new", "new", CLIENT_FIELD_YES_NO},
    {"no_retry", "retry", CLIENT_FIELD_FALSE},
};
enum { FIELDS = sizeof fields / sizeof fields[0], OPTIONS = sizeof options / sizeof options[0] };

static struct arguments parsed(const char *const *words)
{
    struct arguments args;
    struct err_note note = {""};
    char *argv[20] = {(char[]){"x"}};
    int argc = 1;
    for (; words[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    assert_int_equal(options_parse(options, OPTIONS, argc, argv, &args, &note), 0);
    return args;
}

/* The body; NULL: the value is refused, and the note holds `expected`. */
static void body_is(const char *const *words, const char *body, const char *expected)
{
    struct arguments args = parsed(words);
    struct buf out;
    struct json_writer w;
    struct err_note note = {""};
    buf_init(&out);
    json_writer_init(&w, &out);
    json_write_object(&w);
    int rc = client_fields_write(&args, fields, FIELDS, &w, &note);
    if (body) {
        assert_int_equal(rc, 0);
        json_write_object_end(&w);
        assert_int_equal(json_writer_finish(&w), 0);
        assert_int_equal(buf_append(&out, "", 1), 0);
        assert_string_equal(out.data, body);
    } else {
        assert_int_equal(rc, -ERR_INVALID);
        assert_non_null(strstr(note.text, expected));
    }
    buf_done(&out);
    arguments_done(&args);
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void options_become_members(void **state)
{
    (void)state;
    body_is(WORDS("word"), "{}", NULL);
    body_is(WORDS("--name", "a\"b", "--wait", "1.5s"), "{\"name\":\"a\\\"b\",\"wait_ms\":1500}",
            NULL);
    body_is(WORDS("--priority", "-7"), "{\"priority\":-7}", NULL);
    body_is(WORDS("--priority", "high"), "{\"priority\":\"high\"}", NULL);
    body_is(WORDS("--backoff", "1s,500ms,2m"), "{\"backoff_ms\":[1000,500,120000]}", NULL);
    body_is(WORDS("--new", "yes", "--no-retry"), "{\"new\":true,\"retry\":false}", NULL);
    body_is(WORDS("--new", "no"), "{\"new\":false}", NULL);
}

static void wrong_values_are_named(void **state)
{
    (void)state;
    body_is(WORDS("--backoff", "1s,,2s"), NULL, "--backoff is '1s,,2s'; it must be durations");
    body_is(WORDS("--backoff", "500"), NULL, "--backoff is '500'; it must be durations");
    body_is(WORDS("--backoff", ""), NULL, "--backoff is ''");
}

static void options_become_a_query(void **state)
{
    (void)state;
    struct arguments args =
        parsed(WORDS("--name", "a b&c=d/\xc3\xa9", "--backoff", "1s,2s", "--no-retry"));
    struct client_path path;
    struct err_note note;
    client_path_init(&path);
    client_path_add(&path, "/v1/x");
    assert_int_equal(client_fields_query(&args, fields, FIELDS, &path, &note), 0);
    assert_string_equal(client_path_text(&path),
                        "/v1/x?name=a%20b%26c%3Dd%2F%C3%A9&backoff_ms=1000%2C2000&retry=false");
    client_path_done(&path);
    arguments_done(&args);
}

static void segments_cannot_leave_their_place(void **state)
{
    (void)state;
    static const char *const segments[][2] = {
        {"plain-1_x.y~", "plain-1_x.y~"},
        {"a/b", "a%2Fb"},
        {"..", "%2E%2E"},
        {".", "%2E"},
        {"...", "..."},
        {"?x=1#y", "%3Fx%3D1%23y"},
        {"a\r\nHost: b", "a%0D%0AHost%3A%20b"},
        {"100%", "100%25"},
    };
    for (size_t i = 0; i < sizeof segments / sizeof segments[0]; i++) {
        struct client_path path;
        client_path_init(&path);
        client_path_encode(&path, segments[i][0]);
        assert_string_equal(client_path_text(&path), segments[i][1]);
        client_path_done(&path);
    }
}

static void an_empty_segment_is_an_error(void **state)
{
    (void)state;
    struct client_path path;
    client_path_init(&path);
    client_path_add(&path, "/v1/queues/");
    client_path_encode(&path, "");
    assert_int_equal(path.error, -ERR_INVALID);
    assert_null(client_path_text(&path));
    client_path_done(&path);
}

static void given_options_are_told(void **state)
{
    (void)state;
    struct arguments args = parsed(WORDS("--backoff", "1s"));
    const struct client_field *given = client_fields_given(&args, fields, FIELDS);
    assert_non_null(given);
    assert_string_equal(given->option, "backoff");
    assert_null(client_fields_given(&args, fields, 2));
    arguments_done(&args);
}

static void no_memory_is_reported(void **state)
{
    (void)state;
    struct client_path path;
    client_path_init(&path);
    mem_fail_at(1, 1);
    client_path_add(&path, "/v1");
    client_path_query(&path, "a", "b");
    assert_null(client_path_text(&path));
    mem_fail_at(0, 0);
    client_path_done(&path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_become_members),
        cmocka_unit_test(wrong_values_are_named),
        cmocka_unit_test(options_become_a_query),
        cmocka_unit_test(segments_cannot_leave_their_place),
        cmocka_unit_test(an_empty_segment_is_an_error),
        cmocka_unit_test(given_options_are_told),
        cmocka_unit_test(no_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
