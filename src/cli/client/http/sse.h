/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a stream of server-sent events, in pieces of any size. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#define CLIENT_SSE_EVENT_MAX ((size_t)8 << 20) /* bytes of one event */

struct client_sse_event {
    struct span event; /* "message" when the stream names none */
    struct span id;    /* the last id of the stream, which may be from an earlier event */
    struct span data;  /* lines joined by '\n' */
};

/* The spans are valid until it returns. A result other than 0 ends the reading. */
typedef int (*client_sse_fn)(void *ctx, const struct client_sse_event *event);

struct client_sse {
    client_sse_fn fn;
    void *ctx;
    struct buf line; /* the unfinished one */
    struct buf event, id, data;
    bool has_data;
    bool after_cr; /* a '\n' that comes now belongs to the '\r' before it */
    bool begun;    /* a byte order mark is allowed only before the first line */
};

void client_sse_init(struct client_sse *s, client_sse_fn fn, void *ctx);
void client_sse_done(struct client_sse *s);
/* Calls fn for each event that ends in the piece, before it returns. 0, what fn returned,
 * -ERR_TOO_BIG or -ERR_NOMEM. */
MUST_CHECK int client_sse_feed(struct client_sse *s, struct span piece);
/* After a lost connection: discards the incomplete event, keeps the id. */
void client_sse_restart(struct client_sse *s);
