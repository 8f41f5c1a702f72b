/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

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
