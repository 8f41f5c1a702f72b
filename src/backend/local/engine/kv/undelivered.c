/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads that are kept when their job dies: a job may name keys of the key-value store to which
 * its payload is copied when it becomes dead for any reason. The record of this names the job and
 * the key; the store copies the payload when it applies the record. The limits of the key-value
 * store do not apply here, because no client is left that could get the refusal. */
#include "backend/local/engine/engine_impl.h"

static struct undelivered *at(const struct engine *e, uint32_t handle)
{
    return slab_at(&e->undelivered, handle);
}

void undelivered_init(struct engine *e)
{
    slab_init(&e->undelivered, sizeof(struct undelivered));
    map64_init(&e->undelivered_map);
}

void undelivered_done(struct engine *e)
{
    const struct map64_table *tables[] = {&e->undelivered_map.now, &e->undelivered_map.old};
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; tables[t]->slots && i <= tables[t]->mask; i++)
            if (tables[t]->slots[i].value)
                mem_free(at(e, tables[t]->slots[i].value)->keys);
    slab_done(&e->undelivered);
    map64_done(&e->undelivered_map);
}

int undelivered_reserve(struct engine *e, size_t jobs)
{
    int err = slab_reserve(&e->undelivered, jobs);
    return err ? err : map64_reserve(&e->undelivered_map, jobs);
}

int undelivered_apply(struct engine *e, uint64_t seq, struct span keys)
{
    if (map64_get(&e->undelivered_map, seq))
        return -ERR_CORRUPT;
    char *copy = kv_text_take(e, keys.len);
    uint32_t handle = copy ? slab_take(&e->undelivered) : 0;
    if (!handle || map64_put(&e->undelivered_map, seq, handle) != 0) {
        if (handle)
            slab_give(&e->undelivered, handle);
        mem_free(copy);
        return -ERR_NOMEM;
    }
    memcpy(copy, keys.at, keys.len);
    *at(e, handle) = (struct undelivered){.seq = seq, .keys = copy, .len = (uint32_t)keys.len};
    return 0;
}

struct span undelivered_of(const struct engine *e, uint64_t seq)
{
    uint32_t handle = map64_get(&e->undelivered_map, seq);
    return handle ? span_of(at(e, handle)->keys, at(e, handle)->len) : (struct span){NULL, 0};
}

void undelivered_gone(struct engine *e, uint64_t seq)
{
    uint32_t handle = map64_get(&e->undelivered_map, seq);
    if (!handle)
        return;
    mem_free(at(e, handle)->keys);
    map64_drop(&e->undelivered_map, seq);
    slab_give(&e->undelivered, handle);
}
