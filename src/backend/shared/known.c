/* SPDX-License-Identifier: Apache-2.0 */
/* What this node remembers of queues between units: whether a name is likely to be one, how full it
 * was, whether its depth was told. Hints that save a question; a unit that trusted a wrong one
 * begins anew. */
#include "backend/shared/shared.h"
#include "base/mem.h"

#define KNOWN_MAX 20000 /* beyond it all are forgotten */

static struct hash128 key_of(const struct shared *s, struct span name)
{
    return hash128_of(s->facts.hash_key, name);
}

struct known *known_find(struct shared *s, struct span name)
{
    uint64_t at = map128_get(&s->known_map, key_of(s, name));
    struct known *k = at ? &s->knowns[at - 1] : NULL;
    return k && k->there ? k : NULL;
}

void knowns_free(struct shared *s)
{
    mem_free(s->knowns);
    map128_done(&s->known_map);
    map128_init(&s->known_map);
    s->knowns = NULL;
    s->known_count = s->known_room = 0;
    s->any_warned = false;
}

static struct known *known_add(struct shared *s, struct span name)
{
    struct hash128 key = key_of(s, name);
    uint64_t at = map128_get(&s->known_map, key);
    if (at)
        return &s->knowns[at - 1];
    if (s->known_count >= KNOWN_MAX)
        knowns_free(s);
    if (s->known_count == s->known_room) {
        size_t room = s->known_room * 2 + 64;
        struct known *grown = mem_regrow(s->knowns, room, sizeof *grown);
        if (!grown)
            return NULL;
        s->knowns = grown;
        s->known_room = room;
    }
    if (map128_put(&s->known_map, key, s->known_count + 1) != 0)
        return NULL;
    s->knowns[s->known_count] = (struct known){.there = false};
    return &s->knowns[s->known_count++];
}

void known_learn(struct shared *s, const struct wqueue *q)
{
    struct known *k = known_add(s, q->name);
    if (!k)
        return;
    if (!k->there || k->number != q->number)
        *k = (struct known){.there = true, .number = q->number};
    k->capacity = q->policy.capacity;
    k->warn_depth = q->policy.warn_depth;
    s->any_warned |= k->warn_depth != 0;
    if (q->counted) {
        k->live = unit_queue_live(q);
        k->counted_ns = clock_ns();
    }
}

void known_forget(struct shared *s, struct span name)
{
    struct known *k = known_find(s, name);
    if (k)
        k->there = false;
}
