/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/containers has the data structures: maps, heaps, slabs, arenas, lists, histograms. It
 * may use only src/base, and does no I/O.
 *
 * Hash maps that grow in steps: while a table is being replaced every call moves a few slots over,
 * so no single call costs more than a bounded amount (fresh tables come zeroed from the kernel).
 *
 * map128: 128-bit keyed hashes to a non-zero 64-bit value. map64: non-zero 64-bit numbers to a
 * non-zero 32-bit value; the numbers are mixed first. mapref: 128-bit keyed hashes to the non-zero
 * 32-bit handle of a record that has the hash in it, in a third of the memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest/hash.h"
#include "base/err.h"

struct map128_slot {
    struct hash128 key;
    uint64_t value; /* 0 = free */
};
struct map128_table {
    struct map128_slot *slots;
    size_t mask; /* slots - 1 */
    size_t used;
};
struct map128 {
    struct map128_table now, old; /* old.slots is NULL when nothing is being moved */
    size_t moved;                 /* slots of old already emptied */
};

void map128_init(struct map128 *m);
void map128_done(struct map128 *m);
MUST_CHECK int map128_reserve(struct map128 *m, size_t more); /* the next puts cannot fail */
/* Sets or replaces; value must not be 0. */
MUST_CHECK int map128_put(struct map128 *m, struct hash128 key, uint64_t value);
uint64_t map128_get(const struct map128 *m, struct hash128 key); /* 0 = absent */
void map128_drop(struct map128 *m, struct hash128 key);
size_t map128_count(const struct map128 *m);
size_t map128_bytes(const struct map128 *m);

struct map64_slot {
    uint64_t key;
    uint32_t value; /* 0 = free */
};
struct map64_table {
    struct map64_slot *slots;
    size_t mask, used;
};
struct map64 {
    struct map64_table now, old;
    size_t moved;
};

void map64_init(struct map64 *m);
void map64_done(struct map64 *m);
MUST_CHECK int map64_reserve(struct map64 *m, size_t more);
MUST_CHECK int map64_put(struct map64 *m, uint64_t key, uint32_t value);
uint32_t map64_get(const struct map64 *m, uint64_t key);
void map64_ask(const struct map64 *m, uint64_t key); /* mem_ask for the key's slot */
void map64_drop(struct map64 *m, uint64_t key);
size_t map64_count(const struct map64 *m);
size_t map64_bytes(const struct map64 *m);

/* Whether the record behind this handle has this hash. Must not use the map. */
typedef bool (*mapref_same_fn)(void *ctx, uint32_t handle, struct hash128 key);

struct mapref_slot {
    uint32_t tag;   /* part of the hash */
    uint32_t value; /* 0 = free */
};
struct mapref_table {
    struct mapref_slot *slots;
    size_t mask, used;
};
struct mapref {
    mapref_same_fn same; /* set it before the first put */
    void *same_ctx;
    struct mapref_table now, old;
    size_t moved;
};

void mapref_init(struct mapref *m);
void mapref_done(struct mapref *m);
MUST_CHECK int mapref_reserve(struct mapref *m, size_t more);
/* The record must keep the hash as long as the map has the handle. */
MUST_CHECK int mapref_put(struct mapref *m, struct hash128 key, uint32_t handle);
uint32_t mapref_get(const struct mapref *m, struct hash128 key);
void mapref_drop(struct mapref *m, struct hash128 key);
size_t mapref_count(const struct mapref *m);
size_t mapref_bytes(const struct mapref *m);
