/* SPDX-License-Identifier: Apache-2.0 */
/* See cache.h. Entries form a list ordered by position; `fresh` is the first that is not applied
 * yet. */
#include "backend/local/payloads/cache.h"

#include "base/check.h"
#include "base/containers/map.h"
#include "base/containers/slab.h"
#include "base/mem.h"
#include "core/jobs/job_texts.h"
#include "core/records/wire.h"

struct body {
    uint64_t seq;
    uint64_t position;
    char *bytes; /* the payload, followed by the rare fields as job_extra_put writes them */
    size_t total;
    uint32_t payload_len;
    uint32_t prev, next;
};

struct cache {
    struct slab slab;
    struct map64 map; /* seq → handle */
    uint64_t bytes, bytes_max;
    uint32_t first, last, fresh;
    uint32_t hand;    /* where the search for bodies to drop continues */
    uint32_t dropped; /* entries dropped while held, linked by next */
    unsigned held;
};

int cache_new(uint64_t bytes_max, struct cache **ret)
{
    struct cache *c = mem_zalloc(sizeof(*c));
    if (!c)
        return -ERR_NOMEM;
    slab_init(&c->slab, sizeof(struct body));
    map64_init(&c->map);
    c->bytes_max = bytes_max;
    *ret = c;
    return 0;
}

static struct body *body_at(const struct cache *c, uint32_t handle)
{
    return slab_at(&c->slab, handle);
}

void cache_free(struct cache *c)
{
    if (!c)
        return;
    for (uint32_t at = c->first; at; at = body_at(c, at)->next)
        mem_free(body_at(c, at)->bytes);
    for (uint32_t at = c->dropped; at; at = body_at(c, at)->next)
        mem_free(body_at(c, at)->bytes);
    slab_done(&c->slab);
    map64_done(&c->map);
    mem_free(c);
}

static void chain_append(struct cache *c, uint32_t handle)
{
    struct body *b = body_at(c, handle);
    b->prev = c->last;
    if (c->last)
        body_at(c, c->last)->next = handle;
    else
        c->first = handle;
    c->last = handle;
    if (!c->fresh)
        c->fresh = handle;
}

static void bury(struct cache *c, uint32_t handle)
{
    mem_free(body_at(c, handle)->bytes);
    slab_give(&c->slab, handle);
}

static void drop(struct cache *c, uint32_t handle)
{
    struct body *b = body_at(c, handle);
    if (c->fresh == handle)
        c->fresh = b->next;
    if (c->hand == handle)
        c->hand = b->next;
    if (b->prev)
        body_at(c, b->prev)->next = b->next;
    else
        c->first = b->next;
    if (b->next)
        body_at(c, b->next)->prev = b->prev;
    else
        c->last = b->prev;
    c->bytes -= b->total + sizeof(*b);
    map64_drop(&c->map, b->seq);
    if (c->held) {
        b->next = c->dropped;
        c->dropped = handle;
    } else {
        bury(c, handle);
    }
}

void cache_hold(struct cache *c)
{
    c->held++;
}

void cache_release(struct cache *c)
{
    if (--c->held > 0)
        return;
    while (c->dropped) {
        uint32_t handle = c->dropped;
        c->dropped = body_at(c, handle)->next;
        bury(c, handle);
    }
}

static char *body_pack(const struct job_extra *extra, struct span payload, size_t *ret_total)
{
    bool has = job_extra_present(extra);
    char *bytes = mem_alloc(payload.len + (has ? job_extra_bytes_max(extra) : 0));
    if (bytes && payload.len > 0)
        memcpy(bytes, payload.at, payload.len);
    *ret_total = payload.len;
    if (!bytes || !has)
        return bytes;
    uint8_t *end = job_extra_put((uint8_t *)bytes + payload.len, extra);
    *ret_total = (size_t)((char *)end - bytes);
    return bytes;
}

void cache_put(struct cache *c, uint64_t seq, uint64_t position, const struct job_extra *extra,
               struct span payload)
{
    size_t total;
    char *bytes = body_pack(extra, payload, &total);
    uint32_t handle = bytes ? slab_take(&c->slab) : 0;
    if (!handle || map64_put(&c->map, seq, handle) != 0) {
        if (handle)
            slab_give(&c->slab, handle);
        mem_free(bytes);
        return;
    }
    struct body *b = body_at(c, handle);
    *b = (struct body){.seq = seq,
                       .position = position,
                       .bytes = bytes,
                       .total = total,
                       .payload_len = (uint32_t)payload.len};
    c->bytes += total + sizeof(*b);
    chain_append(c, handle);
}

bool cache_get(const struct cache *c, uint64_t seq, struct job_extra *extra, struct span *payload)
{
    uint32_t handle = map64_get(&c->map, seq);
    if (!handle)
        return false;
    const struct body *b = body_at(c, handle);
    if (b->total > b->payload_len)
        job_extra_view(span_of(b->bytes + b->payload_len, b->total - b->payload_len), extra);
    else
        *extra = (struct job_extra){.expires_at = {0}};
    *payload = span_of(b->bytes, b->payload_len);
    return true;
}

void cache_drop(struct cache *c, uint64_t seq)
{
    uint32_t handle = map64_get(&c->map, seq);
    if (handle)
        drop(c, handle);
}

/* Examines a few applied bodies and drops those that no claim will need soon. */
static void sweep(struct cache *c, cache_wanted_fn wanted, void *ctx)
{
    for (int looks = 0; looks < 8 && c->bytes > c->bytes_max; looks++) {
        if (!c->hand || c->hand == c->fresh)
            c->hand = c->first;
        uint32_t handle = c->hand;
        if (!handle || handle == c->fresh)
            return;
        c->hand = body_at(c, handle)->next;
        if (!wanted(ctx, body_at(c, handle)->seq))
            drop(c, handle);
    }
}

void cache_applied(struct cache *c, uint64_t position, cache_wanted_fn wanted, void *ctx)
{
    while (c->fresh && body_at(c, c->fresh)->position <= position) {
        uint32_t handle = c->fresh;
        uint64_t seq = body_at(c, handle)->seq;
        c->fresh = body_at(c, handle)->next;
        if (c->bytes > c->bytes_max)
            sweep(c, wanted, ctx);
        if (c->bytes > c->bytes_max && map64_get(&c->map, seq) == handle)
            drop(c, handle);
    }
}

uint64_t cache_bytes(const struct cache *c)
{
    return c->bytes;
}
