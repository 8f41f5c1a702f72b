/* SPDX-License-Identifier: Apache-2.0 */
/* The hot half of buf.h: writing into room that was reserved before. Included by buf.h only. */
#pragma once

#include <endian.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"

/* The next `len` bytes of reserved room, already counted. */
static inline char *buf_claim(struct buf *b, size_t len)
{
    CHECK(b->cap - b->len >= len);
    char *at = b->data + b->len;
    b->len += len;
    return at;
}

static inline void buf_put_u8(struct buf *b, uint8_t v)
{
    *buf_claim(b, 1) = (char)v;
}

static inline void buf_put_u32(struct buf *b, uint32_t v)
{
    v = htole32(v);
    memcpy(buf_claim(b, sizeof v), &v, sizeof v);
}

static inline void buf_put_u64(struct buf *b, uint64_t v)
{
    v = htole64(v);
    memcpy(buf_claim(b, sizeof v), &v, sizeof v);
}

static inline void buf_put_varint(struct buf *b, uint64_t v)
{
    while (v >= 0x80) {
        buf_put_u8(b, (uint8_t)(v | 0x80));
        v >>= 7;
    }
    buf_put_u8(b, (uint8_t)v);
}

static inline void buf_put_zigzag(struct buf *b, int64_t v)
{
    buf_put_varint(b, ((uint64_t)v << 1) ^ (uint64_t)(v >> 63));
}

static inline void buf_put_bytes(struct buf *b, const void *bytes, size_t len)
{
    if (len > 0)
        memcpy(buf_claim(b, len), bytes, len);
}
