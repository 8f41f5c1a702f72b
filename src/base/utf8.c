/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 by the table of well-formed byte sequences in the Unicode standard (3.9). */
#include "base/utf8.h"

#include "base/check.h"

static bool between(unsigned char c, unsigned char low, unsigned char high)
{
    return c >= low && c <= high;
}

static bool tail(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

/* The second byte's range is what rules out overlong forms, surrogates and the far end. */
static bool second_fits(unsigned char lead, unsigned char second)
{
    switch (lead) {
    case 0xe0:
        return between(second, 0xa0, 0xbf);
    case 0xed:
        return between(second, 0x80, 0x9f);
    case 0xf0:
        return between(second, 0x90, 0xbf);
    case 0xf4:
        return between(second, 0x80, 0x8f);
    default:
        return tail(second);
    }
}

size_t utf8_sequence(struct span s)
{
    const unsigned char *p = (const unsigned char *)s.at;
    if (s.len == 0)
        return 0;
    if (p[0] < 0x80)
        return 1;
    size_t len = between(p[0], 0xc2, 0xdf)   ? 2
                 : between(p[0], 0xe0, 0xef) ? 3
                 : between(p[0], 0xf0, 0xf4) ? 4
                                             : 0;
    if (len == 0 || s.len < len || !second_fits(p[0], p[1]))
        return 0;
    for (size_t i = 2; i < len; i++) {
        if (!tail(p[i]))
            return 0;
    }
    return len;
}

/* Eight bytes at a time while the text is ASCII, which it nearly always is. */
bool utf8_valid(struct span s)
{
    size_t i = 0;
    while (i < s.len) {
        uint64_t word;
        if (s.len - i >= sizeof word) {
            memcpy(&word, s.at + i, sizeof word);
            if ((word & UINT64_C(0x8080808080808080)) == 0) {
                i += sizeof word;
                continue;
            }
        }
        size_t len = utf8_sequence(span_of(s.at + i, s.len - i));
        if (len == 0)
            return false;
        i += len;
    }
    return true;
}

size_t utf8_encode(uint32_t c, char out[4])
{
    CHECK(c <= 0x10ffff && (c < 0xd800 || c > 0xdfff));
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | (c >> 6));
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | (c >> 12));
        out[1] = (char)(0x80 | ((c >> 6) & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | (c >> 18));
    out[1] = (char)(0x80 | ((c >> 12) & 0x3f));
    out[2] = (char)(0x80 | ((c >> 6) & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}
