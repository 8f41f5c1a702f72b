/* SPDX-License-Identifier: Apache-2.0 */
/* Idempotency keys: hashed, in the order in which they expire, dropped only when they do. */
#include "backend/local/engine/engine_impl.h"

static struct key *key_at(const struct engine *e, uint32_t handle)
{
    return slab_at(&e->keys, handle);
}

int keys_reserve(struct engine *e, size_t keys)
{
    int err = slab_reserve(&e->keys, keys);
    return err ? err : map128_reserve(&e->key_map, keys);
}

struct key *keys_find(const struct engine *e, struct hash128 key)
{
    uint32_t handle = (uint32_t)map128_get(&e->key_map, key);
    return handle ? key_at(e, handle) : NULL;
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
    *key_at(e, handle) = (struct key){
        .key = r->key,
        .fingerprint = r->fingerprint,
        .seq = r->seq,
        .id_hi = r->id_hi,
        .expires_at = r->expires_at,
    };
    key_at(e, handle)->prev = e->key_last;
    if (e->key_last)
        key_at(e, e->key_last)->next = handle;
    else
        e->key_first = handle;
    e->key_last = handle;
    return 0;
}

static void key_drop(struct engine *e, uint32_t handle)
{
    const struct key *k = key_at(e, handle);
    if (k->prev)
        key_at(e, k->prev)->next = k->next;
    else
        e->key_first = k->next;
    if (k->next)
        key_at(e, k->next)->prev = k->prev;
    else
        e->key_last = k->prev;
    map128_drop(&e->key_map, k->key);
    slab_give(&e->keys, handle);
}

int keys_apply_gone(struct engine *e, const struct rec_keys_gone *r)
{
    struct span list = r->keys;
    struct wall_time previous = {0};
    struct record_key gone;
    while (list.len > 0) {
        if (record_key_next(&list, &previous, &gone) != 0)
            return -ERR_CORRUPT;
        uint32_t handle = (uint32_t)map128_get(&e->key_map, gone.key);
        if (!handle || key_at(e, handle)->expires_at.ms != gone.expires_at.ms)
            return -ERR_CORRUPT;
        key_drop(e, handle);
    }
    return 0;
}

/* New keys never expire before older ones (op_enqueue ensures that, even when the wall clock is
 * set back), so the chain is in the order of expiry. */
bool keys_emit_gone(struct engine *e, const struct key *first, size_t count)
{
    struct wall_time previous = {0};
    const struct key *k = first;
    buf_clear(&e->scratch);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            k = key_at(e, k->next);
        struct record_key gone = {k->key, k->expires_at};
        if (record_key_append(&e->scratch, &previous, &gone) != 0)
            return false;
    }
    struct record rec = {
        .kind = REC_KEYS_GONE,
        .keys_gone = {.count = (uint32_t)count, .keys = buf_span(&e->scratch)},
    };
    if (emit_reserve(e, record_bytes_max(&rec)) != 0)
        return false;
    engine_emit(e, &rec);
    return true;
}
