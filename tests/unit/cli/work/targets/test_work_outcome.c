/* SPDX-License-Identifier: Apache-2.0 */
/* What ends of commands and HTTP replies mean for a job (PDQ-8). */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/work/targets/outcome.h"

#define EXITED(code) ((code) << 8) /* the status of waitpid */

static void exits_mean(void **state)
{
    static const struct {
        int code;
        enum work_verb verb;
        const char *type;
    } rows[] = {
        {0, WORK_ACK, ""},
        {1, WORK_FAIL, "exit 1"},
        {65, WORK_DEAD, "exit 65"},
        {75, WORK_RELEASE, "exit 75"},
        {78, WORK_PROBLEM, "exit 78"},
        {126, WORK_PROBLEM, "exit 126"},
        {127, WORK_PROBLEM, "exit 127"},
        {255, WORK_FAIL, "exit 255"},
    };
    struct exit_map m;
    (void)state;
    exit_map_init(&m);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct verdict v = verdict_of_exit(&m, EXITED(rows[i].code));
        assert_int_equal(v.verb, rows[i].verb);
        assert_string_equal(v.type, rows[i].type);
    }
}

static void signals_fail(void **state)
{
    struct exit_map m;
    (void)state;
    exit_map_init(&m);
    struct verdict v = verdict_of_exit(&m, SIGKILL);
    assert_int_equal(v.verb, WORK_FAIL);
    assert_string_equal(v.type, "SIGKILL");
    assert_string_equal(verdict_of_exit(&m, SIGSEGV).type, "SIGSEGV");
    assert_string_equal(verdict_of_exit(&m, 40).type, "signal 40");
}

static void exits_can_be_changed(void **state)
{
    static const char *const wrong[] = {"",        "3",      "3=",     "=ack",
                                        "256=ack", "-1=ack", "3=done", "x=ack"};
    struct exit_map m;
    struct err_note note;
    (void)state;
    exit_map_init(&m);
    assert_int_equal(exit_map_set(&m, "3=dead", &note), 0);
    assert_int_equal(exit_map_set(&m, "0=fail", &note), 0);
    assert_int_equal(exit_map_set(&m, "127=release", &note), 0);
    assert_int_equal(verdict_of_exit(&m, EXITED(3)).verb, WORK_DEAD);
    assert_int_equal(verdict_of_exit(&m, EXITED(0)).verb, WORK_FAIL);
    assert_int_equal(verdict_of_exit(&m, EXITED(127)).verb, WORK_RELEASE);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(exit_map_set(&m, wrong[i], &note), -ERR_INVALID);
}

static void replies_mean(void **state)
{
    (void)state;
    assert_int_equal(verdict_of_http(200).verb, WORK_ACK);
    assert_int_equal(verdict_of_http(204).verb, WORK_ACK);
    assert_int_equal(verdict_of_http(302).verb, WORK_FAIL);
    assert_int_equal(verdict_of_http(404).verb, WORK_FAIL);
    assert_int_equal(verdict_of_http(422).verb, WORK_DEAD);
    assert_int_equal(verdict_of_http(429).verb, WORK_RELEASE);
    assert_int_equal(verdict_of_http(503).verb, WORK_RELEASE);
    assert_int_equal(verdict_of_http(0).verb, WORK_FAIL);
    assert_string_equal(verdict_of_http(500).type, "http 500");
}

static void result_is(const char *kept, uint64_t total, const char *expected)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out);
    json_writer_init(&w, &out);
    result_write(&w, span_text(kept), total);
    assert_int_equal(json_writer_finish(&w), 0);
    assert_true(span_equal(buf_span(&out), span_text(expected)));
    buf_done(&out);
}

static void results_are_json_or_text(void **state)
{
    (void)state;
    result_is("{\"a\": 1.0}\n", 11, "{\"a\": 1.0}\n");
    result_is("12345678901234567890", 20, "12345678901234567890");
    result_is("fine\n", 5, "\"fine\"");
    result_is("{\"a\":", 5, "\"{\\\"a\\\":\"");
    result_is("\xff", 1, "\"\xef\xbf\xbd\"");
    result_is("[1,2", 9, "{\"truncated\":true,\"bytes\":9,\"text\":\"[1,2\"}");
}

static void delays_double(void **state)
{
    (void)state;
    assert_int_equal(release_delay_ms(0), 1000);
    assert_int_equal(release_delay_ms(1), 2000);
    assert_int_equal(release_delay_ms(9), 300000);
    assert_int_equal(release_delay_ms(1000), 300000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exits_mean),
        cmocka_unit_test(signals_fail),
        cmocka_unit_test(exits_can_be_changed),
        cmocka_unit_test(replies_mean),
        cmocka_unit_test(results_are_json_or_text),
        cmocka_unit_test(delays_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
