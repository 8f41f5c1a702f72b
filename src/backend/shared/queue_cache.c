/* SPDX-License-Identifier: Apache-2.0 */
/* What this node remembers of queues between units: whether a queue of this name is likely to
 * exist, how many live jobs it had, whether its depth was reported. These hints save round trips; a
 * unit that used a wrong one begins again. */
#include "backend/shared/shared.h"
#include "base/mem.h"

#define QUEUE_CACHE_MAX 20000 /* beyond it all are forgotten */

static struct hash128 name_hash(const struct shared *s, struct span name)
{
    return hash128_of(s->facts.hash_key, name);
}

struct cached_queue *queue_cache_find(struct shared *s, struct span name)
{
    uint64_t at = map128_get(&s->queue_cache_map, name_hash(s, name));
    struct cached_queue *k = at ? &s->queue_cache[at - 1] : NULL;
    return k && k->there ? k : NULL;
}

void queue_cache_free(struct shared *s)
{
    mem_free(s->queue_cache);
    map128_done(&s->queue_cache_map);
    map128_init(&s->queue_cache_map);
    s->queue_cache = NULL;
    s->queue_cache_count = s->queue_cache_room = 0;
    s->any_warned = false;
}

static struct cached_queue *queue_cache_add(struct shared *s, struct span name)
{
    struct hash128 key = name_hash(s, name);
    uint64_t at = map128_get(&s->queue_cache_map, key);
    if (at)
        return &s->queue_cache[at - 1];
    if (s->queue_cache_count >= QUEUE_CACHE_MAX)
        queue_cache_free(s);
    if (s->queue_cache_count == s->queue_cache_room) {
        size_t room = s->queue_cache_room * 2 + 64;
        struct cached_queue *grown = mem_regrow(s->queue_cache, room, sizeof *grown);
        if (!grown)
            return NULL;
        s->queue_cache = grown;
        s->queue_cache_room = room;
    }
    if (map128_put(&s->queue_cache_map, key, s->queue_cache_count + 1) != 0)
        return NULL;
    s->queue_cache[s->queue_cache_count] = (struct cached_queue){.there = false};
    return &s->queue_cache[s->queue_cache_count++];
}

void queue_cache_learn(struct shared *s, const struct wqueue *q)
{
    struct cached_queue *k = queue_cache_add(s, q->name);
    if (!k)
        return;
    if (!k->there || k->number != q->number)
        *k = (struct cached_queue){.there = true, .number = q->number};
    k->capacity = q->policy.capacity;
    k->warn_depth = q->policy.warn_depth;
    k->limited = claim_limited(&q->policy);
    k->ordered = claim_ordered(&q->policy);
    s->any_warned |= k->warn_depth != 0;
    if (q->counted) {
        k->live = unit_queue_live(q);
        k->counted_ns = clock_ns();
    }
}

void queue_cache_forget(struct shared *s, struct span name)
{
    struct cached_queue *k = queue_cache_find(s, name);
    if (k)
        k->there = false;
}
