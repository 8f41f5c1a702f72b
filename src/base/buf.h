/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte buffer. Appending may fail with -ERR_NOMEM and then changes nothing.
 *
 * After buf_reserve(b, n) the next n bytes cannot fail; the put_ functions use that room and assert
 * it is there, so that code which must not fail half-way reserves first. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

struct buf {
    char *data; /* NULL until the first byte */
    size_t len;
    size_t cap;
};

#define BUF_VARINT_MAX 10 /* bytes of the longest varint */

void buf_init(struct buf *b);
void buf_done(struct buf *b);
void buf_clear(struct buf *b); /* keeps the memory */
MUST_CHECK int buf_reserve(struct buf *b, size_t more);
MUST_CHECK int buf_grow(struct buf *b, size_t cap); /* room for exactly cap bytes in all */
MUST_CHECK int buf_append(struct buf *b, const void *bytes, size_t len);
MUST_CHECK int buf_append_span(struct buf *b, struct span s);
MUST_CHECK int buf_append_text(struct buf *b, const char *text);
MUST_CHECK int buf_printf(struct buf *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct span buf_span(const struct buf *b);

/* Into reserved room. Little-endian; varints are LEB128, signed ones zigzag. Inline: hot. */
static inline void buf_put_u8(struct buf *b, uint8_t v);
static inline void buf_put_u32(struct buf *b, uint32_t v);
static inline void buf_put_u64(struct buf *b, uint64_t v);
static inline void buf_put_varint(struct buf *b, uint64_t v);
static inline void buf_put_zigzag(struct buf *b, int64_t v);
static inline void buf_put_bytes(struct buf *b, const void *bytes, size_t len);

/* Reads from a span, moving it on. On a short or malformed input they return -ERR_CORRUPT and leave
 * both the span and the result untouched. Varints longer than needed are refused. */
MUST_CHECK int span_take_u8(struct span *s, uint8_t *ret);
MUST_CHECK int span_take_u32(struct span *s, uint32_t *ret);
MUST_CHECK int span_take_u64(struct span *s, uint64_t *ret);
MUST_CHECK int span_take_varint(struct span *s, uint64_t *ret);
MUST_CHECK int span_take_zigzag(struct span *s, int64_t *ret);
MUST_CHECK int span_take_bytes(struct span *s, size_t len, struct span *ret);

#include "base/buf_inline.h"
