/* SPDX-License-Identifier: Apache-2.0 */
/* What tokens stand for: the text of strings, the value of whole numbers. Tokens come from the
 * reader, so their spelling is valid; only their meaning can be refused. */
#include "base/json/json.h"
#include "base/utf8.h"

/* ---- strings ------------------------------------------------------------------------------- */

static uint32_t hex_value(char c)
{
    return (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

static uint32_t hex4(const char *p)
{
    return hex_value(p[0]) << 12 | hex_value(p[1]) << 8 | hex_value(p[2]) << 4 | hex_value(p[3]);
}

/* Behind a backslash and 'u'; moves on. Gives a surrogate when it has no other half. */
static uint32_t decode_u(const char **at, const char *end)
{
    uint32_t high = hex4(*at);
    *at += 4;
    if (high < 0xd800 || high > 0xdbff || end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u')
        return high;
    uint32_t low = hex4(*at + 2);
    if (low < 0xdc00 || low > 0xdfff)
        return high;
    *at += 6;
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

static char decode_letter(char c)
{
    switch (c) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return c; /* quote, backslash, slash */
    }
}

/* Decoding never makes a string longer, so out has room for what lies between at and end. */
static int decode(const char *at, const char *end, char *out, size_t *ret_len)
{
    char *from = out;
    while (at < end) {
        if (*at != '\\') {
            *out++ = *at++;
            continue;
        }
        char letter = at[1];
        at += 2;
        if (letter != 'u') {
            *out++ = decode_letter(letter);
            continue;
        }
        uint32_t code = decode_u(&at, end);
        if (code >= 0xd800 && code <= 0xdfff)
            return -ERR_INVALID;
        out += utf8_encode(code, out);
    }
    *ret_len = (size_t)(out - from);
    return 0;
}

int json_string(const struct json_token *t, struct arena *arena, struct span *ret)
{
    if (t->kind != JSON_STRING && t->kind != JSON_KEY)
        return -ERR_INVALID;
    struct span inner = span_of(t->raw.at + 1, t->raw.len - 2);
    if (!t->escaped) {
        *ret = inner;
        return 0;
    }
    size_t len;
    char *text = arena_alloc(arena, inner.len);
    if (!text)
        return -ERR_NOMEM;
    int r = decode(inner.at, inner.at + inner.len, text, &len);
    if (r == 0)
        *ret = span_of(text, len);
    return r;
}

/* ---- whole numbers ------------------------------------------------------------------------- */

#define EXPONENT_CAP INT64_C(1000000000000000) /* beyond the length of any text */
#define DIGITS_MAX 19                          /* of an int64; as many always fit a uint64 */

/* A number as digits × 10^scale, the last digit not zero. */
struct decimal {
    bool negative;
    uint64_t digits;
    size_t count; /* of digits seen from the first that is not zero, trailing zeros left out */
    int64_t scale;
    size_t zeros; /* trailing zeros that count only if another digit follows */
};

static void decimal_digit(struct decimal *d, char c)
{
    if (c == '0') {
        d->zeros += d->count > 0;
        return;
    }
    /* Past DIGITS_MAX the digits no longer matter: out of range, or not whole. */
    size_t more = d->zeros + 1;
    if (d->count + more <= DIGITS_MAX) {
        for (; d->zeros > 0; d->zeros--)
            d->digits *= 10;
        d->digits = d->digits * 10 + (uint64_t)(c - '0');
    }
    d->count += more;
    d->zeros = 0;
}

static int64_t exponent_of(const char *at, const char *end)
{
    int64_t v = 0;
    bool negative = *at == '-';
    at += *at == '-' || *at == '+';
    for (; at < end; at++) {
        if (v < EXPONENT_CAP)
            v = v * 10 + (*at - '0');
    }
    return negative ? -v : v;
}

static struct decimal decimal_of(struct span raw)
{
    const char *at = raw.at, *end = raw.at + raw.len;
    struct decimal d = {.negative = *at == '-'};
    bool fraction = false;
    at += d.negative;
    for (; at < end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            fraction = true;
            continue;
        }
        decimal_digit(&d, *at);
        d.scale -= fraction;
    }
    d.scale += (int64_t)d.zeros;
    if (at < end)
        d.scale += exponent_of(at + 1, end);
    return d;
}

int json_int(const struct json_token *t, int64_t *ret)
{
    if (t->kind != JSON_NUMBER)
        return -ERR_INVALID;
    struct decimal d = decimal_of(t->raw);
    if (d.count == 0) {
        *ret = 0;
        return 0;
    }
    if (d.scale < 0)
        return -ERR_INVALID;
    if (d.count > DIGITS_MAX || d.scale > DIGITS_MAX - (int64_t)d.count)
        return -ERR_RANGE;
    for (; d.scale > 0; d.scale--)
        d.digits *= 10;
    if (d.digits > (uint64_t)INT64_MAX + d.negative)
        return -ERR_RANGE;
    *ret = (int64_t)(d.negative ? -d.digits : d.digits);
    return 0;
}
