/* SPDX-License-Identifier: Apache-2.0 */
/* What tokens stand for (strings, whole numbers), and the writer. */
#include "unit/base/support.h"

#include <inttypes.h>

#include "base/json/json.h"
#include "base/system/clock.h"
#include "base/utf8.h"

static struct json_token token_of(struct span text)
{
    struct json_reader r;
    struct json_token t;
    json_open(&r, text);
    assert_int_equal(json_next(&r, &t), 0);
    return t;
}

/* ---- strings --------------------------------------------------------------------------------- */

static void strings(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        struct span text;
    } rows[] = {
        {"\"\"", {"", 0}},
        {"\"abc\"", {"abc", 3}},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", {"\"\\/\b\f\n\r\t", 8}},
        {"\"\\u0041\\u00e9\\u20ac\"", {"A\xc3\xa9\xe2\x82\xac", 6}},
        {"\"\\uD83D\\uDE00x\"", {"\xf0\x9f\x98\x80x", 5}},
        {"\"\\ud800\\udc00\\udbff\\udfff\"", {"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8}},
        {"\"a\\u0000b\"", {"a\0b", 3}},
        {"\"\\uffff\\ud7ff\\ue000\"", {"\xef\xbf\xbf\xed\x9f\xbf\xee\x80\x80", 9}},
        {"\"\\\\u0041\"", {"\\u0041", 6}},
        {"\"\xc3\xa9\\n\xf0\x9f\x98\x80\"", {"\xc3\xa9\n\xf0\x9f\x98\x80", 7}},
    };
    struct arena a;
    arena_init(&a);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct json_token t = token_of(span_text(rows[i].json));
        struct span s;
        assert_int_equal(json_string(&t, &a, &s), 0);
        assert_true(span_equal(s, rows[i].text));
        assert_int_equal(s.at == t.raw.at + 1, !t.escaped);
    }
    arena_done(&a);
}

static void unpaired_surrogates(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "\"\\ud800\"",        "\"\\udbff\"",        "\"\\udc00\"",
        "\"\\udfff\"",        "\"\\ud800x\"",       "\"\\ud800\\n\"",
        "\"\\ud800\\ud800\"", "\"\\udc00\\ud800\"", "\"\\ud800\\u0041\"",
        "\"\\ud800\\ue000\"", "\"a\\uDFFFb\"",      "\"\\ud83d\\ude00\\ud83d\"",
    };
    struct arena a;
    arena_init(&a);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct json_token t = token_of(span_text(rows[i]));
        struct span s = {NULL, 77};
        assert_int_equal(json_string(&t, &a, &s), -ERR_INVALID);
        assert_int_equal(s.len, 77);
    }
    struct json_token number = token_of(SPAN_LITERAL("5"));
    struct span s;
    assert_int_equal(json_string(&number, &a, &s), -ERR_INVALID);
    arena_done(&a);
}

/* ---- whole numbers --------------------------------------------------------------------------- */

static const struct {
    const char *text;
    int result;
    int64_t value;
} numbers[] = {
    {"0", 0, 0},
    {"-0", 0, 0},
    {"-0.0", 0, 0},
    {"0.000", 0, 0},
    {"0e5", 0, 0},
    {"0e999999999999999999999999", 0, 0},
    {"-0.0e-999999999999999999999999", 0, 0},
    {"1", 0, 1},
    {"-1", 0, -1},
    {"1.0", 0, 1},
    {"1.000000000000000000000000000000000000", 0, 1},
    {"1e2", 0, 100},
    {"1E+2", 0, 100},
    {"100e-2", 0, 1},
    {"1.5e1", 0, 15},
    {"1.5", -ERR_INVALID, 0},
    {"15e-1", -ERR_INVALID, 0},
    {"0.1e1", 0, 1},
    {"0.001e3", 0, 1},
    {"0.0010e3", 0, 1},
    {"0.001e2", -ERR_INVALID, 0},
    {"12345.678e3", 0, 12345678},
    {"12345.678e2", -ERR_INVALID, 0},
    {"9223372036854775807", 0, INT64_MAX},
    {"9223372036854775808", -ERR_RANGE, 0},
    {"-9223372036854775808", 0, INT64_MIN},
    {"-9223372036854775809", -ERR_RANGE, 0},
    {"9223372036854775807.0", 0, INT64_MAX},
    {"9223372036854775807.5", -ERR_INVALID, 0},
    {"9.223372036854775807e18", 0, INT64_MAX},
    {"9.223372036854775808e18", -ERR_RANGE, 0},
    {"-9.223372036854775808e18", 0, INT64_MIN},
    {"92233720368547758070e-1", 0, INT64_MAX},
    {"922337203685477580700000e-5", 0, INT64_MAX},
    {"9999999999999999999", -ERR_RANGE, 0},
    {"10000000000000000000", -ERR_RANGE, 0},
    {"18446744073709551616", -ERR_RANGE, 0},
    {"18446744073709551617", -ERR_RANGE, 0},
    {"1e18", 0, INT64_C(1000000000000000000)},
    {"1e19", -ERR_RANGE, 0},
    {"-1e19", -ERR_RANGE, 0},
    {"1e308", -ERR_RANGE, 0},
    {"1e400", -ERR_RANGE, 0},
    {"1e-400", -ERR_INVALID, 0},
    {"1e999999999999999999999999999999", -ERR_RANGE, 0},
    {"1e-999999999999999999999999999999", -ERR_INVALID, 0},
    {"1e9223372036854775807", -ERR_RANGE, 0},
    {"1e9223372036854775808", -ERR_RANGE, 0},
    {"1e18446744073709551616", -ERR_RANGE, 0},
    {"1e-18446744073709551616", -ERR_INVALID, 0},
    {"1e0000000000000000000000002", 0, 100},
    {"1e-0", 0, 1},
    {"9007199254740993", 0, INT64_C(9007199254740993)},
    {"0.00000000000000000000000000000001e32", 0, 1},
    {"100000000000000000000000000000000e-32", 0, 1},
    {"1000000000000000000000000000000001e-33", -ERR_INVALID, 0},
    {"100000000000000000001", -ERR_RANGE, 0},
    {"1.00000000000000000000000000001", -ERR_INVALID, 0},
};

static void whole_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        struct json_token t = token_of(span_text(numbers[i].text));
        int64_t v = 0;
        int r = json_int(&t, &v);
        if (r != numbers[i].result || v != numbers[i].value)
            fail_msg("%s: %d, %" PRId64, numbers[i].text, r, v);
    }
    struct json_token text = token_of(SPAN_LITERAL("\"5\""));
    int64_t v = 9;
    assert_int_equal(json_int(&text, &v), -ERR_INVALID);
    assert_int_equal(v, 9);
}

/* A value spelled at random: the point moved, the exponent making up for it, zeros added. */
static size_t spell(struct random *r, int64_t value, char *out, size_t room)
{
    char digits[64];
    int len = snprintf(digits, sizeof digits, "%" PRId64, value);
    const char *sign = digits[0] == '-' ? "-" : "";
    const char *first = digits + strlen(sign);
    int count = len - (int)strlen(sign);
    int before = (int)random_between(r, 1, count);
    if (first[0] == '0')
        before = 1;
    return (size_t)snprintf(out, room, "%s%.*s%s%s%.*se%+d", sign, before, first,
                            before < count || random_chance(r, 50) ? "." : ".0", first + before,
                            (int)random_between(r, before < count ? 0 : 1, 9), "000000000",
                            count - before);
}

static void any_spelling(void **state)
{
    (void)state;
    struct random r;
    seeded(&r, "spellings");
    for (int i = 0; i < 100000; i++) {
        char text[160];
        int64_t value = (int64_t)random_next(&r) >> random_below(&r, 64);
        size_t len = spell(&r, value, text, sizeof text);
        struct json_token t = token_of(span_of(text, len));
        int64_t back;
        if (json_int(&t, &back) != 0 || back != value)
            fail_msg("%s is not %" PRId64, text, value);
    }
}

static void long_numbers_cost_their_length(void **state)
{
    (void)state;
    enum { N = 1000000 };
    char *text = malloc(N);
    int64_t v;
    memset(text, '0', N);
    text[0] = '1';
    struct json_token t = {JSON_NUMBER, {text, N}, false};
    uint64_t start = clock_ns();
    assert_int_equal(json_int(&t, &v), -ERR_RANGE);
    memset(text, '9', N);
    assert_int_equal(json_int(&t, &v), -ERR_RANGE);
    memset(text + 1, '0', N - 1);
    memcpy(text + N - 8, "e-999991", 8); /* 9 and 999,991 zeros, less as many places */
    assert_int_equal(json_int(&t, &v), 0);
    assert_int_equal(v, 9);
    assert_true(clock_ns() - start < UINT64_C(60000000000)); /* the square would take hours */
    free(text);
}

/* ---- the writer ------------------------------------------------------------------------------ */

static void writes_everything(void **state)
{
    (void)state;
    struct buf b;
    struct json_writer w;
    buf_init(&b);
    json_writer_init(&w, &b);
    json_write_object(&w);
    json_write_key(&w, "a");
    json_write_int(&w, INT64_MIN);
    json_write_key_span(&w, SPAN_LITERAL("b\n"));
    json_write_uint(&w, UINT64_MAX);
    json_write_key(&w, "list");
    json_write_array(&w);
    json_write_bool(&w, true);
    json_write_bool(&w, false);
    json_write_null(&w);
    json_write_array(&w);
    json_write_array_end(&w);
    json_write_object(&w);
    json_write_object_end(&w);
    json_write_raw(&w, SPAN_LITERAL("{ \"raw\" : 1.0 }"));
    json_write_array_end(&w);
    json_write_key(&w, "");
    json_write_text(&w, SPAN_LITERAL("x"));
    json_write_object_end(&w);
    assert_int_equal(json_writer_finish(&w), 0);
    assert_true(span_equal(buf_span(&b),
                           SPAN_LITERAL("{\"a\":-9223372036854775808,\"b\\n\":18446744073709551615,"
                                        "\"list\":[true,false,null,[],{},{ \"raw\" : 1.0 }],"
                                        "\"\":\"x\"}")));
    assert_int_equal(json_check(buf_span(&b), NULL, NULL), 0);
    buf_done(&b);
}

static void writes_texts(void **state)
{
    (void)state;
    static const struct {
        struct span text;
        const char *json;
    } rows[] = {
        {{NULL, 0}, "\"\""},
        {{"plain", 5}, "\"plain\""},
        {{"\"\\/", 3}, "\"\\\"\\\\/\""},
        {{"\b\f\n\r\t", 5}, "\"\\b\\f\\n\\r\\t\""},
        {{"\0\x01\x1f\x7f", 4}, "\"\\u0000\\u0001\\u001f\x7f\""},
        {{"\xc3\xa9\xf0\x9f\x98\x80", 6}, "\"\xc3\xa9\xf0\x9f\x98\x80\""},
        {{"a\xff"
          "b",
          3},
         "\"a\xef\xbf\xbd"
         "b\""},
        {{"\xed\xa0\x80", 3}, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {{"\xe2\x82", 2}, "\"\xef\xbf\xbd\xef\xbf\xbd\""},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct buf b;
        struct json_writer w;
        buf_init(&b);
        json_writer_init(&w, &b);
        json_write_text(&w, rows[i].text);
        assert_int_equal(json_writer_finish(&w), 0);
        assert_true(span_equal(buf_span(&b), span_text(rows[i].json)));
        buf_done(&b);
    }
}

/* Whatever is written is valid, and valid text comes back as it was. */
static void texts_come_back(void **state)
{
    (void)state;
    struct random r;
    struct arena a;
    struct buf b;
    seeded(&r, "texts");
    arena_init(&a);
    buf_init(&b);
    for (int round = 0; round < 50000; round++) {
        char text[48];
        size_t len = random_below(&r, sizeof text);
        for (size_t i = 0; i < len; i++)
            text[i] = (char)(random_chance(&r, 70) ? random_below(&r, 128) : random_next(&r));
        struct json_writer w;
        struct span back;
        buf_clear(&b);
        json_writer_init(&w, &b);
        json_write_text(&w, span_of(text, len));
        assert_int_equal(json_writer_finish(&w), 0);
        assert_int_equal(json_check(buf_span(&b), NULL, NULL), 0);
        struct json_token t = token_of(buf_span(&b));
        assert_int_equal(json_string(&t, &a, &back), 0);
        assert_true(utf8_valid(back));
        if (utf8_valid(span_of(text, len)))
            assert_true(span_equal(back, span_of(text, len)));
        arena_reset(&a);
    }
    buf_done(&b);
    arena_done(&a);
}

static void writes_deep(void **state)
{
    (void)state;
    struct buf b;
    struct json_writer w;
    buf_init(&b);
    json_writer_init(&w, &b);
    for (int i = 0; i < JSON_DEPTH_MAX / 2; i++) {
        json_write_array(&w);
        json_write_object(&w);
        json_write_key(&w, "k");
    }
    json_write_null(&w);
    for (int i = 0; i < JSON_DEPTH_MAX / 2; i++) {
        json_write_object_end(&w);
        json_write_array_end(&w);
    }
    assert_int_equal(json_writer_finish(&w), 0);
    assert_int_equal(json_check(buf_span(&b), NULL, NULL), 0);
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings),
        cmocka_unit_test(unpaired_surrogates),
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(any_spelling),
        cmocka_unit_test(long_numbers_cost_their_length),
        cmocka_unit_test(writes_everything),
        cmocka_unit_test(writes_texts),
        cmocka_unit_test(texts_come_back),
        cmocka_unit_test(writes_deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
