/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values: commits, all or nothing, and payloads that dead jobs leave behind.
 *
 * The store has locked every key that the unit is about, also those that are not there, before the
 * versions were drawn; so a version is newer than any that the key ever had, whichever node set it.
 */
#include "backend/shared/shared.h"
#include "base/check.h"
#include "core/validate.h"
#include "ops/kv/kv_check.h"

/* --- the keys of a unit --- */

static struct hash128 hash_of(const struct unit *u, struct span key)
{
    return hash128_of(u->s->facts.hash_key, key);
}

uint32_t unit_key_bucket(const struct unit *u, struct span key)
{
    return (uint32_t)(hash_of(u, key).lo % KEY_BUCKETS);
}

struct wkey *unit_key(const struct unit *u, struct span key)
{
    uint64_t at = map128_get(&u->wkey_map, hash_of(u, key));
    return at ? u->wkeys[at - 1] : NULL;
}

struct wkey *unit_key_add(struct unit *u, struct span key)
{
    struct wkey *k = unit_key(u, key);
    if (k)
        return k;
    k = unit_alloc(u, sizeof *k);
    if (!k || !unit_room(u, &u->wkeys, &u->wkey_room, u->wkey_count, sizeof(struct wkey *)))
        return NULL;
    if (map128_put(&u->wkey_map, hash_of(u, key), u->wkey_count + 1) != 0) {
        u->nomem = true;
        return NULL;
    }
    k->key = key;
    u->wkeys[u->wkey_count++] = k;
    return k;
}

void unit_key_loaded(const struct unit *u, struct wkey *k, uint64_t version,
                     struct wall_time expires_at, uint8_t kind, uint32_t bytes)
{
    k->stored = true;
    k->stored_bytes = k->bytes = bytes;
    k->there = !expires_at.ms || expires_at.ms > u->now.ms;
    k->version = version;
    k->expires_at = expires_at;
    k->kind = kind;
}

static bool small_enough(const struct op_kv_commit *c)
{
    return (uint64_t)c->check_count + c->set_count + c->delete_count <= LIMIT_KV_KEYS;
}

/* The next of a list; false: that was all, or it is damaged, and left alone. */
static bool next_key(struct span *rest, struct span *ret)
{
    return rest->len > 0 && record_span_next(rest, ret) == 0;
}

static void add_undelivered(struct unit *u, struct span list)
{
    struct span key;
    while (next_key(&list, &key))
        (void)unit_key_add(u, key);
}

static void add_keys_of(struct unit *u, const struct op_kv_commit *c)
{
    for (uint32_t k = 0; k < c->check_count; k++)
        (void)unit_key_add(u, c->checks[k].key);
    for (uint32_t k = 0; k < c->set_count; k++)
        (void)unit_key_add(u, c->sets[k].key);
    for (uint32_t k = 0; k < c->delete_count; k++)
        (void)unit_key_add(u, c->deletes[k]);
}

static bool may_kill(const struct op *op)
{
    return op->kind == OP_FAIL || op->kind == OP_RELEASE;
}

/* A client that guesses the sequence can end a job that this unit enqueues and claims. */
static size_t keys_of_fresh(struct unit *u)
{
    const struct op_enqueue *list;
    size_t kills = 0, fresh = 0;
    for (size_t i = 0; i < u->count; i++)
        kills += may_kill(u->turns[i].op);
    for (size_t i = 0; kills && i < u->count; i++) {
        size_t count = turn_enqueues(&u->turns[i], &list);
        for (size_t k = 0; k < count; k++) {
            uint32_t keys;
            if (!list[k].extra.undelivered.len ||
                validate_undelivered(list[k].extra.undelivered, &keys) != 0)
                continue;
            add_undelivered(u, list[k].extra.undelivered);
            fresh++;
        }
    }
    return fresh ? kills : 0;
}

size_t unit_keys_of_commits(struct unit *u)
{
    size_t n = keys_of_fresh(u);
    for (size_t i = 0; i < u->count; i++) {
        const struct op_kv_commit *c = op_commit(u->turns[i].op);
        if (!c || !small_enough(c))
            continue;
        add_keys_of(u, c);
        n++;
    }
    return n;
}

size_t unit_keys_of_rows(struct unit *u, bool every)
{
    size_t n = 0;
    for (size_t i = 0; every && i < u->row_count; i++) {
        n += u->rows[i]->extra.undelivered.len > 0;
        add_undelivered(u, u->rows[i]->extra.undelivered);
    }
    for (size_t i = 0; !every && i < u->count; i++) {
        const struct op *op = u->turns[i].op;
        const struct row *r = may_kill(op) ? unit_row(u, op->lease.job.seq) : NULL;
        if (!r || !r->extra.undelivered.len)
            continue;
        add_undelivered(u, r->extra.undelivered);
        n++;
    }
    return n;
}

/* --- changes --- */

uint64_t unit_kv_version(struct ops *o)
{
    struct unit *u = unit_of(o);
    CHECK(u->version_next < u->version_count);
    return u->versions[u->version_next++];
}

/* What the store will have of it, less what it has. */
static void count(struct unit *u, const struct wkey *k, int sign)
{
    bool kept = k->changed ? k->there : k->stored;
    if (!kept)
        return;
    u->kv_key_adds += sign;
    u->kv_byte_adds += sign * (int64_t)(k->key.len + k->bytes);
}

static void key_change(struct unit *u, struct wkey *k, const struct wkey *to)
{
    count(u, k, -1);
    k->there = k->changed = true;
    k->version = to->version;
    k->expires_at = to->expires_at;
    k->kind = to->kind;
    k->bytes = to->bytes;
    k->value = to->value;
    k->from = to->from;
    count(u, k, 1);
    u->records++;
    unit_tell_key(u, EVENT_KV_SET, k->key, k->version);
}

/* A key that is set with an expiry in the past is written, and hidden from then on. */
static bool is_seen(const struct unit *u, const struct wkey *k)
{
    return k->there && (!k->expires_at.ms || k->expires_at.ms > u->now.ms);
}

static void key_delete(struct unit *u, struct wkey *k, uint64_t version)
{
    count(u, k, -1);
    k->there = false;
    k->changed = true;
    u->records++;
    unit_tell_key(u, EVENT_KV_DELETED, k->key, version);
}

/* The limits do not apply here: no client is left that could get the refusal. */
void unit_leave_payload(struct unit *u, struct row *r)
{
    struct span rest = r->extra.undelivered, key;
    if (rest.len == 0)
        return;
    struct wkey to = {.version = unit_kv_version(unit_ops(u)),
                      .kind = r->job.payload_kind,
                      .bytes = r->job.payload_bytes};
    if (r->has_payload)
        to.value = r->payload;
    else
        to.from = r;
    while (next_key(&rest, &key)) {
        struct wkey *k = unit_key(u, key);
        CHECK(k);
        key_change(u, k, &to);
    }
}

/* --- commits --- */

static struct wkey *loaded_key(const struct unit *u, struct span key)
{
    struct wkey *k = unit_key(u, key);
    CHECK(k); /* unit_keys_of_commits had it loaded */
    return k;
}

struct kv_state unit_kv_find(struct ops *o, struct span key)
{
    const struct unit *u = unit_of(o);
    const struct wkey *k = loaded_key(u, key);
    return (struct kv_state){.stored = k->changed ? k->there : k->stored,
                             .bytes = k->bytes,
                             .version = is_seen(u, k) ? k->version : 0};
}

void unit_kv_set(struct ops *o, const struct kv_set *set, uint64_t version)
{
    struct unit *u = unit_of(o);
    struct wkey to = {.version = version,
                      .expires_at = set->expires_at,
                      .kind = set->kind,
                      .bytes = (uint32_t)set->value.len,
                      .value = set->value};
    key_change(u, loaded_key(u, set->key), &to);
}

uint32_t unit_kv_delete(struct ops *o, const struct span *keys, uint32_t count, uint64_t version)
{
    struct unit *u = unit_of(o);
    uint32_t deleted = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct wkey *k = loaded_key(u, keys[i]);
        if (!(k->changed ? k->there : k->stored))
            continue;
        key_delete(u, k, version);
        deleted++;
    }
    return deleted;
}
