/* SPDX-License-Identifier: Apache-2.0 */
/* Names, keys and texts from outside. */
#include "core/validate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest/random.h"
#include "base/utf8.h"
#include "core/limits.h"

static void test_queue_names(void **state)
{
    (void)state;
    static const struct {
        struct span name;
        int expected;
    } cases[] = {
        {SPAN_LITERAL("q"), 0},
        {SPAN_LITERAL("mails/high-1 ~"), 0},
        {SPAN_LITERAL("Aufträge"), 0},
        {SPAN_LITERAL("\xf0\x9f\x90\x98"), 0},
        {SPAN_LITERAL("a-"), 0},
        {SPAN_LITERAL("\xc2\xa0"), 0}, /* U+00A0, the first after the controls */
        {SPAN_LITERAL(""), -ERR_INVALID},
        {SPAN_LITERAL("-q"), -ERR_INVALID},
        {SPAN_LITERAL("a\nb"), -ERR_INVALID},
        {SPAN_LITERAL("a\0b"), -ERR_INVALID},
        {SPAN_LITERAL("a\x1f"), -ERR_INVALID},
        {SPAN_LITERAL("a\x7f"), -ERR_INVALID},
        {SPAN_LITERAL("a\xc2\x80"), -ERR_INVALID},
        {SPAN_LITERAL("a\xc2\x9f"), -ERR_INVALID},
        {SPAN_LITERAL("a\xff"), -ERR_INVALID},
        {SPAN_LITERAL("a\xc3"), -ERR_INVALID},
        {SPAN_LITERAL("\xed\xa0\x80"), -ERR_INVALID}, /* a surrogate */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err_note note = {""};
        int err = validate_queue_name(cases[i].name, &note);
        if (err != cases[i].expected)
            fail_msg("case %zu gives %d: %s", i, err, note.text);
        assert_int_equal(note.text[0] == 0, err == 0);
        assert_int_equal(validate_queue_name(cases[i].name, NULL), cases[i].expected);
    }
}

static void test_lengths(void **state)
{
    (void)state;
    char bytes[LIMIT_KEY_BYTES + 1];
    struct err_note note;
    memset(bytes, 'k', sizeof bytes);
    assert_int_equal(validate_queue_name(span_of(bytes, LIMIT_QUEUE_NAME_BYTES), NULL), 0);
    assert_int_equal(validate_queue_name(span_of(bytes, LIMIT_QUEUE_NAME_BYTES + 1), &note),
                     -ERR_TOO_BIG);
    assert_string_equal(note.text, "the queue name has 201 bytes; 200 are allowed");
    assert_int_equal(validate_text("unique", span_of(bytes, 512), LIMIT_KEY_BYTES, NULL), 0);
    assert_int_equal(validate_text("unique", span_of(bytes, 513), LIMIT_KEY_BYTES, &note),
                     -ERR_TOO_BIG);
    assert_string_equal(note.text, "unique has 513 bytes; 512 are allowed");
}

static void test_texts(void **state)
{
    (void)state;
    struct err_note note;
    assert_int_equal(validate_text("group", (struct span){NULL, 0}, 10, NULL), 0);
    assert_int_equal(validate_text("group", SPAN_LITERAL("-a\n\x7f"), 10, NULL), 0);
    assert_int_equal(validate_text("group", SPAN_LITERAL("ab\0c"), 10, &note), -ERR_INVALID);
    assert_string_equal(note.text, "group has a U+0000 at byte 2");
    assert_int_equal(validate_text("group", SPAN_LITERAL("äb\xff"), 10, &note), -ERR_INVALID);
    assert_string_equal(note.text, "group is not valid UTF-8 at byte 3");
    assert_int_equal(validate_text("group", SPAN_LITERAL("\xed\xb0\x80"), 10, &note), -ERR_INVALID);
    assert_string_equal(note.text, "group is not valid UTF-8 at byte 0");
}

static void assert_cut(const char *text, size_t max, const char *expected)
{
    struct span cut = validate_cut(span_text(text), max);
    assert_true(span_equal(cut, span_text(expected)));
}

static void test_cut(void **state)
{
    (void)state;
    assert_cut("", 5, "");
    assert_cut("hello", 5, "hello");
    assert_cut("hello", 4, "hell");
    assert_cut("hello", 0, "");
    assert_cut("aä", 3, "aä");
    assert_cut("aä", 2, "a");
    assert_cut("\xf0\x9f\x90\x98", 3, "");
    assert_cut("ab\xf0\x9f\x90\x98", 5, "ab");
    assert_cut("ok\xff then", 100, "ok");
    assert_cut("ok\xe2\x82", 100, "ok");
    assert_int_equal(validate_cut((struct span){NULL, 0}, 9).len, 0);
    assert_int_equal(validate_cut(SPAN_LITERAL("a\0b"), 9).len, 1);
}

/* Of any bytes: the cut is a valid prefix, no longer than allowed, and as long as can be. */
static void test_cut_of_anything(void **state)
{
    (void)state;
    struct random random;
    random_seed(&random, 55001);
    print_message("seed %d\n", 55001);
    for (int i = 0; i < 20000; i++) {
        char bytes[40];
        size_t len = random_below(&random, sizeof bytes), max = random_below(&random, 45);
        for (size_t k = 0; k < len; k++)
            bytes[k] = random_chance(&random, 60) ? 'x' : (char)random_next(&random);
        struct span cut = validate_cut(span_of(bytes, len), max);
        assert_ptr_equal(cut.at, bytes);
        assert_true(cut.len <= len && cut.len <= max);
        assert_true(utf8_valid(cut));
        size_t next = utf8_sequence(span_of(bytes + cut.len, len - cut.len));
        assert_true(next == 0 || cut.len + next > max || bytes[cut.len] == 0);
        assert_null(cut.len ? memchr(cut.at, 0, cut.len) : NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue_names),     cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_texts),           cmocka_unit_test(test_cut),
        cmocka_unit_test(test_cut_of_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
