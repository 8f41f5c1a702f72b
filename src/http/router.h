/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the row of the APIs' tables for a request: a tree of path segments.
 *
 * A {name} matches one segment that is not empty; a fixed segment takes precedence. Fixed
 * segments are compared unchanged: an escaped letter in one of them is another path. */
#pragma once

#include "http/http.h"

struct route_node;

struct route_row {
    const struct http_route *route;
    void *ctx;
};

struct router {
    struct route_node *root;
    struct route_row *rows; /* all of them, to find two that overlap */
    size_t count, room;
};

struct route_match {
    const struct http_route *route; /* NULL: no row for this method */
    void *ctx;
    unsigned allow;                           /* 1 << method; 0: no row for this path */
    struct span params[HTTP_PATH_PARAMS_MAX]; /* as sent */
};

void router_init(struct router *r);
void router_done(struct router *r);
/* The row must outlive the router. Asserts that its pattern is well-formed and that no row of the
 * same method has the same. 0; -ERR_NOMEM, with nothing added. */
MUST_CHECK int router_add(struct router *r, const struct http_route *route, void *ctx);
/* HEAD finds the row of GET, unless that is unsafe. */
void router_find(const struct router *r, enum http_method method, struct span path,
                 struct route_match *ret);
/* The methods of every row, for OPTIONS *. */
unsigned router_methods(const struct router *r);

/* "GET, HEAD, OPTIONS" for an allow mask. */
#define ROUTER_ALLOW_BYTES 64
struct span router_allow_text(unsigned allow, char out[ROUTER_ALLOW_BYTES]);
