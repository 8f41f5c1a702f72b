/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/native/imported.h"

#include "base/buf.h"
#include "base/json.h"
#include "doors/words.h"

#define MEMBER "imported_from"

static int attribute_copy(void *ctx, struct json_reader *r, struct span name,
                          struct json_token value)
{
    struct json_writer *w = ctx;
    struct span whole;
    int err = json_skip(r, value, &whole);
    if (err < 0 || span_equal(name, SPAN_LITERAL(MEMBER)))
        return err;
    json_write_key_span(w, name);
    json_write_raw(w, whole);
    return 0;
}

static int object_write(struct span attributes, struct span id, struct arena *arena,
                        struct buf *text)
{
    struct json_writer w;
    struct json_reader r;
    int err = 0;
    json_writer_init(&w, text);
    json_write_object(&w);
    write_span_if(&w, MEMBER, id);
    if (attributes.len > 0) {
        json_open(&r, attributes);
        err = json_object(&r, arena, attribute_copy, &w);
    }
    json_write_object_end(&w);
    if (err < 0)
        return err == -ERR_NOMEM ? err : -ERR_SYNTAX;
    return json_writer_finish(&w);
}

int imported_set(struct span attributes, struct span id, struct arena *arena, struct span *ret)
{
    struct buf text;
    buf_init(&text);
    int err = object_write(attributes, id, arena, &text);
    bool none = err == 0 && text.len <= 2; /* {} */
    const char *copy = err == 0 && !none ? arena_copy(arena, text.data, text.len) : NULL;
    if (err == 0 && !none && !copy)
        err = -ERR_NOMEM;
    if (err == 0)
        *ret = span_of(copy, none ? 0 : text.len);
    buf_done(&text);
    return err;
}

struct found {
    struct arena *arena;
    struct span id;
};

static int attribute_look(void *ctx, struct json_reader *r, struct span name,
                          struct json_token value)
{
    struct found *f = ctx;
    struct span whole;
    if (span_equal(name, SPAN_LITERAL(MEMBER)) && value.kind == JSON_STRING)
        return json_string(&value, f->arena, &f->id);
    return json_skip(r, value, &whole);
}

struct span imported_from(struct span attributes, struct arena *arena)
{
    struct found f = {.arena = arena};
    struct json_reader r;
    if (attributes.len == 0)
        return f.id;
    json_open(&r, attributes);
    return json_object(&r, arena, attribute_look, &f) < 0 ? (struct span){NULL, 0} : f.id;
}
