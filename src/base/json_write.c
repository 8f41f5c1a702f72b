/* SPDX-License-Identifier: Apache-2.0 */
/* The writer. The first failure is kept, and every later call does nothing, so that callers check
 * once, at the end. */
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/json.h"
#include "base/json_escape.h"

void json_writer_init(struct json_writer *w, struct buf *out)
{
    *w = (struct json_writer){.out = out};
}

static void put(struct json_writer *w, const char *bytes, size_t len)
{
    if (w->error == 0)
        w->error = buf_append(w->out, bytes, len);
}

static bool in_object(const struct json_writer *w)
{
    size_t level = w->depth - 1;
    return w->depth > 0 && (w->is_object[level / 64] >> (level % 64) & 1);
}

/* Before any value: in an object a key must be open; at the top there is only one value. */
static void value_begin(struct json_writer *w)
{
    if (w->error != 0)
        return;
    CHECK(in_object(w) ? w->after_key : w->depth > 0 || !w->comma);
    if (w->comma && !w->after_key)
        put(w, ",", 1);
    w->after_key = false;
    w->comma = true;
}

static void container_begin(struct json_writer *w, bool object)
{
    value_begin(w);
    if (w->error != 0)
        return;
    CHECK(w->depth < JSON_DEPTH_MAX);
    uint64_t bit = UINT64_C(1) << (w->depth % 64);
    uint64_t *levels = &w->is_object[w->depth / 64];
    *levels = object ? *levels | bit : *levels & ~bit;
    w->depth++;
    w->comma = false;
    put(w, object ? "{" : "[", 1);
}

static void container_end(struct json_writer *w, bool object)
{
    if (w->error != 0)
        return;
    CHECK(w->depth > 0 && in_object(w) == object && !w->after_key);
    w->depth--;
    w->comma = true;
    put(w, object ? "}" : "]", 1);
}

void json_write_object(struct json_writer *w)
{
    container_begin(w, true);
}

void json_write_object_end(struct json_writer *w)
{
    container_end(w, true);
}

void json_write_array(struct json_writer *w)
{
    container_begin(w, false);
}

void json_write_array_end(struct json_writer *w)
{
    container_end(w, false);
}

static size_t plain_run(struct span s)
{
    size_t i = 0;
    while (i < s.len) {
        unsigned char c = (unsigned char)s.at[i];
        if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
            break;
        i++;
    }
    return i;
}

static void put_quoted(struct json_writer *w, struct span s)
{
    char piece[JSON_ESCAPE_MAX];
    put(w, "\"", 1);
    while (s.len > 0 && w->error == 0) {
        size_t taken = plain_run(s);
        if (taken > 0)
            put(w, s.at, taken);
        else
            put(w, piece, json_escape(s, piece, &taken));
        s = span_of(s.at + taken, s.len - taken);
    }
    put(w, "\"", 1);
}

void json_write_key_span(struct json_writer *w, struct span name)
{
    if (w->error != 0)
        return;
    CHECK(in_object(w) && !w->after_key);
    if (w->comma)
        put(w, ",", 1);
    put_quoted(w, name);
    put(w, ":", 1);
    w->after_key = true;
}

void json_write_key(struct json_writer *w, const char *name)
{
    json_write_key_span(w, span_text(name));
}

void json_write_text(struct json_writer *w, struct span utf8)
{
    value_begin(w);
    put_quoted(w, utf8);
}

static void put_value(struct json_writer *w, const char *text)
{
    value_begin(w);
    put(w, text, strlen(text));
}

void json_write_int(struct json_writer *w, int64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, v);
    put_value(w, text);
}

void json_write_uint(struct json_writer *w, uint64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, v);
    put_value(w, text);
}

void json_write_bool(struct json_writer *w, bool v)
{
    put_value(w, v ? "true" : "false");
}

void json_write_null(struct json_writer *w)
{
    put_value(w, "null");
}

void json_write_raw(struct json_writer *w, struct span value)
{
    CHECK(value.len > 0);
    value_begin(w);
    put(w, value.at, value.len);
}

int json_writer_finish(struct json_writer *w)
{
    CHECK(w->error != 0 || (w->depth == 0 && w->comma));
    return w->error;
}
