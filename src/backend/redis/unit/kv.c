/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values: what a unit reads and writes, and the queries.
 *
 *   kvm, kvv    hashes: key to version, expiry, kind and length; key to value
 *   kvl, kvx    keys in their order; keys that expire, by time
 *   kvb         the version of the last change in each bucket of keys
 *
 * The keys of commits are loaded with everything else. The keys under which payloads of dying jobs
 * are stored are known only when the jobs are loaded: these are loaded by a second call. A store
 * begins again unless the buckets of all of them are unchanged; so a version is newer than any that
 * the key ever had, even if the key was created and deleted meanwhile. */
#include "backend/kv_bounds.h"
#include "backend/redis/impl.h"
#include "backend/shared/row_check.h"
#include "ops/kv/kv_check.h"

#define META_BYTES ROW_HEAD(kv)

/* --- the encoding of a key --- */

static void meta_encode(const struct wkey *k, char out[META_BYTES])
{
    ROW_PUT(out, kv, version, k->version);
    ROW_PUT(out, kv, expires_at, k->expires_at.ms);
    ROW_PUT(out, kv, kind, k->kind);
    ROW_PUT(out, kv, value_bytes, k->bytes);
}

static bool meta_decode(struct span in, struct kv_view *ret, uint32_t *ret_bytes)
{
    if (in.len != META_BYTES)
        return false;
    *ret = (struct kv_view){
        .found = true,
        .version = ROW_GET(in.at, kv, version),
        .expires_at = {sound_time((int64_t)ROW_GET(in.at, kv, expires_at))},
        .kind = (uint8_t)ROW_GET(in.at, kv, kind),
    };
    *ret_bytes = (uint32_t)ROW_GET(in.at, kv, value_bytes);
    return ret->kind <= PAYLOAD_BYTES && ret->version <= LIMIT_SEQ;
}

/* --- loading --- */

/* The section of lua/load.lua: keys, buckets, how many versions. */
void rd_kv_put_section(struct item *it, size_t versions)
{
    struct unit *u = &it->unit;
    struct rargs *a = &it->args;
    bool wanted[KEY_BUCKETS] = {false};
    int64_t buckets = 0;
    redis_args_int(a, (int64_t)u->wkey_count);
    for (size_t i = 0; i < u->wkey_count; i++) {
        uint32_t b = unit_key_bucket(u, u->wkeys[i]->key);
        buckets += !wanted[b];
        wanted[b] = true;
        redis_args_bytes(a, u->wkeys[i]->key);
    }
    redis_args_int(a, buckets);
    for (uint32_t b = 0; b < KEY_BUCKETS; b++)
        if (wanted[b])
            redis_args_int(a, b);
    redis_args_int(a, (int64_t)versions);
    u->version_count = versions;
}

/* r: keys and their encoding, buckets, the version before the new ones, keys and bytes in total. */
void rd_kv_loaded(struct item *it, const redisReply *r)
{
    struct unit *u = &it->unit;
    const redisReply *keys = reply_at(r, 0);
    uint64_t version = rd_reply_count(reply_at(r, 2));
    for (size_t i = 0; i + 1 < reply_count(keys); i += 2) {
        struct wkey *k = unit_key(u, reply_span(reply_at(keys, i)));
        struct kv_view v;
        uint32_t bytes;
        if (k && meta_decode(reply_span(reply_at(keys, i + 1)), &v, &bytes))
            unit_key_loaded(u, k, v.version, v.expires_at, v.kind, bytes);
    }
    it->buckets = reply_at(r, 1);
    u->version_next = 0;
    u->versions = unit_alloc(u, (u->version_count + 1) * sizeof *u->versions);
    for (size_t i = 0; u->versions && i < u->version_count; i++)
        u->versions[i] = version + i + 1;
    u->kv_keys = rd_reply_count(reply_at(r, 3));
    int64_t bytes = rd_reply_int(reply_at(r, 4));
    u->kv_bytes = bytes > 0 ? (uint64_t)bytes : 0;
}

/* A call of the load for keys only: all keys of the unit, with versions for all changes. */
void rd_kv_ask(struct item *it, size_t versions)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    struct rargs *a = &it->args;
    rd_item_call(it, SCRIPT_LOAD);
    rd_args_now(s, a);
    redis_args_int(a, s->sh.facts.epoch);
    redis_args_text(a, it->shared ? "keys" : ""); /* jobs stay held */
    redis_args_int(a, 0);
    redis_args_int(a, rd_hold_ms(s));
    for (int i = 0; i < 2; i++)
        redis_args_int(a, 0); /* numbers to draw */
    redis_args_text(a, "");
    for (int i = 0; i < 7; i++)
        redis_args_int(
            a, 0); /* to be alone, names, jobs, revived, holders, nonces, idempotency keys */
    rd_args_reply_spans(a);
    rd_kv_put_section(it, versions);
    redis_args_text(a, "");
    rd_dependencies_put_none(a);
}

/* --- storing --- */

static bool is_set(const struct wkey *k)
{
    return k->changed && k->there;
}

static bool is_deleted(const struct wkey *k)
{
    return k->changed && !k->there && k->stored;
}

static void set_expiry(struct rargs *a, const struct wkey *k)
{
    char until[24];
    snprintf(until, sizeof until, "%lld", (long long)k->expires_at.ms);
    rd_change(a, k->expires_at.ms ? "ZADD" : "ZREM", "kvx");
    if (k->expires_at.ms)
        redis_args_text(a, until);
    redis_args_bytes(a, k->key);
    rd_change_end(a);
}

static void set_key(struct rargs *a, const struct wkey *k)
{
    char meta[META_BYTES];
    meta_encode(k, meta);
    rd_change(a, "HSET", "kvm");
    redis_args_bytes(a, k->key);
    redis_args_bytes(a, span_of(meta, sizeof meta));
    rd_change_end(a);
    rd_change(a, k->from ? "COPY" : "HSET", "kvv");
    redis_args_bytes(a, k->key);
    if (k->from)
        redis_args_seq(a, k->from->job.seq);
    else
        redis_args_bytes(a, k->value);
    rd_change_end(a);
    rd_change(a, "ZADD", "kvl");
    redis_args_int(a, 0);
    redis_args_bytes(a, k->key);
    rd_change_end(a);
    if (k->expires_at.ms || k->stored)
        set_expiry(a, k);
}

static void delete_key(struct rargs *a, const struct wkey *k)
{
    static const char *const from[][2] = {
        {"HDEL", "kvm"}, {"HDEL", "kvv"}, {"ZREM", "kvl"}, {"ZREM", "kvx"}};
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        rd_change(a, from[i][0], from[i][1]);
        redis_args_bytes(a, k->key);
        rd_change_end(a);
    }
}

static void mark_bucket(struct item *it, uint32_t bucket, uint64_t version)
{
    rd_change(&it->args, "HSET", "kvb");
    redis_args_int(&it->args, bucket);
    redis_args_seq(&it->args, version);
    rd_change_end(&it->args);
}

/* Before the jobs, because it copies their payloads. */
void rd_kv_changes(struct item *it)
{
    struct unit *u = &it->unit;
    struct rargs *a = &it->args;
    uint64_t latest[KEY_BUCKETS] = {0};
    uint64_t last = u->version_next ? u->versions[u->version_next - 1] : 0;
    for (size_t i = 0; i < u->wkey_count; i++) {
        const struct wkey *k = u->wkeys[i];
        if (is_set(k))
            set_key(a, k);
        else if (is_deleted(k))
            delete_key(a, k);
        if (is_set(k) || is_deleted(k))
            latest[unit_key_bucket(u, k->key)] = last;
    }
    for (uint32_t b = 0; b < KEY_BUCKETS; b++)
        if (latest[b])
            mark_bucket(it, b, latest[b]);
    if (u->kv_byte_adds) {
        rd_change(a, "SUM", "total");
        redis_args_text(a, "kv");
        redis_args_int(a, u->kv_byte_adds);
        rd_change_end(a);
    }
    if (!it->shared && u->version_next) {
        rd_change(a, "SUM", "meta");
        redis_args_text(a, "kv_version");
        redis_args_int(a, (int64_t)u->version_next);
        rd_change_end(a);
    }
}

/* Includes keys that were only read: a commit depends on its checks. */
void rd_kv_checks(struct item *it)
{
    for (size_t i = 0; i + 1 < reply_count(it->buckets); i += 2) {
        redis_args_text(&it->args, "kvb");
        redis_args_int(&it->args, 2);
        redis_args_bytes(&it->args, reply_span(reply_at(it->buckets, i)));
        redis_args_bytes(&it->args, reply_span(reply_at(it->buckets, i + 1)));
    }
}

/* --- expiry --- */

void rd_kv_expired(struct unit *u)
{
    for (size_t i = 0; i < u->wkey_count; i++) {
        struct wkey *k = u->wkeys[i];
        if (!k->stored || k->there || k->changed || u->version_next >= u->version_count)
            continue;
        k->changed = true;
        u->kv_key_adds--;
        u->kv_byte_adds -= (int64_t)(k->key.len + k->stored_bytes);
        u->records++;
        unit_tell_key(u, EVENT_KV_DELETED, k->key, u->versions[u->version_next++]);
    }
}

/* --- queries --- */

void rd_kv_send_get(struct rargs *a, const struct op_kv_get *want)
{
    uint32_t count = want->count <= LIMIT_KV_KEYS ? want->count : 0;
    redis_args_text(a, "K");
    redis_args_text(a, want->want_value ? "1" : "");
    redis_args_int(a, count);
    for (uint32_t i = 0; i < count; i++)
        redis_args_bytes(a, want->keys[i]);
}

/* list: encoding and value of each key, in the order of the keys */
void rd_kv_answer_get(struct unit *u, struct turn *t, const redisReply *list)
{
    const struct op_kv_get *want = &t->op->kv_get;
    const char *note = NULL;
    uint32_t bytes;
    enum outcome out = kv_keys_right(want->keys, want->count, &note);
    struct kv_view *views =
        out == OUT_OK ? arena_array(&u->arena, (size_t)want->count + 1, sizeof *views) : NULL;
    if (!views) {
        unit_refuse(t, out == OUT_OK ? OUT_UNAVAILABLE : out,
                    out == OUT_OK ? "out of memory" : note);
        return;
    }
    for (uint32_t i = 0; i < want->count; i++) {
        struct kv_view v;
        if (meta_decode(reply_span(reply_at(list, 2 * (size_t)i)), &v, &bytes) &&
            (!v.expires_at.ms || v.expires_at.ms > u->now.ms)) {
            views[i] = v;
            views[i].has_value = want->want_value;
            views[i].value = reply_span(reply_at(list, 2 * (size_t)i + 1));
        }
        views[i].key = want->keys[i];
    }
    t->reply.kvs = views;
    t->reply.kv_count = want->count;
}

void rd_kv_send_list(struct item *it, const struct op_kv_list *want)
{
    struct kv_bounds bounds = {{NULL, 0}, {NULL, 0}};
    it->args.failed |= kv_bounds_of(want, &it->unit.arena, &bounds) != 0;
    redis_args_text(&it->args, "I");
    redis_args_bytes(&it->args, bounds.low);
    redis_args_bytes(&it->args, bounds.end);
    redis_args_text(&it->args, want->reverse ? "1" : "");
    redis_args_text(&it->args, want->want_value ? "1" : "");
    redis_args_int(&it->args, (int64_t)shared_limit(want->limit) + 1);
}

/* list: key, encoding, value …; one more than is shown: there are more */
bool rd_kv_answer_list(struct item *it, const struct op_kv_list *want, const redisReply *list,
                       struct reply *reply)
{
    size_t n = reply_count(list) / 3, bytes = 0;
    struct kv_view *views = arena_array(&it->unit.arena, n + 1, sizeof *views);
    uint32_t shown = 0, ignored;
    if (!views)
        return false;
    while (shown < n && shown < shared_limit(want->limit) && bytes < LIMIT_ANSWER_BYTES) {
        struct kv_view *v = &views[shown];
        if (!meta_decode(reply_span(reply_at(list, 3 * (size_t)shown + 1)), v, &ignored))
            return false;
        v->key = reply_span(reply_at(list, 3 * (size_t)shown));
        v->has_value = want->want_value;
        v->value = reply_span(reply_at(list, 3 * (size_t)shown + 2));
        bytes += v->value.len;
        shown++;
    }
    reply->kvs = views;
    reply->kv_count = shown;
    if (shown > 0 && shown < n)
        reply->kv_cursor = views[shown - 1].key;
    reply->kv_as_of = it->unit.s->figures.position;
    return true;
}
