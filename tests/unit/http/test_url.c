/* SPDX-License-Identifier: Apache-2.0 */
/* Percent-decoding: every escape, every way to be wrong, and queries up to their limit. */
#include "unit/base/support.h"

#include "base/mem.h"
#include "http/url.h"

static int arena_setup(void **state)
{
    static struct arena arena;
    arena_init(&arena);
    *state = &arena;
    return 0;
}

static int arena_teardown(void **state)
{
    arena_done(*state);
    return 0;
}

/* From a copy of exactly its size, so that reading one byte too far is seen. */
static int decode(struct arena *arena, struct span raw, bool form, struct span *ret)
{
    return url_decode(span_of(arena_copy(arena, raw.at, raw.len), raw.len), form, arena, ret);
}

static void every_escape(void **state)
{
    struct span text;
    for (unsigned c = 0; c < 256; c++) {
        char raw[8];
        int expected = c > 0 && c < 0x80 ? 0 : -ERR_SYNTAX;
        snprintf(raw, sizeof raw, "%%%02x", c);
        EXPECT(decode(*state, span_text(raw), false, &text) == expected);
        EXPECT(expected != 0 || (text.len == 1 && text.at[0] == (char)c));
        snprintf(raw, sizeof raw, "%%%02X", c);
        EXPECT(decode(*state, span_text(raw), true, &text) == expected);
        EXPECT(expected != 0 || (text.len == 1 && text.at[0] == (char)c));
    }
}

/* Only 22 characters may stand behind a '%', in either place. */
static void every_bad_digit(void **state)
{
    struct span text;
    for (unsigned c = 0; c < 256; c++) {
        bool hex = c < 0x80 && c > 0 && strchr("0123456789abcdefABCDEF", (int)c) != NULL;
        char first[] = {'%', (char)c, '1'}, second[] = {'%', '4', (char)c};
        int expected = hex && !(c >= '8') ? 0 : -ERR_SYNTAX;
        EXPECT(decode(*state, span_of(first, 3), false, &text) == expected);
        EXPECT(decode(*state, span_of(second, 3), false, &text) == (hex ? 0 : -ERR_SYNTAX));
    }
}

static const struct {
    const char *raw;
    bool form;
    const char *text; /* NULL: refused */
} DECODED[] = {
    {"", false, ""},
    {"", true, ""},
    {"plain", false, "plain"},
    {"a+b", false, "a+b"},
    {"a+b", true, "a b"},
    {"+", true, " "},
    {"a%2Bb+c", true, "a+b c"},
    {"a%2fb", false, "a/b"},
    {"%25", false, "%"},
    {"%2541", false, "%41"}, /* once, not twice */
    {"%e2%82%ac", false, "\u20ac"},
    {"\u20ac", false, "\u20ac"},
    {"\xe2%82\xac", false, "\u20ac"},
    {"%F0%9F%98%80!", false, "\U0001F600!"},
    {"%0a%7f", false, "\n\x7f"},
    {"%", false, NULL},
    {"%4", false, NULL},
    {"a%", false, NULL},
    {"a%4", false, NULL},
    {"%%41", false, NULL},
    {"%4%41", false, NULL},
    {"% 41", false, NULL},
    {"%+4", true, NULL},
    {"%0x", false, NULL},
    {"%g1%80%80%80", false, NULL}, /* would be valid UTF-8 with 'g' taken for -1 */
    {"a%00b", false, NULL},
    {"%00", true, NULL},
    {"%ff", false, NULL},
    {"\xff", false, NULL},
    {"%c0%af", false, NULL},    /* overlong "/" */
    {"%ed%a0%80", false, NULL}, /* a surrogate */
    {"%f4%90%80%80", false, NULL},
    {"%e2%82", false, NULL},
    {"%e2%82+", true, NULL},
    {"caf%e9", true, NULL}, /* Latin-1 */
};

static void decoded_texts(void **state)
{
    for (size_t i = 0; i < COUNT_OF(DECODED); i++) {
        struct span text = SPAN_LITERAL("untouched");
        int err = decode(*state, span_text(DECODED[i].raw), DECODED[i].form, &text);
        assert_int_equal(err, DECODED[i].text ? 0 : -ERR_SYNTAX);
        assert_true(span_equal(text, span_text(DECODED[i].text ? DECODED[i].text : "untouched")));
    }
}

static void raw_nul_is_refused(void **state)
{
    struct span text;
    assert_int_equal(decode(*state, span_of("a\0b", 3), false, &text), -ERR_SYNTAX);
    assert_int_equal(decode(*state, span_of("%41\0", 4), false, &text), -ERR_SYNTAX);
}

static void plain_text_is_not_copied(void **state)
{
    struct span raw = SPAN_LITERAL("plain/text+more"), text;
    mem_fail_at(1, 1);
    assert_int_equal(url_decode(raw, false, *state, &text), 0);
    mem_fail_at(0, 0);
    assert_ptr_equal(text.at, raw.at);
    assert_int_equal(text.len, raw.len);
}

static void missing_text_is_empty(void **state)
{
    struct span text = SPAN_LITERAL("untouched");
    struct url_param params[URL_PARAMS_MAX];
    size_t count = 99;
    assert_int_equal(url_decode((struct span){0}, true, *state, &text), 0);
    assert_int_equal(text.len, 0);
    assert_int_equal(url_query((struct span){0}, *state, params, &count), 0);
    assert_int_equal(count, 0);
}

/* ---- queries --------------------------------------------------------------------------------- */

/* "name|value;name|value;" */
static const struct {
    const char *raw;
    const char *params; /* NULL: refused */
} QUERIES[] = {
    {"", ""},
    {"&", ""},
    {"&&&", ""},
    {"a", "a|;"},
    {"a=", "a|;"},
    {"a=1", "a|1;"},
    {"a=1&b=2", "a|1;b|2;"},
    {"a=1&&b=2", "a|1;b|2;"},
    {"&a=1&", "a|1;"},
    {"a=1&a=2", "a|1;a|2;"},
    {"a=b=c", "a|b=c;"},
    {"a==", "a|=;"},
    {"=", "|;"},
    {"=v", "|v;"},
    {"%3d=%26", "=|&;"},
    {"a%20b=c+d", "a b|c d;"},
    {"+=+", " | ;"},
    {"a;b=1", "a;b|1;"},
    {"a?b=/", "a?b|/;"},
    {"%e2%82%ac=%e2%82%ac", "\u20ac|\u20ac;"},
    {"a=%", NULL},
    {"%=a", NULL},
    {"a=1&b=%zz", NULL},
    {"a=1&b=%00", NULL},
    {"a=%e2&b=%82%ac", NULL},
};

static void queries(void **state)
{
    struct url_param params[URL_PARAMS_MAX];
    for (size_t i = 0; i < COUNT_OF(QUERIES); i++) {
        char got[256] = "";
        size_t count = 99, len = strlen(QUERIES[i].raw);
        struct span raw = span_of(arena_copy(*state, QUERIES[i].raw, len), len);
        int err = url_query(raw, *state, params, &count);
        assert_int_equal(err, QUERIES[i].params ? 0 : -ERR_SYNTAX);
        if (err < 0) {
            assert_int_equal(count, 99);
            continue;
        }
        for (size_t k = 0, at = 0; k < count; k++)
            at += (size_t)snprintf(got + at, sizeof got - at, "%.*s|%.*s;", (int)params[k].name.len,
                                   params[k].name.at, (int)params[k].value.len, params[k].value.at);
        assert_string_equal(got, QUERIES[i].params);
    }
}

static void at_most_so_many(void **state)
{
    struct url_param params[URL_PARAMS_MAX];
    char raw[4 * (URL_PARAMS_MAX + 1) + 1] = "";
    for (size_t n = 1; n <= URL_PARAMS_MAX + 1; n++) {
        size_t count = 99;
        memcpy(raw + 4 * (n - 1), "a=1&", 4);
        int err = url_query(span_of(raw, 4 * n), *state, params, &count);
        assert_int_equal(err, n <= URL_PARAMS_MAX ? 0 : -ERR_TOO_BIG);
        assert_int_equal(count, n <= URL_PARAMS_MAX ? n : 99);
    }
}

static void memory_runs_out(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        struct arena arena;
        struct url_param params[URL_PARAMS_MAX];
        size_t count = 99;
        char raw[9000];
        memset(raw, 'x', sizeof raw); /* each decoded text needs a chunk of its own */
        memcpy(raw, "%41=%42", 7);
        memcpy(raw + 4500, "&%41=%42", 8);
        arena_init(&arena);
        mem_fail_at(nth, 0);
        int err = url_query(span_of(raw, sizeof raw), &arena, params, &count);
        long calls = mem_calls();
        mem_fail_at(0, 0);
        arena_done(&arena);
        if (calls < nth) {
            assert_int_equal(err, 0);
            assert_int_equal(count, 2);
            assert_true(nth > 3);
            return;
        }
        assert_int_equal(err, -ERR_NOMEM);
        assert_int_equal(count, 99);
    }
}

#define WITH_ARENA(f) cmocka_unit_test_setup_teardown(f, arena_setup, arena_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(every_escape),
        WITH_ARENA(every_bad_digit),
        WITH_ARENA(decoded_texts),
        WITH_ARENA(raw_nul_is_refused),
        WITH_ARENA(plain_text_is_not_copied),
        WITH_ARENA(missing_text_is_empty),
        WITH_ARENA(queries),
        WITH_ARENA(at_most_so_many),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
