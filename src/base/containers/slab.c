/* SPDX-License-Identifier: Apache-2.0 */
/* Records behind handles. A handle's high bits name the chunk, the low ones the place in it.
 *
 * Freed records form a chain through their first four bytes and are used again last-in first-out,
 * while they are still in the cache; they are zeroed when taken, not when given. Under
 * AddressSanitizer the rest of a freed record is poisoned. */
#include "base/containers/slab.h"

#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/poison.h"

#define CHUNK_BYTES ((size_t)2 << 20)
#define LOT_MAX 16
#define SHIFT_MAX 18 /* of eight-byte items */
#define HANDLES ((size_t)1 << 32)

#ifdef HF_TEST_HOOKS
static _Thread_local size_t chunk_bytes = CHUNK_BYTES;

void slab_chunks_of(size_t bytes)
{
    chunk_bytes = bytes ? bytes : CHUNK_BYTES;
}
#else
static const size_t chunk_bytes = CHUNK_BYTES;
#endif

/* The power of two of items whose size is nearest to chunk_bytes. */
static unsigned shift_for(size_t item_size)
{
    unsigned shift = 0;
    while (shift < SHIFT_MAX && (item_size << shift) + (item_size << (shift + 1)) < 2 * chunk_bytes)
        shift++;
    return shift;
}

/* As many chunks as fill huge pages to the last byte: what lies on small ones is slow to
 * reach once there are millions of records. */
static unsigned lot_for(size_t bytes)
{
    unsigned lot = 1;
    while (lot < LOT_MAX && (lot * bytes) % CHUNK_BYTES != 0)
        lot *= 2;
    return bytes >= CHUNK_BYTES / 2 ? lot : 1;
}

void slab_init(struct slab *s, size_t item_size)
{
    CHECK(item_size > 0 && item_size <= CHUNK_BYTES);
    item_size = (item_size + 3) & ~(size_t)3; /* a size is a multiple of its alignment */
    unsigned shift = shift_for(item_size);
    *s = (struct slab){
        .item_size = item_size, .shift = shift, .lot = lot_for(item_size << shift), .next = 1};
}

/* Whether an allocation begins with this chunk. */
static bool lot_begins(const struct slab *s, size_t chunk)
{
    return chunk == 0 || (chunk - 1) % s->lot == 0;
}

void slab_done(struct slab *s)
{
    for (size_t i = 0; i < s->chunk_count; i++)
        UNPOISON(s->chunks[i], s->item_size << s->shift);
    for (size_t i = 0; i < s->chunk_count; i++)
        if (lot_begins(s, i))
            mem_free(s->chunks[i]);
    mem_free(s->chunks);
    slab_init(s, s->item_size);
}

static int room_for_pointer(struct slab *s)
{
    if (s->chunk_count < s->chunk_room)
        return 0;
    size_t room = s->chunk_room ? s->chunk_room * 2 : 8;
    char **chunks = mem_regrow(s->chunks, room, sizeof *chunks);
    if (!chunks)
        return -ERR_NOMEM;
    s->chunks = chunks;
    s->chunk_room = room;
    return 0;
}

/* The first chunk takes small pages, so that a slab of three records costs little memory. */
static int chunk_add(struct slab *s)
{
    size_t bytes = s->item_size << s->shift;
    if (s->chunk_count >= HANDLES >> s->shift || room_for_pointer(s) != 0)
        return -ERR_NOMEM;
    char *chunk;
    if (s->chunk_count == 0)
        chunk = mem_lines(bytes);
    else if (lot_begins(s, s->chunk_count))
        chunk = mem_pages(s->lot * bytes);
    else
        chunk = s->chunks[s->chunk_count - 1] + bytes;
    if (!chunk)
        return -ERR_NOMEM;
    s->chunks[s->chunk_count++] = chunk;
    return 0;
}

/* Handles never handed out for which memory is there. Once the very last one is out, `next` has
 * wrapped to zero. */
static size_t untouched(const struct slab *s)
{
    size_t next = s->next ? s->next : HANDLES;
    size_t end = s->chunk_count << s->shift;
    return end > next ? end - next : 0;
}

int slab_reserve_more(struct slab *s, size_t more)
{
    while (s->free_count + untouched(s) < more) {
        int r = chunk_add(s);
        if (r != 0)
            return r;
    }
    return 0;
}

static uint32_t take_freed(struct slab *s)
{
    uint32_t handle = s->free_head;
    char *item = slab_at(s, handle);
    memcpy(&s->free_head, item, sizeof s->free_head);
    UNPOISON(item, s->item_size);
    memset(item, 0, s->item_size);
    s->free_count--;
    s->used++;
    return handle;
}

uint32_t slab_take(struct slab *s)
{
    if (s->free_count > 0)
        return take_freed(s);
    if (untouched(s) == 0 && chunk_add(s) != 0)
        return 0;
    s->used++;
    return s->next++;
}

void slab_give(struct slab *s, uint32_t handle)
{
    CHECK(handle != 0 && handle >> s->shift < s->chunk_count && s->used > 0);
    char *item = slab_at(s, handle);
    memcpy(item, &s->free_head, sizeof s->free_head);
    POISON(item + sizeof s->free_head, s->item_size - sizeof s->free_head);
    s->free_head = handle;
    s->free_count++;
    s->used--;
}

/* Of the first chunk, which lies on small pages, only what was ever handed out is in memory. */
size_t slab_bytes(const struct slab *s)
{
    size_t bytes = s->chunk_count * (s->item_size << s->shift);
    size_t touched = s->next * s->item_size;
    return (s->chunk_count == 1 ? touched : bytes) + s->chunk_room * sizeof *s->chunks;
}
