/* SPDX-License-Identifier: Apache-2.0 */
/* The writer. The first failure is kept, and every later call does nothing, so that callers check
 * once, at the end. */
#include "base/check.h"
#include "base/json/json.h"
#include "base/json/json_escape.h"

void json_writer_init(struct json_writer *w, struct buf *out)
{
    *w = (struct json_writer){.out = out};
}

static void put(struct json_writer *w, const char *bytes, size_t len)
{
    if (w->error == 0)
        w->error = buf_append(w->out, bytes, len);
}

/* Room for more bytes behind what is there, or NULL after a failure. What was put there counts once
 * room_used is called. */
static char *room_for(struct json_writer *w, size_t more)
{
    struct buf *b = w->out;
    if (w->error == 0 && b->cap - b->len < more)
        w->error = buf_reserve(b, more);
    return w->error == 0 ? b->data + b->len : NULL;
}

static void room_used(struct json_writer *w, const char *end)
{
    w->out->len = (size_t)(end - w->out->data);
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

/* Any byte of the eight below 0x20, above 0x7f, a quote or a backslash? The usual tricks with
 * carries between bytes are exact as long as no byte has its high bit set, and that is asked too.
 */
static bool eight_plain(const char *at)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    uint64_t v;
    memcpy(&v, at, sizeof v);
    uint64_t control = v - ones * 0x20;
    uint64_t quote = (v ^ ones * '"') - ones;
    uint64_t backslash = (v ^ ones * '\\') - ones;
    return ((v | control | quote | backslash) & high) == 0;
}

static size_t plain_run(struct span s)
{
    size_t i = 0;
    while (s.len - i >= 8 && eight_plain(s.at + i))
        i += 8;
    while (i < s.len) {
        unsigned char c = (unsigned char)s.at[i];
        if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
            break;
        i++;
    }
    return i;
}

static void put_escaped(struct json_writer *w, struct span s)
{
    char piece[JSON_ESCAPE_MAX];
    while (s.len > 0 && w->error == 0) {
        size_t taken = plain_run(s);
        if (taken > 0)
            put(w, s.at, taken);
        else
            put(w, piece, json_escape(s, piece, &taken));
        s = span_of(s.at + taken, s.len - taken);
    }
}

/* Most texts need no escape and go in one piece. */
static void put_quoted(struct json_writer *w, struct span s)
{
    size_t plain = plain_run(s);
    char *at = room_for(w, plain + 2);
    if (!at)
        return;
    *at++ = '"';
    if (plain > 0)
        memcpy(at, s.at, plain);
    at += plain;
    if (plain == s.len)
        *at++ = '"';
    room_used(w, at);
    if (plain == s.len)
        return;
    put_escaped(w, span_of(s.at + plain, s.len - plain));
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

#define DIGITS_MAX 20 /* of a uint64 */

static void put_number(struct json_writer *w, bool negative, uint64_t v)
{
    char text[DIGITS_MAX + 1];
    char *at = text + sizeof text;
    do {
        *--at = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    if (negative)
        *--at = '-';
    value_begin(w);
    put(w, at, (size_t)(text + sizeof text - at));
}

void json_write_int(struct json_writer *w, int64_t v)
{
    put_number(w, v < 0, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

void json_write_uint(struct json_writer *w, uint64_t v)
{
    put_number(w, false, v);
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
