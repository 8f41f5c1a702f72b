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
#include "base/containers/heap.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

#define OFFSET HEAP_OFFSET
#define CHUNK_BITS 17
#define CHUNK_SLOTS ((size_t)1 << CHUNK_BITS)
#define FIRST_SLOTS ((size_t)64)
#define SMALL_SLOTS ((size_t)8)
#define FIRST_GROWTH                                                                               \
    4 /* the only chunk is copied into one four times its size until it is full size */

#define ALWAYS_INLINE static inline __attribute__((always_inline))

static inline struct heap_entry *slot_at(const struct heap *h, size_t index)
{
    size_t slot = index + OFFSET;
    return &h->chunks[slot >> CHUNK_BITS][slot & (CHUNK_SLOTS - 1)];
}

/* As one number: comparing two is a subtraction with borrow instead of two branches. */
static inline unsigned __int128 key_of(struct heap_entry e)
{
    return (unsigned __int128)e.order << 64 | e.seq;
}

static inline bool before(struct heap_entry a, struct heap_entry b)
{
    return key_of(a) < key_of(b);
}

/* `tell` is a constant where this is inlined: most heaps have no callback, and their loops
 * should not test for one. */
static inline void place(struct heap *h, size_t i, struct heap_entry *slot, struct heap_entry e,
                         bool tell)
{
    *slot = e;
    if (tell)
        h->moved(h->moved_ctx, e, i);
}

void heap_init(struct heap *h)
{
    *h = (struct heap){0};
}

void heap_init_small(struct heap *h)
{
    *h = (struct heap){.small = true};
}

void heap_count_in(struct heap *h, uint64_t *account)
{
    CHECK(h->chunk_room == 0);
    h->account = account;
}

/* The memory of the heap has changed from `before` bytes to what it is now. */
static void resized(struct heap *h, size_t before)
{
    if (h->account)
        *h->account += heap_bytes(h) - before;
}

void heap_done(struct heap *h)
{
    if (h->account)
        *h->account -= heap_bytes(h);
    for (size_t i = 0; i < h->chunk_count; i++)
        mem_free(h->chunks[i]);
    mem_free(h->chunks);
    *h = (struct heap){.account = h->account, .small = h->small};
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
    struct heap_entry *chunk =
        slots == CHUNK_SLOTS ? mem_pages(slots * sizeof *chunk) : mem_lines(slots * sizeof *chunk);
    if (!chunk)
        return -ERR_NOMEM;
    h->chunks[h->chunk_count++] = chunk;
    h->room += slots;
    return 0;
}

/* Servers have many queues with few jobs, so the first chunk begins small. */
static int first_widen(struct heap *h, size_t slots)
{
    struct heap_entry *wide =
        slots == CHUNK_SLOTS ? mem_pages(slots * sizeof *wide) : mem_lines(slots * sizeof *wide);
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
    size_t slots = h->room ? h->room : h->small ? SMALL_SLOTS : FIRST_SLOTS;
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
    size_t need = h->len + OFFSET + more, before = heap_bytes(h);
    int r = 0;
    while (r == 0 && h->room < need)
        r = room_grow(h, need);
    resized(h, before);
    return r;
}

int heap_reserve_more(struct heap *h, size_t more)
{
    int r = room_make(h, more);
    if (r == 0)
        h->promised = h->len + more;
    return r;
}

/* Gives chunks back, but keeps one to spare, and keeps what heap_reserve promised. */
static void room_trim(struct heap *h)
{
    size_t need = h->len > h->promised ? h->len : h->promised, before = heap_bytes(h);
    while (h->chunk_count > 1 && h->room - CHUNK_SLOTS >= need + OFFSET + CHUNK_SLOTS) {
        mem_free(h->chunks[--h->chunk_count]);
        h->room -= CHUNK_SLOTS;
    }
    resized(h, before);
}

/* Lets e rise from the hole at i; gives the index where it came to rest. */
ALWAYS_INLINE size_t rise(struct heap *h, size_t i, struct heap_entry e, bool tell)
{
    struct heap_entry *hole = slot_at(h, i);
    while (i > 0) {
        size_t parent = (i - 1) / 4;
        struct heap_entry *above = slot_at(h, parent);
        if (!before(e, *above))
            break;
        place(h, i, hole, *above, tell);
        hole = above;
        i = parent;
    }
    place(h, i, hole, e, tell);
    return i;
}

static inline size_t least_of_four(const struct heap_entry *e)
{
    unsigned __int128 k0 = key_of(e[0]), k1 = key_of(e[1]), k2 = key_of(e[2]), k3 = key_of(e[3]);
    size_t left = k1 < k0;
    size_t right = 2 + (size_t)(k3 < k2);
    unsigned __int128 left_key = k1 < k0 ? k1 : k0, right_key = k3 < k2 ? k3 : k2;
    return right_key < left_key ? right : left;
}

static inline size_t least_of(const struct heap_entry *e, size_t count)
{
    size_t least = 0;
    for (size_t k = 1; k < count; k++)
        least = before(e[k], e[least]) ? k : least;
    return least;
}

/* The four entries from `child` on. All four groups that the next level may need are neighbours:
 * asking for them before it is known which one hides most of the wait for memory, and a line too
 * many does no harm. */
static inline struct heap_entry *children_at(const struct heap *h, size_t child)
{
    size_t below = 4 * child + 1;
    if (below < h->len) {
        const char *line = (const char *)slot_at(h, below);
        for (size_t i = 0; i < 4; i++)
            mem_ask(line + 64 * i);
    }
    return slot_at(h, child);
}

/* Lets a hole sink to a leaf; gives its index. */
ALWAYS_INLINE size_t sink(struct heap *h, size_t i, bool tell)
{
    struct heap_entry *hole = slot_at(h, i);
    size_t depth = 0;
    for (size_t child = 4 * i + 1; child < h->len; child = 4 * i + 1) {
        struct heap_entry *line = children_at(h, child);
        size_t left = h->len - child;
        size_t least = left >= 4 ? least_of_four(line) : least_of(line, left);
        place(h, i, hole, line[least], tell);
        hole = &line[least];
        i = child + least;
        if (!tell && depth < HEAP_TRAIL)
            h->trail[depth++] = i;
    }
    for (; !tell && depth < HEAP_TRAIL; depth++)
        h->trail[depth] = 0;
    return i;
}

int heap_push(struct heap *h, struct heap_entry e)
{
    if (h->len + OFFSET >= h->room) {
        int r = room_make(h, 1);
        if (r != 0)
            return r;
    }
    if (h->moved)
        rise(h, h->len++, e, true);
    else
        rise(h, h->len++, e, false);
    return 0;
}

bool heap_top(const struct heap *h, struct heap_entry *ret)
{
    if (h->len == 0)
        return false;
    *ret = *slot_at(h, 0);
    return true;
}

/* Fills the hole at i with the last entry, which is no longer counted; gives the index where it
 * came to rest. */
static inline size_t refill(struct heap *h, size_t i)
{
    struct heap_entry last = *slot_at(h, h->len);
    if (i == h->len)
        return i;
    if (h->moved)
        return rise(h, sink(h, i, true), last, true);
    return rise(h, sink(h, i, false), last, false);
}

static inline size_t take_out(struct heap *h, size_t i)
{
    h->len--;
    size_t rest = refill(h, i);
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

bool heap_risen(const struct heap *h, size_t level, struct heap_entry *ret)
{
    CHECK(level >= 1 && level <= HEAP_TRAIL);
    size_t i = h->trail[level - 1];
    if (i == 0 || i >= h->len)
        return false;
    *ret = *slot_at(h, i);
    return true;
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
