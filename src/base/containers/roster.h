/* SPDX-License-Identifier: Apache-2.0 */
/* A sorted set of keys that knows the place of each: which is the n-th, how many come before.
 *
 * Keys lie in chunks of up to 255, found through a sorted table with the first key, the count and
 * the sum of the counts of each. Adding and removing moves at most one chunk's keys, and leaves the
 * sums behind it to be added up by the next question about places: microseconds for the six
 * thousand chunks of a million keys, after which each question takes two searches. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct roster_key {
    uint64_t hi, lo; /* by hi, then lo */
};

struct roster_chunk;
struct roster_slot {
    struct roster_key first;
    struct roster_chunk *chunk;
    uint32_t count;  /* ≥ 1 */
    uint64_t before; /* keys in the slots before it; see roster.summed */
};

/* One that is all zero is empty. */
struct roster {
    struct roster_slot *slots;
    size_t slot_count, slot_room;
    size_t summed;              /* slots whose `before` is right */
    struct roster_chunk *spare; /* a chain of unused chunks */
    size_t spare_count;
    uint64_t count;
    uint64_t *account; /* has roster_bytes of this roster added to it; NULL = nothing is counted */
};

/* Stands on a key, or past the last. Any change of the roster spoils it. */
struct roster_place {
    size_t slot;
    uint32_t index;
};

/* Frees the memory; the roster is empty and still counted in the same sum. */
void roster_done(struct roster *r);
/* As heap_count_in. */
void roster_count_in(struct roster *r, uint64_t *account);
/* After this, `more` keys can be added without memory. */
MUST_CHECK int roster_reserve(struct roster *r, size_t more);
/* Room must be there; a key that is there already is a programmer error. */
void roster_add(struct roster *r, struct roster_key key);
/* The key must be there. */
void roster_remove(struct roster *r, struct roster_key key);
/* Removes every key from `from` on and before `to`. */
void roster_remove_range(struct roster *r, struct roster_key from, struct roster_key to);
bool roster_has(const struct roster *r, struct roster_key key);
/* How many keys come before this one, which need not be there. */
uint64_t roster_rank(struct roster *r, struct roster_key key);
struct roster_place roster_seek(struct roster *r, uint64_t rank);
/* The key of the place, and moves on; false past the last. */
bool roster_next(const struct roster *r, struct roster_place *place, struct roster_key *ret);
uint64_t roster_bytes(const struct roster *r);
