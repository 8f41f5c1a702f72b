/* SPDX-License-Identifier: Apache-2.0 */
#include "base/containers/roster.h"

#include <string.h>

#include "base/check.h"
#include "base/containers/sorted.h"
#include "base/mem.h"

#define CHUNK_KEYS 255
#define CHUNK_JOIN (CHUNK_KEYS / 2) /* two neighbours with no more keys become one */
#define SPARE_KEPT 8

struct roster_chunk {
    struct roster_chunk *next; /* while it is spare */
    struct roster_key keys[CHUNK_KEYS];
};

static bool before(struct roster_key a, struct roster_key b)
{
    return a.hi != b.hi ? a.hi < b.hi : a.lo < b.lo;
}

void roster_count_in(struct roster *r, uint64_t *account)
{
    CHECK(r->slot_room == 0 && r->spare_count == 0);
    r->account = account;
}

static void resized(struct roster *r, uint64_t before)
{
    if (r->account)
        *r->account += roster_bytes(r) - before;
}

void roster_done(struct roster *r)
{
    if (r->account)
        *r->account -= roster_bytes(r);
    for (size_t i = 0; i < r->slot_count; i++)
        mem_free(r->slots[i].chunk);
    while (r->spare) {
        struct roster_chunk *next = r->spare->next;
        mem_free(r->spare);
        r->spare = next;
    }
    mem_free(r->slots);
    *r = (struct roster){.account = r->account};
}

static void chunk_give(struct roster *r, struct roster_chunk *c)
{
    if (r->spare_count >= SPARE_KEPT) {
        mem_free(c);
        if (r->account)
            *r->account -= sizeof *c;
        return;
    }
    c->next = r->spare;
    r->spare = c;
    r->spare_count++;
}

static struct roster_chunk *chunk_take(struct roster *r)
{
    struct roster_chunk *c = r->spare;
    CHECK(c);
    r->spare = c->next;
    r->spare_count--;
    return c;
}

static int reserve(struct roster *r, size_t more)
{
    if (r->slot_count + more > r->slot_room) {
        size_t room = (r->slot_count + more) * 2;
        struct roster_slot *grown = mem_regrow(r->slots, room, sizeof *grown);
        if (!grown)
            return -ERR_NOMEM;
        r->slots = grown;
        r->slot_room = room;
    }
    while (r->spare_count < more) {
        struct roster_chunk *c = mem_alloc(sizeof *c);
        if (!c)
            return -ERR_NOMEM;
        c->next = r->spare;
        r->spare = c;
        r->spare_count++;
    }
    return 0;
}

int roster_reserve(struct roster *r, size_t more)
{
    uint64_t before = roster_bytes(r);
    int err = reserve(r, more);
    resized(r, before);
    return err;
}

/* The last slot whose first key is not after this one; 0 when all are. */
static size_t slot_of(const struct roster *r, struct roster_key key)
{
    size_t low = SORTED_INDEX(r->slot_count, i, !before(key, r->slots[i].first));
    return low ? low - 1 : 0;
}

/* Keys of the slot that come before this one. */
static uint32_t index_of(const struct roster_slot *s, struct roster_key key)
{
    return (uint32_t)SORTED_INDEX(s->count, i, before(s->chunk->keys[i], key));
}

/* The counts from this slot on have changed. */
static void sums_spoil(struct roster *r, size_t at)
{
    if (r->summed > at + 1)
        r->summed = at + 1;
}

static void sums_make(struct roster *r)
{
    for (size_t i = r->summed; i < r->slot_count; i++)
        r->slots[i].before = i ? r->slots[i - 1].before + r->slots[i - 1].count : 0;
    r->summed = r->slot_count;
}

static void slot_insert(struct roster *r, size_t at, struct roster_slot slot)
{
    CHECK(r->slot_count < r->slot_room);
    if (r->summed > at)
        r->summed = at;
    memmove(r->slots + at + 1, r->slots + at, (r->slot_count - at) * sizeof *r->slots);
    r->slots[at] = slot;
    r->slot_count++;
}

static void slot_remove(struct roster *r, size_t at)
{
    if (r->summed > at)
        r->summed = at;
    chunk_give(r, r->slots[at].chunk);
    r->slot_count--;
    memmove(r->slots + at, r->slots + at + 1, (r->slot_count - at) * sizeof *r->slots);
}

/* A full chunk is halved; but keys mostly come in order, and then the last stays full and the next
 * begins empty. */
static size_t split(struct roster *r, size_t at, struct roster_key key)
{
    struct roster_slot *s = &r->slots[at];
    uint32_t keep = index_of(s, key) == CHUNK_KEYS ? CHUNK_KEYS : CHUNK_KEYS / 2;
    struct roster_chunk *c = chunk_take(r);
    struct roster_slot fresh = {.first = key, .chunk = c, .count = CHUNK_KEYS - keep};
    memcpy(c->keys, s->chunk->keys + keep, fresh.count * sizeof *c->keys);
    if (fresh.count)
        fresh.first = c->keys[0];
    s->count = keep;
    sums_spoil(r, at);
    bool right = before(fresh.first, key) || fresh.count == 0;
    slot_insert(r, at + 1, fresh);
    return right ? at + 1 : at;
}

void roster_add(struct roster *r, struct roster_key key)
{
    size_t at = slot_of(r, key);
    if (r->slot_count == 0)
        slot_insert(r, 0, (struct roster_slot){.first = key, .chunk = chunk_take(r)});
    else if (r->slots[at].count == CHUNK_KEYS)
        at = split(r, at, key);
    struct roster_slot *s = &r->slots[at];
    uint32_t index = index_of(s, key);
    struct roster_key *to = s->chunk->keys + index;
    CHECK(index == s->count || before(key, *to));
    memmove(to + 1, to, (s->count - index) * sizeof *to);
    *to = key;
    s->count++;
    s->first = s->chunk->keys[0];
    sums_spoil(r, at);
    r->count++;
}

/* With the slot behind it, when both together are small. */
static void join(struct roster *r, size_t at)
{
    if (at + 1 >= r->slot_count)
        return;
    struct roster_slot *a = &r->slots[at], *b = &r->slots[at + 1];
    if (a->count + b->count > CHUNK_JOIN)
        return;
    memcpy(a->chunk->keys + a->count, b->chunk->keys, b->count * sizeof *b->chunk->keys);
    a->count += b->count;
    sums_spoil(r, at);
    slot_remove(r, at + 1);
}

static void slot_cut(struct roster *r, size_t at, uint32_t from, uint32_t to)
{
    struct roster_slot *s = &r->slots[at];
    memmove(s->chunk->keys + from, s->chunk->keys + to, (s->count - to) * sizeof *s->chunk->keys);
    s->count -= to - from;
    r->count -= to - from;
    sums_spoil(r, at);
    if (s->count == 0) {
        slot_remove(r, at);
        return;
    }
    s->first = s->chunk->keys[0];
    join(r, at);
    if (at > 0)
        join(r, at - 1);
}

void roster_remove(struct roster *r, struct roster_key key)
{
    CHECK(roster_has(r, key));
    size_t at = slot_of(r, key);
    uint32_t index = index_of(&r->slots[at], key);
    slot_cut(r, at, index, index + 1);
}

void roster_remove_range(struct roster *r, struct roster_key from, struct roster_key to)
{
    uint64_t left = roster_rank(r, to) - roster_rank(r, from);
    while (left > 0) {
        size_t at = slot_of(r, from);
        uint32_t index = index_of(&r->slots[at], from);
        if (index == r->slots[at].count) {
            at++;
            index = 0;
        }
        uint32_t room = r->slots[at].count - index;
        uint32_t n = left < room ? (uint32_t)left : room;
        slot_cut(r, at, index, index + n);
        left -= n;
    }
}

bool roster_has(const struct roster *r, struct roster_key key)
{
    if (r->slot_count == 0)
        return false;
    const struct roster_slot *s = &r->slots[slot_of(r, key)];
    uint32_t index = index_of(s, key);
    return index < s->count && !before(key, s->chunk->keys[index]);
}

uint64_t roster_rank(struct roster *r, struct roster_key key)
{
    if (r->slot_count == 0)
        return 0;
    sums_make(r);
    const struct roster_slot *s = &r->slots[slot_of(r, key)];
    return s->before + index_of(s, key);
}

struct roster_place roster_seek(struct roster *r, uint64_t rank)
{
    size_t low = 0, high = r->slot_count;
    if (rank >= r->count)
        return (struct roster_place){r->slot_count, 0};
    sums_make(r);
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (r->slots[mid].before <= rank)
            low = mid;
        else
            high = mid;
    }
    return (struct roster_place){low, (uint32_t)(rank - r->slots[low].before)};
}

bool roster_next(const struct roster *r, struct roster_place *place, struct roster_key *ret)
{
    if (place->slot >= r->slot_count)
        return false;
    const struct roster_slot *s = &r->slots[place->slot];
    *ret = s->chunk->keys[place->index];
    if (++place->index == s->count)
        *place = (struct roster_place){place->slot + 1, 0};
    return true;
}

uint64_t roster_bytes(const struct roster *r)
{
    return r->slot_room * sizeof *r->slots +
           (r->slot_count + r->spare_count) * sizeof(struct roster_chunk);
}
