/* SPDX-License-Identifier: Apache-2.0 */
#include "core/jobs/headers.h"

#include <string.h>

#include "base/json/json.h"
#include "base/utf8.h"
#include "core/limits.h"

/* ---- rules ---- */

static bool token_char(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != 0 && strchr("!#$%&'*+-.^_`|~", c));
}

static int name_check(struct span name, struct err_note *note)
{
    if (name.len == 0 || name.len > HEADER_NAME_BYTES_MAX)
        return err_note_set(note, -ERR_INVALID,
                            "headers has a name of %zu bytes; a name must have 1 to %d", name.len,
                            HEADER_NAME_BYTES_MAX);
    for (size_t i = 0; i < name.len; i++)
        if (!token_char((unsigned char)name.at[i]))
            return err_note_set(note, -ERR_INVALID,
                                "headers has a name with a character other than letters, digits "
                                "and !#$%%&'*+-.^_`|~ at byte %zu",
                                i);
    return 0;
}

static bool has_control(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)text.at[i + 1] < 0xa0))
            return true;
    }
    return false;
}

static int value_check(struct span name, struct span value, struct err_note *note)
{
    if (utf8_valid(value) && !has_control(value))
        return 0;
    return err_note_set(note, -ERR_INVALID,
                        "headers: the value of %.*s must be a text without control characters",
                        (int)name.len, name.at);
}

static int size_check(size_t bytes, struct err_note *note)
{
    if (bytes <= LIMIT_HEADERS_BYTES)
        return 0;
    return err_note_set(note, -ERR_TOO_BIG, "headers has %zu bytes as JSON; %u are allowed", bytes,
                        LIMIT_HEADERS_BYTES);
}

/* ---- reading ---- */

struct reading {
    struct arena *arena;
    struct err_note *note;
    struct json_writer *w; /* NULL = nothing is written */
    const char *find;      /* NULL, or the name whose value is stored in `found` */
    struct span found;
    size_t count;
    int refused; /* the error that ended it, with its note */
};

static int member_take(void *ctx, struct json_reader *r, struct span name, struct json_token value)
{
    struct reading *x = ctx;
    struct span text;
    (void)r;
    x->refused = name_check(name, x->note);
    if (x->refused == 0 && value.kind != JSON_STRING)
        x->refused = err_note_set(x->note, -ERR_INVALID,
                                  "headers: the value of %.*s is not a string; each value must be "
                                  "a string",
                                  (int)name.len, name.at);
    if (x->refused)
        return x->refused;
    int err = json_string(&value, x->arena, &text);
    if (err == -ERR_NOMEM)
        return err;
    x->refused = err ? err_note_set(x->note, -ERR_INVALID,
                                    "headers: the value of %.*s has an unpaired surrogate",
                                    (int)name.len, name.at)
                     : value_check(name, text, x->note);
    if (x->refused)
        return x->refused;
    x->count++;
    if (x->find && span_equal(name, span_text(x->find)))
        x->found = text;
    if (x->w) {
        json_write_key_span(x->w, name);
        json_write_text(x->w, text);
    }
    return 0;
}

static int object_read(struct span json, struct reading *x)
{
    struct json_reader r;
    json_open(&r, json);
    int err = json_object(&r, x->arena, member_take, x);
    if (err == 0 || err == -ERR_NOMEM || x->refused)
        return err;
    return err_note_set(x->note, -ERR_INVALID,
                        "headers must be an object of names and strings, each name once");
}

int headers_check(struct span json, struct err_note *note)
{
    struct arena arena;
    struct reading x = {.arena = &arena, .note = note};
    int err = size_check(json.len, note);
    if (err)
        return err;
    arena_init(&arena);
    err = object_read(json, &x);
    arena_done(&arena);
    return err;
}

static int writer_keep(struct json_writer *w, struct arena *arena, struct span *ret)
{
    json_write_object_end(w);
    int err = json_writer_finish(w);
    const char *copy = err == 0 ? arena_copy(arena, w->out->data, w->out->len) : NULL;
    *ret = span_of(copy, copy ? w->out->len : 0);
    return copy ? 0 : -ERR_NOMEM;
}

int headers_read(struct span json, struct arena *arena, struct span *ret, struct err_note *note)
{
    struct buf out;
    struct json_writer w;
    struct reading x = {.arena = arena, .note = note, .w = &w};
    buf_init(&out);
    json_writer_init(&w, &out);
    json_write_object(&w);
    int err = object_read(json, &x);
    *ret = (struct span){NULL, 0};
    if (err == 0)
        err = size_check(out.len + 1, note);
    if (err == 0 && x.count > 0)
        err = writer_keep(&w, arena, ret);
    buf_done(&out);
    return err;
}

/* ---- trace context ---- */

static struct span value_of(struct span headers, const char *name, struct arena *arena)
{
    struct reading x = {.arena = arena, .find = name};
    if (headers.len == 0 || object_read(headers, &x) != 0)
        return (struct span){NULL, 0};
    return x.found;
}

static bool hex_run(struct span text, size_t from, size_t count, bool *ret_zero)
{
    *ret_zero = true;
    for (size_t i = from; i < from + count; i++) {
        char c = text.at[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        *ret_zero &= c == '0';
    }
    return true;
}

#define TRACEPARENT_BYTES 55 /* of version 00; later versions may have more after a dash */
#define TRACE_ID_AT 3
#define TRACE_ID_BYTES 32
#define PARENT_ID_AT 36
#define PARENT_ID_BYTES 16

/* version "-" trace id "-" parent id "-" flags, as W3C Trace Context defines them. */
static bool traceparent_valid(struct span t)
{
    bool zero, no_trace, no_parent;
    if (t.len < TRACEPARENT_BYTES || t.len > HEADER_NAME_BYTES_MAX || t.at[2] != '-' ||
        t.at[35] != '-' || t.at[52] != '-' || !hex_run(t, 0, 2, &zero) ||
        !hex_run(t, TRACE_ID_AT, TRACE_ID_BYTES, &no_trace) ||
        !hex_run(t, PARENT_ID_AT, PARENT_ID_BYTES, &no_parent))
        return false;
    bool first = memcmp(t.at, "00", 2) == 0, flags = hex_run(t, 53, 2, &zero);
    return flags && !no_trace && !no_parent && memcmp(t.at, "ff", 2) != 0 &&
           (t.len == TRACEPARENT_BYTES || (!first && t.at[TRACEPARENT_BYTES] == '-'));
}

/* Appends one more header. */
static int append(struct span *headers, struct header more, struct arena *arena)
{
    struct buf out;
    struct json_writer w;
    struct reading x = {.arena = arena, .w = &w};
    struct span whole = {NULL, 0};
    if (!utf8_valid(more.value) || has_control(more.value))
        return 0;
    buf_init(&out);
    json_writer_init(&w, &out);
    json_write_object(&w);
    int err = headers->len > 0 ? object_read(*headers, &x) : 0;
    json_write_key_span(&w, more.name);
    json_write_text(&w, more.value);
    if (err == 0)
        err = writer_keep(&w, arena, &whole);
    buf_done(&out);
    if (err == 0 && whole.len <= LIMIT_HEADERS_BYTES)
        *headers = whole;
    return err == -ERR_NOMEM ? err : 0;
}

int headers_add_trace(struct span *headers, struct span traceparent, struct span tracestate,
                      struct arena *arena)
{
    if (!traceparent_valid(traceparent) || value_of(*headers, "traceparent", arena).len > 0)
        return 0;
    size_t before = headers->len;
    int err = append(headers, (struct header){SPAN_LITERAL("traceparent"), traceparent}, arena);
    bool added = headers->len > before;
    if (err < 0 || !added || tracestate.len == 0 || value_of(*headers, "tracestate", arena).len > 0)
        return err;
    return append(headers, (struct header){SPAN_LITERAL("tracestate"), tracestate}, arena);
}

struct span headers_trace_id(struct span headers)
{
    static const char name[] = "\"traceparent\":\"";
    size_t len = sizeof name - 1;
    const char *at = headers.len > 0 ? memmem(headers.at, headers.len, name, len) : NULL;
    size_t left = at ? headers.len - (size_t)(at - headers.at) - len : 0;
    struct span value =
        span_of(at ? at + len : NULL, left < TRACEPARENT_BYTES ? left : TRACEPARENT_BYTES);
    bool zero;
    if (value.len < TRACEPARENT_BYTES || !hex_run(value, TRACE_ID_AT, TRACE_ID_BYTES, &zero))
        return (struct span){NULL, 0};
    return span_of(value.at + TRACE_ID_AT, TRACE_ID_BYTES);
}
