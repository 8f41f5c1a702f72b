/* SPDX-License-Identifier: Apache-2.0 */
/* The four-way heap.
 *
 * Entry i lies in slot i + 3, so that the children of any entry (4i+1 … 4i+4) fill slots 4i+4 …
 * 4i+7: one aligned cache line, never across two chunks. The tree of a million entries is ten
 * levels deep.
 *
 * Taking an entry out leaves a hole. The hole sinks to a leaf along the smallest children without
 * looking at the entry that will fill it (the last one, which nearly always belongs near the bottom
 * again), and the entry then rises from there: three comparisons a level, and the same code serves
 * for a hole anywhere in the tree. */
#include "base/heap.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

#define OFFSET ((size_t)3)
#define CHUNK_BITS 16
#define CHUNK_SLOTS ((size_t)1 << CHUNK_BITS)
#define FIRST_SLOTS ((size_t)64)
#define FIRST_GROWTH                                                                               \
    4 /* the only chunk is copied into one four times its size until it is full size */

static inline struct heap_entry *slot_at(const struct heap *h, size_t index)
{
    size_t slot = index + OFFSET;
    return &h->chunks[slot >> CHUNK_BITS][slot & (CHUNK_SLOTS - 1)];
}

static inline bool before(struct heap_entry a, struct heap_entry b)
{
    /* One 128-bit comparison: a subtraction with borrow instead of two branches. */
    unsigned __int128 ka = (unsigned __int128)a.order << 64 | a.seq;
    unsigned __int128 kb = (unsigned __int128)b.order << 64 | b.seq;
    return ka < kb;
}

void heap_init(struct heap *h)
{
    *h = (struct heap){0};
}

void heap_done(struct heap *h)
{
    for (size_t i = 0; i < h->chunk_count; i++)
        mem_free(h->chunks[i]);
    mem_free(h->chunks);
    heap_init(h);
}

static int room_for_pointer(struct heap *h)
{
    if (h->chunk_count < h->chunk_room)
        return 0;
    size_t room = h->chunk_room ? h->chunk_room * 2 : 1;
    struct heap_entry **chunks = mem_regrow(h->chunks, room, sizeof *chunks);
    if (!chunks)
        return -ERR_NOMEM;
    h->chunks = chunks;
    h->chunk_room = room;
    return 0;
}

static int chunk_add(struct heap *h, size_t slots)
{
    if (room_for_pointer(h) != 0)
        return -ERR_NOMEM;
    struct heap_entry *chunk = mem_lines(slots * sizeof *chunk);
    if (!chunk)
        return -ERR_NOMEM;
    h->chunks[h->chunk_count++] = chunk;
    h->room += slots;
    return 0;
}

/* Servers have many queues with few jobs, so the first chunk begins small. */
static int first_widen(struct heap *h, size_t slots)
{
    struct heap_entry *wide = mem_lines(slots * sizeof *wide);
    if (!wide)
        return -ERR_NOMEM;
    memcpy(wide, h->chunks[0], h->room * sizeof *wide);
    mem_free(h->chunks[0]);
    h->chunks[0] = wide;
    h->room = slots;
    return 0;
}

static int room_grow(struct heap *h, size_t need)
{
    if (h->room >= CHUNK_SLOTS)
        return chunk_add(h, CHUNK_SLOTS);
    size_t slots = h->room ? h->room : FIRST_SLOTS;
    while (slots < need && slots < CHUNK_SLOTS)
        slots *= FIRST_GROWTH;
    if (slots > CHUNK_SLOTS)
        slots = CHUNK_SLOTS;
    return h->room ? first_widen(h, slots) : chunk_add(h, slots);
}

static int room_make(struct heap *h, size_t more)
{
    if (more > SIZE_MAX / sizeof(struct heap_entry) - h->len - OFFSET)
        return -ERR_NOMEM;
    size_t need = h->len + OFFSET + more;
    while (h->room < need) {
        int r = room_grow(h, need);
        if (r != 0)
            return r;
    }
    return 0;
}

int heap_reserve(struct heap *h, size_t more)
{
    int r = room_make(h, more);
    if (r == 0)
        h->promised = h->len + more;
    return r;
}

/* Gives chunks back, but keeps one to spare, and keeps what heap_reserve promised. */
static void room_trim(struct heap *h)
{
    size_t need = h->len > h->promised ? h->len : h->promised;
    while (h->chunk_count > 1 && h->room - CHUNK_SLOTS >= need + OFFSET + CHUNK_SLOTS) {
        mem_free(h->chunks[--h->chunk_count]);
        h->room -= CHUNK_SLOTS;
    }
}

/* Lets e rise from the hole at i; gives the index where it came to rest. */
static inline size_t rise(struct heap *h, size_t i, struct heap_entry e)
{
    struct heap_entry *hole = slot_at(h, i);
    while (i > 0) {
        size_t parent = (i - 1) / 4;
        struct heap_entry *above = slot_at(h, parent);
        if (!before(e, *above))
            break;
        *hole = *above;
        hole = above;
        i = parent;
    }
    *hole = e;
    return i;
}

static inline size_t least_of_four(const struct heap_entry *e)
{
    size_t left = before(e[1], e[0]);
    size_t right = 2 + (size_t)before(e[3], e[2]);
    return before(e[right], e[left]) ? right : left;
}

static inline size_t least_of(const struct heap_entry *e, size_t count)
{
    size_t least = 0;
    for (size_t k = 1; k < count; k++)
        least = before(e[k], e[least]) ? k : least;
    return least;
}

/* Lets a hole sink to a leaf; gives its index. */
static inline size_t sink(struct heap *h, size_t i)
{
    struct heap_entry *hole = slot_at(h, i);
    for (size_t child = 4 * i + 1; child < h->len; child = 4 * i + 1) {
        struct heap_entry *line = slot_at(h, child);
        size_t left = h->len - child;
        size_t least = left >= 4 ? least_of_four(line) : least_of(line, left);
        *hole = line[least];
        hole = &line[least];
        i = child + least;
    }
    return i;
}

int heap_push(struct heap *h, struct heap_entry e)
{
    if (h->len + OFFSET >= h->room) {
        int r = room_make(h, 1);
        if (r != 0)
            return r;
    }
    rise(h, h->len++, e);
    return 0;
}

bool heap_top(const struct heap *h, struct heap_entry *ret)
{
    if (h->len == 0)
        return false;
    *ret = *slot_at(h, 0);
    return true;
}

/* Fills the hole at i with the last entry; gives the index where that came to rest. */
static inline size_t take_out(struct heap *h, size_t i)
{
    struct heap_entry last = *slot_at(h, --h->len);
    size_t rest = i == h->len ? i : rise(h, sink(h, i), last);
    if (h->len % CHUNK_SLOTS == 0)
        room_trim(h);
    return rest;
}

bool heap_pop(struct heap *h, struct heap_entry *ret)
{
    if (!heap_top(h, ret))
        return false;
    take_out(h, 0);
    return true;
}

void heap_remove(struct heap *h, size_t index)
{
    CHECK(index < h->len);
    take_out(h, index);
}

struct heap_entry heap_at(const struct heap *h, size_t index)
{
    CHECK(index < h->len);
    return *slot_at(h, index);
}

/* Going down from the end, an entry that fills a gap has been looked at already, and so has all
 * that lies below it. Only when it rises past the gap does one come down that has not: then the
 * same index is looked at again. */
void heap_scrub(struct heap *h, size_t budget, heap_stale_fn stale, void *ctx)
{
    for (; budget > 0 && h->len > 0; budget--) {
        if (h->scrub_at >= h->len)
            h->scrub_at = h->len - 1;
        size_t i = h->scrub_at;
        bool again = stale(ctx, *slot_at(h, i)) && take_out(h, i) < i;
        if (!again)
            h->scrub_at = i > 0 ? i - 1 : SIZE_MAX;
    }
}

size_t heap_bytes(const struct heap *h)
{
    return h->room * sizeof(struct heap_entry) + h->chunk_room * sizeof *h->chunks;
}
