/* SPDX-License-Identifier: Apache-2.0 */
#include "api/fields/field_conv.h"

#include <inttypes.h>

#include "base/check.h"
#include "core/limits.h"
#include "core/validate.h"

int field_fail_error(struct field_reader *r, int error)
{
    problem_of_error(r->problem, error);
    return -ERR_INVALID;
}

const char *field_kind_text(enum json_kind kind)
{
    static const char *const kinds[] = {
        [JSON_NULL] = "null",
        [JSON_TRUE] = "a boolean",
        [JSON_FALSE] = "a boolean",
        [JSON_NUMBER] = "a number",
        [JSON_STRING] = "a string",
        [JSON_ARRAY_BEGIN] = "an array",
        [JSON_OBJECT_BEGIN] = "an object",
    };
    return kinds[kind];
}

static const char *came(const struct conv *c)
{
    return c->json ? field_kind_text(c->token.kind) : "something else";
}

int conv_fail_type(struct conv *c, const char *right)
{
    return conv_fail(c, "%s is %s; it must be %s", c->f->name, came(c), right);
}

int conv_fail_error(struct conv *c, int error)
{
    return error == -ERR_SYNTAX ? error : field_fail_error(c->r, error);
}

/* ---- texts ---- */

int conv_text_of(struct conv *c, const char *right, struct span *ret)
{
    if (!c->json) {
        *ret = c->text;
        return 0;
    }
    if (c->token.kind != JSON_STRING)
        return conv_fail_type(c, right);
    int err = json_string(&c->token, c->r->arena, ret);
    if (err == -ERR_INVALID)
        return conv_fail(c, "%s has an unpaired surrogate; it must be Unicode text", c->f->name);
    return err < 0 ? conv_fail_error(c, err) : 0;
}

static int check_text(struct conv *c, struct span text)
{
    struct err_note note;
    if ((int64_t)text.len < c->f->min)
        return conv_fail(c, "%s is empty; give a value, or leave %s out to select all", c->f->name,
                         c->f->name);
    if (validate_text(c->f->name, text, (size_t)c->f->max, &note) == 0)
        return 0;
    return conv_fail(c, "%s", note.text);
}

static int conv_text(struct conv *c)
{
    struct span text;
    int err = conv_text_of(c, "a string", &text);
    if (err == 0)
        err = check_text(c, text);
    if (err == 0)
        *(struct span *)c->to = text;
    return err;
}

/* Truncates the text at its first U+0000 and at max bytes: a long error message must not make a
 * fail be refused. */
static int conv_cut(struct conv *c)
{
    struct span text;
    int err = conv_text_of(c, "a string", &text);
    if (err < 0)
        return err;
    const char *nul = text.len > 0 ? memchr(text.at, 0, text.len) : NULL;
    if (nul)
        text.len = (size_t)(nul - text.at);
    *(struct span *)c->to = validate_cut(text, (size_t)c->f->max);
    return 0;
}

/* ---- numbers, booleans, times ---- */

static int fail_range(struct conv *c)
{
    const struct field *f = c->f;
    if (f->max == INT64_MAX)
        return conv_fail(c, "%s must be a whole number, %" PRId64 " or more", f->name, f->min);
    return conv_fail(c, "%s must be a whole number from %" PRId64 " to %" PRId64, f->name, f->min,
                     f->max);
}

bool conv_number(struct conv *c)
{
    struct json_reader json;
    struct json_token end;
    if (c->json)
        return c->token.kind == JSON_NUMBER;
    json_open(&json, c->text);
    return json_next(&json, &c->token) == 0 && c->token.kind == JSON_NUMBER &&
           json_next(&json, &end) == 0 && end.kind == JSON_END;
}

static int conv_int(struct conv *c)
{
    int64_t v;
    if (c->json && c->token.kind != JSON_NUMBER)
        return conv_fail_type(c, "a whole number");
    if (!conv_number(c) || json_int(&c->token, &v) < 0 || v < c->f->min || v > c->f->max)
        return fail_range(c);
    *(int64_t *)c->to = v;
    return 0;
}

static int conv_bool(struct conv *c)
{
    if (c->json) {
        if (c->token.kind != JSON_TRUE && c->token.kind != JSON_FALSE)
            return conv_fail_type(c, "true or false");
        *(bool *)c->to = c->token.kind == JSON_TRUE;
        return 0;
    }
    bool yes = span_equal(c->text, SPAN_LITERAL("true"));
    if (!yes && !span_equal(c->text, SPAN_LITERAL("false")))
        return conv_fail(c, "%s must be true or false", c->f->name);
    *(bool *)c->to = yes;
    return 0;
}

/* Zero means "no time" in all lower layers, so the earliest time is one millisecond later. */
static int conv_time(struct conv *c)
{
    struct span text;
    struct wall_time t;
    int err = conv_text_of(c, "a time such as \"2026-01-31T12:00:00Z\"", &text);
    if (err < 0)
        return err;
    if (wall_parse(text.at, text.len, &t) < 0)
        return conv_fail(
            c,
            "%s must be an RFC 3339 time such as 2026-01-31T12:00:00Z, in the years 1970 "
            "to 9999",
            c->f->name);
    t.ms = t.ms < 1 ? 1 : t.ms > LIMIT_WALL_MS - 1 ? LIMIT_WALL_MS - 1 : t.ms;
    *(struct wall_time *)c->to = t;
    return 0;
}

/* ---- jobs and tokens ---- */

static int conv_job(struct conv *c)
{
    struct span text;
    bool number = c->json && c->token.kind == JSON_NUMBER;
    int err = number ? 0 : conv_text_of(c, "a job id", &text);
    if (err < 0)
        return err;
    if (id_parse(number ? c->token.raw : text, c->to) == 0)
        return 0;
    problem_set(c->r->problem, c->r->arena, PROBLEM_INVALID_ID, c->f->name,
                "the value of %s is not the id of a job", c->f->name);
    return -ERR_INVALID;
}

static int conv_token(struct conv *c)
{
    struct span text;
    int err = conv_text_of(c, "a string", &text);
    if (err < 0)
        return err;
    if (token_parse(text, c->to) < 0)
        return conv_fail(c, "%s must be the lease token that the claim returned, unchanged",
                         c->f->name);
    return 0;
}

/* ---- the table of types ---- */

static const struct {
    conv_fn fn;
    bool body_only;
    const char *text;
} types[FIELD_TYPE_COUNT] = {
    [FIELD_TEXT] = {conv_text, false, "a string"},
    [FIELD_CUT] = {conv_cut, false, "a string"},
    [FIELD_INT] = {conv_int, false, "a whole number"},
    [FIELD_BOOL] = {conv_bool, false, "true or false"},
    [FIELD_TIME] = {conv_time, false, "an RFC 3339 time"},
    [FIELD_ENUM] = {conv_enum, false, "a word"},
    [FIELD_ENUM_SET] = {conv_enum_set, false, "a list of names"},
    [FIELD_RAW] = {conv_raw, true, "any JSON value"},
    [FIELD_PRIORITY] = {conv_priority, false, "a whole number or a label"},
    [FIELD_STEPS] = {conv_steps, false, "a list of milliseconds"},
    [FIELD_BACKOFF] = {conv_backoff, true, "an object with a kind"},
    [FIELD_TEXTS] = {conv_texts, true, "a list of strings"},
    [FIELD_JOB] = {conv_job, false, "a job id"},
    [FIELD_TOKEN] = {conv_token, false, "the lease token of the claim"},
    [FIELD_OBJECTS] = {conv_objects, true, "a list of objects"},
    [FIELD_KV_KEY] = {conv_kv_key, false, "a key: a list of texts, numbers and booleans"},
    [FIELD_KV_KEYS] = {conv_kv_keys, true, "a list of keys"},
    [FIELD_HEADERS] = {conv_headers, false, "an object of names and strings"},
};

const char *field_type_text(enum field_type t)
{
    return types[t].text;
}

int field_from_json(struct field_reader *r, const struct field *f, struct json_reader *json,
                    struct json_token value)
{
    struct conv c = {
        .r = r, .f = f, .json = json, .token = value, .to = (char *)r->into + f->offset};
    if (value.kind == JSON_NULL && (f->flags & FIELD_NULLABLE)) {
        CHECK(f->type == FIELD_INT);
        *(int64_t *)c.to = f->max;
        return 0;
    }
    return types[f->type].fn(&c);
}

int field_from_text(struct field_reader *r, const struct field *f, struct span text)
{
    struct conv c = {.r = r, .f = f, .text = text, .to = (char *)r->into + f->offset};
    if (types[f->type].body_only)
        return conv_fail(&c, "%s cannot be a query parameter", f->name);
    return types[f->type].fn(&c);
}
