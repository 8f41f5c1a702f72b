/* SPDX-License-Identifier: Apache-2.0 */
/* The key-value store: reads, lists, and single keys that are one text. */
#include <stdio.h>

#include "api/cursor.h"
#include "api/json_members.h"
#include "api/kv_keys.h"
#include "api/v1/kv/commit.h"
#include "core/kvkey.h"
#include "core/limits.h"

#define LIST_LIMIT 100

/* ---- some keys ---- */

struct get_in {
    struct texts_in keys;
    bool values;
};

static const struct field get_rows[] = {
    {"keys", FIELD_KV_KEYS, offsetof(struct get_in, keys), 0, LIMIT_KV_KEYS, NULL, FIELD_REQUIRED},
    {"values", FIELD_BOOL, offsetof(struct get_in, values), 0, 0, NULL, 0},
};

static void write_views(struct json_writer *w, const struct reply *r)
{
    write_array(w, "keys");
    for (uint32_t i = 0; i < r->kv_count; i++) {
        json_write_object(w);
        write_kv(w, &r->kvs[i]);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

static void kv_got(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_object_begin(c->x, &w);
    write_views(&w, r);
    answer_object_end(c->x, &w, 200);
}

void kv_get_handle(void *ctx, struct http_exchange *x)
{
    struct get_in in = {.values = true};
    struct problem p;
    struct field_reader r = reader_of(broker_of(ctx), x, FIELDS(get_rows), &in, &p);
    if (!query_none(broker_of(ctx), x))
        return;
    if (!body_read(&r, x))
        return;
    struct call *c = call_new(broker_of(ctx), ctx, x, OP_KV_GET, kv_got);
    if (!c)
        return;
    http_alone(x);
    c->op.kv_get = (struct op_kv_get){
        .keys = in.keys.list, .count = (uint32_t)in.keys.count, .want_value = in.values};
    call_submit(c);
}

/* ---- lists ---- */

struct list_in {
    struct span prefix, from, to, cursor;
    int64_t limit;
    bool reverse, values;
};

#define LIST_AT(member) offsetof(struct list_in, member)
static const struct field list_rows[] = {
    {"prefix", FIELD_KV_KEY, LIST_AT(prefix), 0, 0, NULL, 0},
    {"from", FIELD_KV_KEY, LIST_AT(from), 1, 0, NULL, 0},
    {"to", FIELD_KV_KEY, LIST_AT(to), 1, 0, NULL, 0},
    {"limit", FIELD_INT, LIST_AT(limit), 1, LIMIT_BATCH, NULL, 0},
    {"cursor", FIELD_TEXT, LIST_AT(cursor), 0, 2 * LIMIT_KV_KEY_BYTES + 1, NULL, 0},
    {"reverse", FIELD_BOOL, LIST_AT(reverse), 0, 0, NULL, 0},
    {"values", FIELD_BOOL, LIST_AT(values), 0, 0, NULL, 0},
};

static void kv_listed(struct call *c, const struct reply *r)
{
    struct json_writer w;
    const char *cursor =
        r->kv_cursor.len ? kv_cursor_text(c->arena, r->kv_cursor, c->op.kv_list.reverse) : NULL;
    if (r->kv_cursor.len && !cursor) {
        answer_error(c->x, -ERR_NOMEM);
        return;
    }
    answer_object_begin(c->x, &w);
    write_views(&w, r);
    write_next_cursor(&w, span_text(cursor ? cursor : ""));
    write_uint(&w, "as_of", r->kv_as_of);
    answer_object_end(c->x, &w, 200);
}

void kv_list_handle(void *ctx, struct http_exchange *x)
{
    struct list_in in = {.limit = LIST_LIMIT, .values = true};
    struct problem p;
    struct field_reader r = reader_of(broker_of(ctx), x, FIELDS(list_rows), &in, &p);
    struct call *c = call_new(broker_of(ctx), ctx, x, OP_KV_LIST, kv_listed);
    if (!c)
        return;
    http_alone(x);
    int err = fields_read_query(&r, http_request(x)->query);
    struct op_kv_list *op = &c->op.kv_list;
    *op = (struct op_kv_list){.prefix = in.prefix,
                              .from = in.from,
                              .to = in.to,
                              .limit = (uint32_t)in.limit,
                              .reverse = in.reverse,
                              .want_value = in.values};
    if (err == 0 && in.cursor.len &&
        kv_cursor_parse(c->arena, in.cursor, in.reverse, &op->after) < 0)
        err = cursor_refuse(&r);
    if (err < 0)
        problem_answer(x, &p);
    else
        call_submit(c);
}

/* ---- one key that is one text ---- */

static bool path_key(struct http_exchange *x, struct span *ret)
{
    struct err_note note = {""};
    struct problem p;
    struct arena *arena = http_request(x)->arena;
    int err = kvkey_from_text(http_request(x)->params[0], arena, ret, &note);
    if (err == 0)
        return true;
    problem_set(&p, arena, PROBLEM_INVALID_FIELD, "key", "%s",
                note.text[0] ? note.text : err_text(err));
    problem_answer(x, &p);
    return false;
}

static void etag(struct http_exchange *x, uint64_t version)
{
    char text[28];
    int len = snprintf(text, sizeof text, "\"%llu\"", (unsigned long long)version);
    http_answer_header(x, "ETag", span_of(text, (size_t)len));
}

static void one_got(struct call *c, const struct reply *r)
{
    static const struct problem none = {.code = PROBLEM_NO_KEY};
    static const struct problem damaged = {.code = PROBLEM_DAMAGED};
    struct json_writer w;
    if (!r->kvs[0].found || r->kvs[0].damaged) {
        problem_answer(c->x, r->kvs[0].found ? &damaged : &none);
        return;
    }
    answer_object_begin(c->x, &w);
    write_kv(&w, &r->kvs[0]);
    json_write_object_end(&w);
    etag(c->x, r->kvs[0].version);
    answer_end(c->x, &w, 200);
}

void kv_one_get_handle(void *ctx, struct http_exchange *x)
{
    struct span *key = arena_alloc(http_request(x)->arena, sizeof *key);
    if (!key) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    if (!query_none(broker_of(ctx), x) || !path_key(x, key))
        return;
    struct call *c = call_new(broker_of(ctx), ctx, x, OP_KV_GET, one_got);
    if (!c)
        return;
    c->op.kv_get = (struct op_kv_get){.keys = key, .count = 1, .want_value = true};
    call_submit(c);
}

struct one_in {
    int64_t version, expires_in_ms;
    struct wall_time expires_at;
};

#define ONE_AT(member) offsetof(struct one_in, member)
static const struct field one_rows[] = {
    {"version", FIELD_INT, ONE_AT(version), 0, VERSION_MAX, NULL, 0},
    {"expires_at", FIELD_TIME, ONE_AT(expires_at), 0, 0, NULL, 0},
    {"expires_in_ms", FIELD_INT, ONE_AT(expires_in_ms), 1, LIMIT_WALL_MS, NULL, 0},
};

/* If-Match: "VERSION", If-None-Match: *, or ?version=, where 0 means that the key does not
 * exist. */
static int take_condition(struct field_reader *r, struct http_exchange *x, struct one_in *in,
                          bool *ret_given)
{
    struct span match = http_request_header(http_request(x), "if-match");
    struct span none = http_request_header(http_request(x), "if-none-match");
    static const struct field row[] = {{"If-Match", FIELD_INT, 0, 1, VERSION_MAX, NULL, 0}};
    *ret_given = fields_has(r, "version");
    if (match.len + none.len == 0)
        return 0;
    if (*ret_given || (match.len && none.len)) {
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "version",
                    "give one of version, If-Match and If-None-Match");
        return -ERR_INVALID;
    }
    *ret_given = true;
    if (none.len) {
        if (span_equal(none, SPAN_LITERAL("*")))
            return 0;
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "If-None-Match",
                    "If-None-Match must be *, which means that the key must not exist");
        return -ERR_INVALID;
    }
    if (match.len > 2 && match.at[0] == '"' && match.at[match.len - 1] == '"')
        match = span_of(match.at + 1, match.len - 2);
    struct field_reader header = *r;
    header.table = FIELDS(row);
    header.into = &in->version;
    return fields_read_one(&header, 0, match);
}

static void one_changed(struct call *c, const struct reply *r)
{
    static const struct problem none = {.code = PROBLEM_NO_KEY};
    struct json_writer w;
    bool put = c->op.kv_commit.set_count > 0;
    if (!put && r->deleted == 0) {
        problem_answer(c->x, &none);
        return;
    }
    answer_object_begin(c->x, &w);
    json_write_key(&w, "key");
    kvkey_write(&w, put ? c->op.kv_commit.sets[0].key : c->op.kv_commit.deletes[0]);
    write_uint(&w, "version", r->version);
    if (!put)
        write_bool(&w, "deleted", true);
    json_write_object_end(&w);
    if (put)
        etag(c->x, r->version);
    answer_end(c->x, &w, 200);
}

static bool body_json(struct http_exchange *x, struct problem *p)
{
    const char *error;
    size_t at;
    if (json_check(http_request(x)->body, &error, &at) == 0)
        return true;
    problem_set(p, http_request(x)->arena, PROBLEM_MALFORMED_JSON, NULL,
                "the body must be one JSON value, the value of the key; at byte %zu: %s", at,
                error);
    return false;
}

/* The data of a change of a single key, in the exchange's arena. */
struct one {
    struct kv_set set;
    struct kv_check check;
};

static void one_change(struct native *n, struct http_exchange *x, bool put)
{
    struct one_in in = {0};
    struct problem p;
    bool given;
    struct fields table = FIELDS(one_rows);
    table.count = put ? table.count : 1;
    struct field_reader r = reader_of(n->broker, x, table, &in, &p);
    struct one *one = arena_array(http_request(x)->arena, 1, sizeof *one);
    struct call *c = one ? call_new(n->broker, n, x, OP_KV_COMMIT, one_changed) : NULL;
    if (!one)
        answer_error(x, -ERR_NOMEM);
    if (!c || !path_key(x, &one->set.key))
        return;
    if (fields_read_query(&r, http_request(x)->query) < 0 ||
        (put && fields_exclude(&r, "expires_at", "expires_in_ms") < 0) ||
        take_condition(&r, x, &in, &given) < 0 || (put && !body_json(x, &p))) {
        problem_answer(x, &p);
        return;
    }
    one->check = (struct kv_check){.key = one->set.key, .version = (uint64_t)in.version};
    one->set.kind = PAYLOAD_JSON;
    one->set.value = http_request(x)->body;
    one->set.expires_at = in.expires_at;
    if (in.expires_in_ms)
        one->set.expires_at = commit_expiry(broker_now(n->broker).wall, in.expires_in_ms);
    c->op.kv_commit = (struct op_kv_commit){.checks = &one->check,
                                            .check_count = given,
                                            .sets = &one->set,
                                            .set_count = put,
                                            .deletes = &one->set.key,
                                            .delete_count = !put};
    commit_submit(c);
}

void kv_one_put_handle(void *ctx, struct http_exchange *x)
{
    one_change(ctx, x, true);
}

void kv_one_delete_handle(void *ctx, struct http_exchange *x)
{
    if (body_none(broker_of(ctx), x))
        one_change(ctx, x, false);
}
