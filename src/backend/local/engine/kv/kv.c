/* SPDX-License-Identifier: Apache-2.0 */
/* The key-value store: which keys exist, with which version, and when they expire. Values are in
 * the store.
 *
 * Everything that a commit must decide is in memory, so a check reads no disk. A version is the
 * position of the first record of its commit: it rises with every change of the store, and no
 * key ever has the same version twice, even if it is deleted in between. A key that has expired
 * does not exist for any operation from that moment on; a tick removes it. */
#include "backend/local/engine/engine_impl.h"
#include "ops/kv/kv_check.h"

static bool kv_same(void *engine, uint32_t handle, struct hash128 key)
{
    return hash128_equal(kv_at(engine, handle)->key, key);
}

static void expiry_moved(void *engine, struct heap_entry entry, size_t index)
{
    kv_at(engine, (uint32_t)entry.seq)->place = (uint32_t)index + 1;
}

void kv_init(struct engine *e)
{
    slab_init(&e->kvs, sizeof(struct kv));
    mapref_init(&e->kv_map);
    e->kv_map.same = kv_same;
    e->kv_map.same_ctx = e;
    heap_init(&e->kv_expiries);
    e->kv_expiries.moved = expiry_moved;
    e->kv_expiries.moved_ctx = e;
}

static int free_text(void *ctx, const struct engine *e, const struct kv *k)
{
    (void)ctx, (void)e;
    mem_free(k->text);
    return 0;
}

void kv_done(struct engine *e)
{
    (void)kv_each(e, free_text, NULL);
    kv_texts_drop(e);
    mem_free(e->kv_texts);
    slab_done(&e->kvs);
    mapref_done(&e->kv_map);
    heap_done(&e->kv_expiries);
}

size_t kv_index_bytes(const struct engine *e)
{
    return slab_bytes(&e->kvs) + mapref_bytes(&e->kv_map) + heap_bytes(&e->kv_expiries);
}

int kv_each(const struct engine *e, kv_each_fn fn, void *ctx)
{
    const struct mapref_table *tables[] = {&e->kv_map.now, &e->kv_map.old};
    int err = 0;
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; !err && tables[t]->slots && i <= tables[t]->mask; i++)
            if (tables[t]->slots[i].value)
                err = fn(ctx, e, kv_at(e, tables[t]->slots[i].value));
    return err;
}

struct kv *kv_find(const struct engine *e, struct span key, uint32_t *ret_handle)
{
    uint32_t handle = mapref_get(&e->kv_map, hash128_of(e->hash_key, key));
    if (ret_handle)
        *ret_handle = handle;
    return handle ? kv_at(e, handle) : NULL;
}

static bool expired(const struct engine *e, const struct kv *k)
{
    return k->expires_at.ms && k->expires_at.ms <= e->now.wall.ms && !e->clock_suspect;
}

const struct kv *kv_seen(const struct engine *e, struct span key)
{
    const struct kv *k = kv_find(e, key, NULL);
    return k && !expired(e, k) ? k : NULL;
}

/* ---- room ---- */

int kv_reserve(struct engine *e, size_t fresh)
{
    int err = slab_reserve(&e->kvs, fresh);
    if (!err)
        err = mapref_reserve(&e->kv_map, fresh);
    if (!err)
        err = heap_reserve(&e->kv_expiries, fresh);
    return err;
}

int kv_reserve_bytes(struct engine *e, size_t bytes)
{
    if (e->kv_text_count == e->kv_text_room) {
        size_t room = e->kv_text_room ? e->kv_text_room * 2 : 16;
        char **grown = mem_regrow(e->kv_texts, room, sizeof(*grown));
        if (!grown)
            return -ERR_NOMEM;
        e->kv_texts = grown;
        e->kv_text_room = room;
    }
    char *text = mem_alloc(bytes);
    if (!text)
        return -ERR_NOMEM;
    e->kv_texts[e->kv_text_count++] = text;
    return 0;
}

int kv_reserve_text(struct engine *e, struct span key)
{
    return kv_find(e, key, NULL) ? 0 : kv_reserve_bytes(e, key.len);
}

char *kv_text_take(struct engine *e, size_t bytes)
{
    if (e->kv_text_at == e->kv_text_count)
        return mem_alloc(bytes);
    char *text = e->kv_texts[e->kv_text_at++];
    if (e->kv_text_at == e->kv_text_count)
        e->kv_text_at = e->kv_text_count = 0;
    return text;
}

void kv_texts_drop(struct engine *e)
{
    while (e->kv_text_at < e->kv_text_count)
        mem_free(e->kv_texts[e->kv_text_at++]);
    e->kv_text_at = e->kv_text_count = 0;
}

/* ---- records ---- */

bool valid_kv_expiry(void *engine, struct heap_entry entry)
{
    const struct engine *e = engine;
    const struct kv *k = kv_at(e, (uint32_t)entry.seq);
    return k->text && k->expires_at.ms && heap_order_of(k->expires_at.ms) == entry.order;
}

static struct kv *kv_add(struct engine *e, struct span key, uint32_t *ret_handle)
{
    char *text = kv_text_take(e, key.len);
    uint32_t handle = text ? slab_take(&e->kvs) : 0;
    if (!handle) {
        mem_free(text);
        return NULL;
    }
    struct kv *k = kv_at(e, handle);
    memcpy(text, key.at, key.len);
    *k = (struct kv){.key = hash128_of(e->hash_key, key), .text = text, .len = (uint32_t)key.len};
    if (mapref_put(&e->kv_map, k->key, handle) != 0) {
        k->text = NULL;
        mem_free(text);
        slab_give(&e->kvs, handle);
        return NULL;
    }
    e->kv_bytes += key.len;
    *ret_handle = handle;
    return k;
}

/* The slot of the key becomes free, so its heap entry is removed at once. */
static void disarm(struct engine *e, struct kv *k)
{
    if (k->place)
        heap_remove(&e->kv_expiries, k->place - 1);
    k->place = 0;
}

static void arm(struct engine *e, const struct kv *k, uint32_t handle)
{
    struct heap_entry entry = {heap_order_of(k->expires_at.ms), handle};
    if (k->expires_at.ms)
        CHECK(heap_push(&e->kv_expiries, entry) == 0);
}

int kv_load(struct engine *e, const struct rec_kv_from_job *r, struct wall_time expires_at)
{
    uint32_t handle;
    struct kv *k = kv_find(e, r->key, &handle);
    if (!k)
        k = kv_add(e, r->key, &handle);
    if (!k)
        return -ERR_NOMEM;
    e->kv_bytes += r->bytes;
    e->kv_bytes -= k->bytes;
    k->bytes = r->bytes;
    k->kind = r->kind;
    k->version = r->version;
    if (k->expires_at.ms != expires_at.ms) {
        disarm(e, k);
        k->expires_at = expires_at;
        arm(e, k, handle);
    }
    return 0;
}

/* Room is there: in a step by kv_reserve, in recovery by replay_reserve. */
static int set(struct engine *e, const struct rec_kv_from_job *r, struct wall_time expires_at)
{
    int err = r->version > e->position ? -ERR_CORRUPT : kv_load(e, r, expires_at);
    if (!err)
        kv_find(e, r->key, NULL)->position = e->position;
    return err;
}

int kv_apply_set(struct engine *e, const struct rec_kv_set *r)
{
    struct rec_kv_from_job as = {
        .key = r->key, .version = r->version, .kind = r->kind, .bytes = (uint32_t)r->value.len};
    return set(e, &as, r->expires_at);
}

int kv_apply_from_job(struct engine *e, const struct rec_kv_from_job *r)
{
    if (!jobs_by_seq(e, r->seq, NULL))
        return -ERR_CORRUPT;
    return set(e, r, (struct wall_time){0});
}

int kv_apply_gone(struct engine *e, const struct rec_kv_gone *r)
{
    struct span list = r->keys, key;
    while (list.len > 0) {
        uint32_t handle;
        if (record_span_next(&list, &key) != 0)
            return -ERR_CORRUPT;
        struct kv *k = kv_find(e, key, &handle);
        if (!k)
            return -ERR_CORRUPT;
        e->kv_bytes -= (uint64_t)k->len + k->bytes;
        mapref_drop(&e->kv_map, k->key);
        disarm(e, k);
        mem_free(k->text);
        k->text = NULL;
        slab_give(&e->kvs, handle);
    }
    return 0;
}

/* ---- time ---- */

static bool emit_expired(struct engine *e, const struct kv *k)
{
    buf_clear(&e->scratch);
    if (record_span_append(&e->scratch, span_of(k->text, k->len)) != 0)
        return false;
    struct record rec = {
        .kind = REC_KV_GONE,
        .kv_gone = {.version = e->position + 1, .count = 1, .keys = buf_span(&e->scratch)},
    };
    if (emit_reserve(e, record_bytes_max(&rec)) != 0)
        return false;
    engine_emit(e, &rec);
    return true;
}

size_t tick_kv(struct engine *e, size_t budget)
{
    struct heap_entry top;
    size_t looked = 0;
    for (; looked < budget && !e->clock_suspect && heap_top(&e->kv_expiries, &top); looked++) {
        const struct kv *k = kv_at(e, (uint32_t)top.seq);
        if (!expired(e, k) || !emit_expired(e, k))
            break;
    }
    return looked;
}

/* ---- questions ---- */

void op_kv_get(struct engine *e, const struct op *op)
{
    const struct op_kv_get *want = &op->kv_get;
    struct engine_reply *r = reply_new(e, op);
    const char *note = NULL;
    enum outcome out = kv_keys_right(want->keys, want->count, &note);
    if (out != OUT_OK) {
        refuse(r, out, note);
        return;
    }
    struct kv_view *views =
        arena_array(&e->out->arena, want->count ? want->count : 1, sizeof(*views));
    if (!views) {
        refuse_nomem(r);
        return;
    }
    bool all = true;
    uint64_t after = 0;
    for (uint32_t i = 0; i < want->count; i++) {
        const struct kv *k = kv_seen(e, want->keys[i]);
        views[i].key = want->keys[i];
        all = all && k;
        if (!k)
            continue;
        views[i] = (struct kv_view){.key = want->keys[i],
                                    .found = true,
                                    .version = k->version,
                                    .expires_at = k->expires_at,
                                    .kind = k->kind,
                                    .position = k->position};
        after = k->position > after ? k->position : after;
    }
    if (all) /* else it may be a record under way that took one of them */
        r->after = after;
    r->reply.kvs = r->kv_views = views;
    r->reply.kv_count = want->count;
    r->want_values = want->want_value;
}

void op_kv_list(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    struct op_kv_list *query = arena_copy(&e->out->arena, &op->kv_list, sizeof(op->kv_list));
    if (!query) {
        refuse_nomem(r);
        return;
    }
    if (query->limit == 0 || query->limit > LIMIT_BATCH)
        query->limit = LIMIT_BATCH;
    query->now = e->clock_suspect ? (struct wall_time){0} : e->now.wall;
    r->kv_list = query;
}
