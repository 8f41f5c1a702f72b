/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values: what a unit reads and writes, and the queries.
 *
 * The keys of commits are locked and loaded with everything else. The keys under which payloads of
 * dying jobs are stored are known only when the jobs are loaded: these are requested in a second
 * round, and all versions are then drawn again, after the last lock. */
#include "backend/kv_bounds.h"
#include "backend/postgres/impl.h"
#include "ops/kv/kv_check.h"

#define HOUR_MS INT64_C(3600000)

/* --- loading --- */

static void send_locks(struct unit *u, size_t from)
{
    struct args *a = &pg_unit(u)->args;
    bool wanted[KEY_BUCKETS] = {false};
    for (size_t i = from; i < u->wkey_count; i++)
        wanted[unit_key_bucket(u, u->wkeys[i]->key)] = true;
    pg_array_begin(a, ARRAY_I4);
    for (uint32_t b = 0; b < KEY_BUCKETS;
         b++) /* in ascending order, so that two units never wait for each other */
        if (wanted[b])
            pg_array_i4(a, (int32_t)b);
    pg_array_end(a);
    pg_conn_send(pg_pipeline_of(u), SQL_KV_LOCK, a);
}

/* Locks, loads and counts the keys from this one on, and draws versions. */
static void send_load(struct unit *u, size_t from, size_t versions)
{
    struct args *a = &pg_unit(u)->args;
    send_locks(u, from);
    pg_unit(u)->keys_at = pg_conn_sent(pg_pipeline_of(u));
    pg_unit(u)->versions_asked = versions;
    pg_array_begin(a, ARRAY_BYTES);
    for (size_t i = from; i < u->wkey_count; i++)
        pg_array_blob(a, u->wkeys[i]->key);
    pg_array_end(a);
    pg_conn_send(pg_pipeline_of(u), SQL_KV_LOAD, a);
    pg_args_i4(a, (int32_t)versions);
    pg_conn_send(pg_pipeline_of(u), SQL_KV_VERSIONS, a);
    pg_conn_send(pg_pipeline_of(u), SQL_KV_TOTALS, a);
}

static void take_load(struct unit *u)
{
    size_t at = pg_unit(u)->keys_at;
    const PGresult *keys = pg_conn_result(pg_pipeline_of(u), at);
    for (int i = 0; i < PQntuples(keys); i++) {
        struct wkey *k = unit_key(u, pg_col_bytes(keys, i, 0));
        if (k)
            unit_key_loaded(
                u, k, (uint64_t)pg_col_i8(keys, i, 1), (struct wall_time){pg_col_time(keys, i, 2)},
                pg_col_kind(keys, i, 3, PAYLOAD_BYTES + 1), (uint32_t)pg_col_i4(keys, i, 4));
    }
    const PGresult *versions = pg_conn_result(pg_pipeline_of(u), at + 1);
    u->version_count = pg_unit(u)->versions_asked;
    u->version_next = 0;
    u->versions = unit_alloc(u, (u->version_count + 1) * sizeof *u->versions);
    for (size_t i = 0; u->versions && i < u->version_count; i++)
        u->versions[i] = (uint64_t)pg_col_i8(versions, (int)i, 0);
    int64_t n = pg_col_sum(pg_conn_result(pg_pipeline_of(u), at + 2), 0, 0);
    int64_t bytes = pg_col_sum(pg_conn_result(pg_pipeline_of(u), at + 2), 0, 1);
    u->kv_keys = n > 0 ? (uint64_t)n : 0;
    u->kv_bytes = bytes > 0 ? (uint64_t)bytes : 0;
}

void pg_keys_send_commits(struct unit *u)
{
    size_t versions = unit_keys_of_commits(u);
    if (versions == 0)
        return;
    pg_unit(u)->slots[LOAD_KEYS] = pg_conn_sent(pg_pipeline_of(u));
    send_load(u, 0, versions);
}

void pg_keys_commits_loaded(struct unit *u)
{
    if (pg_unit(u)->slots[LOAD_KEYS] != SIZE_MAX)
        take_load(u);
}

bool pg_keys_needed_by_rows(struct unit *u, bool every)
{
    size_t from = u->wkey_count, versions = unit_keys_of_rows(u, every);
    if (versions == 0)
        return false;
    pg_unit(u)->asked |= ASKED_KEYS;
    send_load(u, from, versions + u->version_count);
    return true;
}

void pg_keys_of_rows_loaded(struct unit *u)
{
    take_load(u);
}

/* --- storing --- */

enum sort { SORT_SET, SORT_FROM_JOB, SORT_DELETED, SORT_NONE };

static enum sort sort_of(const struct wkey *k)
{
    if (!k->changed)
        return SORT_NONE;
    if (!k->there)
        return k->stored ? SORT_DELETED : SORT_NONE;
    return k->from ? SORT_FROM_JOB : SORT_SET;
}

typedef void (*key_column_fn)(struct args *a, const struct wkey *k);

static void c_key(struct args *a, const struct wkey *k)
{
    pg_array_blob(a, k->key);
}

static void c_version(struct args *a, const struct wkey *k)
{
    pg_array_i8(a, (int64_t)k->version);
}

static void c_expires_at(struct args *a, const struct wkey *k)
{
    pg_array_i8(a, k->expires_at.ms);
}

static void c_kind(struct args *a, const struct wkey *k)
{
    pg_array_i2(a, k->kind);
}

static void c_value(struct args *a, const struct wkey *k)
{
    pg_array_blob(a, k->value);
}

static void c_from(struct args *a, const struct wkey *k)
{
    pg_array_i8(a, (int64_t)k->from->job.seq);
}

static void column(struct unit *u, enum sort sort, enum array_of of, key_column_fn add)
{
    pg_array_begin(&pg_unit(u)->args, of);
    for (size_t i = 0; i < u->wkey_count; i++)
        if (sort_of(u->wkeys[i]) == sort)
            add(&pg_unit(u)->args, u->wkeys[i]);
    pg_array_end(&pg_unit(u)->args);
}

static void send_sort(struct unit *u, enum sort sort, enum sql_id id)
{
    size_t n = 0;
    for (size_t i = 0; i < u->wkey_count; i++)
        n += sort_of(u->wkeys[i]) == sort;
    if (n == 0)
        return;
    column(u, sort, ARRAY_BYTES, c_key);
    if (sort != SORT_DELETED) {
        column(u, sort, ARRAY_I8, c_version);
        column(u, sort, ARRAY_I8, c_expires_at);
        column(u, sort, ARRAY_I2, c_kind);
    }
    if (sort == SORT_SET)
        column(u, sort, ARRAY_BYTES, c_value);
    if (sort == SORT_FROM_JOB)
        column(u, sort, ARRAY_I8, c_from);
    pg_conn_send(pg_pipeline_of(u), id, &pg_unit(u)->args);
}

void pg_keys_send_store(struct unit *u)
{
    send_sort(u, SORT_DELETED, SQL_KV_DEL);
    send_sort(u, SORT_SET, SQL_KV_SET);
    send_sort(u, SORT_FROM_JOB, SQL_KV_FROM_JOB);
}

/* --- expiry --- */

void pg_keys_send_expired(struct pg_store *s, int64_t now)
{
    struct args *a = &pg_unit(s->unit)->args;
    pg_args_i8(a, now);
    pg_args_i4(a, LIMIT_SLICE);
    pg_conn_send(s->pipeline, SQL_KV_EXPIRED, a);
}

void pg_keys_expired(struct unit *u, const PGresult *r)
{
    for (int i = 0; i < PQntuples(r); i++) {
        unit_tell_key(u, EVENT_KV_DELETED, pg_col_bytes(r, i, 0), (uint64_t)pg_col_i8(r, i, 1));
        u->records++;
    }
}

/* --- queries --- */

/* Columns as in SQL_KV_GET and SQL_KV_LIST. */
static struct kv_view view_of(const PGresult *r, int at, bool value)
{
    return (struct kv_view){.key = pg_col_bytes(r, at, 0),
                            .found = true,
                            .version = (uint64_t)pg_col_i8(r, at, 1),
                            .expires_at = {pg_col_time(r, at, 2)},
                            .kind = pg_col_kind(r, at, 3, PAYLOAD_BYTES + 1),
                            .has_value = value,
                            .value = pg_col_bytes(r, at, 4)};
}

void pg_keys_send_get(struct unit *u, const struct op_kv_get *want)
{
    struct args *a = &pg_unit(u)->args;
    pg_array_begin(a, ARRAY_BYTES);
    for (uint32_t i = 0; i < want->count && want->count <= LIMIT_KV_KEYS; i++)
        pg_array_blob(a, want->keys[i]);
    pg_array_end(a);
    pg_args_bool(a, want->want_value);
    pg_conn_send(pg_pipeline_of(u), SQL_KV_GET, a);
}

static int row_of(const PGresult *r, struct span key)
{
    int n = PQntuples(r);
    for (int i = 0; i < n; i++)
        if (span_equal(pg_col_bytes(r, i, 0), key))
            return i;
    return -1;
}

void pg_keys_answer_get(struct unit *u, struct turn *t, const PGresult *r)
{
    const struct op_kv_get *want = &t->op->kv_get;
    const char *note = NULL;
    enum outcome out = kv_keys_right(want->keys, want->count, &note);
    if (out != OUT_OK) {
        unit_refuse(t, out, note);
        return;
    }
    struct kv_view *views = arena_array(&u->arena, want->count ? want->count : 1, sizeof *views);
    if (!views) {
        unit_refuse(t, OUT_UNAVAILABLE, "out of memory");
        return;
    }
    for (uint32_t i = 0; i < want->count; i++) {
        int at = row_of(r, want->keys[i]);
        int64_t expires = at < 0 ? 0 : pg_col_time(r, at, 2);
        if (at >= 0 && (!expires || expires > u->now.ms))
            views[i] = view_of(r, at, want->want_value);
        views[i].key = want->keys[i];
    }
    t->reply.kvs = views;
    t->reply.kv_count = want->count;
}

void pg_keys_send_list(struct pg_store *s, const struct op_kv_list *want)
{
    struct args *a = &s->search_unit.args;
    struct kv_bounds bounds = {{NULL, 0}, {NULL, 0}}; /* without memory: an empty range */
    a->failed |= kv_bounds_of(want, &s->search_unit.unit.arena, &bounds) != 0;
    pg_args_bytes(a, bounds.low);
    pg_args_bytes(a, bounds.end);
    pg_args_i8(a, shared_manual_now(&s->sh));
    pg_args_bool(a, want->want_value);
    pg_args_i4(a, (int32_t)shared_limit(want->limit) + 1);
    pg_conn_send(s->reader, want->reverse ? SQL_KV_LIST_BACK : SQL_KV_LIST, a);
}

void pg_keys_answer_list(struct pg_store *s, const struct op_kv_list *want, struct reply *reply)
{
    const PGresult *r = pg_conn_result(s->reader, 1);
    uint32_t limit = shared_limit(want->limit), n = (uint32_t)PQntuples(r), shown = 0;
    size_t bytes = 0;
    struct kv_view *views = arena_array(&s->search_unit.unit.arena, (size_t)n + 1, sizeof *views);
    if (!views) {
        reply->outcome = OUT_UNAVAILABLE;
        return;
    }
    while (shown < n && shown < limit && bytes < LIMIT_ANSWER_BYTES) {
        views[shown] = view_of(r, (int)shown, want->want_value);
        bytes += views[shown++].value.len;
    }
    reply->kvs = views;
    reply->kv_count = shown;
    if (shown > 0 && shown < n)
        reply->kv_cursor = views[shown - 1].key;
    reply->kv_as_of = s->sh.figures.position;
}
