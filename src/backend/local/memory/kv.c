/* SPDX-License-Identifier: Apache-2.0 */
/* The key-value store in memory. */
#include "backend/local/memory/store_memory.h"

#include <string.h>

#include "backend/kv_bounds.h"
#include "base/containers/sorted.h"
#include "base/mem.h"
#include "core/kvkey.h"
#include "core/limits.h"

static struct span key_of(const struct kept_kv *k)
{
    return span_of(k->key, k->key_len);
}

/* ---- finding keys ---- */

struct place {
    size_t block, item; /* the first key that is not less than the key searched for */
    bool found;
};

/* The last block whose first key is not greater; 0 if there is no such block. */
static size_t block_find(const struct store_memory *m, struct span key)
{
    size_t low =
        SORTED_INDEX(m->kv_block_count, i, span_order(key_of(m->kv_blocks[i]->items[0]), key) <= 0);
    return low > 0 ? low - 1 : 0;
}

static struct place find(const struct store_memory *m, struct span key)
{
    struct place p = {.block = block_find(m, key)};
    if (p.block >= m->kv_block_count)
        return p;
    const struct kv_block *b = m->kv_blocks[p.block];
    size_t low = SORTED_INDEX(b->count, i, span_order(key_of(b->items[i]), key) < 0);
    p.item = low;
    p.found = low < b->count && span_order(key_of(b->items[low]), key) == 0;
    return p;
}

static int block_insert(struct store_memory *m, size_t at)
{
    struct kv_block **grown =
        mem_more(m->kv_blocks, m->kv_block_count, &m->kv_block_room, sizeof *grown);
    if (!grown)
        return -ERR_NOMEM;
    m->kv_blocks = grown;
    struct kv_block *b = mem_zalloc(sizeof *b);
    if (!b)
        return -ERR_NOMEM;
    memmove(&m->kv_blocks[at + 1], &m->kv_blocks[at],
            (m->kv_block_count - at) * sizeof *m->kv_blocks);
    m->kv_blocks[at] = b;
    m->kv_block_count++;
    return 0;
}

/* Moves half of a full block to a new one behind it. */
static int block_split(struct store_memory *m, struct place *p)
{
    int rc = block_insert(m, p->block + 1);
    if (rc != 0)
        return rc;
    struct kv_block *a = m->kv_blocks[p->block], *b = m->kv_blocks[p->block + 1];
    uint32_t half = a->count / 2;
    b->count = a->count - half;
    memcpy(b->items, a->items + half, b->count * sizeof *b->items);
    a->count = half;
    if (p->item > half) {
        p->block++;
        p->item -= half;
    }
    return 0;
}

static int insert(struct store_memory *m, struct place p, struct kept_kv *k)
{
    int rc = 0;
    if (m->kv_block_count == 0)
        rc = block_insert(m, 0);
    else if (m->kv_blocks[p.block]->count == KV_BLOCK)
        rc = block_split(m, &p);
    if (rc != 0)
        return rc;
    struct kv_block *b = m->kv_blocks[p.block];
    memmove(&b->items[p.item + 1], &b->items[p.item], (b->count - p.item) * sizeof *b->items);
    b->items[p.item] = k;
    b->count++;
    return 0;
}

static void kv_free(struct kept_kv *k)
{
    mem_free(k->key);
    mem_free(k->value);
    mem_free(k);
}

static void take_out(struct store_memory *m, struct place p)
{
    struct kv_block *b = m->kv_blocks[p.block];
    kv_free(b->items[p.item]);
    b->count--;
    memmove(&b->items[p.item], &b->items[p.item + 1], (b->count - p.item) * sizeof *b->items);
    if (b->count > 0)
        return;
    mem_free(b);
    m->kv_block_count--;
    memmove(&m->kv_blocks[p.block], &m->kv_blocks[p.block + 1],
            (m->kv_block_count - p.block) * sizeof *m->kv_blocks);
}

void memory_kv_free(struct store_memory *m)
{
    for (size_t b = 0; b < m->kv_block_count; b++) {
        for (uint32_t i = 0; i < m->kv_blocks[b]->count; i++)
            kv_free(m->kv_blocks[b]->items[i]);
        mem_free(m->kv_blocks[b]);
    }
    mem_free(m->kv_blocks);
}

/* ---- records ---- */

static int kv_new(struct store_memory *m, struct place p, struct span key, struct kept_kv **ret)
{
    struct kept_kv *k = mem_zalloc(sizeof *k);
    int rc = k ? bytes_replace(&k->key, key) : -ERR_NOMEM;
    if (rc == 0) {
        k->key_len = (uint32_t)key.len;
        rc = insert(m, p, k);
    }
    if (rc != 0 && k)
        kv_free(k);
    *ret = rc == 0 ? k : NULL;
    return rc;
}

static int kv_set(struct store_memory *m, const struct rec_kv_set *r)
{
    struct place p = find(m, r->key);
    struct kept_kv *k = p.found ? m->kv_blocks[p.block]->items[p.item] : NULL;
    int rc = k ? 0 : kv_new(m, p, r->key, &k);
    if (rc == 0)
        rc = bytes_replace(&k->value, r->value);
    if (rc != 0)
        return rc;
    k->value_len = (uint32_t)r->value.len;
    k->kind = r->kind;
    k->version = r->version;
    k->expires_at = r->expires_at;
    return 0;
}

static int kv_from_job(struct store_memory *m, const struct rec_kv_from_job *r,
                       struct err_note *note)
{
    struct kept_job *k;
    int rc = need_job(m, r->seq, &k, note);
    if (rc != 0)
        return rc;
    if (k->job.payload_bytes != r->bytes || k->job.payload_kind != r->kind)
        return err_note_set(note, -ERR_CORRUPT, "it is not the payload of its job");
    struct rec_kv_set set = {.key = r->key,
                             .version = r->version,
                             .kind = r->kind,
                             .value = span_of(k->payload, r->bytes)};
    return kv_set(m, &set);
}

static int kv_gone(struct store_memory *m, const struct rec_kv_gone *r, struct err_note *note)
{
    struct span list = r->keys, key;
    while (list.len > 0) {
        int rc = record_span_next(&list, &key);
        struct place p = rc == 0 ? find(m, key) : (struct place){0};
        if (!p.found)
            return err_note_set(note, -ERR_CORRUPT, "a record deletes a key that does not exist");
        take_out(m, p);
    }
    return 0;
}

static int kv_keys(struct store_memory *m, const struct rec_kv_keys *r, struct err_note *note)
{
    struct kept_job *k;
    int rc = need_job(m, r->seq, &k, note);
    if (rc == 0 && k->undelivered)
        return err_note_set(note, -ERR_CORRUPT, "a job gets its keys twice");
    if (rc == 0)
        rc = bytes_replace(&k->undelivered, r->keys);
    if (rc == 0)
        k->undelivered_len = (uint32_t)r->keys.len;
    return rc;
}

int memory_kv_apply(struct store_memory *m, const struct record *r, struct err_note *note)
{
    switch ((int)r->kind) {
    case REC_KV_SET:
        return kv_set(m, &r->kv_set);
    case REC_KV_GONE:
        return kv_gone(m, &r->kv_gone, note);
    case REC_KV_FROM_JOB:
        return kv_from_job(m, &r->kv_from_job, note);
    default:
        return kv_keys(m, &r->kv_keys, note);
    }
}

/* ---- loading ---- */

int memory_kv_load(const struct store_memory *m, const struct store_sink *sink)
{
    int rc = 0;
    for (size_t b = 0; b < m->kv_block_count; b++)
        for (uint32_t i = 0; rc == 0 && i < m->kv_blocks[b]->count; i++) {
            const struct kept_kv *k = m->kv_blocks[b]->items[i];
            struct rec_kv_set kv = {.key = key_of(k),
                                    .version = k->version,
                                    .expires_at = k->expires_at,
                                    .kind = k->kind};
            rc = sink->kv(sink->ctx, &kv, k->value_len);
        }
    for (uint32_t h = m->first; h && rc == 0; h = job_at(m, h)->next) {
        const struct kept_job *k = job_at(m, h);
        if (k->undelivered)
            rc = sink->undelivered(sink->ctx, k->job.seq,
                                   span_of(k->undelivered, k->undelivered_len));
    }
    return rc;
}

/* ---- reading ---- */

static int copy(struct arena *arena, struct span from, struct span *ret)
{
    void *to = arena_copy(arena, from.len ? from.at : "", from.len);
    if (!to)
        return -ERR_NOMEM;
    *ret = span_of(to, from.len);
    return 0;
}

static int view_fill(const struct kept_kv *k, bool want_value, struct arena *arena,
                     struct kv_view *ret)
{
    ret->found = true;
    ret->version = k->version;
    ret->expires_at = k->expires_at;
    ret->kind = k->kind;
    ret->has_value = want_value;
    return want_value ? copy(arena, span_of(k->value, k->value_len), &ret->value) : 0;
}

int memory_kv_get(struct store_reader *r, struct kv_view *views, uint32_t count,
                  struct arena *arena)
{
    const struct store_memory *m = memory_of_reader(r);
    int rc = 0;
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        struct place p = find(m, views[i].key);
        views[i] = (struct kv_view){.key = views[i].key};
        if (p.found)
            rc = view_fill(m->kv_blocks[p.block]->items[p.item], true, arena, &views[i]);
    }
    return rc;
}

/* Visits keys in order, in either direction. */
struct walk {
    const struct store_memory *m;
    struct place p;
    bool down;
};

static const struct kept_kv *walk_at(const struct walk *w)
{
    const struct store_memory *m = w->m;
    if (w->p.block >= m->kv_block_count || w->p.item >= m->kv_blocks[w->p.block]->count)
        return NULL;
    return m->kv_blocks[w->p.block]->items[w->p.item];
}

static void walk_on(struct walk *w)
{
    struct place *p = &w->p;
    if (w->down && p->item > 0) {
        p->item--;
    } else if (w->down && p->block > 0) {
        p->block--;
        p->item = w->m->kv_blocks[p->block]->count - 1;
    } else if (w->down) {
        p->block = w->m->kv_block_count; /* past the end */
    } else if (++p->item >= w->m->kv_blocks[p->block]->count) {
        p->block++;
        p->item = 0;
    }
}

/* Upwards: the first key that is not less. Downwards: the last that is less. */
static struct walk walk_from(const struct store_memory *m, struct span key, bool down)
{
    struct walk w = {.m = m, .p = find(m, key), .down = down};
    if (m->kv_block_count == 0)
        return w;
    if (w.p.item >= m->kv_blocks[w.p.block]->count && !down) {
        w.p.block++;
        w.p.item = 0;
    } else if (down) {
        walk_on(&w);
    }
    return w;
}

int memory_kv_list(struct store_reader *r, const struct op_kv_list *query, struct arena *arena,
                   struct kv_view **ret, uint32_t *ret_count, struct span *ret_cursor,
                   uint64_t *ret_as_of)
{
    const struct store_memory *m = memory_of_reader(r);
    struct kv_view *views = arena_array(arena, query->limit, sizeof *views);
    struct kv_bounds bounds;
    int rc = views ? kv_bounds_of(query, arena, &bounds) : -ERR_NOMEM;
    uint32_t count = 0;
    size_t bytes = 0;
    *ret_cursor = (struct span){NULL, 0};
    if (rc != 0)
        return rc;
    struct walk w = walk_from(m, query->reverse ? bounds.end : bounds.low, query->reverse);
    for (const struct kept_kv *k; rc == 0 && (k = walk_at(&w)) != NULL; walk_on(&w)) {
        if (span_order(key_of(k), bounds.low) < 0 || span_order(key_of(k), bounds.end) >= 0)
            break;
        if (k->expires_at.ms && k->expires_at.ms <= query->now.ms)
            continue;
        if (count == query->limit || bytes >= LIMIT_ANSWER_BYTES) {
            *ret_cursor = views[count - 1].key;
            break;
        }
        rc = copy(arena, key_of(k), &views[count].key);
        if (rc == 0)
            rc = view_fill(k, query->want_value, arena, &views[count]);
        bytes += views[count].value.len;
        count++;
    }
    *ret = views;
    *ret_count = count;
    *ret_as_of = m->meta.position;
    return rc;
}
