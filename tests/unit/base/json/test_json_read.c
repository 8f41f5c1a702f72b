/* SPDX-License-Identifier: Apache-2.0 */
/* The reader: what RFC 8259 allows, what it forbids and where, byte ranges (a payload is kept as it
 * came: ORC-10), depth, and objects. */
#include "unit/base/support.h"

#include "base/json/json.h"
#include "base/system/clock.h"

#define TEXT(literal) SPAN_LITERAL(literal)

/* ---- accepted and refused texts -------------------------------------------------------------- */

static const struct span valid[] = {
    TEXT("null"),
    TEXT("true"),
    TEXT("false"),
    TEXT("0"),
    TEXT("-0"),
    TEXT("7"),
    TEXT("-12"),
    TEXT("1234567890123456789012345678901234567890"),
    TEXT("0.5"),
    TEXT("-0.0"),
    TEXT("10.010"),
    TEXT("1e5"),
    TEXT("1E5"),
    TEXT("1e+5"),
    TEXT("1e-5"),
    TEXT("0e0"),
    TEXT("0.0e-00"),
    TEXT("1.5E+007"),
    TEXT("1e999999999999999999999"),
    TEXT("\"\""),
    TEXT("\"plain\""),
    TEXT("\"a longer text, so that the fast path is taken at least twice\""),
    TEXT("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""),
    TEXT("\"\\u0000\\u001f\\uABCD\\uabcd\\u00e9\""),
    TEXT("\"\\ud83d\\ude00\""),
    TEXT("\"\\ud800\""),
    TEXT("\"\\udc00\\ud800\""),
    TEXT("\"\\ud800\\u0041\""),
    TEXT("\"\x7f\""),
    TEXT("\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""),
    TEXT("\"\xef\xbf\xbf\xf4\x8f\xbf\xbf\xc2\x80\xed\x9f\xbf\xee\x80\x80\""),
    TEXT("\"\xef\xbb\xbf\""),
    TEXT("\"\xe2\x80\xa8\xe2\x80\xa9\""),
    TEXT("[]"),
    TEXT("[ ]"),
    TEXT("[1]"),
    TEXT("[1,2]"),
    TEXT("[[],[[]],{}]"),
    TEXT("[null,true,false,0,\"\",[],{}]"),
    TEXT("{}"),
    TEXT("{ }"),
    TEXT("{\"\":0}"),
    TEXT("{\"a\":1}"),
    TEXT("{\"a\":{\"b\":[{}]},\"c\":null}"),
    TEXT("{\"a\":1,\"a\":2}"),
    TEXT(" \t\r\n1 \t\r\n"),
    TEXT("\n{\r\"a\"\t:\n[\n1\r,\t2 ]\n}\n"),
    TEXT("[-1,-0,0.1,1e1]"),
};

/* The offset is that of the first byte that cannot stand there (the end, if something is missing).
 */
static const struct {
    struct span text;
    size_t at;
} invalid[] = {
    /* nothing, or not JSON at all */
    {TEXT(""), 0},
    {TEXT(" "), 1},
    {TEXT("\n\t"), 2},
    {TEXT("nul"), 3},
    {TEXT("nulL"), 3},
    {TEXT("nulll"), 4},
    {TEXT("True"), 0},
    {TEXT("truE"), 3},
    {TEXT("fals"), 4},
    {TEXT("undefined"), 0},
    {TEXT("NaN"), 0},
    {TEXT("nan"), 1},
    {TEXT("Infinity"), 0},
    {TEXT("-Infinity"), 1},
    {TEXT("'a'"), 0},
    {TEXT("`a`"), 0},
    {TEXT("abc"), 0},
    {TEXT("\0"), 0},
    {TEXT("1\0"), 1},
    {TEXT("// c\n1"), 0},
    {TEXT("/**/1"), 0},
    {TEXT("1//c"), 1},
    {TEXT("#1"), 0},
    {TEXT("\xef\xbb\xbf"
          "1"),
     0},
    {TEXT("\xff"), 0},
    {TEXT("\xfe\xff\0001"), 0},
    {TEXT("\v1"), 0},
    {TEXT("\f1"), 0},
    {TEXT("\xc2\xa0"
          "1"),
     0},
    {TEXT("1\xc2\x85"), 1},
    {TEXT("\xe2\x80\xa8"
          "1"),
     0},
    /* more than one value */
    {TEXT("1 2"), 2},
    {TEXT("1,"), 1},
    {TEXT("[],"), 2},
    {TEXT("[]]"), 2},
    {TEXT("{}}"), 2},
    {TEXT("\"\"\"\""), 2},
    {TEXT("nullnull"), 4},
    {TEXT("[1]x"), 3},
    {TEXT("{\"a\":1}#"), 7},
    /* numbers */
    {TEXT("-"), 1},
    {TEXT("+1"), 0},
    {TEXT("--1"), 1},
    {TEXT("- 1"), 1},
    {TEXT("00"), 0},
    {TEXT("01"), 0},
    {TEXT("-01"), 1},
    {TEXT("-00.5"), 1},
    {TEXT(".5"), 0},
    {TEXT("-.5"), 1},
    {TEXT("5."), 2},
    {TEXT("5.e1"), 2},
    {TEXT("5.-1"), 2},
    {TEXT("1e"), 2},
    {TEXT("1e+"), 3},
    {TEXT("1e-"), 3},
    {TEXT("1e+-1"), 3},
    {TEXT("1ee1"), 2},
    {TEXT("1e1.5"), 3},
    {TEXT("1.5.5"), 3},
    {TEXT("0x10"), 1},
    {TEXT("0b1"), 1},
    {TEXT("1_000"), 1},
    {TEXT("1 000"), 2},
    {TEXT("1,5"), 1},
    {TEXT("1n"), 1},
    {TEXT("12a"), 2},
    {TEXT("\xef\xbc\x91"), 0},
    /* strings */
    {TEXT("\""), 1},
    {TEXT("\"abc"), 4},
    {TEXT("\"a\nb\""), 2},
    {TEXT("\"a\tb\""), 2},
    {TEXT("\"a\0b\""), 2},
    {TEXT("\"a\x1f\""), 2},
    {TEXT("\"12345678\x01"
          "12345678\""),
     9},
    {TEXT("\"\\"), 2},
    {TEXT("\"\\\""), 3},
    {TEXT("\"\\a\""), 2},
    {TEXT("\"\\'\""), 2},
    {TEXT("\"\\0\""), 2},
    {TEXT("\"\\x41\""), 2},
    {TEXT("\"\\\0\""), 2},
    {TEXT("\"\\U0041\""), 2},
    {TEXT("\"\\\n\""), 2},
    {TEXT("\"\\\xc3\xa9\""), 2},
    {TEXT("\"\\u\""), 3},
    {TEXT("\"\\u1\""), 4},
    {TEXT("\"\\u12\""), 5},
    {TEXT("\"\\u123\""), 6},
    {TEXT("\"\\u123"), 6},
    {TEXT("\"\\u12g4\""), 5},
    {TEXT("\"\\u+123\""), 3},
    {TEXT("\"\\u 123\""), 3},
    {TEXT("\"\\ud800\\\""), 9},
    {TEXT("\"\\ud800\\u\""), 9},
    /* UTF-8 */
    {TEXT("\"\x80\""), 1},
    {TEXT("\"\xbf\""), 1},
    {TEXT("\"\xc0\xaf\""), 1},
    {TEXT("\"\xc1\xbf\""), 1},
    {TEXT("\"\xc3\""), 1},
    {TEXT("\"\xc3("), 1},
    {TEXT("\"\xe0\x80\xaf\""), 1},
    {TEXT("\"\xe0\x9f\xbf\""), 1},
    {TEXT("\"\xe2\x82\""), 1},
    {TEXT("\"\xe2(\xa1\""), 1},
    {TEXT("\"\xed\xa0\x80\""), 1},
    {TEXT("\"\xed\xbf\xbf\""), 1},
    {TEXT("\"\xf0\x80\x80\x80\""), 1},
    {TEXT("\"\xf0\x9f\x98\""), 1},
    {TEXT("\"\xf4\x90\x80\x80\""), 1},
    {TEXT("\"\xf5\x80\x80\x80\""), 1},
    {TEXT("\"\xf8\x88\x80\x80\x80\""), 1},
    {TEXT("\"\xfe\""), 1},
    {TEXT("\"\xff\""), 1},
    {TEXT("\"abcdefghijk\xe9xyz\""), 12},
    {TEXT("{\"\xe9\":1}"), 2},
    /* arrays */
    {TEXT("["), 1},
    {TEXT("[1"), 2},
    {TEXT("[1,"), 3},
    {TEXT("[1,]"), 3},
    {TEXT("[,1]"), 1},
    {TEXT("[,]"), 1},
    {TEXT("[1,,2]"), 3},
    {TEXT("[1 2]"), 3},
    {TEXT("[1;2]"), 2},
    {TEXT("[1:2]"), 2},
    {TEXT("[\"a\":1]"), 4},
    {TEXT("[1}"), 2},
    {TEXT("]"), 0},
    {TEXT("[["), 2},
    {TEXT("[[]"), 3},
    {TEXT("[}"), 1},
    {TEXT("[a]"), 1},
    {TEXT("[...]"), 1},
    {TEXT("[1,\n,1]"), 4},
    /* objects */
    {TEXT("{"), 1},
    {TEXT("}"), 0},
    {TEXT("{]"), 1},
    {TEXT("{\"a\""), 4},
    {TEXT("{\"a\":"), 5},
    {TEXT("{\"a\":}"), 5},
    {TEXT("{\"a\":1"), 6},
    {TEXT("{\"a\":1,"), 7},
    {TEXT("{\"a\":1,}"), 7},
    {TEXT("{\"a\":1]"), 6},
    {TEXT("{,}"), 1},
    {TEXT("{,\"a\":1}"), 1},
    {TEXT("{\"a\":1,,\"b\":2}"), 7},
    {TEXT("{\"a\" 1}"), 5},
    {TEXT("{\"a\",1}"), 4},
    {TEXT("{\"a\"::1}"), 5},
    {TEXT("{\"a\":1:2}"), 6},
    {TEXT("{\"a\":1 \"b\":2}"), 7},
    {TEXT("{\"a\":1;\"b\":2}"), 6},
    {TEXT("{\"a\"}"), 4},
    {TEXT("{:1}"), 1},
    {TEXT("{a:1}"), 1},
    {TEXT("{'a':1}"), 1},
    {TEXT("{1:1}"), 1},
    {TEXT("{null:1}"), 1},
    {TEXT("{[]:1}"), 1},
    {TEXT("{{}:1}"), 1},
    {TEXT("{\"a\":a}"), 5},
    {TEXT("{\"a\":1}}"), 7},
    {TEXT("{\"a\":/*c*/1}"), 5},
};

/* In memory of exactly its size, so that a byte read too far is seen. */
static int check_exact(struct span text, const char **error, size_t *at)
{
    char *copy = malloc(text.len ? text.len : 1);
    if (text.len)
        memcpy(copy, text.at, text.len);
    int r = json_check(span_of(copy, text.len), error, at);
    free(copy);
    return r;
}

static void accepts(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(valid); i++) {
        const char *error = NULL;
        size_t at = 0;
        if (check_exact(valid[i], &error, &at) != 0)
            fail_msg("%s: %s at %zu", valid[i].at, error, at);
    }
    assert_int_equal(json_check(TEXT("[1]"), NULL, NULL), 0);
}

static void refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(invalid); i++) {
        const char *error = NULL;
        size_t at = SIZE_MAX;
        int r = check_exact(invalid[i].text, &error, &at);
        if (r != -ERR_SYNTAX || at != invalid[i].at || !error || !*error)
            fail_msg("row %zu, \"%s\": %d, %s at %zu, expected at %zu", i, invalid[i].text.at, r,
                     error ? error : "-", at, invalid[i].at);
    }
    assert_int_equal(json_check(TEXT("[1"), NULL, NULL), -ERR_SYNTAX);
    assert_int_equal(json_check(span_of(NULL, 0), NULL, NULL), -ERR_SYNTAX);
}

/* No valid text stays valid when cut short, except for a number's end and white space. */
static void prefixes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(valid); i++) {
        for (size_t len = 0; len < valid[i].len; len++) {
            const char *error = "";
            size_t at = 0;
            if (check_exact(span_of(valid[i].at, len), &error, &at) != 0)
                assert_true(at <= len);
        }
    }
}

static void messages_say_what(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"[1,]", "expected a value"},
        {"[1", "the text ends too early"},
        {"\"abc", "a string without its closing quote"},
        {"[1 2]", "expected ',' or ']'"},
        {"{\"a\":1 2}", "expected ',' or '}'"},
        {"{\"a\" 1}", "expected ':' after a member name"},
        {"{1:2}", "expected a member name in quotes"},
        {"1 2", "something follows the value"},
        {"01", "a number with a leading zero"},
        {"1.", "the text ends too early"},
        {"[1.]", "a decimal point without digits"},
        {"[1e]", "an exponent without digits"},
        {"[-]", "a number without digits"},
        {"\"\n\"", "a control character in a string"},
        {"\"\\q\"", "unknown escape in a string"},
        {"\"\\u12\"", "\\u needs four hexadecimal digits"},
        {"\"\xff\"", "not UTF-8"},
        {"nope", "expected true, false or null"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *error = NULL;
        assert_int_equal(json_check(span_text(rows[i].text), &error, NULL), -ERR_SYNTAX);
        assert_string_equal(error, rows[i].message);
    }
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void tokens_and_ranges(void **state)
{
    (void)state;
    static const struct {
        enum json_kind kind;
        const char *raw;
        bool escaped;
    } expected[] = {
        {JSON_OBJECT_BEGIN, "{", false}, {JSON_KEY, "\"a\\n\"", true},
        {JSON_ARRAY_BEGIN, "[", false},  {JSON_NUMBER, "-1.50e+2", false},
        {JSON_STRING, "\"x\"", false},   {JSON_STRING, "\"\\u00e9\"", true},
        {JSON_ARRAY_END, "]", false},    {JSON_KEY, "\"b\"", false},
        {JSON_TRUE, "true", false},      {JSON_KEY, "\"\"", false},
        {JSON_FALSE, "false", false},    {JSON_KEY, "\"c\"", false},
        {JSON_NULL, "null", false},      {JSON_KEY, "\"d\"", false},
        {JSON_OBJECT_BEGIN, "{", false}, {JSON_OBJECT_END, "}", false},
        {JSON_OBJECT_END, "}", false},   {JSON_END, "", false},
        {JSON_END, "", false},
    };
    struct json_reader r;
    struct json_token t;
    json_open(&r, TEXT(" { \"a\\n\" : [ -1.50e+2 , \"x\" ,\"\\u00e9\"] ,\"b\":true,"
                       "\"\" : false , \"c\":null,\"d\":{ } } "));
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        assert_int_equal(json_next(&r, &t), 0);
        assert_int_equal(t.kind, expected[i].kind);
        assert_true(span_equal(t.raw, span_text(expected[i].raw)));
        assert_int_equal(t.escaped, expected[i].escaped);
    }
}

static void an_error_stays(void **state)
{
    (void)state;
    struct json_reader r;
    struct json_token t;
    json_open(&r, TEXT("[1,x,2]"));
    assert_int_equal(json_next(&r, &t), 0);
    assert_int_equal(json_next(&r, &t), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(json_next(&r, &t), -ERR_SYNTAX);
        assert_string_equal(r.error, "expected a value");
        assert_int_equal(r.error_at, 3);
    }
}

static struct span skip_at(const char *text, int tokens_before)
{
    struct json_reader r;
    struct json_token t;
    struct span range;
    json_open(&r, span_text(text));
    for (int i = 0; i <= tokens_before; i++)
        assert_int_equal(json_next(&r, &t), 0);
    assert_int_equal(json_skip(&r, t, &range), 0);
    return range;
}

static void skipping(void **state)
{
    (void)state;
    assert_true(span_equal(skip_at(" 12 ", 0), TEXT("12")));
    assert_true(span_equal(skip_at("[ 1 , [2, {\"x\":[]}] , 3 ]", 2), TEXT("[2, {\"x\":[]}]")));
    assert_true(span_equal(skip_at(" {\"a\" : { } } ", 0), TEXT("{\"a\" : { } }")));
    assert_true(span_equal(skip_at("{\"a\":\"]}\",\"b\":1}", 2), TEXT("\"]}\"")));
    struct json_reader r;
    struct json_token t;
    struct span range = TEXT("unchanged");
    json_open(&r, TEXT("[[1,2}]"));
    assert_int_equal(json_next(&r, &t), 0);
    assert_int_equal(json_next(&r, &t), 0);
    assert_int_equal(json_skip(&r, t, &range), -ERR_SYNTAX);
    assert_int_equal(r.error_at, 5);
    assert_true(span_equal(range, TEXT("unchanged")));
}

/* `kinds` is repeated: "[" or "{" for each level. */
static int check_nested(size_t depth, const char *kinds, size_t *error_at)
{
    struct buf b;
    size_t period = strlen(kinds);
    const char *error;
    buf_init(&b);
    for (size_t i = 0; i < depth; i++)
        assert_int_equal(buf_append_text(&b, kinds[i % period] == '[' ? "[" : "{\"a\":"), 0);
    assert_int_equal(buf_append_text(&b, "1"), 0);
    for (size_t i = depth; i-- > 0;)
        assert_int_equal(buf_append_text(&b, kinds[i % period] == '[' ? "]" : "}"), 0);
    int r = json_check(buf_span(&b), &error, error_at);
    if (r != 0)
        assert_string_equal(error, "nested too deeply");
    assert_int_equal(json_check_deep(buf_span(&b), NULL, NULL),
                     depth <= JSON_DEPTH_DEEP ? 0 : -ERR_SYNTAX);
    buf_done(&b);
    return r;
}

static void depth(void **state)
{
    (void)state;
    static const char *const kinds[] = {"[", "{", "[{", "{[", "[[{", "{{{["};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        size_t at = 0;
        for (size_t n = 1; n <= JSON_DEPTH_MAX; n++)
            assert_int_equal(check_nested(n, kinds[i], &at), 0);
        assert_int_equal(check_nested(JSON_DEPTH_MAX + 1, kinds[i], &at), -ERR_SYNTAX);
        assert_int_equal(check_nested(JSON_DEPTH_DEEP, kinds[i], &at), -ERR_SYNTAX);
        assert_int_equal(check_nested(JSON_DEPTH_DEEP + 1, kinds[i], &at), -ERR_SYNTAX);
        assert_int_equal(check_nested(100000, kinds[i], &at), -ERR_SYNTAX);
        assert_int_equal(at, strcmp(kinds[i], "[") == 0 ? 128 : at);
    }
}

/* ---- objects --------------------------------------------------------------------------------- */

struct seen {
    struct arena arena;
    size_t members;
    char names[200];
    int stop_with; /* what the callback returns at the third member */
};

static int member_cb(void *ctx, struct json_reader *r, struct span name, struct json_token value)
{
    struct seen *s = ctx;
    struct span range;
    size_t used = strlen(s->names);
    if (used + name.len + 2 < sizeof s->names) {
        memcpy(s->names + used, name.at, name.len);
        memcpy(s->names + used + name.len, ";", 2);
    }
    if (++s->members == 3 && s->stop_with)
        return s->stop_with;
    return json_skip(r, value, &range);
}

static int walk(struct seen *s, struct json_reader *r, struct span text)
{
    s->members = 0;
    s->names[0] = '\0';
    json_open(r, text);
    return json_object(r, &s->arena, member_cb, s);
}

static void objects(void **state)
{
    (void)state;
    struct seen s = {0};
    struct json_reader r;
    struct json_token t;
    arena_init(&s.arena);
    assert_int_equal(walk(&s, &r, TEXT("{\"a\":1,\"b\\u0063\":[1,{}],\"\":{\"a\":2}} ")), 0);
    assert_string_equal(s.names, "a;bc;;");
    assert_int_equal(json_next(&r, &t), 0);
    assert_int_equal(t.kind, JSON_END);
    assert_int_equal(walk(&s, &r, TEXT("{}")), 0);
    assert_int_equal(s.members, 0);
    s.stop_with = -ERR_RANGE;
    assert_int_equal(walk(&s, &r, TEXT("{\"a\":1,\"b\":2,\"c\":3,\"d\":4}")), -ERR_RANGE);
    assert_int_equal(s.members, 3);
    arena_done(&s.arena);
}

static void object_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t at;
        const char *message;
    } rows[] = {
        {"[1]", 0, "expected an object"},
        {" 12", 1, "expected an object"},
        {"\"a\"", 0, "expected an object"},
        {"", 0, "the text ends too early"},
        {"{\"a\":1", 6, "the text ends too early"},
        {"{\"a\":1} x", 8, "something follows the value"},
        {"{\"a\":1,\"a\":2}", 7, "a member name that was there before"},
        {"{\"a\":1,\"b\":{},\"\\u0061\":2}", 14, "a member name that was there before"},
        {"{\"\":1,\"\":2}", 6, "a member name that was there before"},
        {"{\"\\ud800\":1}", 1, "a member name with an unpaired surrogate"},
        {"{\"a\":[1,}", 8, "expected a value"},
    };
    struct seen s = {0};
    struct json_reader r;
    arena_init(&s.arena);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(walk(&s, &r, span_text(rows[i].text)), -ERR_SYNTAX);
        assert_string_equal(r.error, rows[i].message);
        assert_int_equal(r.error_at, rows[i].at);
    }
    arena_done(&s.arena);
}

/* Inner objects: the same names again are fine there, and twice is refused there too. */
static int nested_cb(void *ctx, struct json_reader *r, struct span name, struct json_token value)
{
    struct seen *s = ctx;
    struct span range;
    s->members++;
    (void)name;
    if (value.kind == JSON_OBJECT_BEGIN)
        return json_object(r, &s->arena, nested_cb, s);
    return json_skip(r, value, &range);
}

static void nested_objects(void **state)
{
    (void)state;
    struct seen s = {0};
    struct json_reader r;
    struct json_token t;
    arena_init(&s.arena);
    json_open(&r, TEXT("[{\"a\":{\"a\":{\"a\":1,\"b\":2}},\"b\":{}},5]"));
    assert_int_equal(json_next(&r, &t), 0);
    assert_int_equal(json_object(&r, &s.arena, nested_cb, &s), 0);
    assert_int_equal(s.members, 5);
    assert_int_equal(json_next(&r, &t), 0);
    assert_int_equal(t.kind, JSON_NUMBER);
    json_open(&r, TEXT("{\"a\":{\"b\":1,\"b\":2}}"));
    assert_int_equal(json_object(&r, &s.arena, nested_cb, &s), -ERR_SYNTAX);
    assert_int_equal(r.error_at, 12);
    arena_done(&s.arena);
}

/* Members "n0" to "n<count-1>", then one that was there before if `again` names it. */
static void many_members(struct buf *b, size_t count, size_t again)
{
    buf_clear(b);
    assert_int_equal(buf_append_text(b, "{"), 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(buf_printf(b, "%s\"n%zu\":%zu", i ? "," : "", i, i), 0);
    if (again < count)
        assert_int_equal(buf_printf(b, ",\"\\u006e%zu\":0", again), 0);
    assert_int_equal(buf_append_text(b, "}"), 0);
}

static void duplicates_among_many(void **state)
{
    (void)state;
    struct seen s = {0};
    struct json_reader r;
    struct buf b;
    arena_init(&s.arena);
    buf_init(&b);
    for (size_t count = 1; count <= 70; count++) {
        many_members(&b, count, SIZE_MAX);
        assert_int_equal(walk(&s, &r, buf_span(&b)), 0);
        assert_int_equal(s.members, count);
        for (size_t again = 0; again < count; again++) {
            many_members(&b, count, again);
            assert_int_equal(walk(&s, &r, buf_span(&b)), -ERR_SYNTAX);
            assert_int_equal(s.members, count);
        }
        arena_reset(&s.arena);
    }
    buf_done(&b);
    arena_done(&s.arena);
}

/* The time to read an object with this many members. */
static uint64_t members_time_ns(size_t count)
{
    struct seen s = {0};
    struct json_reader r;
    struct buf b;
    arena_init(&s.arena);
    buf_init(&b);
    many_members(&b, count, count - 2);
    uint64_t start = clock_ns();
    assert_int_equal(walk(&s, &r, buf_span(&b)), -ERR_SYNTAX);
    uint64_t took = clock_ns() - start;
    assert_int_equal(s.members, count);
    buf_done(&b);
    arena_done(&s.arena);
    return took;
}

/* Ten times the members must take about ten times as long, not a hundred times. The machine may be
 * busy: one of several measurements must show it. */
static void a_hundred_thousand_members(void **state)
{
    (void)state;
    bool in_time = false;
    for (int tries = 0; tries < 10 && !in_time; tries++) {
        uint64_t few = members_time_ns(10000);
        in_time = members_time_ns(100000) < few * 60 + 50000000;
    }
    assert_true(in_time);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts),
        cmocka_unit_test(refuses),
        cmocka_unit_test(prefixes),
        cmocka_unit_test(messages_say_what),
        cmocka_unit_test(tokens_and_ranges),
        cmocka_unit_test(an_error_stays),
        cmocka_unit_test(skipping),
        cmocka_unit_test(depth),
        cmocka_unit_test(objects),
        cmocka_unit_test(object_errors),
        cmocka_unit_test(nested_objects),
        cmocka_unit_test(duplicates_among_many),
        cmocka_unit_test(a_hundred_thousand_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
