/* SPDX-License-Identifier: Apache-2.0 */
/* The algorithm of all maps, written once. The including file defines
 *   MAP                 the prefix: map128, map64 or mapref
 *   MAP_KEY             type of a key
 *   MAP_VALUE           type of a value
 *   map_hash(k)         a well mixed size_t
 *   map_home(slot)      the same of the key in a slot, at least its low bits
 *   map_same(m,slot,k)  whether the slot has this key
 *   map_keep(slot,k)    puts into the slot what it keeps of the key
 *
 * A table is open-addressed with linear probing, at most 11/16 full. A run of used slots between
 * two free ones is called a cluster; a key lies in the cluster that its home slot belongs to.
 *
 * To grow, `now` becomes `old`, a fresh table twice as large becomes `now`, and every put and drop
 * moves a few slots from old to now, in slot order. Two rules keep both searchable meanwhile:
 *   1. Only whole clusters are moved. So no cluster ever lies across the border at `moved`: below
 *      it old is empty, above it every search still finds its key.
 *   2. The move begins with the cluster at slot 0, which holds everything that had wrapped round
 *      the end. So the border can walk from slot 0 to the end, and slot 0, being empty, ends
 *      whatever runs over the end of old.
 * Searching old, and shifting back in it, therefore need to know nothing of the move. A key is in
 * one of the tables, never in both: new keys go to now, known ones are replaced where they are.
 *
 * A move takes slots/8 calls, while the fresh table has room for 11/16 × slots more keys: it is
 * over long before the next can begin. Only a large map*_reserve may have to finish one at once. */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "base/containers/map.h"
#include "base/mem.h"

#define MAP_PASTE_(a, b) a##b
#define MAP_PASTE(a, b) MAP_PASTE_(a, b)
#define MAP_FN(name) MAP_PASTE(MAP, _##name)
#define MAP_TABLE struct MAP_FN(table)
#define MAP_SLOT struct MAP_FN(slot)

#define SLOTS_MIN ((size_t)16)
#define STEPS ((size_t)8) /* slots moved by a call, and then to the end of the cluster */

static size_t table_slots(const MAP_TABLE *t)
{
    return t->slots ? t->mask + 1 : 0;
}

static size_t slots_limit(size_t slots)
{
    return slots / 16 * 11;
}

static void table_free(MAP_TABLE *t)
{
    mem_free(t->slots);
    *t = (MAP_TABLE){0};
}

/* Where the key is, or the free slot that ends the search. */
static inline size_t table_find(const struct MAP *m, const MAP_TABLE *t, MAP_KEY key)
{
    (void)m;
    size_t i = map_hash(key) & t->mask;
    while (t->slots[i].value != 0 && !map_same(m, &t->slots[i], key))
        i = (i + 1) & t->mask;
    return i;
}

/* Its key must not be there. */
static inline void table_insert(MAP_TABLE *t, MAP_SLOT slot)
{
    size_t i = map_home(&slot) & t->mask;
    while (t->slots[i].value != 0)
        i = (i + 1) & t->mask;
    t->slots[i] = slot;
    t->used++;
}

/* Takes a slot out and moves back what lies behind it in its cluster, as far as each key's home
 * allows, so that no search meets a gap. */
static void table_take_out(MAP_TABLE *t, size_t hole)
{
    for (size_t i = (hole + 1) & t->mask; t->slots[i].value != 0; i = (i + 1) & t->mask) {
        size_t home = map_home(&t->slots[i]) & t->mask;
        if (((i - home) & t->mask) < ((i - hole) & t->mask))
            continue; /* its home lies behind the hole */
        t->slots[hole] = t->slots[i];
        hole = i;
    }
    t->slots[hole].value = 0;
    t->used--;
}

static inline void move_slot(struct MAP *m, size_t i)
{
    MAP_SLOT *from = &m->old.slots[i];
    table_insert(&m->now, *from);
    from->value = 0;
    m->old.used--;
}

/* Whatever keys old still has lie at or above `moved`, so the loop ends before the table does. */
static void move_on(struct MAP *m, size_t steps)
{
    size_t at = m->moved;
    while (m->old.used > 0 && (steps > 0 || m->old.slots[at].value != 0)) {
        if (m->old.slots[at].value != 0)
            move_slot(m, at);
        at++;
        steps -= steps > 0;
    }
    m->moved = at;
    if (m->old.used == 0)
        table_free(&m->old);
}

static void move_begin(struct MAP *m, MAP_TABLE fresh)
{
    m->old = m->now;
    m->now = fresh;
    m->moved = 0;
    if (m->old.slots)
        move_on(m, 1);
}

void MAP_FN(init)(struct MAP *m)
{
    *m = (struct MAP){0};
}

void MAP_FN(done)(struct MAP *m)
{
    table_free(&m->now);
    table_free(&m->old);
    m->moved = 0;
}

size_t MAP_FN(count)(const struct MAP *m)
{
    return m->now.used + m->old.used;
}

size_t MAP_FN(bytes)(const struct MAP *m)
{
    return (table_slots(&m->now) + table_slots(&m->old)) * sizeof(MAP_SLOT);
}

/* Since the keys of both tables count against the limit of now, a put never needs another table
 * once this has succeeded. */
int MAP_FN(reserve)(struct MAP *m, size_t more)
{
    size_t slots = table_slots(&m->now);
    size_t count = MAP_FN(count)(m);
    if (more <= slots_limit(slots) && count <= slots_limit(slots) - more)
        return 0;
    if (more > SIZE_MAX / sizeof(MAP_SLOT) / 4 - count)
        return -ERR_NOMEM;
    slots = slots ? slots : SLOTS_MIN;
    while (slots_limit(slots) < count + more)
        slots *= 2;
    MAP_TABLE fresh = {mem_pages(slots * sizeof(MAP_SLOT)), slots - 1, 0};
    if (!fresh.slots)
        return -ERR_NOMEM;
    if (m->old.slots)
        move_on(m, SIZE_MAX);
    move_begin(m, fresh);
    return 0;
}

/* In which table the key is, and where; NULL when it is in neither. */
static inline const MAP_TABLE *find(const struct MAP *m, MAP_KEY key, size_t *ret)
{
    if (!m->now.slots)
        return NULL;
    *ret = table_find(m, &m->now, key);
    if (m->now.slots[*ret].value != 0)
        return &m->now;
    if (!m->old.slots || (map_hash(key) & m->old.mask) < m->moved)
        return NULL;
    *ret = table_find(m, &m->old, key);
    return m->old.slots[*ret].value != 0 ? &m->old : NULL;
}

int MAP_FN(put)(struct MAP *m, MAP_KEY key, MAP_VALUE value)
{
    CHECK(value != 0);
    size_t i;
    if (m->old.slots)
        move_on(m, STEPS);
    const MAP_TABLE *t = find(m, key, &i);
    if (t) {
        t->slots[i].value = value;
        return 0;
    }
    int r = MAP_FN(reserve)(m, 1);
    if (r != 0)
        return r;
    MAP_SLOT slot = {.value = value};
    map_keep(&slot, key);
    table_insert(&m->now, slot);
    return 0;
}

MAP_VALUE MAP_FN(get)(const struct MAP *m, MAP_KEY key)
{
    size_t i;
    const MAP_TABLE *t = find(m, key, &i);
    return t ? t->slots[i].value : 0;
}

void MAP_FN(drop)(struct MAP *m, MAP_KEY key)
{
    size_t i;
    if (m->old.slots)
        move_on(m, STEPS);
    const MAP_TABLE *t = find(m, key, &i);
    if (!t)
        return;
    table_take_out(t == &m->now ? &m->now : &m->old, i);
    if (m->old.slots && m->old.used == 0)
        table_free(&m->old);
}
