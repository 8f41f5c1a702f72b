/* SPDX-License-Identifier: Apache-2.0 */
/* Idempotency keys: hashed, in the order in which they expire, dropped only when they do. */
#include "backend/local/engine_impl.h"

int keys_reserve(struct engine *e)
{
    int err = slab_reserve(&e->keys, 1);
    return err ? err : map128_reserve(&e->key_map, 1);
}

struct key *keys_find(const struct engine *e, struct hash128 key)
{
    uint32_t handle = (uint32_t)map128_get(&e->key_map, key);
    return handle ? slab_at(&e->keys, handle) : NULL;
}

int keys_apply_new(struct engine *e, const struct rec_key_new *r)
{
    if (map128_get(&e->key_map, r->key))
        return -ERR_CORRUPT;
    uint32_t handle = slab_take(&e->keys);
    if (!handle)
        return -ERR_NOMEM;
    int err = map128_put(&e->key_map, r->key, handle);
    if (err) {
        slab_give(&e->keys, handle);
        return err;
    }
    *(struct key *)slab_at(&e->keys, handle) = (struct key){
        .key = r->key,
        .fingerprint = r->fingerprint,
        .seq = r->seq,
        .id_hi = r->id_hi,
        .expires_at = r->expires_at,
    };
    if (e->key_last)
        ((struct key *)slab_at(&e->keys, e->key_last))->next = handle;
    else
        e->key_first = handle;
    e->key_last = handle;
    return 0;
}

/* New keys never expire before older ones (op_enqueue sees to that, also when wall time goes back),
 * so the chain is in the order of expiry. */
void keys_apply_expired(struct engine *e, struct wall_time upto)
{
    while (e->key_first) {
        uint32_t handle = e->key_first;
        struct key *k = slab_at(&e->keys, handle);
        if (k->expires_at.ms > upto.ms)
            return;
        e->key_first = k->next;
        map128_drop(&e->key_map, k->key);
        slab_give(&e->keys, handle);
    }
    e->key_last = 0;
}
