/* SPDX-License-Identifier: Apache-2.0 */
/* Base 64: the vectors of RFC 4648, and every length against a slow decoder. */
#include "unit/base/support.h"

#include "base/digest/base64.h"

static void expect_text(const char *bytes, size_t len, const char *text)
{
    char out[64];
    assert_int_equal(base64_len(len), strlen(text));
    base64_encode(span_of(bytes, len), out);
    assert_memory_equal(out, text, strlen(text));
}

static void vectors(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    for (size_t i = 0; i < COUNT_OF(pairs); i++)
        expect_text(pairs[i][0], strlen(pairs[i][0]), pairs[i][1]);
    expect_text("\0\xff\xfe", 3, "AP/+");
    assert_int_equal(base64_len(SIZE_MAX), SIZE_MAX);
}

static unsigned value_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = strchr(digits, c);
    assert_non_null(at);
    return (unsigned)(at - digits);
}

/* Bit by bit. */
static void expect_bits(const unsigned char *bytes, size_t len, const char *text)
{
    for (size_t bit = 0; bit < len * 8; bit++) {
        unsigned want = (unsigned)bytes[bit / 8] >> (7 - bit % 8) & 1u;
        unsigned got = value_of(text[bit / 6]) >> (5 - bit % 6) & 1u;
        EXPECT(want == got);
    }
}

static void every_length(void **state)
{
    (void)state;
    struct random r;
    seeded(&r, "every_length");
    for (size_t len = 0; len < 200; len++) {
        unsigned char bytes[200];
        char text[sizeof bytes * 2];
        for (size_t i = 0; i < len; i++)
            bytes[i] = (unsigned char)random_next(&r);
        memset(text, '!', sizeof text);
        base64_encode(span_of(bytes, len), text);
        expect_bits(bytes, len, text);
        assert_int_equal(text[base64_len(len)], '!');
        for (size_t i = (len * 8 + 5) / 6; i < base64_len(len); i++)
            assert_int_equal(text[i], '=');
    }
}

static void decodes_what_was_encoded(void **state)
{
    (void)state;
    struct random r;
    seeded(&r, "decodes_what_was_encoded");
    for (size_t len = 0; len < 200; len++) {
        char bytes[200], text[sizeof bytes * 2], back[sizeof bytes];
        size_t got = 999;
        for (size_t i = 0; i < len; i++)
            bytes[i] = (char)random_next(&r);
        base64_encode(span_of(bytes, len), text);
        size_t chars = base64_len(len);
        assert_true(base64_decoded_max(chars) >= len && base64_decoded_max(chars) <= len + 2);
        assert_int_equal(base64_decode(span_of(text, chars), back, &got), 0);
        assert_int_equal(got, len);
        assert_memory_equal(back, bytes, len);
    }
}

static void refuses_noncanonical_text(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "A",        "AA",       "AAA",   "A===", "====",     "AA=A",     "A=AA",
        "AA==AAAA", "AB==",     "AAB=",  "AA-A", "AA_A",     "AA A",     "AAA\n",
        "AAAA=",    "AAAAA===", "A\0AA", "=AAA", "AAAA====", "AAAAA=AA", "\xc3\xbc==",
    };
    char out[64];
    size_t got;
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        if (base64_decode(span_of(wrong[i], strlen(wrong[i])), out, &got) != -ERR_SYNTAX)
            fail_msg("taken: %s", wrong[i]);
    assert_int_equal(base64_decode(span_of("A\0AA", 4), out, &got), -ERR_SYNTAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(every_length),
        cmocka_unit_test(decodes_what_was_encoded),
        cmocka_unit_test(refuses_noncanonical_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
