/* SPDX-License-Identifier: Apache-2.0 */
/* Sequence → handle, in two levels: a map of pages of 64 neighbouring sequences. Dense sequences
 * cost about four bytes each; a sequence without neighbours costs one page. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/containers/map.h"
#include "base/containers/slab.h"
#include "base/err.h"

struct seqdir {
    struct map64 pages; /* (seq >> 6) + 1 → page handle */
    struct slab slab;   /* struct seqdir_page */
    size_t count;
};

void seqdir_init(struct seqdir *d);
void seqdir_done(struct seqdir *d);
MUST_CHECK int seqdir_reserve(struct seqdir *d, size_t more); /* the next puts cannot fail */
MUST_CHECK int seqdir_put(struct seqdir *d, uint64_t seq, uint32_t handle); /* handle != 0 */
uint32_t seqdir_get(const struct seqdir *d, uint64_t seq);                  /* 0 = absent */
/* Ask the memory for what seqdir_get(seq) will touch: first for the place in the map; when that has
 * had time to arrive, for the place in the page. */
void seqdir_ask_map(const struct seqdir *d, uint64_t seq);
void seqdir_ask_page(const struct seqdir *d, uint64_t seq);
void seqdir_drop(struct seqdir *d, uint64_t seq);
size_t seqdir_bytes(const struct seqdir *d);
