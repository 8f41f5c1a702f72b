/* SPDX-License-Identifier: Apache-2.0 */
#include "api/content.h"

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct span trim(struct span s)
{
    while (s.len > 0 && blank(s.at[0]))
        s = span_of(s.at + 1, s.len - 1);
    while (s.len > 0 && blank(s.at[s.len - 1]))
        s.len--;
    return s;
}

/* The media type without its parameters. */
static struct span media_type(const struct http_request *r)
{
    struct span type = http_request_header(r, "content-type");
    const char *semicolon = type.len > 0 ? memchr(type.at, ';', type.len) : NULL;
    if (semicolon)
        type.len = (size_t)(semicolon - type.at);
    return trim(type);
}

/* The default type of `curl -d` counts as JSON: a form is never meant here, and a payload that
 * silently contained the whole request would be a trap. */
static bool means_json(struct span type)
{
    return type.len == 0 || http_name_equal(type, "application/json") ||
           http_name_equal(type, "application/x-www-form-urlencoded");
}

enum content_form content_form(const struct http_request *r)
{
    struct span type = media_type(r);
    if (http_name_equal(type, "application/x-ndjson"))
        return CONTENT_LINES;
    if (!means_json(type))
        return CONTENT_BYTES;
    struct span body = trim(r->body);
    return body.len > 0 && body.at[0] == '[' ? CONTENT_ARRAY : CONTENT_OBJECT;
}

/* ---- pieces ---- */

struct splitting {
    const struct http_request *request;
    size_t max;
    struct pieces *out;
    struct problem *problem;
};

static int too_many(struct splitting *s)
{
    problem_set(s->problem, s->request->arena, PROBLEM_INVALID_FIELD, NULL,
                "there are more than %zu jobs in the body; send several requests", s->max);
    return -ERR_INVALID;
}

static int piece_add(struct splitting *s, struct span piece)
{
    struct pieces *p = s->out;
    if (p->count == s->max)
        return too_many(s);
    if (p->count == p->room) {
        size_t room = p->room ? p->room * 2 : 16;
        struct span *list = arena_array(s->request->arena, room, sizeof *list);
        if (!list) {
            problem_of_error(s->problem, -ERR_NOMEM);
            return -ERR_INVALID;
        }
        if (p->count > 0)
            memcpy(list, p->list, p->count * sizeof *list);
        p->list = list;
        p->room = room;
    }
    p->list[p->count++] = piece;
    return 0;
}

static int malformed(struct splitting *s, size_t line, const char *error, size_t at)
{
    problem_set(s->problem, s->request->arena, PROBLEM_MALFORMED_JSON, NULL,
                "the body is not valid JSON at byte %zu of line %zu: %s; nothing was enqueued", at,
                line, error);
    return -ERR_INVALID;
}

static int split_array(struct splitting *s)
{
    struct json_reader json;
    struct json_token t;
    struct span piece;
    json_open(&json, s->request->body);
    int err = json_next(&json, &t);
    while (err == 0 && (err = json_next(&json, &t)) == 0 && t.kind != JSON_ARRAY_END) {
        if ((err = json_skip(&json, t, &piece)) == 0 && (err = piece_add(s, piece)) < 0)
            return err;
    }
    if (err == 0)
        err = json_next(&json, &t);
    return err < 0 ? malformed(s, 1, json.error, json.error_at) : 0;
}

static int split_lines(struct splitting *s)
{
    struct span rest = s->request->body;
    int err = 0;
    for (size_t number = 1; rest.len > 0 && err == 0; number++) {
        const char *end = memchr(rest.at, '\n', rest.len);
        size_t len = end ? (size_t)(end - rest.at) : rest.len;
        struct span line = trim(span_of(rest.at, len));
        const char *error;
        size_t at;
        if (line.len > 0 && json_check(line, &error, &at) < 0)
            err = malformed(s, number, error, at);
        else if (line.len > 0)
            err = piece_add(s, line);
        rest = end ? span_of(end + 1, rest.len - len - 1) : span_of(NULL, 0);
    }
    return err;
}

int content_pieces(const struct http_request *r, enum content_form form, size_t max,
                   struct pieces *ret, struct problem *problem)
{
    struct splitting s = {r, max, ret, problem};
    int err = form == CONTENT_LINES ? split_lines(&s) : split_array(&s);
    if (err < 0 || ret->count > 0)
        return err;
    problem_set(problem, r->arena, PROBLEM_INVALID_FIELD, NULL,
                "there are no jobs in the body; send 1 to %zu", max);
    return -ERR_INVALID;
}
