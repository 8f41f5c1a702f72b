/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers to numbers. The keys are often dense or stepped, so they are mixed first. */
#include "base/containers/map.h"

/* Each step can be undone, so different keys stay different. */
static inline size_t mixed(uint64_t k)
{
    k = (k ^ (k >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    k = (k ^ (k >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return (size_t)(k ^ (k >> 32));
}

#define MAP map64
#define MAP_KEY uint64_t
#define MAP_VALUE uint32_t
#define map_hash(k) mixed(k)
#define map_home(slot) mixed((slot)->key)
#define map_same(m, slot, k) ((slot)->key == (k))
#define map_keep(slot, k) ((slot)->key = (k))

#include "base/containers/map_impl.h"

void map64_ask(const struct map64 *m, uint64_t key)
{
    if (m->now.slots)
        mem_ask(&m->now.slots[mixed(key) & m->now.mask]);
}
