/* SPDX-License-Identifier: Apache-2.0 */
/* HF-4: which bytes are which command, and which are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/beanstalk/parse.h"

#define BODY_MAX 10

static enum bs_result parse(const char *bytes, size_t len, struct bs_command *ret, size_t *used)
{
    struct bs_parser p = {.body_max = BODY_MAX};
    return bs_parse(&p, span_of(bytes, len), used, ret);
}

#define PARSE(text) parse("" text, sizeof(text) - 1, &c, &used)

static void expect(const char *text, enum bs_result result)
{
    char line[1024];
    struct bs_command c;
    size_t used;
    int len = snprintf(line, sizeof line, "%s\r\n", text);
    enum bs_result got = parse(line, (size_t)len, &c, &used);
    if (got != result)
        fail_msg("\"%s\" gives %d, not %d", text, (int)got, (int)result);
    if (got != BS_MORE)
        assert_int_equal(used, len);
}

static void test_arguments(void **state)
{
    struct bs_command c;
    size_t used;
    (void)state;
    assert_int_equal(PARSE("put 4294967295  7 0 3\r\na\r\n\r\nrest"), BS_COMMAND);
    assert_int_equal(c.verb, BS_PUT);
    assert_true(c.priority == UINT32_MAX && c.delay_s == 7 && c.ttr_s == 0);
    assert_true(span_equal(c.body, SPAN_LITERAL("a\r\n")));
    assert_int_equal(used, 23 + 5);
    assert_int_equal(PARSE("delete 18446744073709551615\r\n"), BS_COMMAND);
    assert_true(c.verb == BS_DELETE && c.id == UINT64_MAX);
    assert_int_equal(PARSE("release 5 6 7\r\n"), BS_COMMAND);
    assert_true(c.verb == BS_RELEASE && c.id == 5 && c.priority == 6 && c.delay_s == 7);
    assert_int_equal(PARSE("bury 5 6\r\n"), BS_COMMAND);
    assert_true(c.verb == BS_BURY && c.id == 5 && c.priority == 6);
    assert_int_equal(PARSE("pause-tube  a.b  9\r\n"), BS_COMMAND);
    assert_true(c.verb == BS_PAUSE_TUBE && c.delay_s == 9);
    assert_true(span_equal(c.tube, SPAN_LITERAL("a.b")));
    assert_int_equal(PARSE("reserve-with-timeout -1\r\n"), BS_COMMAND);
    assert_true(c.verb == BS_RESERVE_TIMEOUT && c.timeout_s == -1);
    assert_int_equal(PARSE("reserve-with-timeout 90x\r\n"), BS_COMMAND);
    assert_int_equal(c.timeout_s, 90);
    assert_int_equal(PARSE("kick -2\r\n"), BS_COMMAND);
    assert_true(c.verb == BS_KICK && c.count == UINT32_MAX);
    assert_int_equal(PARSE("kick +12 \r\n"), BS_COMMAND);
    assert_int_equal(c.count, 12);
    assert_int_equal(PARSE("quit now\r\n"), BS_COMMAND);
    assert_int_equal(c.verb, BS_QUIT);
}

/* Every word is found, and none for another that begins like it. */
static void test_words(void **state)
{
    static const char *const arguments[BS_VERB_COUNT] = {
        [BS_PUT] = " 1 2 3 0\r\n", [BS_RESERVE_TIMEOUT] = " 1",
        [BS_RESERVE_JOB] = " 1",   [BS_DELETE] = " 1",
        [BS_RELEASE] = " 1 2 3",   [BS_BURY] = " 1 2",
        [BS_TOUCH] = " 1",         [BS_USE] = " a",
        [BS_WATCH] = " a",         [BS_IGNORE] = " a",
        [BS_PEEK] = " 1",          [BS_KICK] = " 1",
        [BS_KICK_JOB] = " 1",      [BS_STATS_JOB] = " 1",
        [BS_STATS_TUBE] = " a",    [BS_PAUSE_TUBE] = " a 1",
    };
    (void)state;
    for (unsigned w = 0; w < BS_VERB_COUNT; w++) {
        char line[64];
        struct bs_command c;
        size_t used;
        const char *args = arguments[w] ? arguments[w] : "";
        int len = snprintf(line, sizeof line, "%s%s\r\n", bs_verb_name((enum bs_verb)w), args);
        assert_int_equal(parse(line, (size_t)len, &c, &used), BS_COMMAND);
        assert_int_equal(c.verb, w);
        assert_int_equal(used, len);
    }
    assert_null(bs_verb_name(BS_VERB_COUNT));
}

static void test_refusals(void **state)
{
    static const char *const bad[] = {
        "put x",
        "put 1 2 3",
        "put -1 0 1 1",
        "put 4294967296 0 1 1",
        "put 1 4294967296 1 1",
        "put 1 0 1 4294967296",
        "put 1 0 1 1 z",
        "delete x",
        "delete -1",
        "delete 1 2",
        "delete 18446744073709551616",
        "release 1 2",
        "release 1 2 3 4",
        "bury 1",
        "touch 1 ",
        "use  a",
        "use a ",
        "use -a",
        "use a~",
        "watch a,b",
        "ignore ",
        "peek-ready ",
        "peek-readyx",
        "reserve ",
        "reservex",
        "reserve-with-timeout",
        "reserve-with-timeout x",
        "kick x",
        "kick 99999999999999999999",
        "stats ",
        "list-tubes-watched x",
        "pause-tube",
        "pause-tube a",
        "pause-tube a 1 ",
        "pause-tube -a 1",
    };
    static const char *const unknown[] = {"",     "put",     "delete", "peek", "PUT 1",
                                          "kick", "release", " stats", "use",  "list-tube"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect(bad[i], BS_BAD_FORMAT);
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        expect(unknown[i], BS_UNKNOWN_COMMAND);
    struct bs_command c;
    size_t used;
    assert_int_equal(PARSE("stats\0\r\n"), BS_BAD_FORMAT);
    assert_int_equal(PARSE("put 0 0 1 1\r\naxx"), BS_EXPECTED_CRLF);
    assert_int_equal(used, 13 + 3);
}

static void test_tube_names(void **state)
{
    char longest[BS_TUBE_BYTES + 1];
    (void)state;
    memset(longest, 'a', sizeof longest);
    assert_true(bs_tube_valid(span_of(longest, BS_TUBE_BYTES)));
    assert_false(bs_tube_valid(span_of(longest, BS_TUBE_BYTES + 1)));
    assert_true(bs_tube_valid(SPAN_LITERAL("azAZ09-+/;.$_()")));
    assert_false(bs_tube_valid(SPAN_LITERAL("-a")));
    assert_false(bs_tube_valid(SPAN_LITERAL("")));
    for (int byte = 0; byte < 256; byte++) {
        char name[2] = {'a', (char)byte};
        bool allowed = byte != 0 && strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                           "0123456789-+/;.$_()",
                                           byte) != NULL;
        assert_int_equal(bs_tube_valid(span_of(name, 2)), allowed);
    }
}

/* 222 bytes and CR LF are a line, one more is too long: it is thrown away up to its end. */
static void test_long_lines(void **state)
{
    for (size_t len = 215; len < 235; len++) {
        char line[300];
        struct bs_parser p = {.body_max = BODY_MAX};
        struct bs_command c;
        size_t used;
        memset(line, 'z', len);
        memcpy(line + len, "\r\nstats\r\n", 9);
        enum bs_result r = bs_parse(&p, span_of(line, len + 9), &used, &c);
        assert_int_equal(r, len + 2 <= BS_LINE_BYTES ? BS_UNKNOWN_COMMAND : BS_BAD_FORMAT);
        assert_int_equal(used, len + 2);
        assert_int_equal(bs_parse(&p, span_of(line + used, 7), &used, &c), BS_COMMAND);
        assert_int_equal(c.verb, BS_STATS);
    }
    (void)state;
}

static void test_too_big_is_skipped(void **state)
{
    static const char text[] = "put 0 0 1 11\r\n12345678901\r\nstats\r\n";
    struct bs_parser p = {.body_max = BODY_MAX};
    struct bs_command c;
    size_t used, at;
    enum bs_result r;
    (void)state;
    assert_int_equal(bs_parse(&p, span_of(text, 14), &used, &c), BS_MORE);
    assert_int_equal(used, 14);
    for (at = 14; (r = bs_parse(&p, span_of(text + at, 1), &used, &c)) == BS_MORE; at += used)
        assert_int_equal(used, 1);
    assert_int_equal(r, BS_JOB_TOO_BIG);
    assert_int_equal(at + used, 14 + 13);
    assert_int_equal(bs_parse(&p, span_of(text + 27, 7), &used, &c), BS_COMMAND);
}

/* However the bytes are cut, the same commands come out. */
static void test_in_pieces(void **state)
{
    static const char text[] = "use a\r\nput 0 0 1 4\r\n\r\n\r\n\r\nput 0 0 1 99\r\n";
    (void)state;
    for (size_t cut = 1; cut < sizeof text - 1; cut++) {
        struct bs_parser p = {.body_max = BODY_MAX};
        struct bs_command c;
        size_t used, at = 0, commands = 0, given = cut;
        while (at < sizeof text - 1) {
            enum bs_result r = bs_parse(&p, span_of(text + at, given - at), &used, &c);
            at += used;
            if (r == BS_COMMAND)
                commands++;
            else if (used == 0)
                given = sizeof text - 1;
            assert_true(r == BS_COMMAND || r == BS_MORE);
        }
        assert_int_equal(commands, 2);
        assert_int_equal(p.skip, 101);
    }
}

/* ---- the first line ---- */

#define A20 "aaaaaaaaaaaaaaaaaaaa"
#define A100 A20 A20 A20 A20 A20
#define A200 A100 A100

static const struct {
    struct span text;
    enum bs_protocol protocol;
} first_lines[] = {
    {SPAN_LITERAL("GET / HTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("get /a?b=c http/1.0\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("PoSt /x HtTp/1.1\r\nput 0 0 1 1\r\nx\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("GET /x\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("GET http://h/ HTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("CONNECT h:1 HTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("OPTIONS * HTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("PRI * HTTP/2.0\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("X  /  HTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("X\t/\tHTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("\tX / HTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("X / HTTP/1.1\nHost: a\n\nput 0 0 1 1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("X /" A200 A200 " HTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    /* methods that are commands */
    {SPAN_LITERAL("use /x HTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("put /x HTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("quit /x HTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("reserve / HTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("stats-tube /x HTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("pause-tube /x HTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("kick 1 HTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("use /x HTTP/1.1\nHost: a\n\nput 0 0 1 1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("use /" A200 A200 " HTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("use /" A200 "aaaaaa HTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("use /" A200 "aaaaaaa HTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    {SPAN_LITERAL("use http://" A200 A200 " HTTP/1.1\r\n"), BS_PROTOCOL_HTTP},
    /* no text */
    {SPAN_LITERAL("\x16\x03\x01\x02"), BS_PROTOCOL_BINARY},
    {SPAN_LITERAL("\x80\x2e\x01"), BS_PROTOCOL_BINARY},
    {SPAN_LITERAL("\0\x01\0\0\x21\x12\xa4\x42"), BS_PROTOCOL_BINARY},
    {SPAN_LITERAL("\x7f\r\n"), BS_PROTOCOL_BINARY},
    /* neither */
    {SPAN_LITERAL("\r\n"), BS_PROTOCOL_UNKNOWN},
    {SPAN_LITERAL("hello\r\n"), BS_PROTOCOL_UNKNOWN},
    {SPAN_LITERAL("PUT 1 1 1 1\r\n"), BS_PROTOCOL_UNKNOWN},
    {SPAN_LITERAL("use\r\n"), BS_PROTOCOL_UNKNOWN},
    {SPAN_LITERAL(" stats\r\n"), BS_PROTOCOL_UNKNOWN},
    {SPAN_LITERAL("*1\r\n$4\r\nPING\r\n"), BS_PROTOCOL_UNKNOWN},
    {SPAN_LITERAL("\nuse a\r\n"), BS_PROTOCOL_UNKNOWN},
    {SPAN_LITERAL("use " A200 A200 "\r\n"), BS_PROTOCOL_UNKNOWN},
    /* commands */
    {SPAN_LITERAL("stats\r\nGET / HTTP/1.1\r\n"), BS_PROTOCOL_BEANSTALK},
    {SPAN_LITERAL("put 1 2 3 4\r\nabcd\r\n"), BS_PROTOCOL_BEANSTALK},
    {SPAN_LITERAL("put 1\r\n"), BS_PROTOCOL_BEANSTALK},
    {SPAN_LITERAL("use /x\r\n"), BS_PROTOCOL_BEANSTALK},
    {SPAN_LITERAL("use HTTP/1.1\r\n"), BS_PROTOCOL_BEANSTALK},
    {SPAN_LITERAL("pause-tube HTTP/1.1 5\r\n"), BS_PROTOCOL_BEANSTALK},
    {SPAN_LITERAL("stats\0\r\n"), BS_PROTOCOL_BEANSTALK},
    {SPAN_LITERAL("reservex\r\n"), BS_PROTOCOL_BEANSTALK},
    {SPAN_LITERAL("pause-tube " A200 " 4294967295\r\n"), BS_PROTOCOL_BEANSTALK},
};

/* Whatever part of the input is there, the answer is the final one or that more is needed; and it
 * comes no later than with the end of the line. */
static void test_protocols(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof first_lines / sizeof *first_lines; i++) {
        const char *text = first_lines[i].text.at;
        size_t decided = 0, end = 0;
        for (size_t len = 0; len <= first_lines[i].text.len; len++) {
            enum bs_protocol got = bs_protocol(span_of(text, len));
            if (end == 0 && len >= 2 && memcmp(text + len - 2, "\r\n", 2) == 0)
                end = len;
            if (decided == 0 && got != BS_PROTOCOL_OPEN)
                decided = len;
            if (got != (decided ? first_lines[i].protocol : BS_PROTOCOL_OPEN))
                fail_msg("row %zu, \"%.40s\": %d after %zu bytes", i, text, (int)got, len);
        }
        assert_true(decided > 0 && decided <= BS_LINE_BYTES);
        assert_true(end == 0 || decided <= end);
        if (first_lines[i].protocol == BS_PROTOCOL_BINARY)
            assert_int_equal(decided, 1);
    }
}

static void test_parts(void **state)
{
    static const struct {
        const char *text;
        enum bs_part part;
    } rows[] = {
        {"", BS_PART_NONE},
        {"stats\r\n", BS_PART_NONE},
        {"put 0 0 1 1\r\nx\r\n", BS_PART_NONE},
        {"s", BS_PART_LINE},
        {"stats\r\nsta", BS_PART_LINE},
        {"use " A200 A200, BS_PART_LINE},
        {"use " A200 A200 "\r\n", BS_PART_NONE},
        {"put 0 0 1 1", BS_PART_LINE},
        {"put 0 0 1 1\r\n", BS_PART_BODY},
        {"put 0 0 1 1\r\nx\r", BS_PART_BODY},
        {"put 0 0 1 11\r\n", BS_PART_BODY}, /* too big */
        {"put 0 0 1 11\r\n12345678901\r", BS_PART_BODY},
        {"put 0 0 1 11\r\n12345678901\r\n", BS_PART_NONE},
        {"put 0 0 1 11\r\n12345678901\r\nx", BS_PART_LINE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bs_parser p = {.body_max = BODY_MAX};
        struct bs_command c;
        struct span in = span_text(rows[i].text);
        size_t used;
        while (bs_parse(&p, in, &used, &c) != BS_MORE || used > 0)
            in = span_of(in.at + used, in.len - used);
        if (bs_part(&p, in.len) != rows[i].part)
            fail_msg("row %zu, \"%.40s\": %d", i, rows[i].text, (int)bs_part(&p, in.len));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),  cmocka_unit_test(test_words),
        cmocka_unit_test(test_refusals),   cmocka_unit_test(test_tube_names),
        cmocka_unit_test(test_long_lines), cmocka_unit_test(test_too_big_is_skipped),
        cmocka_unit_test(test_in_pieces),  cmocka_unit_test(test_protocols),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
