/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the simulator itself: pieces that live as long as one seed, and growing arrays.
 *
 * It does not use base/mem.h, whose allocations the simulator makes fail on purpose. Running out of
 * memory ends the program. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct pool_chunk;
struct pool {
    struct pool_chunk *first; /* the newest; NULL until the first piece */
};

void pool_init(struct pool *p);
void pool_done(struct pool *p);
void *pool_alloc(struct pool *p, size_t size); /* zero-filled, 16-byte aligned */
void *pool_copy(struct pool *p, const void *from, size_t size);
struct span pool_span(struct pool *p, struct span s); /* a copy */
struct span pool_text(struct pool *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Room for `need` items in an array that came from here (or NULL); new items are zero. */
void *vec_room(void *items, size_t *room, size_t need, size_t item_bytes);
void vec_free(void *items); /* NULL allowed */

/* FNV-1a over more bytes, for trace hashes. */
#define TRACE_HASH_START UINT64_C(14695981039346656037)
uint64_t trace_hash(uint64_t hash, const void *bytes, size_t len);
uint64_t trace_hash_number(uint64_t hash, uint64_t number);
