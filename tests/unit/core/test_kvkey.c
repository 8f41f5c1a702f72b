/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of the key-value store: one encoding each, in the order of the parts (KV-10). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/kvkey.h"
#include "core/limits.h"

static struct arena arena;

static int setup(void **state)
{
    (void)state;
    arena_init(&arena);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_done(&arena);
    return 0;
}

static struct span key(const char *json)
{
    struct span k;
    struct err_note note;
    int err = kvkey_from_json(span_text(json), false, &arena, &k, &note);
    if (err != 0)
        fail_msg("%s: %s", json, note.text);
    assert_int_equal(kvkey_check(k), 0);
    return k;
}

static void expect_text(const char *json, const char *as)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out);
    json_writer_init(&w, &out);
    kvkey_write(&w, key(json));
    assert_int_equal(json_writer_finish(&w), 0);
    assert_int_equal(out.len, strlen(as));
    assert_memory_equal(out.data, as, out.len);
    buf_done(&out);
}

static void spellings_are_canonical(void **state)
{
    (void)state;
    expect_text("[ \"a\" , true,false ]", "[\"a\",true,false]");
    expect_text("[1.0, 1e2, -0, 0.1, 1e300]", "[1,100,0,0.1,1e+300]");
    expect_text("[\"\\u0041\\ud83d\\ude00\"]", "[\"A\xf0\x9f\x98\x80\"]");
    expect_text("[9007199254740991, -9007199254740991]", "[9007199254740991,-9007199254740991]");
    expect_text("[0.30000000000000004, 5e-324]", "[0.30000000000000004,4.94065645841247e-324]");
    assert_true(span_equal(key("[1]"), key("[1.0]")));
    assert_true(span_equal(key("[0]"), key("[-0.0]")));
    assert_false(span_equal(key("[1]"), key("[\"1\"]")));
    assert_false(span_equal(key("[1]"), key("[true]")));
}

static void bytes_sort_as_parts_do(void **state)
{
    (void)state;
    static const char *const rising[] = {
        "[false]",       "[false,false]",
        "[true]",        "[-1e300]",
        "[-10]",         "[-1.5]",
        "[-1]",          "[0]",
        "[0,\"a\"]",     "[0.5]",
        "[1]",           "[2]",
        "[10]",          "[1e300]",
        "[\"\"]",        "[\"\",0]",
        "[\"\\u0001\"]", "[\"a\"]",
        "[\"a\",true]",  "[\"a\",1]",
        "[\"a\",\"b\"]", "[\"aa\"]",
        "[\"b\"]",       "[\"\\u00e9\"]",
        "[\"\\uffff\"]", "[\"\\ud800\\udc00\"]",
    };
    for (size_t i = 1; i < sizeof rising / sizeof *rising; i++) {
        struct span a = key(rising[i - 1]), b = key(rising[i]);
        int order = memcmp(a.at, b.at, a.len < b.len ? a.len : b.len);
        if (order > 0 || (order == 0 && a.len >= b.len))
            fail_msg("%s does not come before %s", rising[i - 1], rising[i]);
    }
    assert_true(kvkey_begins(key("[\"a\",1]"), key("[\"a\"]")));
    assert_false(kvkey_begins(key("[\"ab\"]"), key("[\"a\"]")));
}

static void expect_refused(const char *json, const char *word)
{
    struct span k;
    struct err_note note = {""};
    assert_true(kvkey_from_json(span_text(json), false, &arena, &k, &note) < 0);
    if (!strstr(note.text, word))
        fail_msg("%s: \"%s\" does not say \"%s\"", json, note.text, word);
}

static void what_is_no_key(void **state)
{
    (void)state;
    expect_refused("\"a\"", "array");
    expect_refused("{}", "array");
    expect_refused("[]", "at least one part");
    expect_refused("[null]", "text, a number or a boolean");
    expect_refused("[[1]]", "text, a number or a boolean");
    expect_refused("[\"a\\u0000b\"]", "U+0000");
    expect_refused("[\"\\ud800\"]", "surrogate");
    expect_refused("[9007199254740992]", "2^53");
    expect_refused("[1e999]", "range of a double");
    expect_refused("[1] 2", "one JSON array");
    expect_refused("[1", "one JSON array");
    char many[200] = "[0";
    for (int i = 0; i < LIMIT_KV_PARTS; i++)
        strncat(many, ",0", sizeof many - strlen(many) - 1);
    strncat(many, "]", sizeof many - strlen(many) - 1);
    expect_refused(many, "32 parts");
    char large[LIMIT_KV_KEY_BYTES + 8] = "[\"";
    memset(large + 2, 'x', LIMIT_KV_KEY_BYTES);
    memcpy(large + 2 + LIMIT_KV_KEY_BYTES, "\"]", 3);
    expect_refused(large, "2048 bytes");
}

static void what_is_no_encoding(void **state)
{
    (void)state;
    static const struct span bad[] = {
        SPAN_LITERAL(""),
        SPAN_LITERAL("\x12"),
        SPAN_LITERAL("\x30"
                     "abc"),
        SPAN_LITERAL("\x20\x80"),
        SPAN_LITERAL("\x30\xff\x00"),
        SPAN_LITERAL("\x10\xff"),
        SPAN_LITERAL("\x20\x7f\xff\xff\xff\xff\xff\xff\xff"), /* -0 */
        SPAN_LITERAL("\x20\xff\xf0\x00\x00\x00\x00\x00\x00"), /* infinity */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(kvkey_check(bad[i]), -ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(spellings_are_canonical, setup, teardown),
        cmocka_unit_test_setup_teardown(bytes_sort_as_parts_do, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_key, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_encoding, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
