/* SPDX-License-Identifier: Apache-2.0 */
/* The option parser: every spelling, every refusal with its words, and no leak when memory ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "config/options.h"

static const struct option table[] = {
    {"queue", 'q', "QUEUE", "which queue", OPTION_TEXT},
    {"json", 0, NULL, "as JSON", OPTION_FLAG},
    {"count", 'n', "N", "how many", OPTION_NUMBER},
    {"limits.body_bytes", 0, "BYTES", "body", OPTION_SIZE},
    {"wait", 0, "MS", "how long", OPTION_DURATION},
    {"format", 0, "text|json", "how", OPTION_CHOICE},
    {"clock", 0, "true|false", "a switch", OPTION_SWITCH},
    {"listen", 'l', "ADDRESS", "where", OPTION_LIST},
};
enum { TABLE = sizeof table / sizeof table[0], WORDS = 16 };

/* The words are a NULL-terminated list; argv[0] is put in front. */
static int parse(const char *const *words, struct arguments *ret, struct err_note *note)
{
    char *argv[WORDS + 1] = {(char[]){"claim"}};
    int argc = 1;
    for (; words[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    return options_parse(table, TABLE, argc, argv, ret, note);
}
#define PARSE(args, note, ...) parse((const char *const[]){__VA_ARGS__, NULL}, args, note)

static void every_spelling_is_read(void **state)
{
    (void)state;
    struct arguments a;
    assert_int_equal(PARSE(&a, NULL, "one", "--queue", "mail", "-n", "-3", "--json", "-",
                           "--wait=1.5s", "--limits_body-bytes", "2KiB", "-7", "--format=json",
                           "--", "--json"),
                     0);
    assert_string_equal(arguments_text(&a, "queue", "x"), "mail");
    assert_true(arguments_has(&a, "json"));
    assert_int_equal(arguments_number(&a, "count", 9), -3);
    assert_int_equal(arguments_number(&a, "wait", 9), 1500);
    assert_int_equal(arguments_number(&a, "limits.body_bytes", 9), 2048);
    assert_string_equal(arguments_text(&a, "format", NULL), "json");
    assert_false(arguments_has(&a, "listen"));
    assert_false(a.help);
    assert_int_equal(a.word_count, 4);
    assert_string_equal(a.words[0], "one");
    assert_string_equal(a.words[1], "-");
    assert_string_equal(a.words[2], "-7");
    assert_string_equal(a.words[3], "--json");
    assert_null(a.words[4]);
    arguments_done(&a);
}

static void what_is_missing_falls_back(void **state)
{
    (void)state;
    struct arguments a;
    char *argv[] = {(char[]){"claim"}, NULL};
    assert_int_equal(options_parse(table, TABLE, 1, argv, &a, NULL), 0);
    assert_string_equal(arguments_text(&a, "queue", "x"), "x");
    assert_null(arguments_text(&a, "queue", NULL));
    assert_int_equal(arguments_number(&a, "count", 9), 9);
    assert_int_equal(a.word_count, 0);
    arguments_done(&a);
}

static void the_last_counts_and_lists_keep_all(void **state)
{
    (void)state;
    struct arguments a;
    size_t at = 0;
    assert_int_equal(PARSE(&a, NULL, "-q", "a", "-l", "x", "-q", "b", "--listen=y", "-l", ""), 0);
    assert_string_equal(arguments_text(&a, "queue", NULL), "b");
    assert_string_equal(arguments_next(&a, "listen", &at), "x");
    assert_string_equal(arguments_next(&a, "listen", &at), "y");
    assert_string_equal(arguments_next(&a, "listen", &at), "");
    assert_null(arguments_next(&a, "listen", &at));
    arguments_done(&a);
}

static void help_ends_the_reading(void **state)
{
    (void)state;
    struct arguments a;
    assert_int_equal(PARSE(&a, NULL, "--help", "--nonsense"), 0);
    assert_true(a.help);
    arguments_done(&a);
    assert_int_equal(PARSE(&a, NULL, "word", "-h"), 0);
    assert_true(a.help);
    arguments_done(&a);
    assert_int_equal(PARSE(&a, NULL, "--", "-h"), 0);
    assert_false(a.help);
    arguments_done(&a);
}

static const struct {
    const char *words[3];
    const char *said; /* part of the message */
} wrong[] = {
    {{"--quee", "a"}, "unknown option '--quee'; did you mean '--queue'?"},
    {{"--quee=a"}, "unknown option '--quee'; did you mean '--queue'?"},
    {{"--limits-bdy-bytes=1"}, "did you mean '--limits-body-bytes'?"},
    {{"--zzzzzz"}, "unknown option '--zzzzzz'; `holdfast help claim` lists the options"},
    {{"-x"}, "unknown option '-x'"},
    {{"-qn"}, "unknown option '-qn'"},
    {{"---queue", "a"}, "unknown option '---queue'"},
    {{"--queue"}, "--queue needs a value: --queue QUEUE"},
    {{"-q"}, "--queue needs a value: --queue QUEUE"},
    {{"--queue", "--json"}, "--queue needs a value: --queue QUEUE (if '--json' is meant"},
    {{"--json=yes"}, "--json takes no value"},
    {{"--count", "many"}, "--count is 'many'; it must be a whole number"},
    {{"--count", "1.5"}, "--count is '1.5'; it must be a whole number"},
    {{"--limits-body-bytes", "2M"}, "--limits-body-bytes is '2M'; it must be bytes, such as"},
    {{"--wait="}, "--wait is ''; it must be a number with its unit, such as 500ms"},
    {{"--wait=600"}, "--wait is '600'; it must be a number with its unit, such as 500ms, 30s"},
    {{"--format=jso"}, "--format is 'jso'; it must be one of text|json"},
    {{"--format=text|json"}, "it must be one of text|json"},
    {{"--clock=maybe"}, "--clock is 'maybe'; it must be one of true|false"},
    {{"--format="}, "--format is ''; it must be one of text|json"},
};

static void a_switch_needs_no_value(void **state)
{
    (void)state;
    struct arguments a;
    assert_int_equal(PARSE(&a, NULL, "--clock", "false"), 0);
    assert_string_equal(arguments_text(&a, "clock", NULL), "true");
    assert_string_equal(a.words[0], "false");
    arguments_done(&a);
    assert_int_equal(PARSE(&a, NULL, "--clock", "--clock=false"), 0);
    assert_string_equal(arguments_text(&a, "clock", NULL), "false");
    arguments_done(&a);
}

static void wrong_lines_are_explained(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct arguments a;
        struct err_note note = {""};
        memset(&a, 0x5a, sizeof a);
        assert_int_equal(parse(wrong[i].words, &a, &note), -ERR_INVALID);
        if (!strstr(note.text, wrong[i].said))
            fail_msg("case %zu said: %s", i, note.text);
        assert_int_equal(a.given_count, (size_t)0x5a5a5a5a5a5a5a5a);
    }
}

static void a_value_behind_an_equals_sign_may_look_like_an_option(void **state)
{
    (void)state;
    struct arguments a;
    assert_int_equal(PARSE(&a, NULL, "--queue=--json", "--queue=a=b"), 0);
    assert_string_equal(a.given[0].value, "--json");
    assert_string_equal(a.given[1].value, "a=b");
    arguments_done(&a);
}

static void lack_of_memory_is_an_error_and_no_leak(void **state)
{
    (void)state;
    for (long nth = 1; nth <= 6; nth++) {
        struct arguments a;
        struct err_note note = {""};
        mem_fail_at(nth, 0);
        int err = PARSE(&a, &note, "--quee", "a");
        mem_fail_at(0, 0);
        assert_true(err == -ERR_NOMEM || err == -ERR_INVALID);
        assert_true(note.text[0] != '\0');
    }
}

static void every_command_of_the_program_is_well_formed(void **state)
{
    (void)state;
    const struct command *cmd;
    for (size_t i = 0; (cmd = command_at(i)); i++) {
        assert_ptr_equal(command_find(cmd->name), cmd);
        assert_non_null(cmd->run);
        assert_true(cmd->words_min <= cmd->words_max);
        assert_true(cmd->detail[0] && cmd->detail[strlen(cmd->detail) - 1] == '\n');
        for (size_t o = 0; o < cmd->option_count; o++) {
            const struct option *option = &cmd->options[o];
            assert_true((option->kind == OPTION_FLAG) == (option->argument == NULL));
            assert_true(strlen(option->name) < OPTION_NAME_MAX);
            assert_true(option->kind != OPTION_CHOICE || strchr(option->argument, '|'));
            assert_true(option->doc[0] && option->doc[strlen(option->doc) - 1] != '.');
            for (size_t other = 0; other < o; other++) {
                assert_string_not_equal(option->name, cmd->options[other].name);
                assert_true(!option->letter || option->letter != cmd->options[other].letter);
            }
        }
    }
    assert_non_null(command_find("version"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spelling_is_read),
        cmocka_unit_test(what_is_missing_falls_back),
        cmocka_unit_test(the_last_counts_and_lists_keep_all),
        cmocka_unit_test(help_ends_the_reading),
        cmocka_unit_test(a_switch_needs_no_value),
        cmocka_unit_test(wrong_lines_are_explained),
        cmocka_unit_test(a_value_behind_an_equals_sign_may_look_like_an_option),
        cmocka_unit_test(lack_of_memory_is_an_error_and_no_leak),
        cmocka_unit_test(every_command_of_the_program_is_well_formed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
