/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `holdfast work`, from the command line and from a file (PDQ-8). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/work/config.h"
#include "cli/work/options.h"

#define WORDS(...) ((char *[]){"work", __VA_ARGS__, NULL})

/* The result of work_plan_build; the plan is valid as long as the arena. */
static int plan_of(char **words, struct work_plan *plan, struct arguments *args,
                   struct arena *arena, struct err_note *note)
{
    int count = 0;
    while (words[count])
        count++;
    arena_init(arena);
    assert_int_equal(options_parse(work_options, WORK_OPTION_COUNT, count, words, args, note), 0);
    return work_plan_build(args, arena, plan, note);
}

static void defaults_are_those_of_the_manual(void **state)
{
    struct work_plan p;
    struct arguments args;
    struct arena arena;
    struct err_note note;
    (void)state;
    assert_int_equal(plan_of(WORDS("a", "b", "--", "cat", "-n", "--"), &p, &args, &arena, &note),
                     0);
    assert_int_equal(p.queue_count, 2);
    assert_string_equal(p.queues[1], "b");
    assert_string_equal(p.command[0], "cat");
    assert_string_equal(p.command[1], "-n");
    assert_string_equal(p.command[2], "--");
    assert_null(p.command[3]);
    assert_int_equal(p.concurrency, 1);
    assert_int_equal(p.poll_ms, 5000);
    assert_int_equal(p.lease_ms, 60000);
    assert_int_equal(p.timeout_ms, 600000);
    assert_int_equal(p.kill_after_ms, 10000);
    assert_int_equal(p.stop_timeout_ms, 25000);
    assert_int_equal(p.max_age_ms, 86400000);
    assert_false(p.drain);
    assert_true(strlen(p.name) > 2);
    arguments_done(&args);
    arena_done(&arena);
}

static void options_are_read(void **state)
{
    struct work_plan p;
    struct arguments args;
    struct arena arena;
    struct err_note note;
    (void)state;
    assert_int_equal(plan_of(WORDS("q", "--url", "HTTP://h/", "-n", "8", "--rate", "10/s", "--stop",
                                   "drain", "--name", "w", "--breaker", "pay"),
                             &p, &args, &arena, &note),
                     0);
    assert_null(p.command);
    assert_string_equal(p.url, "HTTP://h/");
    assert_int_equal(p.concurrency, 8);
    assert_int_equal(p.rate.count, 10);
    assert_int_equal(p.rate.window_ms, 1000);
    assert_true(p.drain);
    assert_string_equal(p.name, "w");
    assert_string_equal(p.breaker, "pay");
    arguments_done(&args);
    arena_done(&arena);
}

static void wrong_options_are_refused(void **state)
{
    char **wrong[] = {
        WORDS("--", "cat"),
        WORDS("q"),
        WORDS("q", "--"),
        WORDS("q", "--url", "ftp://h"),
        WORDS("q", "--url", "http://"),
        WORDS("q", "--url", "http://exa mple/"),
        WORDS("q", "--url", "http://127.0.0.1:99999/"),
        WORDS("q", "--url", "h/path"),
        WORDS("q", "--name", "\xff", "--", "cat"),
        WORDS("q", "--url", "http://h", "--", "cat"),
        WORDS("q", "--url", "http://h", "--exit", "3=ack"),
        WORDS("q", "--max-age", "1h", "--", "cat"),
        WORDS("q", "--once", "--until-empty", "--", "cat"),
        WORDS("q", "--name", "", "--", "cat"),
        WORDS("q", "--breaker", "", "--", "cat"),
        WORDS("q", "--rate", "1", "--", "cat"),
        WORDS("q", "-n", "1001", "--", "cat"),
        WORDS("", "--", "cat"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct work_plan p;
        struct arguments args;
        struct arena arena;
        struct err_note note = {""};
        assert_int_equal(plan_of(wrong[i], &p, &args, &arena, &note), -ERR_INVALID);
        assert_true(strlen(note.text) > 10);
        arguments_done(&args);
        arena_done(&arena);
    }
}

static void files_become_command_lines(void **state)
{
    static const char text[] = "workers:\n"
                               "  - queues: [a, b]\n"
                               "    kill-after: 2s\n"
                               "    once: true\n"
                               "    until_empty: false\n"
                               "    exit: [3=ack, 4=dead]\n"
                               "    command: [cat, '--x y']\n"
                               "  - queues: c\n"
                               "    url: http://h/\n";
    static const char *const first[] = {
        "work", "--kill_after=2s", "--once", "--exit=3=ack", "--exit=4=dead", "a", "b", "--", "cat",
        "--x y"};
    struct work_entries entries;
    struct arena arena;
    struct err_note note = {""};
    (void)state;
    arena_init(&arena);
    assert_int_equal(work_config_parse("f", span_text(text), NULL, &arena, &entries, &note), 0);
    assert_int_equal(entries.count, 2);
    assert_int_equal(entries.list[0].argc, sizeof first / sizeof *first);
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        assert_string_equal(entries.list[0].argv[i], first[i]);
    assert_string_equal(entries.list[1].argv[1], "--url=http://h/");
    arena_done(&arena);
}

static void wrong_files_are_refused(void **state)
{
    static const char *const wrong[] = {
        "",
        "workers:\n",
        "workers: x\n",
        "workers:\n  - x\n",
        "workers:\n  - queues: {a: b}\n    command: [x]\n",
        "workers:\n  - queues: a\n    command: [[x]]\n",
        "workers:\n  - queues: a\n    command: [x]\n    once: maybe\n",
        "workers:\n  - queues: a\n    command: [x]\n    config: other.yaml\n",
        "workers:\n  - queues: a\n    command: [x]\n    poll: [1s]\n",
        "workers:\n  - queues: a\n    command: [x]\n    timeout: 600\n",
        "workers:\n  - queues: a\n    queues: b\n    command: [x]\n",
        "workers:\n  - queues: --once\n    command: [x]\n",
        "workers:\n  - command: [x]\n",
        "workers: []\nmore: 1\n",
        "workers: [\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct work_entries entries;
        struct arena arena;
        struct err_note note = {""};
        arena_init(&arena);
        assert_int_equal(work_config_parse("f", span_text(wrong[i]), NULL, &arena, &entries, &note),
                         -ERR_INVALID);
        assert_int_equal(note.text[0], 'f');
        assert_null(strstr(note.text, "did you mean 'config'"));
        arena_done(&arena);
    }
}

static void false_in_the_file_takes_precedence(void **state)
{
    static const char text[] = "workers:\n  - {queues: a, command: [x], json: false}\n";
    struct work_entries entries;
    struct arguments args;
    struct arena arena;
    struct err_note note = {""};
    (void)state;
    arena_init(&arena);
    assert_int_equal(
        options_parse(work_options, WORK_OPTION_COUNT, 2, WORDS("--json"), &args, &note), 0);
    assert_int_equal(work_config_parse("f", span_text(text), &args, &arena, &entries, &note), 0);
    assert_string_equal(entries.list[0].argv[1], "a");
    arguments_done(&args);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_manual),
        cmocka_unit_test(options_are_read),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(files_become_command_lines),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(false_in_the_file_takes_precedence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
