/* SPDX-License-Identifier: Apache-2.0 */
/* Walking an object of ours, each name at most once.
 *
 * Few names are compared one by one. Many go into a hash table with its own key, so that a
 * body with a hundred thousand names costs time in proportion to its length, whatever the names
 * are. */
#include "base/check.h"
#include "base/digest/hash.h"
#include "base/digest/random.h"
#include "base/json/json_private.h"

#define NAMES_FEW 16

struct names {
    struct arena *arena;
    struct span *list;
    size_t count, room;
    uint32_t *table; /* index into list plus one, 0 = free; NULL while there are few names */
    size_t mask;     /* slots of table - 1; there are twice as many slots as room in the list */
    struct hash_key key;
};

/* The slot of the table where the name is, or would be. */
static uint32_t *names_slot(const struct names *n, struct span name)
{
    size_t i = (size_t)hash128_of(n->key, name).lo & n->mask;
    while (n->table[i] != 0 && !span_equal(n->list[n->table[i] - 1], name))
        i = (i + 1) & n->mask;
    return &n->table[i];
}

/* The old arrays stay behind in the arena: together they are no larger than the new ones. */
static int names_grow(struct names *n)
{
    size_t room = n->room ? n->room * 2 : NAMES_FEW;
    struct span *list = arena_array(n->arena, room, sizeof *list);
    uint32_t *table = room > NAMES_FEW ? arena_array(n->arena, room * 2, sizeof *table) : NULL;
    if (!list || (room > NAMES_FEW && !table))
        return -ERR_NOMEM;
    if (n->count > 0)
        memcpy(list, n->list, n->count * sizeof *list);
    n->list = list;
    n->room = room;
    n->table = table;
    n->mask = room * 2 - 1;
    for (size_t i = 0; table && i < n->count; i++)
        *names_slot(n, list[i]) = (uint32_t)i + 1;
    return 0;
}

static bool names_has(const struct names *n, struct span name)
{
    if (n->table)
        return *names_slot(n, name) != 0;
    for (size_t i = 0; i < n->count; i++) {
        if (span_equal(n->list[i], name))
            return true;
    }
    return false;
}

/* The name must be new. */
static int names_add(struct names *n, struct span name)
{
    int r = 0;
    if (n->count == NAMES_FEW && n->room == NAMES_FEW)
        r = random_bytes(&n->key, sizeof n->key);
    if (r == 0 && n->count == n->room)
        r = n->room > UINT32_MAX / 2 ? -ERR_TOO_BIG : names_grow(n);
    if (r != 0)
        return r;
    n->list[n->count++] = name;
    if (n->table)
        *names_slot(n, name) = (uint32_t)n->count;
    return 0;
}

/* The name of a JSON_KEY token, if it may come here. */
static int name_take(struct json_reader *r, struct names *n, const struct json_token *key,
                     struct span *ret)
{
    size_t at = (size_t)(key->raw.at - r->text.at);
    int e = json_string(key, n->arena, ret);
    if (e == -ERR_INVALID)
        return json_fail(r, at, "a member name with an unpaired surrogate");
    if (e != 0)
        return e;
    if (names_has(n, *ret))
        return json_fail(r, at, "a member name that was there before");
    return names_add(n, *ret);
}

static int object_enter(struct json_reader *r)
{
    struct json_token t;
    if (json_before_first_key(r))
        return 0;
    int e = json_next(r, &t);
    if (e == 0 && t.kind != JSON_OBJECT_BEGIN)
        e = json_fail(r, r->at - t.raw.len, "expected an object");
    return e;
}

static int object_leave(struct json_reader *r)
{
    struct json_token t;
    return r->depth == 0 ? json_next(r, &t) : 0;
}

static int member(struct json_reader *r, struct names *n, const struct json_token *key,
                  json_member_fn fn, void *ctx)
{
    struct span name;
    struct json_token value;
    size_t depth = r->depth;
    int e = name_take(r, n, key, &name);
    if (e == 0)
        e = json_next(r, &value);
    if (e == 0)
        e = fn(ctx, r, name, value);
    CHECK(e != 0 || r->depth == depth);
    return e;
}

int json_object(struct json_reader *r, struct arena *arena, json_member_fn fn, void *ctx)
{
    struct names names = {.arena = arena};
    struct json_token t;
    int e = object_enter(r);
    while (e == 0) {
        e = json_next(r, &t);
        if (e == 0 && t.kind == JSON_OBJECT_END)
            return object_leave(r);
        if (e == 0)
            e = member(r, &names, &t, fn, ctx);
    }
    return e;
}
