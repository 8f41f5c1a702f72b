/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server: listens, keeps connections within their limits, finds the route.
 *
 * Safety without tokens: it listens only on loopback addresses or a Unix socket; Host must be a
 * loopback name or one of `hosts` (421); a request with a foreign Origin, or a Sec-Fetch-Site other
 * than same-origin or none, is refused (403), GETs included; a GET of a route with ROUTE_UNSAFE
 * also with other signs of a browser; no CORS header unless configured. */
#pragma once

#include "base/system/clock.h"
#include "http/http.h"
#include "net/net.h"

struct http_server;

struct http_server_config {
    struct net_config net; /* a connection beyond its limits gets 503 */
    struct clock clock;    /* for Date; deadlines follow the loop's time */
    struct http_limits limits;
    uint64_t large_body_bytes;  /* for routes with ROUTE_LARGE */
    uint32_t head_ms, body_ms;  /* a whole head, a whole body must have come: 408 */
    uint32_t idle_ms;           /* between requests */
    uint32_t pipeline_max;      /* requests of one connection worked on at once */
    const char *const *hosts;   /* additional Host names, without port; NULL-terminated or NULL */
    const char *const *origins; /* allowed foreign origins ("https://a.example"), likewise */
    /* Answers x with a problem document for one of the server's own refusals (404, 405, 413 …), at
     * once; NULL = plain text. type is a word ("not_found"), title and detail are sentences, all
     * static. The request may be an empty one with route = NULL when its head could not be read. */
    void (*problem)(struct http_exchange *x, unsigned status, const char *type, const char *title,
                    const char *detail);
};
void http_server_config_default(struct http_server_config *c);

/* The configuration is copied; loop, log and lists must outlive the server. -ERR_NOMEM. It ends
 * with http_server_close. For the order of prepare handles see net_server_init. */
MUST_CHECK int http_server_new(const struct http_server_config *config, struct http_server **ret);
/* Adds an API's table; the rows must outlive the server. Two rows that could match the same request
 * are a programmer error, as are rows for HEAD and OPTIONS. ctx is given to its handlers. If there
 * is no memory for them, http_server_listen says so. */
void http_server_routes(struct http_server *s, const struct http_route *routes, size_t count,
                        void *ctx);
/* As net_listen. */
MUST_CHECK int http_server_listen(struct http_server *s, const char *address,
                                  struct err_note *note);
/* "http://127.0.0.1:41234" or "unix:/path" of listener i; NULL past the last. The server's, until
 * it drains or closes. */
const char *http_server_address(const struct http_server *s, size_t i);

/* Stops listening, closes idle connections, lets requests under way finish (the last answer of each
 * connection carries Connection: close). Streams and parked requests are the APIs' to end. Calls
 * fn once, later, when the last connection is closed, or after limit_ms, when it closes the rest.
 */
void http_server_drain(struct http_server *s, uint32_t limit_ms, void (*fn)(void *ctx), void *ctx);
/* Closes everything; handlers that owe an answer hear that their clients are gone. fn (may be NULL)
 * is called, later, when the last of these answers was given and the server's memory is gone. */
void http_server_close(struct http_server *s, void (*fn)(void *ctx), void *ctx);

struct http_server_figures {
    uint64_t connections, accepted, refused; /* open now; since start */
    uint64_t requests, bytes_in, bytes_out;
    uint64_t by_status[6]; /* [2] = 2xx … */
    uint64_t parked;       /* exchanges under way */
};
void http_server_figures(const struct http_server *s, struct http_server_figures *ret);
