/* SPDX-License-Identifier: Apache-2.0 */
/* Equal-sized records behind 32-bit handles. Handle 0 is "none". Records never move; memory is
 * taken in chunks of about 2 MiB and kept for reuse. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct slab {
    char **chunks;
    size_t chunk_count, chunk_room;
    size_t item_size;   /* rounded up to 4 */
    unsigned shift;     /* items a chunk = 1 << shift */
    unsigned lot;       /* chunks after the first that share an allocation */
    uint32_t next;      /* lowest handle never handed out */
    uint32_t free_head; /* chain of freed handles through their first four bytes */
    size_t free_count;
    size_t used;
};

void slab_init(struct slab *s, size_t item_size);
void slab_done(struct slab *s);
MUST_CHECK int slab_reserve_more(struct slab *s, size_t more); /* for slab_reserve only */
/* The next `more` takes cannot fail. As heap_reserve, it makes no call if there is room already. */
MUST_CHECK __attribute__((always_inline)) static inline int slab_reserve(struct slab *s,
                                                                         size_t more)
{
    bool untouched = s->next && s->next + more <= s->chunk_count << s->shift;
    return s->free_count >= more || untouched ? 0 : slab_reserve_more(s, more);
}
uint32_t slab_take(struct slab *s); /* zero-filled; 0 when out of memory */
void slab_give(struct slab *s, uint32_t handle);
size_t slab_bytes(const struct slab *s);
#ifdef HF_TEST_HOOKS
/* Slabs that this thread creates from now on take chunks of about this many bytes, so that a
 * simulation which starts thousands of engines does not spend its time on fresh pages; 0 = as
 * usual. */
void slab_chunks_of(size_t bytes);
#endif

static inline void *slab_at(const struct slab *s, uint32_t handle)
{
    return s->chunks[handle >> s->shift] + (size_t)(handle & ((1u << s->shift) - 1)) * s->item_size;
}
