/* SPDX-License-Identifier: Apache-2.0 */
/* Keyed hashes to numbers: the keys are random already, so their low bits are the slot. */
#include "base/containers/map.h"

#define MAP map128
#define MAP_KEY struct hash128
#define MAP_VALUE uint64_t
#define map_hash(k) ((size_t)(k).lo)
#define map_home(slot) ((size_t)(slot)->key.lo)
#define map_same(m, slot, k) hash128_equal((slot)->key, (k))
#define map_keep(slot, k) ((slot)->key = (k))

#include "base/containers/map_impl.h"
