/* SPDX-License-Identifier: Apache-2.0 */
/* Keyed hashes to the handles of records that keep the hash: a slot has room for a quarter of it.
 * The quarter gives the slot of any table there can be (a handle has as many bits) and turns away
 * nearly all strangers, so that records are seldom looked at in vain. */
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
