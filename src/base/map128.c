/* SPDX-License-Identifier: Apache-2.0 */
/* Keyed hashes to numbers: the keys are random already, so their low bits are the slot. */
#include "base/map.h"

#define MAP map128
#define MAP_KEY struct hash128
#define MAP_VALUE uint64_t
#define map_hash(k) ((size_t)(k).lo)
#define map_same(a, b) hash128_equal((a), (b))

#include "base/map_impl.h"
