/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of one request: allocated piece by piece, given back all at once.
 *
 * arena_reset keeps up to ARENA_KEEP_BYTES of chunks, so that a steady state allocates nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/span.h"

#define ARENA_KEEP_BYTES ((size_t)1 << 20)

struct arena_chunk;
struct arena {
    struct arena_chunk *first;
    struct arena_chunk *current;
    size_t used; /* bytes of current handed out */
};

void arena_init(struct arena *a);
void arena_done(struct arena *a);
void arena_reset(struct arena *a);
size_t arena_bytes(const struct arena *a);       /* of all chunks */
void *arena_alloc(struct arena *a, size_t size); /* 16-byte aligned, uninitialised, or NULL */
void *arena_array(struct arena *a, size_t count, size_t size); /* zero-filled, overflow checked */
void *arena_copy(struct arena *a, const void *from, size_t size);
char *arena_text(struct arena *a, struct span s); /* NUL-terminated copy */
/* Replaces *s with a copy in the arena; an empty span stays as it is. false = no memory. */
MUST_CHECK bool arena_keep(struct arena *a, struct span *s);
