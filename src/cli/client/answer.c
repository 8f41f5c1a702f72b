/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/answer.h"

#include <string.h>

/* Opens value and reads its first token; false unless that is `kind`. */
static bool begins_with(struct json_reader *r, struct span value, enum json_kind kind)
{
    struct json_token t;
    json_open_deep(r, value);
    return json_next(r, &t) == 0 && t.kind == kind;
}

static bool key_is(const struct json_token *key, struct span name)
{
    struct span inner = span_of(key->raw.at + 1, key->raw.len - 2);
    return !key->escaped && span_equal(inner, name); /* no name of the API needs an escape */
}

static bool member_find(struct span object, struct span name, struct span *ret)
{
    struct json_reader r;
    struct json_token key, value;
    if (!begins_with(&r, object, JSON_OBJECT_BEGIN))
        return false;
    while (json_next(&r, &key) == 0 && key.kind == JSON_KEY) {
        struct span whole;
        if (json_next(&r, &value) < 0 || json_skip(&r, value, &whole) < 0)
            return false;
        if (key_is(&key, name)) {
            *ret = whole;
            return value.kind != JSON_NULL;
        }
    }
    return false;
}

bool client_answer_find(struct span object, const char *path, struct span *ret)
{
    struct span at = object;
    for (;;) {
        size_t len = strcspn(path, ".");
        if (!member_find(at, span_of(path, len), &at))
            return false;
        if (path[len] == '\0')
            break;
        path += len + 1;
    }
    *ret = at;
    return true;
}

/* The value as its own token. */
static bool token_of(struct span value, struct json_token *ret)
{
    struct json_reader r;
    json_open(&r, value);
    return json_next(&r, ret) == 0;
}

struct span client_answer_text(struct span object, const char *path, struct arena *arena)
{
    struct span value, text;
    struct json_token t;
    if (!client_answer_find(object, path, &value) || !token_of(value, &t))
        return span_of(NULL, 0);
    if (t.kind != JSON_STRING)
        return t.kind == JSON_OBJECT_BEGIN || t.kind == JSON_ARRAY_BEGIN ? span_of(NULL, 0) : t.raw;
    return json_string(&t, arena, &text) == 0 ? text : value;
}

int64_t client_answer_int(struct span object, const char *path, int64_t otherwise)
{
    struct span value;
    struct json_token t;
    int64_t number;
    if (!client_answer_find(object, path, &value) || !token_of(value, &t) ||
        t.kind != JSON_NUMBER || json_int(&t, &number) < 0)
        return otherwise;
    return number;
}

bool client_answer_true(struct span object, const char *path)
{
    struct span value;
    return client_answer_find(object, path, &value) && span_equal(value, SPAN_LITERAL("true"));
}

void client_items_open(struct client_items *items, struct span array)
{
    items->over = !begins_with(&items->reader, array, JSON_ARRAY_BEGIN);
}

void client_items_of(struct client_items *items, struct span object, const char *path)
{
    struct span array = {NULL, 0};
    (void)client_answer_find(object, path, &array);
    client_items_open(items, array);
}

bool client_items_next(struct client_items *items, struct span *ret)
{
    struct json_token t;
    if (!items->over && json_next(&items->reader, &t) == 0 && t.kind != JSON_ARRAY_END &&
        json_skip(&items->reader, t, ret) == 0)
        return true;
    items->over = true;
    return false;
}

void client_members_open(struct client_members *members, struct span object, struct arena *arena)
{
    members->arena = arena;
    members->over = !begins_with(&members->reader, object, JSON_OBJECT_BEGIN);
}

bool client_members_next(struct client_members *members, struct span *ret_name,
                         struct span *ret_value)
{
    struct json_token key, value;
    if (!members->over && json_next(&members->reader, &key) == 0 && key.kind == JSON_KEY &&
        json_next(&members->reader, &value) == 0 &&
        json_skip(&members->reader, value, ret_value) == 0) {
        if (json_string(&key, members->arena, ret_name) < 0)
            *ret_name = key.raw;
        return true;
    }
    members->over = true;
    return false;
}
