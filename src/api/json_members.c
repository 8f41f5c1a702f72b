/* SPDX-License-Identifier: Apache-2.0 */
#include "api/json_members.h"

#include "core/kvkey.h"

#include <stdio.h>

#include "base/digest/base64.h"
#include "base/mem.h"
#include "base/utf8.h"

void write_text(struct json_writer *w, const char *key, const char *value)
{
    write_span(w, key, span_text(value));
}

void write_object(struct json_writer *w, const char *key)
{
    json_write_key(w, key);
    json_write_object(w);
}

void write_array(struct json_writer *w, const char *key)
{
    json_write_key(w, key);
    json_write_array(w);
}

void write_span(struct json_writer *w, const char *key, struct span value)
{
    json_write_key(w, key);
    json_write_text(w, value);
}

void write_span_if(struct json_writer *w, const char *key, struct span value)
{
    if (value.len > 0)
        write_span(w, key, value);
}

void write_uint(struct json_writer *w, const char *key, uint64_t value)
{
    json_write_key(w, key);
    json_write_uint(w, value);
}

void write_int(struct json_writer *w, const char *key, int64_t value)
{
    json_write_key(w, key);
    json_write_int(w, value);
}

void write_bool(struct json_writer *w, const char *key, bool value)
{
    json_write_key(w, key);
    json_write_bool(w, value);
}

void write_time(struct json_writer *w, const char *key, struct wall_time t)
{
    char text[WALL_TEXT_BYTES];
    json_write_key(w, key);
    if (t.ms == 0) {
        json_write_null(w);
        return;
    }
    wall_text(t, text);
    json_write_text(w, span_text(text));
}

void write_time_if(struct json_writer *w, const char *key, struct wall_time t)
{
    if (t.ms != 0)
        write_time(w, key, t);
}

void write_id(struct json_writer *w, const char *key, uint64_t id_hi, uint64_t seq)
{
    char text[ID_ULID_BYTES];
    id_ulid(id_make(id_hi, seq), text);
    write_text(w, key, text);
}

void write_job_name(struct json_writer *w, uint64_t id_hi, uint64_t seq)
{
    write_id(w, "id", id_hi, seq);
    write_uint(w, "seq", seq);
}

void write_next_cursor(struct json_writer *w, struct span cursor)
{
    json_write_key(w, "next_cursor");
    if (cursor.len > 0)
        json_write_text(w, cursor);
    else
        json_write_null(w);
}

/* Includes the quotes, so that the writer takes it as a finished value. */
static void write_base64(struct json_writer *w, struct span bytes)
{
    size_t len = base64_len(bytes.len);
    char *text = len < SIZE_MAX - 2 ? mem_alloc(len + 2) : NULL;
    if (!text) {
        json_write_null(w);
        w->error = w->error ? w->error : -ERR_NOMEM;
        return;
    }
    text[0] = '"';
    base64_encode(bytes, text + 1);
    text[len + 1] = '"';
    json_write_raw(w, span_of(text, len + 2));
    mem_free(text);
}

void write_bytes(struct json_writer *w, const char *prefix, uint8_t kind, struct span bytes)
{
    char key[32];
    if (kind != PAYLOAD_BYTES) {
        json_write_key(w, prefix);
        if (kind == PAYLOAD_JSON && bytes.len > 0)
            json_write_raw(w, bytes);
        else
            json_write_null(w);
        return;
    }
    bool text = bytes.len == 0 || (!memchr(bytes.at, 0, bytes.len) && utf8_valid(bytes));
    snprintf(key, sizeof key, "%s_%s", prefix, text ? "text" : "base64");
    json_write_key(w, key);
    if (text)
        json_write_text(w, bytes);
    else
        write_base64(w, bytes);
}

void write_kv(struct json_writer *w, const struct kv_view *v)
{
    json_write_key(w, "key");
    kvkey_write(w, v->key);
    json_write_key(w, "version");
    if (!v->found) {
        json_write_null(w);
        return;
    }
    json_write_uint(w, v->version);
    if (v->has_value)
        write_bytes(w, "value", v->kind, v->value);
    if (v->damaged) {
        json_write_key(w, "damaged");
        json_write_bool(w, true);
    }
    write_time_if(w, "expires_at", v->expires_at);
}

void write_kv_keys_if(struct json_writer *w, const char *key, struct span keys)
{
    struct span one;
    if (keys.len == 0)
        return;
    json_write_key(w, key);
    json_write_array(w);
    while (keys.len > 0 && record_span_next(&keys, &one) == 0)
        kvkey_write(w, one);
    json_write_array_end(w);
}
