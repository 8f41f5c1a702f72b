/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/digest has hashes, checksums, signatures, base64 and random numbers. It may use
 * src/base, OpenSSL and, for seeds, the random numbers of the system.
 *
 * Keyed 128-bit hashes for texts that outsiders choose (SipHash-2-4-128), and CRC32C for records.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

struct hash128 {
    uint64_t hi, lo; /* both zero means "none"; hash128_of never returns that */
};

struct hash_key {
    uint64_t k0, k1;
};

struct hash128 hash128_of(struct hash_key key, struct span text);
/* As above over a number and a text, e.g. (queue, unique key). */
struct hash128 hash128_scoped(struct hash_key key, uint64_t scope, struct span text);

static inline bool hash128_equal(struct hash128 a, struct hash128 b)
{
    return a.hi == b.hi && a.lo == b.lo;
}

static inline bool hash128_none(struct hash128 h)
{
    return (h.hi | h.lo) == 0;
}

/* Castagnoli; crc is 0 or the value of the bytes before. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t len);
