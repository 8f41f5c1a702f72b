/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest/base64.h"

#include <stdint.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_len(size_t len)
{
    size_t groups = len / 3 + (len % 3 != 0);
    return groups > SIZE_MAX / 4 ? SIZE_MAX : groups * 4;
}

static void put_group(uint32_t bits, char *out)
{
    for (int i = 3; i >= 0; i--) {
        out[i] = digits[bits & 63];
        bits >>= 6;
    }
}

void base64_encode(struct span in, char *out)
{
    const unsigned char *p = (const unsigned char *)in.at;
    size_t left = in.len;
    for (; left >= 3; left -= 3, p += 3, out += 4)
        put_group((uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2], out);
    if (left == 0)
        return;
    put_group((uint32_t)p[0] << 16 | (left == 2 ? (uint32_t)p[1] << 8 : 0), out);
    out[3] = '=';
    if (left == 1)
        out[2] = '=';
}

size_t base64_decoded_max(size_t len)
{
    return len / 4 * 3;
}

/* 0 … 63, or 64 for what is no digit. */
static uint32_t value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (uint32_t)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (uint32_t)(c - 'a') + 26;
    if (c >= '0' && c <= '9')
        return (uint32_t)(c - '0') + 52;
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

/* `digit_count` of four characters are digits, the rest is padding. */
static int take_group(const char *at, int digit_count, char *out)
{
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t v = i < digit_count ? value_of(at[i]) : 0;
        if (v > 63)
            return -ERR_SYNTAX;
        bits = bits << 6 | v;
    }
    uint32_t unused = digit_count == 4 ? 0 : digit_count == 3 ? 0xff : 0xffff;
    if (bits & unused)
        return -ERR_SYNTAX;
    for (int i = 0; i < digit_count - 1; i++)
        out[i] = (char)(bits >> (16 - 8 * i) & 0xff);
    return 0;
}

int base64_decode(struct span in, char *out, size_t *ret)
{
    size_t written = 0;
    if (in.len % 4 != 0)
        return -ERR_SYNTAX;
    for (size_t at = 0; at < in.len; at += 4) {
        int count = 4;
        while (at + 4 == in.len && count > 2 && in.at[at + (size_t)count - 1] == '=')
            count--;
        int err = take_group(in.at + at, count, out + written);
        if (err < 0)
            return err;
        written += (size_t)count - 1;
    }
    *ret = written;
    return 0;
}
