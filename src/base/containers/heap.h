/* SPDX-License-Identifier: Apache-2.0 */
/* A four-way min-heap of (order, sequence) keys.
 *
 * Entries are 16 bytes, four children share one cache line, and sifting never touches what the
 * entries refer to. The array consists of chunks of 2 MiB, in huge pages if the kernel has them, so
 * it grows and shrinks without copying.
 *
 * Removal is lazy: owners leave stale entries in place and call heap_scrub from time to time. It
 * looks at a bounded number of entries, so that no call blocks the loop for long. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct heap_entry {
    uint64_t order; /* smaller first */
    uint64_t seq;   /* smaller first among equal orders */
};

/* Where an entry stands now. Set it on an empty heap whose owner takes entries out by index at once
 * instead of leaving them to heap_scrub; called for every entry that is placed or moved, perhaps
 * more than once (the last call holds), and must not use the heap. */
typedef void (*heap_moved_fn)(void *ctx, struct heap_entry e, size_t index);

#define HEAP_OFFSET ((size_t)3) /* slots before the first entry, see heap.c */
#define HEAP_TRAIL 3            /* levels below the top whose newcomers are remembered */

struct heap {
    bool small;          /* see heap_init_small */
    heap_moved_fn moved; /* NULL = no one is told */
    void *moved_ctx;
    struct heap_entry **chunks;
    size_t chunk_count; /* allocated chunks */
    size_t chunk_room;  /* slots of the pointer array */
    size_t room;        /* slots of all chunks; the first is smaller while it is the only one */
    size_t len;
    size_t promised;          /* the length up to which heap_reserve said that pushes cannot fail */
    size_t scrub_at;          /* next index heap_scrub looks at, going down */
    size_t trail[HEAP_TRAIL]; /* the last hole's way down, see heap_risen; 0 = not so deep */
    uint64_t *account; /* has heap_bytes of this heap added to it; NULL = nothing is counted */
};

void heap_init(struct heap *h);
/* For owners of very many heaps, most of which have a few entries: the first takes 128 bytes. */
void heap_init_small(struct heap *h);
/* Frees the memory; the heap is empty and still counted in the same sum. */
void heap_done(struct heap *h);
/* Keeps heap_bytes of several heaps in one sum, so that an owner of many need not add them up. The
 * heap must be empty and have no memory; the sum must outlive it. */
void heap_count_in(struct heap *h, uint64_t *account);
MUST_CHECK int heap_reserve_more(struct heap *h, size_t more); /* for heap_reserve only */
/* The next `more` pushes cannot fail. Each enqueue reserves room in several heaps, nearly always
 * where there is room already, so that case makes no call. */
MUST_CHECK __attribute__((always_inline)) static inline int heap_reserve(struct heap *h,
                                                                         size_t more)
{
    if (h->room < HEAP_OFFSET + h->len || more > h->room - HEAP_OFFSET - h->len)
        return heap_reserve_more(h, more);
    h->promised = h->len + more;
    return 0;
}
MUST_CHECK int heap_push(struct heap *h, struct heap_entry e);
/* The smallest entry, or false when empty. */
bool heap_top(const struct heap *h, struct heap_entry *ret);
bool heap_pop(struct heap *h, struct heap_entry *ret);
/* Takes out the entry at index (0 … len-1). */
void heap_remove(struct heap *h, size_t index);
struct heap_entry heap_at(const struct heap *h, size_t index);

/* The entry that the last pop brought up to this level (1 = next to the top … HEAP_TRAIL), now and
 * then one that was there before; for owners who get ready for what comes up. False: none. Heaps
 * with `moved` do not remember. */
bool heap_risen(const struct heap *h, size_t level, struct heap_entry *ret);

typedef bool (*heap_stale_fn)(void *ctx, struct heap_entry e);
/* Looks at up to `budget` entries from where the last call stopped and drops the stale ones. */
void heap_scrub(struct heap *h, size_t budget, heap_stale_fn stale, void *ctx);
size_t heap_bytes(const struct heap *h);

/* Signed to unsigned so that order is kept; and turned round, so that higher comes first. */
static inline uint64_t heap_order_of(int64_t v)
{
    return (uint64_t)v ^ (UINT64_C(1) << 63);
}

static inline uint64_t heap_order_desc(int64_t v)
{
    return ~heap_order_of(v);
}

/* The number whose heap_order_desc this is. */
static inline int64_t heap_desc_of(uint64_t order)
{
    return (int64_t)(~order ^ (UINT64_C(1) << 63));
}
