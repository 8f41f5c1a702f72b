/* SPDX-License-Identifier: Apache-2.0 */
/* Request memory: a chain of chunks, filled one after the other.
 *
 * After a reset the chain is walked again from the start, so that equal requests find equal room.
 * Under AddressSanitizer memory that is not handed out is poisoned: a pointer kept across a reset
 * shows at its first use. */
#include "base/containers/arena.h"

#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/poison.h"

#define ALIGNMENT ((size_t)16)
#define FIRST_BYTES ((size_t)4 << 10)
#define CHUNK_BYTES_MAX                                                                            \
    ((size_t)256 << 10) /* chunks double up to here; one big piece gets its own */

struct arena_chunk {
    struct arena_chunk *next;
    size_t size; /* bytes of data */
    _Alignas(16) char data[];
};

void arena_init(struct arena *a)
{
    *a = (struct arena){0};
}

static void chunk_free(struct arena_chunk *c)
{
    UNPOISON(c->data, c->size);
    mem_free(c);
}

static void chain_free(struct arena_chunk *c)
{
    while (c) {
        struct arena_chunk *next = c->next;
        chunk_free(c);
        c = next;
    }
}

void arena_done(struct arena *a)
{
    chain_free(a->first);
    arena_init(a);
}

/* One request with a huge body must not make its connection hold that much for ever. */
void arena_reset(struct arena *a)
{
    size_t kept = 0;
    struct arena_chunk **link = &a->first;
    while (*link) {
        struct arena_chunk *c = *link;
        if (kept + c->size > ARENA_KEEP_BYTES) {
            *link = c->next;
            chunk_free(c);
            continue;
        }
        kept += c->size;
        POISON(c->data, c->size);
        link = &c->next;
    }
    a->current = a->first;
    a->used = 0;
}

size_t arena_bytes(const struct arena *a)
{
    size_t bytes = 0;
    for (const struct arena_chunk *c = a->first; c; c = c->next)
        bytes += c->size;
    return bytes;
}

static size_t next_size(const struct arena *a, size_t need)
{
    size_t size = a->current ? a->current->size * 2 : FIRST_BYTES;
    if (size > CHUNK_BYTES_MAX)
        size = CHUNK_BYTES_MAX;
    return size > need ? size : need;
}

/* Makes a chunk with room for `need` the current one: the next of the chain, or a new one put
 * before it. */
static int chunk_advance(struct arena *a, size_t need)
{
    struct arena_chunk **link = a->current ? &a->current->next : &a->first;
    if (!*link || (*link)->size < need) {
        size_t size = next_size(a, need);
        struct arena_chunk *fresh = mem_alloc(sizeof *fresh + size);
        if (!fresh)
            return 0;
        fresh->next = *link;
        fresh->size = size;
        POISON(fresh->data, size);
        *link = fresh;
    }
    a->current = *link;
    a->used = 0;
    return 1;
}

void *arena_alloc(struct arena *a, size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size_t need = (size + (size == 0) + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    if (!a->current || a->current->size - a->used < need) {
        if (!chunk_advance(a, need))
            return NULL;
    }
    char *p = a->current->data + a->used;
    a->used += need;
    UNPOISON(p, size);
    return p;
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    void *p = arena_alloc(a, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

void *arena_copy(struct arena *a, const void *from, size_t size)
{
    void *p = arena_alloc(a, size);
    if (p && size > 0)
        memcpy(p, from, size);
    return p;
}

char *arena_text(struct arena *a, struct span s)
{
    if (s.len == SIZE_MAX)
        return NULL;
    char *p = arena_alloc(a, s.len + 1);
    if (!p)
        return NULL;
    if (s.len > 0)
        memcpy(p, s.at, s.len);
    p[s.len] = '\0';
    return p;
}

bool arena_keep(struct arena *a, struct span *s)
{
    if (s->len > 0)
        s->at = arena_copy(a, s->at, s->len);
    return s->len == 0 || s->at;
}
