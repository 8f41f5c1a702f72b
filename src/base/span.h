/* SPDX-License-Identifier: Apache-2.0 */
/* A borrowed run of bytes: text or binary, never owned, not NUL-terminated. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct span {
    const char *at; /* may be NULL only when len is 0 */
    size_t len;
};

#define SPAN_LITERAL(text) ((struct span){(text), sizeof(text) - 1})

static inline struct span span_of(const void *at, size_t len)
{
    return (struct span){at, len};
}

static inline struct span span_text(const char *text)
{
    return (struct span){text, text ? strlen(text) : 0};
}

/* Byte by byte: < 0, 0, > 0. What begins another stands before it. */
static inline int span_order(struct span a, struct span b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter ? memcmp(a.at, b.at, shorter) : 0;
    return order ? order : a.len < b.len ? -1 : a.len > b.len;
}

static inline bool span_equal(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}
