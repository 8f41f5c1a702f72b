/* SPDX-License-Identifier: Apache-2.0 */
/* GET /keyval/api/keys: keys of the key-value store that begin with a prefix. */
#include "api/json_members.h"
#include "api/keyval/keyval_impl.h"
#include "api/kv_keys.h"
#include "core/kvkey.h"
#include "core/limits.h"

#define LIST_LIMIT 100

struct keys_in {
    struct span prefix, cursor;
    int64_t limit;
};

static const struct field rows[] = {
    {"prefix", FIELD_KV_KEY, offsetof(struct keys_in, prefix), 0, 0, NULL, 0},
    {"limit", FIELD_INT, offsetof(struct keys_in, limit), 1, LIMIT_BATCH, NULL, 0},
    {"cursor", FIELD_TEXT, offsetof(struct keys_in, cursor), 0, 2 * LIMIT_KV_KEY_BYTES + 1, NULL,
     0},
};

static void listed(struct call *c, const struct reply *r)
{
    struct json_writer w;
    const char *cursor = r->kv_cursor.len ? kv_cursor_text(c->arena, r->kv_cursor, false) : NULL;
    answer_object_begin(c->x, &w);
    write_array(&w, "keys");
    for (uint32_t i = 0; i < r->kv_count; i++) {
        json_write_object(&w);
        json_write_key(&w, "key");
        kvkey_write(&w, r->kvs[i].key);
        json_write_key(&w, "value");
        keyval_write_value(&w, r->kvs[i].kind, r->kvs[i].value);
        write_uint(&w, "version", r->kvs[i].version);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    json_write_key(&w, "cursor");
    if (cursor)
        json_write_text(&w, span_text(cursor));
    else
        json_write_null(&w);
    json_write_object_end(&w);
    if (r->kv_cursor.len && !cursor)
        w.error = w.error ? w.error : -ERR_NOMEM;
    answer_end(c->x, &w, 200);
}

void keyval_keys_handle(void *ctx, struct http_exchange *x)
{
    struct keyval *k = ctx;
    struct keys_in in = {.limit = LIST_LIMIT};
    struct problem p;
    struct field_reader r = reader_of(k->broker, x, FIELDS(rows), &in, &p);
    struct call *c = keyval_call(k, x, OP_KV_LIST, listed);
    if (!c)
        return;
    http_alone(x);
    int err = fields_read_query(&r, http_request(x)->query);
    c->op.kv_list =
        (struct op_kv_list){.prefix = in.prefix, .limit = (uint32_t)in.limit, .want_value = true};
    if (err == 0 && in.cursor.len &&
        kv_cursor_parse(c->arena, in.cursor, false, &c->op.kv_list.after) < 0) {
        problem_set(&p, c->arena, PROBLEM_INVALID_FIELD, "cursor",
                    "cursor must be the cursor of an earlier reply to the same list");
        err = -ERR_INVALID;
    }
    if (err < 0)
        problem_answer(x, &p);
    else
        call_submit(c);
}
