/* SPDX-License-Identifier: Apache-2.0 */
/* Growing byte buffers, and reading back what they hold. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"

#define FIRST_BYTES 64

void buf_init(struct buf *b)
{
    *b = (struct buf){0};
}

void buf_done(struct buf *b)
{
    mem_free(b->data);
    buf_init(b);
}

void buf_clear(struct buf *b)
{
    b->len = 0;
}

/* Doubles, so that appending costs amortised constant time. */
static size_t grown(size_t cap, size_t need)
{
    if (cap > SIZE_MAX / 2)
        return need;
    cap = cap ? cap * 2 : FIRST_BYTES;
    return cap > need ? cap : need;
}

static int resize(struct buf *b, size_t cap)
{
    char *data = mem_realloc(b->data, cap);
    if (!data)
        return -ERR_NOMEM;
    b->data = data;
    b->cap = cap;
    return 0;
}

int buf_reserve(struct buf *b, size_t more)
{
    if (b->cap - b->len >= more)
        return 0;
    if (more > SIZE_MAX - b->len)
        return -ERR_NOMEM;
    return resize(b, grown(b->cap, b->len + more));
}

int buf_grow(struct buf *b, size_t cap)
{
    return cap <= b->cap ? 0 : resize(b, cap);
}

int buf_append(struct buf *b, const void *bytes, size_t len)
{
    int r = buf_reserve(b, len);
    if (r == 0)
        buf_put_bytes(b, bytes, len);
    return r;
}

int buf_append_span(struct buf *b, struct span s)
{
    return buf_append(b, s.at, s.len);
}

int buf_append_text(struct buf *b, const char *text)
{
    return buf_append(b, text, strlen(text));
}

/* vsnprintf wants room for its NUL as well, which is never counted. */
int buf_printf(struct buf *b, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    size_t room = b->cap - b->len;
    int len = vsnprintf(room ? b->data + b->len : NULL, room, format, args);
    int r = len < 0 ? -ERR_INVALID : 0;
    if (r == 0 && (size_t)len >= room) {
        r = buf_reserve(b, (size_t)len + 1);
        if (r == 0)
            vsnprintf(b->data + b->len, (size_t)len + 1, format, again);
    }
    if (r == 0)
        b->len += (size_t)len;
    va_end(again);
    va_end(args);
    return r;
}

struct span buf_span(const struct buf *b)
{
    return span_of(b->data, b->len);
}

static void advance(struct span *s, size_t len)
{
    s->at += len;
    s->len -= len;
}

static int take_bytes(struct span *s, void *ret, size_t len)
{
    if (s->len < len)
        return -ERR_CORRUPT;
    memcpy(ret, s->at, len);
    advance(s, len);
    return 0;
}

int span_take_u8(struct span *s, uint8_t *ret)
{
    return take_bytes(s, ret, 1);
}

int span_take_u32(struct span *s, uint32_t *ret)
{
    uint32_t v;
    int err = take_bytes(s, &v, sizeof v);
    if (!err)
        *ret = le32toh(v);
    return err;
}

int span_take_u64(struct span *s, uint64_t *ret)
{
    uint64_t v;
    int err = take_bytes(s, &v, sizeof v);
    if (!err)
        *ret = le64toh(v);
    return err;
}

/* One spelling for each number: a last byte of zero adds nothing and is refused, as is a tenth byte
 * that would not fit 64 bits. */
int span_take_varint(struct span *s, uint64_t *ret)
{
    uint64_t v = 0;
    for (size_t i = 0; i < s->len && i < BUF_VARINT_MAX; i++) {
        uint8_t byte = (uint8_t)s->at[i];
        v |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte & 0x80)
            continue;
        if ((byte == 0 && i > 0) || (i == BUF_VARINT_MAX - 1 && byte > 1))
            return -ERR_CORRUPT;
        *ret = v;
        advance(s, i + 1);
        return 0;
    }
    return -ERR_CORRUPT;
}

int span_take_zigzag(struct span *s, int64_t *ret)
{
    uint64_t v;
    int r = span_take_varint(s, &v);
    if (r == 0)
        *ret = (int64_t)((v >> 1) ^ (~(v & 1) + 1));
    return r;
}

int span_take_bytes(struct span *s, size_t len, struct span *ret)
{
    if (s->len < len)
        return -ERR_CORRUPT;
    *ret = span_of(s->at, len);
    if (len > 0)
        advance(s, len);
    return 0;
}
