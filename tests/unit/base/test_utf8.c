/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8: every code point both ways, and every short byte sequence against a slow decoder. */
#include "unit/base/support.h"

#include "base/utf8.h"

/* By the definition: decode, then ask whether this was the one right way to write it. */
static size_t slow_sequence(const unsigned char *p, size_t len)
{
    if (len == 0)
        return 0;
    size_t n = p[0] < 0x80   ? 1
               : p[0] < 0xc0 ? 0
               : p[0] < 0xe0 ? 2
               : p[0] < 0xf0 ? 3
               : p[0] < 0xf8 ? 4
                             : 0;
    if (n == 0 || n > len)
        return 0;
    uint32_t code = n == 1 ? p[0] : p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3f);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    return n;
}

static void every_code_point(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        char out[4];
        if (code >= 0xd800 && code <= 0xdfff)
            continue;
        size_t len = utf8_encode(code, out);
        EXPECT(len == (code < 0x80 ? 1u : code < 0x800 ? 2u : code < 0x10000 ? 3u : 4u));
        EXPECT(utf8_sequence(span_of(out, len)) == len);
        EXPECT(slow_sequence((unsigned char *)out, len) == len);
        for (size_t cut = 0; cut < len; cut++)
            EXPECT(utf8_sequence(span_of(out, cut)) == 0);
    }
}

/* All of two bytes, and all of three and four that differ at the edges of the ranges. */
static void every_short_sequence(void **state)
{
    (void)state;
    static const unsigned char edge[] = {0x00, 0x22, 0x7f, 0x80, 0x8f, 0x90,
                                         0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xff};
    unsigned char b[4];
    for (unsigned first = 0; first < 256; first++) {
        for (unsigned second = 0; second < 256; second++) {
            for (size_t k = 0; k < COUNT_OF(edge) * COUNT_OF(edge); k++) {
                b[0] = (unsigned char)first;
                b[1] = (unsigned char)second;
                b[2] = edge[k / COUNT_OF(edge)];
                b[3] = edge[k % COUNT_OF(edge)];
                for (size_t len = 0; len <= 4; len++)
                    EXPECT(utf8_sequence(span_of(b, len)) == slow_sequence(b, len));
            }
        }
    }
}

static bool slow_valid(const unsigned char *p, size_t len)
{
    for (size_t i = 0, n; i < len; i += n) {
        n = slow_sequence(p + i, len - i);
        if (n == 0)
            return false;
    }
    return true;
}

static void whole_texts(void **state)
{
    (void)state;
    struct random r;
    size_t valid = 0;
    seeded(&r, "utf8");
    for (int round = 0; round < 100000; round++) {
        char text[64];
        size_t len = 0, pieces = random_below(&r, 14);
        for (size_t i = 0; i < pieces; i++) {
            uint32_t code = (uint32_t)random_below(&r, random_chance(&r, 60) ? 0x80 : 0x110000);
            if (code < 0xd800 || code > 0xdfff)
                len += utf8_encode(code, text + len);
        }
        if (len > 0 && random_chance(&r, 40))
            text[random_below(&r, len)] = (char)random_next(&r);
        if (random_chance(&r, 10))
            len -= len > 0;
        bool expected = slow_valid((unsigned char *)text, len);
        valid += expected;
        EXPECT(utf8_valid(span_of(text, len)) == expected);
    }
    assert_in_range(valid, 20000, 95000);
    assert_true(utf8_valid(span_of(NULL, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point),
        cmocka_unit_test(every_short_sequence),
        cmocka_unit_test(whole_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
