/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server: it listens, enforces the limits of connections and finds the route.
 *
 * Protection without tokens: it listens only on loopback addresses or a Unix socket; Host must
 * be a loopback name or one of `hosts` (421); a request with a foreign Origin, or a
 * Sec-Fetch-Site other than same-origin or none, is refused (403), GETs included; a GET of a
 * route with ROUTE_UNSAFE also with other signs of a browser; no CORS header unless configured. */
#pragma once

#include "base/system/clock.h"
#include "http/http.h"
#include "net/net.h"

struct http_server;

extern const struct net_schemes http_schemes;

struct http_server_config {
    struct net_config net; /* a connection beyond its limits gets 503 */
    struct clock clock;    /* for Date; deadlines follow the loop's time */
    struct http_limits limits;
    uint64_t large_body_bytes;  /* for routes with ROUTE_LARGE */
    uint32_t head_ms, body_ms;  /* time for a whole head, a whole body: 408 */
    uint32_t idle_ms;           /* between requests */
    uint32_t pipeline_max;      /* requests of one connection that may be under way at once */
    const char *const *hosts;   /* additional Host names, without port; NULL-terminated or NULL */
    const char *const *origins; /* allowed foreign origins ("https://a.example"), likewise */
    /* Answers x at once with a problem document for a refusal of the server (404, 405, 413 …);
     * NULL = plain text. type is a name ("not_found"), title and detail are sentences, all
     * static. The request may be empty with route = NULL if its head could not be read. */
    void (*problem)(struct http_exchange *x, unsigned status, const char *type, const char *title,
                    const char *detail);
};
void http_server_config_default(struct http_server_config *c);

/* The configuration is copied; loop, log and lists must outlive the server. -ERR_NOMEM. Free it
 * with http_server_close. For the order of prepare handles see net_server_init. */
MUST_CHECK int http_server_new(const struct http_server_config *config, struct http_server **ret);
/* Adds an API's table; the rows must outlive the server. Two rows that could match the same
 * request are a programmer error, as are rows for HEAD and OPTIONS. ctx is passed to its
 * handlers. If there is no memory for them, http_server_listen reports it. */
void http_server_routes(struct http_server *s, const struct http_route *routes, size_t count,
                        void *ctx);
/* Like net_listen. */
MUST_CHECK int http_server_listen(struct http_server *s, const char *address,
                                  struct err_note *note);
/* "http://127.0.0.1:41234" or "unix:/path" of listener i; NULL past the last. The server's, until
 * it drains or closes. */
const char *http_server_address(const struct http_server *s, size_t i);

/* Stops listening, closes idle connections, and lets requests under way finish (the last answer
 * of each connection has Connection: close). The APIs end streams and parked requests. Calls fn
 * once, later, when the last connection is closed, or after limit_ms, when it closes the others. */
void http_server_drain(struct http_server *s, uint32_t limit_ms, void (*fn)(void *ctx), void *ctx);
/* Closes everything; for handlers that have not answered, `closed` is called. fn (may be NULL)
 * is called, later, when the last of these answers was given and the server's memory was freed. */
void http_server_close(struct http_server *s, void (*fn)(void *ctx), void *ctx);

struct http_server_figures {
    uint64_t connections, accepted, refused; /* open now; since start */
    uint64_t requests, bytes_in, bytes_out;
    uint64_t by_status[6]; /* [2] = 2xx … */
    uint64_t parked;       /* exchanges under way */
};
void http_server_figures(const struct http_server *s, struct http_server_figures *ret);
