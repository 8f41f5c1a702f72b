/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler computes the table from the rules below. */
#include "http/parse_chars.h"

#include <endian.h>
#include <string.h>

#define IS_DIGIT(c) ((c) >= '0' && (c) <= '9')
#define IS_ALPHA(c) (((c) >= 'a' && (c) <= 'z') || ((c) >= 'A' && (c) <= 'Z'))
#define IS_HEX(c) (IS_DIGIT(c) || ((c) >= 'a' && (c) <= 'f') || ((c) >= 'A' && (c) <= 'F'))
#define IS_MARK(c)                                                                                 \
    ((c) == '!' || (c) == '#' || (c) == '$' || (c) == '%' || (c) == '&' || (c) == '\'' ||          \
     (c) == '*' || (c) == '+' || (c) == '-' || (c) == '.' || (c) == '^' || (c) == '_' ||           \
     (c) == '`' || (c) == '|' || (c) == '~')
#define IS_VISIBLE(c) ((c) > 0x20 && (c) < 0x7f)
#define IS_BLANK(c) ((c) == ' ' || (c) == '\t')

#define IS_TOKEN(c) (IS_DIGIT(c) || IS_ALPHA(c) || IS_MARK(c))
#define IS_TARGET(c) (IS_VISIBLE(c) && (c) != '#' && (c) != '\\')
#define IS_VALUE(c) (IS_VISIBLE(c) || IS_BLANK(c) || (c) >= 0x80)
#define IS_HOST(c) (IS_DIGIT(c) || IS_ALPHA(c) || (c) == '-' || (c) == '.' || (c) == '_')
#define IS_IPV6(c) (IS_HEX(c) || (c) == ':' || (c) == '.')

#define BITS(c)                                                                                    \
    ((IS_TOKEN(c) ? CHAR_TOKEN : 0) | (IS_TARGET(c) ? CHAR_TARGET : 0) |                           \
     (IS_VALUE(c) ? CHAR_VALUE : 0) | (IS_HOST(c) ? CHAR_HOST : 0) |                               \
     (IS_IPV6(c) ? CHAR_IPV6 : 0) | (IS_BLANK(c) ? CHAR_BLANK : 0))
#define BITS_4(c) BITS(c), BITS((c) + 1), BITS((c) + 2), BITS((c) + 3)
#define BITS_16(c) BITS_4(c), BITS_4((c) + 4), BITS_4((c) + 8), BITS_4((c) + 12)
#define BITS_64(c) BITS_16(c), BITS_16((c) + 16), BITS_16((c) + 32), BITS_16((c) + 48)

const uint8_t http_chars[256] = {BITS_64(0), BITS_64(64), BITS_64(128), BITS_64(192)};

#define EACH_BYTE(c) (UINT64_C(0x0101010101010101) * (c))
#define HIGH_BITS EACH_BYTE(0x80)

/* Sets the high bit of every byte that is below 0x20 or is 0x7f. A borrow can set bits wrongly,
 * but only above one that is set correctly, so the lowest one is correct. */
static inline uint64_t controls(uint64_t word)
{
    uint64_t low = (word - EACH_BYTE(0x20)) & ~word;
    uint64_t flipped = word ^ EACH_BYTE(0x7f);
    uint64_t del = (flipped - EACH_BYTE(1)) & ~flipped;
    return (low | del) & HIGH_BITS;
}

const char *http_value_end(const char *at, const char *end)
{
    while (end - at >= (ptrdiff_t)sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        uint64_t marks = controls(le64toh(word));
        if (marks == 0) {
            at += sizeof word;
            continue;
        }
        at += __builtin_ctzll(marks) / 8;
        if (*at != '\t')
            return at;
        at++;
    }
    while (at < end && char_is(*at, CHAR_VALUE))
        at++;
    return at;
}

/* ":" and up to five digits, at most 65535. An empty port is what RFC 3986 allows for none. */
static bool port_valid(struct span port)
{
    unsigned value = 0;
    if (port.len == 0)
        return true;
    if (port.at[0] != ':' || port.len > 6)
        return false;
    for (size_t i = 1; i < port.len; i++) {
        if (!char_is_digit(port.at[i]))
            return false;
        value = value * 10 + (unsigned)(port.at[i] - '0');
    }
    return value <= UINT16_MAX;
}

static size_t run_of(struct span s, size_t from, enum http_char what)
{
    size_t i = from;
    while (i < s.len && char_is(s.at[i], what))
        i++;
    return i;
}

bool http_host_valid(struct span host)
{
    if (host.len == 0)
        return false;
    size_t end;
    if (host.at[0] == '[') {
        end = run_of(host, 1, CHAR_IPV6);
        if (end < 3 || end == host.len || host.at[end] != ']')
            return false;
        end++;
    } else {
        end = run_of(host, 0, CHAR_HOST);
        if (end == 0)
            return false;
    }
    return port_valid(span_of(host.at + end, host.len - end));
}

int http_refuse(struct http_fault *fault, unsigned status, const char *text)
{
    *fault = (struct http_fault){status, text};
    return -1;
}
