/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values: commits, all or nothing, and payloads that dead jobs leave behind.
 *
 * The store has locked every key that the unit is about, also those that are not there, before the
 * versions were drawn; so a version is newer than any that the key ever had, whichever node set it.
 */
#include "backend/kv_rules.h"
#include "backend/shared/shared.h"
#include "base/check.h"
#include "core/validate.h"

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

/* Whoever guesses its sequence can end a job that is enqueued and claimed in this very unit. */
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
        const struct op_kv_commit *c = &u->turns[i].op->kv_commit;
        if (u->turns[i].op->kind != OP_KV_COMMIT || !small_enough(c))
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

static uint64_t version_draw(struct unit *u)
{
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

static void key_set(struct unit *u, struct wkey *k, const struct wkey *to)
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

/* The limits do not hold here: nobody is left who could be told. */
void unit_leave_payload(struct unit *u, struct row *r)
{
    struct span rest = r->extra.undelivered, key;
    if (rest.len == 0)
        return;
    struct wkey to = {
        .version = version_draw(u), .kind = r->job.payload_kind, .bytes = r->job.payload_bytes};
    if (r->has_payload)
        to.value = r->payload;
    else
        to.from = r;
    while (next_key(&rest, &key)) {
        struct wkey *k = unit_key(u, key);
        CHECK(k);
        key_set(u, k, &to);
    }
}

/* --- commits --- */

static struct wkey *key_of(const struct unit *u, struct span key)
{
    struct wkey *k = unit_key(u, key);
    CHECK(k); /* unit_keys_of_commits had it loaded */
    return k;
}

static bool checks_hold(const struct unit *u, const struct op_kv_commit *want, struct turn *t)
{
    for (uint32_t i = 0; i < want->check_count; i++) {
        const struct wkey *k = key_of(u, want->checks[i].key);
        uint64_t version = is_seen(u, k) ? k->version : 0;
        if (version == want->checks[i].version)
            continue;
        t->reply.failed = i;
        t->reply.version = version;
        return unit_refuse(t, OUT_VERSION, NULL);
    }
    return true;
}

static uint64_t limit_of(uint64_t configured, uint64_t otherwise)
{
    return configured ? configured : otherwise;
}

/* What deletes give back does not count, as on the embedded store. */
static bool room_left(const struct unit *u, const struct op_kv_commit *want, struct turn *t)
{
    const struct backend_config *c = &u->s->config;
    uint64_t used = u->kv_keys + (uint64_t)u->kv_key_adds, keys = used;
    uint64_t used_bytes = u->kv_bytes + (uint64_t)u->kv_byte_adds, bytes = used_bytes;
    for (uint32_t i = 0; i < want->set_count; i++) {
        const struct wkey *k = key_of(u, want->sets[i].key);
        bool kept = k->changed ? k->there : k->stored;
        keys += !kept;
        bytes += want->sets[i].value.len + (kept ? 0 : want->sets[i].key.len);
        bytes -= kept ? k->bytes : 0;
    }
    if (keys > limit_of(c->kv_keys_max, 1000000) && keys > used)
        return unit_refuse(t, OUT_KV_FULL, "the key-value store holds as many keys as it may");
    if (bytes > limit_of(c->kv_bytes_max, UINT64_C(1) << 30) && bytes > used_bytes)
        return unit_refuse(t, OUT_KV_FULL, "the key-value store holds as many bytes as it may");
    return true;
}

static void refused(struct turn *t, const struct reply *why, uint32_t index)
{
    t->reply = (struct reply){.outcome = why->outcome,
                              .note = why->note,
                              .seq = why->seq,
                              .id_hi = why->id_hi,
                              .state = why->state,
                              .retry_ms = why->retry_ms,
                              .failed = index,
                              .failed_enqueue = true};
}

/* Two enqueues under one key would have to be answered with each other. */
static bool same_key(const struct enqueue_plan *a, const struct enqueue_plan *b)
{
    const struct span *x = &a->want->extra.unique, *y = &b->want->extra.unique;
    return (!hash128_none(a->key) && hash128_equal(a->key, b->key)) ||
           (a->q && a->q == b->q && x->len && span_equal(*x, *y));
}

static bool keys_apart(const struct enqueue_plan *plans, uint32_t count, struct turn *t)
{
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (same_key(&plans[i], &plans[k])) {
                t->reply = (struct reply){.failed = i, .failed_enqueue = true};
                return unit_refuse(t, OUT_INVALID,
                                   "two enqueues of a commit must not share an idempotency key or "
                                   "a unique key");
            }
    return true;
}

/* Queues that a refused commit would have made, and what it would have taken of rate limits. */
struct mark {
    size_t queues, numbers;
    uint64_t records;
    struct happened **happened;
    struct rate_claim *rates;
};

static struct mark mark_of(const struct unit *u)
{
    return (struct mark){u->queue_count, u->number_next, u->records, u->happened_last, u->rates};
}

static void undo(struct unit *u, const struct mark *m)
{
    while (u->queue_count > m->queues) {
        struct wqueue *q = u->queues[--u->queue_count];
        known_forget(u->s, q->name);
        heap_done(&q->ready);
    }
    u->number_next = m->numbers;
    u->records = m->records;
    u->happened_last = m->happened;
    *u->happened_last = NULL;
    u->rates = m->rates;
}

static bool enqueues_planned(struct unit *u, const struct op_kv_commit *want,
                             struct enqueue_plan *plans, struct turn *each, struct turn *t)
{
    struct mark before = mark_of(u);
    bool good = true;
    for (uint32_t i = 0; good && i < want->enqueue_count; i++) {
        good = unit_enqueue_look(u, &want->enqueues[i], &each[i], &plans[i]);
        if (!good)
            refused(t, &each[i].reply, i);
    }
    for (uint32_t i = 0; good && i < want->enqueue_count; i++) {
        good = unit_enqueue_plan(u, plans, i, &each[i], &plans[i]);
        if (!good)
            refused(t, &each[i].reply, i);
    }
    good = good && keys_apart(plans, want->enqueue_count, t);
    if (!good)
        undo(u, &before);
    return good;
}

static void enqueues_make(struct unit *u, const struct op_kv_commit *want,
                          const struct enqueue_plan *plans, struct turn *each, struct turn *t)
{
    struct enqueued_view *views =
        arena_array(&u->arena, want->enqueue_count ? want->enqueue_count : 1, sizeof *views);
    u->nomem |= !views;
    for (uint32_t i = 0; views && i < want->enqueue_count; i++) {
        (void)unit_enqueue_make(u, &plans[i], &each[i]);
        const struct reply *from = &each[i].reply;
        views[i] = (struct enqueued_view){.seq = from->seq,
                                          .id_hi = from->id_hi,
                                          .replaced_seq = from->replaced_seq,
                                          .state = from->state,
                                          .created = from->created,
                                          .repeat = from->repeat,
                                          .run_at = from->run_at};
    }
    t->reply.enqueued = views;
    t->reply.enqueued_count = want->enqueue_count;
}

static void keys_change(struct unit *u, const struct op_kv_commit *want, struct turn *t)
{
    uint64_t version = version_draw(u);
    bool any = want->set_count > 0;
    for (uint32_t i = 0; i < want->set_count; i++) {
        const struct kv_set *s = &want->sets[i];
        struct wkey to = {.version = version,
                          .expires_at = s->expires_at,
                          .kind = s->kind,
                          .bytes = (uint32_t)s->value.len,
                          .value = s->value};
        key_set(u, key_of(u, s->key), &to);
    }
    for (uint32_t i = 0; i < want->delete_count; i++) {
        struct wkey *k = key_of(u, want->deletes[i]);
        if (!(k->changed ? k->there : k->stored))
            continue;
        key_delete(u, k, version);
        t->reply.count++;
        any = true;
    }
    t->reply.version = any ? version : 0;
}

void work_kv_commit(struct unit *u, struct turn *t)
{
    const struct op_kv_commit *want = &t->op->kv_commit;
    const char *note;
    enum outcome out = kv_commit_right(want, &u->arena, &note);
    if (out != OUT_OK) {
        unit_refuse(t, out, note);
        return;
    }
    size_t n = want->enqueue_count ? want->enqueue_count : 1;
    struct enqueue_plan *plans = arena_array(&u->arena, n, sizeof *plans);
    struct turn *each = arena_array(&u->arena, n, sizeof *each);
    if (!plans || !each) {
        u->nomem = true;
        return;
    }
    if (!checks_hold(u, want, t) || !room_left(u, want, t) ||
        !enqueues_planned(u, want, plans, each, t))
        return;
    keys_change(u, want, t);
    enqueues_make(u, want, plans, each, t);
}
