/* SPDX-License-Identifier: Apache-2.0 */
/* What reaches a terminal: nothing that steers it, and never more columns than asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/digest/random.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/client/terminal/text.h"

static const struct {
    const char *text;
    size_t width;
    const char *shown;
} cases[] = {
    {"plain", 99, "plain"},
    {"", 5, ""},
    {"a\nb\tc\r", 99, "a\\nb\\tc\\r"},
    {"\033[2Jx", 99, "\\x1b[2Jx"},
    {"\x7f", 99, "\\x7f"},
    {"\xc2\x9b", 99, "\\u009b"},             /* CSI as one character */
    {"a\xe2\x80\xae", 99, "a\\u202e"},       /* right-to-left override */
    {"\xff\xc0\xaf", 99, "\\xff\\xc0\\xaf"}, /* no UTF-8 */
    {"h\xc3\xa9llo", 99, "h\xc3\xa9llo"},
    {"abcdef", 6, "abcdef"},
    {"abcdefg", 6, "abcde…"},
    {"\xe6\x97\xa5\xe6\x9c\xac", 4, "\xe6\x97\xa5\xe6\x9c\xac"}, /* two wide characters */
    {"\xe6\x97\xa5\xe6\x9c\xac", 3, "\xe6\x97\xa5…"},
    {"\xe6\x97\xa5\xe6\x9c\xac", 2, "…"},
    {"e\xcc\x81x", 2, "e\xcc\x81x"}, /* a combining accent */
    {"abc\033", 5, "abc…"},          /* an escape is not cut in half */
    {"abc", 1, "…"},
    {"abc", 0, ""},
};

static void texts_are_shown_escaped_and_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf out;
        buf_init(&out);
        assert_int_equal(client_text_show(&out, span_text(cases[i].text), cases[i].width), 0);
        assert_int_equal(buf_append(&out, "", 1), 0);
        assert_string_equal(out.data, cases[i].shown);
        buf_done(&out);
    }
}

static void width_counts_columns(void **state)
{
    (void)state;
    assert_int_equal(client_text_width(span_text("abc")), 3);
    assert_int_equal(client_text_width(span_text("\033")), 4);
    assert_int_equal(client_text_width(span_text("\xe6\x97\xa5")), 2);
    assert_int_equal(client_text_width(span_text("e\xcc\x81")), 1);
    assert_int_equal(client_text_width(span_text("\xf0\x9f\x98\x80")), 2);
}

static void a_pile_of_marks_is_cut(void **state)
{
    (void)state;
    char pile[2 * 4000 + 1];
    struct buf out;
    pile[0] = 'e';
    for (size_t i = 0; i < 4000; i++)
        memcpy(pile + 1 + 2 * i, "\xcc\x81", 2);
    buf_init(&out);
    assert_int_equal(client_text_show(&out, span_of(pile, sizeof pile), 20), 0);
    assert_true(out.len <= 20 * 8 + 3);
    buf_done(&out);
}

/* Random bytes: valid UTF-8 comes out, no control, at most `width` columns; twice gives the same.
 */
static void any_bytes_are_safe(void **state)
{
    (void)state;
    struct random random;
    random_seed(&random, 20260131);
    for (int round = 0; round < 20000; round++) {
        char bytes[24];
        struct buf once, twice;
        size_t len = random_below(&random, sizeof bytes), width = random_below(&random, 30);
        for (size_t i = 0; i < len; i++)
            bytes[i] = random_chance(&random, 50) ? (char)random_below(&random, 256)
                                                  : "\xe2\x80\xae\xc2\x9b\033\n"[i % 7];
        buf_init(&once);
        buf_init(&twice);
        assert_int_equal(client_text_show(&once, span_of(bytes, len), width), 0);
        assert_true(utf8_valid(buf_span(&once)));
        assert_true(client_text_width(buf_span(&once)) <= width);
        for (size_t i = 0; i < once.len; i++)
            assert_true((unsigned char)once.data[i] >= 0x20 && once.data[i] != 0x7f);
        assert_null(once.len > 1 ? memmem(once.data, once.len, "\xc2\x9b", 2) : NULL);
        assert_int_equal(client_text_show(&twice, buf_span(&once), CLIENT_TEXT_WHOLE), 0);
        assert_true(span_equal(buf_span(&once), buf_span(&twice)));
        buf_done(&once);
        buf_done(&twice);
    }
}

static void json_is_one_line(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out);
    const char *json = "{\"a\":\r\n1,\"b\":\"\xc2\x9b\x7f\"}\n\n";
    assert_int_equal(client_text_json(&out, span_text(json), false), 0);
    assert_true(span_equal(buf_span(&out), SPAN_LITERAL("{\"a\":  1,\"b\":\"\xc2\x9b\x7f\"}")));
    buf_clear(&out);
    assert_int_equal(client_text_json(&out, span_text(json), true), 0);
    assert_true(span_equal(buf_span(&out), SPAN_LITERAL("{\"a\":  1,\"b\":\"\\u009b\\u007f\"}")));
    buf_done(&out);
}

static void no_memory_is_reported(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out);
    mem_fail_at(1, 1);
    assert_int_equal(client_text_show(&out, SPAN_LITERAL("x"), 5), -ERR_NOMEM);
    assert_int_equal(client_text_json(&out, SPAN_LITERAL("1"), true), -ERR_NOMEM);
    mem_fail_at(0, 0);
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_shown_escaped_and_cut),
        cmocka_unit_test(width_counts_columns),
        cmocka_unit_test(a_pile_of_marks_is_cut),
        cmocka_unit_test(any_bytes_are_safe),
        cmocka_unit_test(json_is_one_line),
        cmocka_unit_test(no_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
