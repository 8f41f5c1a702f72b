/* SPDX-License-Identifier: Apache-2.0 */
#include "api/fields/fields.h"

#include <inttypes.h>

#include "api/fields/field_value.h"
#include "base/check.h"
#include "base/suggest.h"
#include "core/limits.h"
#include "core/validate.h"

#define NAME_SHOWN_BYTES 64
#define TABLE_ROWS_MAX 64

/* Tables are short: the first letter nearly always decides. */
static const struct field *find(const struct fields *t, struct span name)
{
    for (size_t i = 0; name.len > 0 && i < t->count; i++) {
        const struct field *f = &t->rows[i];
        if (f->name[0] == name.at[0] && span_equal(span_text(f->name), name))
            return f;
    }
    return NULL;
}

static int refuse_unknown(struct field_reader *r, struct span name)
{
    const char *names[TABLE_ROWS_MAX];
    size_t count = r->table.count;
    CHECK(count <= TABLE_ROWS_MAX);
    for (size_t i = 0; i < count; i++)
        names[i] = r->table.rows[i].name;
    const char *shown = arena_text(r->arena, validate_cut(name, NAME_SHOWN_BYTES));
    if (!shown)
        return field_fail_error(r, -ERR_NOMEM);
    const char *nearest = suggest_nearest(shown, names, count);
    if (nearest)
        problem_set(r->problem, r->arena, PROBLEM_UNKNOWN_FIELD, shown,
                    "there is no field %s; did you mean %s?", shown, nearest);
    else
        problem_set(r->problem, r->arena, PROBLEM_UNKNOWN_FIELD, shown,
                    count > 0 ? "there is no field %s; `allowed` lists the fields"
                              : "there is no field %s; this request takes no fields",
                    shown);
    const char **allowed = arena_copy(r->arena, names, count * sizeof *names);
    r->problem->allowed = allowed;
    r->problem->allowed_count = allowed ? count : 0;
    return -ERR_INVALID;
}

static int require(struct field_reader *r)
{
    for (size_t i = 0; i < r->table.count; i++) {
        const struct field *f = &r->table.rows[i];
        if (!(f->flags & FIELD_REQUIRED) || (r->seen >> i & 1))
            continue;
        problem_set(r->problem, r->arena, PROBLEM_MISSING_FIELD, f->name,
                    "%s is missing; it must be %s", f->name, field_type_text(f->type));
        return -ERR_INVALID;
    }
    return 0;
}

static void mark(struct field_reader *r, const struct field *f)
{
    r->seen |= UINT64_C(1) << (f - r->table.rows);
}

static int member(void *ctx, struct json_reader *json, struct span name, struct json_token value)
{
    struct field_reader *r = ctx;
    const struct field *f = find(&r->table, name);
    if (!f)
        return refuse_unknown(r, name);
    if (value.kind == JSON_NULL && (f->flags & FIELD_OPTIONAL))
        return 0;
    mark(r, f);
    return field_from_json(r, f, json, value);
}

/* Explains broken JSON, unless a field has already set the problem. */
static int explain(struct field_reader *r, const struct json_reader *json, int err)
{
    if (err == 0 || r->problem->code != PROBLEM_NONE)
        return err == 0 ? 0 : -ERR_INVALID;
    if (err != -ERR_SYNTAX)
        return field_fail_error(r, err);
    problem_set(r->problem, r->arena, PROBLEM_MALFORMED_JSON, NULL,
                "the body is not what was expected at byte %zu: %s", json->error_at,
                json->error ? json->error : "malformed JSON");
    return -ERR_INVALID;
}

static int read_members(struct field_reader *r, struct json_reader *json)
{
    struct json_token first;
    int err = json_next(json, &first);
    if (err < 0 || first.kind == JSON_OBJECT_BEGIN)
        return err < 0 ? err : json_object(json, r->arena, member, r);
    problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, r->name,
                "%s is %s; it must be an object", r->name ? r->name : "the body",
                field_kind_text(first.kind));
    return -ERR_INVALID;
}

int fields_read(struct field_reader *r, struct span text)
{
    struct json_reader json;
    CHECK(r->table.count <= TABLE_ROWS_MAX);
    r->problem->code = PROBLEM_NONE;
    r->seen = 0;
    json_open(&json, text);
    int err = explain(r, &json, read_members(r, &json));
    return err < 0 ? err : require(r);
}

int fields_read_optional(struct field_reader *r, struct span text)
{
    return fields_read(r, text.len > 0 ? text : SPAN_LITERAL("{}"));
}

static int refuse_query(struct field_reader *r, int err)
{
    if (err == -ERR_NOMEM)
        return field_fail_error(r, err);
    if (err == -ERR_TOO_BIG)
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, NULL,
                    "the query has more than %d parameters", URL_PARAMS_MAX);
    else
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, NULL,
                    "the query is not percent-encoded UTF-8 without U+0000");
    return -ERR_INVALID;
}

static int parameter(struct field_reader *r, const struct url_param *p)
{
    const struct field *f = find(&r->table, p->name);
    if (!f)
        return refuse_unknown(r, p->name);
    if (r->seen >> (f - r->table.rows) & 1) {
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, f->name, "%s is given twice",
                    f->name);
        return -ERR_INVALID;
    }
    mark(r, f);
    return field_from_text(r, f, p->value);
}

int fields_read_query(struct field_reader *r, struct span query)
{
    struct url_param params[URL_PARAMS_MAX];
    size_t count = 0;
    r->problem->code = PROBLEM_NONE;
    r->seen = 0;
    int err = url_query(query, r->arena, params, &count);
    if (err < 0)
        return refuse_query(r, err);
    for (size_t i = 0; i < count; i++) {
        if ((err = parameter(r, &params[i])) < 0)
            return err;
    }
    return require(r);
}

int fields_read_one(struct field_reader *r, size_t index, struct span text)
{
    CHECK(index < r->table.count);
    r->problem->code = PROBLEM_NONE;
    return field_from_text(r, &r->table.rows[index], text);
}

bool fields_has(const struct field_reader *r, const char *name)
{
    const struct field *f = find(&r->table, span_text(name));
    CHECK(f);
    return r->seen >> (f - r->table.rows) & 1;
}

int fields_exclude(const struct field_reader *r, const char *a, const char *b)
{
    if (!fields_has(r, a) || !fields_has(r, b))
        return 0;
    problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, b,
                "%s and %s are both given; give only one of them", a, b);
    return -ERR_INVALID;
}
