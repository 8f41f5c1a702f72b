/* SPDX-License-Identifier: Apache-2.0 */
/* The key-value store in SQLite: `kv` has a row for each key, by its encoding, which sorts as keys
 * do; `undelivered` has the keys under which the payload of a job is stored when the job dies. */
#include <inttypes.h>

#include "backend/kv_bounds.h"
#include "backend/local/sqlite/damage.h"
#include "backend/local/sqlite/read.h"
#include "backend/local/sqlite/rules.h"
#include "core/limits.h"

/* ---- writing ---- */

static void bind_kv(sqlite3_stmt *st, struct span key, uint64_t version, struct wall_time expires,
                    uint8_t kind)
{
    bind_bytes(st, 1, key);
    bind_number(st, 2, version);
    bind_number(st, 3, (uint64_t)expires.ms);
    bind_number(st, 4, kind);
}

static int put(struct store_sqlite *q, const struct rec_kv_set *r, struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_KV_PUT];
    bind_kv(st, r->key, r->version, r->expires_at, r->kind);
    bind_body(st, 5, r->value);
    return sql_run(st, "write", note);
}

/* If the payload cannot be read, the key gets a damaged value: readers recognise it by a checksum
 * that no empty value has. */
static int put_damaged(struct store_sqlite *q, const struct rec_kv_set *r, struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_KV_PUT];
    bind_kv(st, r->key, r->version, r->expires_at, r->kind);
    bind_bytes(st, 5, span_of(NULL, 0));
    bind_number(st, 6, 1);
    return sql_run(st, "write", note);
}

/* The payload is in the batch if the batch created it, otherwise in its row. */
static int from_job(struct store_sqlite *q, const struct rec_kv_from_job *r, struct err_note *note)
{
    const struct change *c = change_set_find(&q->change_set, r->seq);
    struct rec_kv_set set = {.key = r->key, .version = r->version, .kind = r->kind};
    if (r->bytes == 0)
        return put(q, &set, note);
    if (c && (c->flags & CHANGE_PAYLOAD)) {
        set.value = c->payload;
        return put(q, &set, note);
    }
    int rc = gone_none(q, r->seq, r->seq, note);
    if (rc != 0)
        return rc;
    bool unreadable;
    rc = damage_payload(q, r->seq, &unreadable, note);
    if (rc != 0 || unreadable)
        return rc ? rc : put_damaged(q, &set, note);
    sqlite3_stmt *st = q->stmts[STMT_KV_FROM_JOB];
    bind_kv(st, r->key, r->version, set.expires_at, r->kind);
    bind_number(st, 5, r->seq);
    rc = sql_run(st, "write", note);
    if (rc != 0 || sqlite3_changes(q->db) == 1)
        return rc;
    return put_damaged(q, &set, note);
}

static int gone(struct store_sqlite *q, const struct rec_kv_gone *r, struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_KV_GONE];
    struct span list = r->keys, key;
    int rc = 0;
    while (rc == 0 && list.len > 0) {
        rc = record_span_next(&list, &key);
        if (rc != 0)
            return err_note_set(note, rc, "a list of keys cannot be read");
        bind_bytes(st, 1, key);
        rc = sql_run(st, "write", note);
        if (rc == 0 && sqlite3_changes(q->db) != 1)
            rc = err_note_set(note, -ERR_CORRUPT, "a record deletes a key that does not exist");
    }
    return rc;
}

static int keys(struct store_sqlite *q, const struct rec_kv_keys *r, struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_UNDELIVERED_NEW];
    bind_number(st, 1, r->seq);
    bind_bytes(st, 2, r->keys);
    bounds_add(&q->undelivered, r->seq);
    return sql_run(st, "write", note);
}

int write_kv_record(struct store_sqlite *q, const struct record *r, struct err_note *note)
{
    switch ((int)r->kind) {
    case REC_KV_SET:
        return put(q, &r->kv_set, note);
    case REC_KV_GONE:
        return gone(q, &r->kv_gone, note);
    case REC_KV_FROM_JOB:
        return from_job(q, &r->kv_from_job, note);
    default:
        return keys(q, &r->kv_keys, note);
    }
}

/* ---- loading ---- */

static int kv_row(sqlite3_stmt *st, const struct store_sink *sink)
{
    struct rec_kv_set kv = {
        .key = column_span(st, 0),
        .version = (uint64_t)sqlite3_column_int64(st, 1),
        .expires_at = {sqlite3_column_int64(st, 2)},
        .kind = (uint8_t)sqlite3_column_int64(st, 3),
    };
    return sink->kv(sink->ctx, &kv, (uint64_t)sqlite3_column_int64(st, 4));
}

static int undelivered_row(sqlite3_stmt *st, const struct store_sink *sink)
{
    return sink->undelivered(sink->ctx, (uint64_t)sqlite3_column_int64(st, 0), column_span(st, 1));
}

int load_kv(sqlite3 *db, const struct store_sink *sink, struct err_note *note)
{
    int rc = load_scan(db, TABLE_KV, "", kv_row, sink, note);
    return rc ? rc : load_scan(db, TABLE_UNDELIVERED, "", undelivered_row, sink, note);
}

/* ---- reading ---- */

#define KV_VALUE 4 /* the column; the checksum is in the next one */

static bool value_good(sqlite3_stmt *st, uint8_t kind)
{
    struct span value = column_span(st, KV_VALUE);
    return (kind != PAYLOAD_NONE || value.len == 0) &&
           body_good(value, sqlite3_column_int64(st, KV_VALUE + 1), kind);
}

static int view_row(sqlite3_stmt *st, bool has_value, struct arena *arena, struct kv_view *ret)
{
    ret->found = true;
    ret->version = (uint64_t)sqlite3_column_int64(st, 1);
    ret->expires_at.ms = sqlite3_column_int64(st, 2);
    ret->kind = (uint8_t)sqlite3_column_int64(st, 3);
    ret->damaged = row_bad_among(TABLE_KV, st, 0, 0, KV_VALUE) >= 0;
    if (!has_value || ret->damaged)
        return 0;
    ret->damaged = !value_good(st, ret->kind);
    ret->has_value = !ret->damaged;
    return ret->has_value ? read_span(st, KV_VALUE, arena, &ret->value) : 0;
}

int sqlite_kv_get(struct store_reader *reader, struct kv_view *views, uint32_t count,
                  struct arena *arena)
{
    struct reader_sqlite *r = reader_sqlite_of(reader);
    sqlite3_stmt *st = r->stmts[READ_KV];
    int rc = read_begin(r);
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        views[i] = (struct kv_view){.key = views[i].key};
        bind_bytes(st, 1, views[i].key);
        rc = read_row(r, st);
        if (rc == 0)
            rc = view_row(st, true, arena, &views[i]);
        else if (rc == -ERR_CORRUPT) /* a page of the value, or of some keys, is damaged */
            views[i].found = views[i].damaged = true;
        if (rc == -ERR_NOT_FOUND || rc == -ERR_CORRUPT)
            rc = 0;
        sqlite3_reset(st);
    }
    return read_end(r, rc);
}

/* One more row than the page shows whether there is another page. */
static int list_rows(struct reader_sqlite *r, sqlite3_stmt *st, const struct op_kv_list *query,
                     struct arena *arena, struct kv_view *views, uint32_t *ret_count,
                     struct span *ret_cursor)
{
    uint32_t count = 0;
    size_t bytes = 0;
    int rc;
    while ((rc = read_row(r, st)) == 0) {
        if (count == query->limit || bytes >= LIMIT_ANSWER_BYTES) {
            *ret_cursor = views[count - 1].key;
            break;
        }
        rc = read_span(st, 0, arena, &views[count].key);
        if (rc == 0)
            rc = view_row(st, query->want_value, arena, &views[count]);
        if (rc != 0)
            break;
        bytes += views[count++].value.len;
    }
    *ret_count = count;
    return rc == -ERR_NOT_FOUND ? 0 : rc;
}

int sqlite_kv_list(struct store_reader *reader, const struct op_kv_list *query, struct arena *arena,
                   struct kv_view **ret, uint32_t *ret_count, struct span *ret_cursor,
                   uint64_t *ret_as_of)
{
    struct reader_sqlite *r = reader_sqlite_of(reader);
    struct kv_view *views = arena_array(arena, query->limit, sizeof *views);
    struct kv_bounds bounds;
    int rc = views ? kv_bounds_of(query, arena, &bounds) : -ERR_NOMEM;
    if (rc != 0)
        return rc;
    sqlite3_stmt *st = r->stmts[query->reverse ? READ_KV_DOWN : READ_KV_UP];
    *ret_cursor = (struct span){NULL, 0};
    *ret = views;
    rc = read_begin(r);
    if (rc == 0)
        rc = list_position(r, ret_as_of);
    if (rc == 0) {
        bind_bytes(st, 1, bounds.low);
        bind_bytes(st, 2, bounds.end);
        bind_number(st, 3, (uint64_t)query->now.ms);
        bind_number(st, 4, query->want_value);
        rc = list_rows(r, st, query, arena, views, ret_count, ret_cursor);
    }
    return read_end(r, rc);
}
