/* SPDX-License-Identifier: Apache-2.0 */
/* The client side of HTTP for the commands: one server, one request after the other.
 *
 * The server is named by http://HOST:PORT, https://HOST:PORT or unix:/PATH. Redirects are not
 * followed, no other protocol is spoken, and a server on this machine is never looked for behind a
 * proxy. Blocking; not for the server's own loop. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/containers/arena.h"
#include "base/err.h"
#include "base/span.h"

#define CLIENT_SERVER_DEFAULT "http://127.0.0.1:8000"
#define CLIENT_HEADERS_MAX 4

struct client;

struct client_request {
    const char *method;                      /* "GET" … */
    const char *path;                        /* from the root, query included, already encoded */
    const char *content_type;                /* of the body; NULL: application/json */
    struct span body;                        /* an empty one is sent as no body */
    const char *headers[CLIENT_HEADERS_MAX]; /* "Name: value"; the first NULL ends the list */
    int64_t wait_ms; /* how long the server may take on purpose, over the usual time to answer */
    bool raw;        /* the caller takes an answer of any type, not only JSON */
    /* A stream: each piece of a 2xx body as it comes instead of reply.body, without a time limit.
     * Not 0 ends it. `stop` is asked about once a second, and true ends it as well. */
    int (*on_body)(void *ctx, struct span piece);
    bool (*stop)(void *ctx);
    void *ctx;
};

struct client_reply {
    long status;
    struct buf body;
    struct buf headers; /* "name: value\n" lines as received */
};

/* Checks the address and prepares; connects to nothing yet. -ERR_INVALID with a sentence in note,
 * -ERR_NOMEM. *ret is the caller's, for client_close. */
MUST_CHECK int client_open(const char *server, struct client **ret, struct err_note *note);
void client_close(struct client *c);
/* Sends one request and waits for its answer, whatever its status. ret was client_reply_init'ed and
 * is filled again. -ERR_IO with a sentence: the server cannot be reached or broke off. -ERR_CLOSED:
 * the request ended the stream itself. -ERR_TOO_BIG, -ERR_NOMEM. */
MUST_CHECK int client_call(struct client *c, const struct client_request *request,
                           struct client_reply *ret, struct err_note *note);

void client_reply_init(struct client_reply *r);
void client_reply_done(struct client_reply *r);
/* The value of a header of the reply, empty when it has none of that name. */
struct span client_reply_header(const struct client_reply *r, const char *name);
/* The address as the user gave it, for messages. */
const char *client_server(const struct client *c);

/* The address in its parts, for who speaks to the server without libcurl. */
struct client_address {
    const char *unix_path; /* NULL for TCP */
    const char *host;      /* without brackets; NULL for a Unix socket */
    const char *port;
    const char *authority; /* for the Host header */
    const char *prefix;    /* of every path, "" or "/…" */
    bool tls;
};
/* The texts live in arena. -ERR_NOMEM. */
MUST_CHECK int client_address_of(const struct client *c, struct arena *arena,
                                 struct client_address *ret);
