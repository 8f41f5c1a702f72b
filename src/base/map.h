/* SPDX-License-Identifier: Apache-2.0 */
/* Hash maps that grow in steps: while a table is being replaced every call moves a few slots over,
 * so no single call costs more than a bounded amount (fresh tables come zeroed from the kernel).
 *
 * map128: 128-bit keyed hashes to a non-zero 64-bit value. map64: non-zero 64-bit numbers to a
 * non-zero 32-bit value; the numbers are mixed first. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"

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
void map64_drop(struct map64 *m, uint64_t key);
size_t map64_count(const struct map64 *m);
size_t map64_bytes(const struct map64 *m);
