/* SPDX-License-Identifier: Apache-2.0 */
/* Maps keyed hashes to the handles of the records that contain the whole hash. A slot stores only a
 * quarter of the hash. The quarter has as many bits as a handle, so it determines the slot in a
 * table of any size. It also differs for nearly all other keys, so a lookup rarely reads a record
 * that does not match. */
#include "base/containers/map.h"

static inline bool same(const struct mapref *m, const struct mapref_slot *slot, struct hash128 key)
{
    return slot->tag == (uint32_t)key.lo && m->same(m->same_ctx, slot->value, key);
}

#define MAP mapref
#define MAP_KEY struct hash128
#define MAP_VALUE uint32_t
#define map_hash(k) ((size_t)(uint32_t)(k).lo)
#define map_home(slot) ((size_t)(slot)->tag)
#define map_same(m, slot, k) same((m), (slot), (k))
#define map_keep(slot, k) ((slot)->tag = (uint32_t)(k).lo)

#include "base/containers/map_impl.h"
