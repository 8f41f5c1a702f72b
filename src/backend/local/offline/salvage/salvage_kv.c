/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of the key-value store: the table, with what the journal says laid over it. Both are walked
 * in the order of the keys. Where the table is damaged, what lies behind is read from its end. */
#include <stdlib.h>
#include <string.h>

#include "backend/local/offline/salvage/salvage_impl.h"
#include "backend/local/sqlite/rules.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "core/kvkey.h"

static int by_key(const void *a, const void *b)
{
    return span_order(((const struct salvage_key *)a)->key, ((const struct salvage_key *)b)->key);
}

/* ---- the journal ---- */

/* Texts of records stay: their frames are kept. */
static int key_set(struct salvage *s, struct salvage_key key)
{
    struct hash128 hash = hash128_of(s->meta.hash_key, key.key);
    uint64_t place = map128_get(&s->key_places, hash);
    if (place) {
        s->keys[place - 1] = key;
        return 0;
    }
    struct salvage_key *grown = mem_more(s->keys, s->key_count, &s->key_room, sizeof *grown);
    if (!grown)
        return -ERR_NOMEM;
    s->keys = grown;
    s->keys[s->key_count++] = key;
    return map128_put(&s->key_places, hash, s->key_count);
}

static int keys_gone(struct salvage *s, const struct rec_kv_gone *r)
{
    struct span list = r->keys, key;
    int rc = 0;
    for (uint32_t i = 0; i < r->count && rc == 0; i++) {
        rc = record_span_next(&list, &key);
        if (rc == 0)
            rc = key_set(s, (struct salvage_key){.key = key, .gone = true});
    }
    return rc;
}

/* The payload as of this record: a later one may replace the payload of the job. */
static int key_from_job(struct salvage *s, const struct rec_kv_from_job *r)
{
    const struct salvage_job *j = salvage_job_of(s, r->seq);
    struct salvage_key key = {.key = r->key, .bytes = r->bytes, .kind = r->kind};
    if (j && j->has_payload)
        key.value = j->payload;
    else if (r->bytes > 0)
        key.seq = r->seq;
    return key_set(s, key);
}

int salvage_key_record(struct salvage *s, const struct record *r)
{
    if (r->kind == REC_KV_GONE)
        return keys_gone(s, &r->kv_gone);
    if (r->kind == REC_KV_FROM_JOB)
        return key_from_job(s, &r->kv_from_job);
    return key_set(s, (struct salvage_key){.key = r->kv_set.key,
                                           .expires_at = r->kv_set.expires_at,
                                           .bytes = (uint32_t)r->kv_set.value.len,
                                           .kind = r->kv_set.kind,
                                           .value = r->kv_set.value});
}

#define ROW_VALUE 4 /* column of the value in ROWS; the checksum is in the next */

/* ---- giving ---- */

static int lost(struct salvage *s, const char *what)
{
    s->report->keys++;
    salvage_problem(s, "%s", what);
    return 0;
}

static bool good(const struct kv_view *v)
{
    return kvkey_check(v->key) == 0 && v->kind <= PAYLOAD_BYTES && v->expires_at.ms >= 0 &&
           (v->kind != PAYLOAD_JSON || json_check(v->value, NULL, NULL) == 0);
}

static int give(struct salvage *s, const struct kv_view *v)
{
    return good(v) ? s->sink->key(s->sink->ctx, v) : lost(s, "a key's row is damaged");
}

static int journal_give(struct salvage *s, const struct salvage_key *k)
{
    struct kv_view v = {.key = k->key,
                        .found = true,
                        .expires_at = k->expires_at,
                        .kind = k->kind,
                        .has_value = true,
                        .value = k->value};
    if (k->gone)
        return 0;
    int rc = k->seq ? salvage_payload(s, k->seq, &v.value) : 0;
    if (rc == 0)
        rc = v.value.len != k->bytes ? -ERR_CORRUPT : give(s, &v);
    sqlite3_reset(s->stmts[SALVAGE_PAYLOAD]);
    if (rc == -ERR_NOT_FOUND || rc == -ERR_CORRUPT)
        rc = lost(s, "the payload that is a key's value cannot be read");
    return rc;
}

/* Those of the journal that come before this key; *at is the first that does not. */
static int journal_upto(struct salvage *s, size_t *at, const struct span *key)
{
    int rc = 0;
    while (rc == 0 && *at < s->key_count && (!key || span_order(s->keys[*at].key, *key) < 0))
        rc = journal_give(s, &s->keys[(*at)++]);
    return rc;
}

static struct kv_view kv_row_view(sqlite3_stmt *st)
{
    return (struct kv_view){.key = column_span(st, 0),
                            .found = true,
                            .expires_at = {sqlite3_column_int64(st, 2)},
                            .kind = (uint8_t)sqlite3_column_int64(st, 3),
                            .has_value = true,
                            .value = column_span(st, ROW_VALUE)};
}

static int row_give(struct salvage *s, sqlite3_stmt *st, const struct kv_view *v)
{
    bool sound = row_bad_among(TABLE_KV, st, 0, 0, ROW_VALUE) < 0 &&
                 body_good(v->value, sqlite3_column_int64(st, ROW_VALUE + 1), v->kind);
    return sound ? give(s, v) : lost(s, "a key's row is damaged");
}

static bool overlaid(const struct salvage *s, struct span key)
{
    return map128_get(&s->key_places, hash128_of(s->meta.hash_key, key)) != 0;
}

/* Rising, with the journal's in between; `last` is the last row that could be read. */
static int rows_rising(struct salvage *s, sqlite3_stmt *st, struct buf *last, bool *ret_damaged)
{
    size_t at = 0;
    int rc = 0, step = SQLITE_ROW;
    while (rc == 0 && (step = sqlite3_step(st)) == SQLITE_ROW) {
        struct kv_view v = kv_row_view(st);
        rc = journal_upto(s, &at, &v.key);
        if (rc == 0 && !overlaid(s, v.key))
            rc = row_give(s, st, &v);
        buf_clear(last);
        if (rc == 0)
            rc = buf_append_span(last, v.key);
    }
    if (rc == 0)
        rc = journal_upto(s, &at, NULL);
    *ret_damaged = rc == 0 && step != SQLITE_DONE;
    return rc;
}

/* From the end down to what was read already. */
static int rows_falling(struct salvage *s, sqlite3_stmt *st, const struct buf *last)
{
    int rc = 0;
    while (rc == 0 && sqlite3_step(st) == SQLITE_ROW) {
        struct kv_view v = kv_row_view(st);
        if (last->len > 0 && span_order(v.key, buf_span(last)) <= 0)
            break;
        if (!overlaid(s, v.key))
            rc = row_give(s, st, &v);
    }
    return rc;
}

#define ROWS "SELECT key, version, expires_at, kind, value, crc FROM kv ORDER BY key"

static int rows_give(struct salvage *s)
{
    sqlite3_stmt *rising = NULL, *falling = NULL;
    struct err_note ignored;
    struct buf last;
    size_t at = 0;
    buf_init(&last);
    bool damaged = false;
    int rc = sql_prepare(s->db, ROWS, &rising, &ignored);
    if (rc == 0)
        rc = sql_prepare(s->db, ROWS " DESC", &falling, &ignored);
    if (rc == 0) {
        rc = rows_rising(s, rising, &last, &damaged);
    } else if (rc != -ERR_NOMEM) {
        damaged = true;
        rc = journal_upto(s, &at, NULL);
    }
    if (rc == 0 && damaged)
        rc = lost(s, "keys of the key-value store cannot be read");
    if (rc == 0 && damaged && falling)
        rc = rows_falling(s, falling, &last);
    sqlite3_finalize(rising);
    sqlite3_finalize(falling);
    buf_done(&last);
    return rc;
}

int salvage_keys_give(struct salvage *s)
{
    if (s->key_count > 0)
        qsort(s->keys, s->key_count, sizeof *s->keys, by_key);
    return rows_give(s);
}
