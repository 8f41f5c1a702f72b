/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/client/http talks HTTP to a server. It may use libcurl, config and base.
 *
 * The HTTP client of the commands: one server, one request after the other.
 *
 * The server is given as http://HOST:PORT, https://HOST:PORT or unix:/PATH. Redirects are not
 * followed, no other protocol is used, and no proxy is used for a server on this machine. With
 * https:// the server's certificate is always verified. The functions block, so they are not for
 * the server's loop. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/containers/arena.h"
#include "base/err.h"
#include "base/span.h"
#include "cli/client/http/endpoint.h"

#define CLIENT_SERVER_DEFAULT "http://127.0.0.1:8000"
#define CLIENT_HEADERS_MAX 4

struct client;

struct client_request {
    const char *method;                      /* "GET" … */
    const char *path;                        /* from the root, query included, already encoded */
    const char *content_type;                /* of the body; NULL: application/json */
    struct span body;                        /* an empty one is sent as no body */
    const char *headers[CLIENT_HEADERS_MAX]; /* "Name: value"; the first NULL ends the list */
    int64_t
        wait_ms; /* how long the server may wait on purpose, in addition to the usual time limit */
    bool raw;    /* the caller accepts an answer of any type, not only JSON */
    /* A stream: gets each part of a 2xx body as it arrives instead of reply.body, without a time
     * limit. A result other than 0 ends it. `stop` is called about once a second, and true ends
     * the stream as well. */
    int (*on_body)(void *ctx, struct span piece);
    bool (*stop)(void *ctx);
    void *ctx;
};

struct client_reply {
    long status;
    struct buf body;
    struct buf headers; /* "name: value\n" lines as received */
};

/* Checks the address; does not connect yet. -ERR_INVALID with a sentence in note, -ERR_NOMEM.
 * The caller frees *ret with client_close. */
MUST_CHECK int client_open(const struct client_endpoint *to, struct client **ret,
                           struct err_note *note);
void client_close(struct client *c);
/* Sends one request and waits for its answer, whatever its status is. ret must be initialized
 * with client_reply_init and is reused. -ERR_IO with a sentence: the server cannot be reached,
 * or the connection broke. -ERR_CLOSED: the request ended the stream itself. -ERR_TOO_BIG,
 * -ERR_NOMEM. */
MUST_CHECK int client_call(struct client *c, const struct client_request *request,
                           struct client_reply *ret, struct err_note *note);

void client_reply_init(struct client_reply *r);
void client_reply_done(struct client_reply *r);
/* The value of a header of the reply; empty if not found. */
struct span client_reply_header(const struct client_reply *r, const char *name);
/* The address as the user gave it, for messages. */
const char *client_server(const struct client *c);
/* What it was opened with, as its own copy. */
const struct client_endpoint *client_endpoint(const struct client *c);

/* The parts of the address, for code that connects without libcurl. */
struct client_address {
    const char *unix_path; /* NULL for TCP */
    const char *host;      /* without brackets; NULL for a Unix socket */
    const char *port;
    const char *authority; /* for the Host header */
    const char *prefix;    /* of every path, "" or "/…" */
    bool tls;
};
/* The texts are in the arena. -ERR_NOMEM. */
MUST_CHECK int client_address_of(const struct client *c, struct arena *arena,
                                 struct client_address *ret);
