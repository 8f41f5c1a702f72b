/* SPDX-License-Identifier: Apache-2.0 */
/* A tree with one level for each path segment. Rows may overlap (/a/{x} and /a/b), so a search
 * visits the fixed child first and then the {name} child; for each method the first row counts. */
#include "http/router.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

struct route_node {
    struct span literal;
    struct route_node *child;   /* first of the fixed segments below */
    struct route_node *sibling; /* next fixed segment of the same parent */
    struct route_node *param;   /* {name} below */
    struct route_row rows[HTTP_METHOD_COUNT];
};

void router_init(struct router *r)
{
    *r = (struct router){0};
}

static void node_free(struct route_node *n)
{
    while (n) {
        struct route_node *next = n->sibling;
        node_free(n->child);
        node_free(n->param);
        mem_free(n);
        n = next;
    }
}

void router_done(struct router *r)
{
    node_free(r->root);
    mem_free(r->rows);
    router_init(r);
}

/* The segment after the '/' at the front of *path, which is advanced past it. */
static struct span segment_take(struct span *path)
{
    const char *at = path->at + 1;
    const char *end = memchr(at, '/', path->len - 1);
    size_t len = end ? (size_t)(end - at) : path->len - 1;
    *path = span_of(at + len, path->len - 1 - len);
    return span_of(at, len);
}

static bool is_param(struct span segment)
{
    return segment.len > 0 && segment.at[0] == '{';
}

static void pattern_check(const struct http_route *route)
{
    struct span path = span_text(route->pattern);
    size_t params = 0;
    CHECK(route->method != HTTP_HEAD && route->method < HTTP_OPTIONS && route->handler);
    CHECK(path.len > 0 && path.at[0] == '/');
    CHECK(!(route->method == HTTP_GET && route->scope == SCOPE_CONSUME) ||
          route->flags & ROUTE_UNSAFE);
    while (path.len > 0) {
        struct span s = segment_take(&path);
        params += is_param(s);
        CHECK(!is_param(s) || (s.len > 2 && s.at[s.len - 1] == '}'));
    }
    CHECK(params <= HTTP_PATH_PARAMS_MAX);
}

/* Whether two patterns match the same paths, so that neither could take precedence. */
static bool same_paths(const char *a, const char *b)
{
    struct span x = span_text(a), y = span_text(b);
    while (x.len > 0 && y.len > 0) {
        struct span s = segment_take(&x), t = segment_take(&y);
        if (is_param(s) != is_param(t) || (!is_param(s) && !span_equal(s, t)))
            return false;
    }
    return x.len == y.len;
}

static void overlap_check(const struct router *r, const struct http_route *route)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct http_route *other = r->rows[i].route;
        CHECK(other->method != route->method || !same_paths(other->pattern, route->pattern));
    }
}

static struct route_node *child_find(const struct route_node *n, struct span literal)
{
    struct route_node *c = n->child;
    while (c && !span_equal(c->literal, literal))
        c = c->sibling;
    return c;
}

static struct route_node *child_add(struct route_node *n, struct span segment)
{
    struct route_node *c = is_param(segment) ? n->param : child_find(n, segment);
    if (c)
        return c;
    c = mem_zalloc(sizeof *c);
    if (!c)
        return NULL;
    if (is_param(segment)) {
        n->param = c;
    } else {
        c->literal = segment;
        c->sibling = n->child;
        n->child = c;
    }
    return c;
}

static int room_for_one(struct router *r)
{
    if (!r->root)
        r->root = mem_zalloc(sizeof *r->root);
    if (!r->root)
        return -ERR_NOMEM;
    struct route_row *rows = mem_more(r->rows, r->count, &r->room, sizeof *rows);
    if (!rows)
        return -ERR_NOMEM;
    r->rows = rows;
    return 0;
}

int router_add(struct router *r, const struct http_route *route, void *ctx)
{
    pattern_check(route);
    overlap_check(r, route);
    if (room_for_one(r) != 0)
        return -ERR_NOMEM;
    struct route_node *n = r->root;
    struct span path = span_text(route->pattern);
    while (n && path.len > 0)
        n = child_add(n, segment_take(&path));
    if (!n)
        return -ERR_NOMEM;
    n->rows[route->method] = (struct route_row){route, ctx};
    r->rows[r->count++] = n->rows[route->method];
    return 0;
}

static unsigned allow_of(const struct http_route *route)
{
    unsigned bits = 1u << route->method | 1u << HTTP_OPTIONS;
    if (route->method == HTTP_GET && !(route->flags & ROUTE_UNSAFE))
        bits |= 1u << HTTP_HEAD;
    return bits;
}

struct search {
    enum http_method method; /* of the row */
    struct span params[HTTP_PATH_PARAMS_MAX];
    struct route_match *match;
};

static void rows_collect(const struct search *s, const struct route_node *n)
{
    const struct route_row *row = &n->rows[s->method];
    bool found = s->match->route != NULL;
    for (size_t m = 0; m < HTTP_METHOD_COUNT; m++)
        if (n->rows[m].route && !(s->match->allow & 1u << m))
            s->match->allow |= allow_of(n->rows[m].route);
    if (!row->route || found)
        return;
    s->match->route = row->route;
    s->match->ctx = row->ctx;
    memcpy(s->match->params, s->params, sizeof s->params);
}

/* The depth is limited by the longest pattern, however long the path is. */
static void search_node(struct search *s, const struct route_node *n, struct span path,
                        size_t params)
{
    if (path.len == 0) {
        rows_collect(s, n);
        return;
    }
    struct span segment = segment_take(&path);
    const struct route_node *c = child_find(n, segment);
    if (c)
        search_node(s, c, path, params);
    if (n->param && segment.len > 0) {
        s->params[params] = segment;
        search_node(s, n->param, path, params + 1);
    }
}

void router_find(const struct router *r, enum http_method method, struct span path,
                 struct route_match *ret)
{
    *ret = (struct route_match){0};
    if (!r->root || path.len == 0 || path.at[0] != '/')
        return;
    struct search s = {.method = method == HTTP_HEAD ? HTTP_GET : method, .match = ret};
    search_node(&s, r->root, path, 0);
    if (method == HTTP_HEAD && !(ret->allow & 1u << HTTP_HEAD))
        ret->route = NULL;
}

unsigned router_methods(const struct router *r)
{
    unsigned allow = 1u << HTTP_OPTIONS;
    for (size_t i = 0; i < r->count; i++)
        allow |= allow_of(r->rows[i].route);
    return allow;
}

struct span router_allow_text(unsigned allow, char out[ROUTER_ALLOW_BYTES])
{
    struct buf b = {.data = out, .cap = ROUTER_ALLOW_BYTES};
    for (unsigned m = 0; m < HTTP_OTHER; m++) {
        if (!(allow & 1u << m))
            continue;
        struct span name = span_text(http_method_name((enum http_method)m));
        if (b.len > 0)
            buf_put_bytes(&b, ", ", 2);
        buf_put_bytes(&b, name.at, name.len);
    }
    return buf_span(&b);
}
