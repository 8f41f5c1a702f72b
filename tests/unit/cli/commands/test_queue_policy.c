/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a queue on the command line: options become members of the request. */
#include "cli/commands/queue_policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/queues/policy_fields.h"

static const struct option options[] = {QUEUE_POLICY_OPTIONS};
enum { OPTIONS = sizeof options / sizeof options[0] };

/* body NULL: the options are refused, by their table or by queue_policy_write. */
static void body_is(const char *const *words, const char *body)
{
    struct client_session s = {0};
    struct arguments args;
    struct err_note note = {""};
    char *argv[20] = {(char[]){"x"}};
    int argc = 1;
    for (; words[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    if (options_parse(options, OPTIONS, argc, argv, &args, &note) < 0) {
        if (body)
            fail_msg("%s", note.text);
        return;
    }
    s.args = &args;
    buf_init(&s.body);
    json_writer_init(&s.writer, &s.body);
    json_write_object(&s.writer);
    assert_int_equal(queue_policy_write(&s), body ? CLIENT_DONE : CLIENT_USAGE);
    if (body) {
        json_write_object_end(&s.writer);
        assert_int_equal(json_writer_finish(&s.writer), 0);
        assert_int_equal(buf_append(&s.body, "", 1), 0);
        assert_string_equal(s.body.data, body);
    }
    buf_done(&s.body);
    arguments_done(&args);
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void options_become_members(void **state)
{
    (void)state;
    body_is(WORDS("word"), "{}");
    body_is(WORDS("--lease-ms", "1.5s", "--payload-max", "2KiB", "--max-attempts", "3"),
            "{\"lease_ms\":1500,\"max_attempts\":3,\"payload_max\":2048}");
    body_is(WORDS("--unique-scope", "none", "--ranked", "yes", "--refuse-new", "no"),
            "{\"unique_scope\":\"none\",\"refuse_new\":false,\"ranked\":true}");
    body_is(WORDS("--priority", "-7"), "{\"priority\":-7}");
    body_is(WORDS("--priority", "high"), "{\"priority\":\"high\"}");
}

static void no_limit_is_a_word(void **state)
{
    (void)state;
    body_is(WORDS("--capacity", "none", "--keep-done", "all", "--keep-dead-ms", "all"),
            "{\"capacity\":null,\"keep_done\":null,\"keep_dead_ms\":null}");
    body_is(WORDS("--capacity", "5", "--keep-done", "0", "--keep-dead-ms", "2h"),
            "{\"capacity\":5,\"keep_done\":0,\"keep_dead_ms\":7200000}");
    body_is(WORDS("--capacity", "all"), NULL);
    body_is(WORDS("--keep-done", "none"), NULL);
    body_is(WORDS("--keep-done", "5s"), NULL);
    body_is(WORDS("--keep-dead-ms", "soon"), NULL);
}

static void objects(void **state)
{
    (void)state;
    body_is(WORDS("--backoff-ms", "1s,500"), "{\"backoff_ms\":[1000,500]}");
    body_is(WORDS("--backoff-ms", "1s,,2s"), NULL);
    body_is(WORDS("--backoff-max-ms", "1m", "--backoff-jitter-percent", "5"),
            "{\"backoff\":{\"type\":\"exponential\",\"max_ms\":60000,\"jitter_percent\":5}}");
    body_is(WORDS("--enqueue-rate", "10/1s/group"),
            "{\"enqueue_rate\":{\"per\":\"group\",\"count\":10,\"window_ms\":1000}}");
    body_is(WORDS("--enqueue-rate", "none"), "{\"enqueue_rate\":null}");
    body_is(WORDS("--enqueue-rate", "10"), NULL);
    body_is(WORDS("--enqueue-rate", "10/1s/job"), NULL);
}

static void words_are_checked_at_once(void **state)
{
    (void)state;
    body_is(WORDS("--unique-scope", "some"), NULL);
    body_is(WORDS("--ranked", "maybe"), NULL);
    body_is(WORDS("--lease-ms", "x"), NULL);
    body_is(WORDS("--max-attempts", "1s"), NULL);
}

/* An option of every row is noticed where it has no place. */
static void each_option_is_known(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPTIONS; i++) {
        struct option_given given = {.option = &options[i], .value = "1"};
        struct arguments args = {
            .options = options, .option_count = OPTIONS, .given = &given, .given_count = 1};
        assert_string_equal(queue_policy_given(&args), options[i].name);
        args.given_count = 0;
        assert_null(queue_policy_given(&args));
    }
    assert_int_equal(OPTIONS, POLICY_FIELDS + 3); /* the back-off has four */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_become_members),
        cmocka_unit_test(no_limit_is_a_word),
        cmocka_unit_test(objects),
        cmocka_unit_test(words_are_checked_at_once),
        cmocka_unit_test(each_option_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
