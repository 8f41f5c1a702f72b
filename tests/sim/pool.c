/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/pool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define CHUNK_BYTES ((size_t)64 << 10)

struct pool_chunk {
    struct pool_chunk *next;
    size_t used, size;
    _Alignas(16) unsigned char bytes[];
};

void pool_init(struct pool *p)
{
    p->first = NULL;
}

void pool_done(struct pool *p)
{
    while (p->first) {
        struct pool_chunk *next = p->first->next;
        free(p->first);
        p->first = next;
    }
}

static struct pool_chunk *chunk_new(size_t size)
{
    struct pool_chunk *c = malloc(sizeof(*c) + size);
    CHECK(c != NULL);
    c->used = 0;
    c->size = size;
    return c;
}

void *pool_alloc(struct pool *p, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    struct pool_chunk *c = p->first;
    if (!c || c->size - c->used < size) {
        c = chunk_new(size > CHUNK_BYTES ? size : CHUNK_BYTES);
        c->next = p->first;
        p->first = c;
    }
    void *at = c->bytes + c->used;
    c->used += size;
    return memset(at, 0, size);
}

void *pool_copy(struct pool *p, const void *from, size_t size)
{
    void *to = pool_alloc(p, size);
    if (size > 0)
        memcpy(to, from, size);
    return to;
}

struct span pool_span(struct pool *p, struct span s)
{
    return s.len == 0 ? (struct span){NULL, 0} : span_of(pool_copy(p, s.at, s.len), s.len);
}

struct span pool_text(struct pool *p, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    CHECK(len >= 0 && (size_t)len < sizeof(text));
    return pool_span(p, span_of(text, (size_t)len));
}

void *vec_room(void *items, size_t *room, size_t need, size_t item_bytes)
{
    if (need <= *room)
        return items;
    size_t more = *room < 16 ? 16 : *room;
    while (more < need)
        more *= 2;
    unsigned char *grown = realloc(items, more * item_bytes);
    CHECK(grown != NULL);
    memset(grown + *room * item_bytes, 0, (more - *room) * item_bytes);
    *room = more;
    return grown;
}

void vec_free(void *items)
{
    free(items);
}

uint64_t trace_hash(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * UINT64_C(1099511628211);
    return hash;
}

uint64_t trace_hash_number(uint64_t hash, uint64_t number)
{
    return (hash ^ number) * UINT64_C(1099511628211) ^ (number >> 32);
}
