/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP for APIs: a route, a request, its answer.
 *
 * A handler gets an exchange and must answer it exactly once, at once or later: http_answer,
 * http_answer_file, or http_stream followed by http_stream_end. Until then the exchange, its
 * request and its arena belong to the handler. If the client closes the connection first,
 * `closed` is called (never from inside a function of this header, but see http_park); the
 * handler must still answer, and the answer is discarded. After the answer, `sent` says whether
 * every byte of it was passed to the kernel; the exchange is freed when it returns. `sent` is
 * called exactly once for each answer, `closed` at most once and never after the answer. No
 * function of this header calls back before it returns. Everything happens on the loop thread.
 *
 * src/http may use net and base. It knows nothing about jobs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/containers/arena.h"
#include "base/span.h"
#include "http/parse.h"
#include "http/url.h"

struct http_exchange;
struct net_client; /* net/stream.h */
typedef void (*http_handler_fn)(void *ctx, struct http_exchange *x);

#define HTTP_PATH_PARAMS_MAX 4

/* The scope that an access token will need for the route. The list of routes shows it; there are no
 * access tokens yet, so nothing checks it. */
enum http_scope {
    SCOPE_OPEN, /* health */
    SCOPE_READ, /* reads */
    SCOPE_PRODUCE,
    SCOPE_CONSUME,
    SCOPE_ADMIN,
};

enum http_route_flag {
    ROUTE_LARGE = 1u << 0, /* the body may have limits.large_body_bytes instead of body_bytes */
    /* A GET that is not safe in the sense of HTTP: it claims, or costs much. Cache-Control:
     * no-store, no HEAD, and refused when an element of a web page may have sent it (guard.c). */
    ROUTE_UNSAFE = 1u << 1,
};

/* One row of an API's table. Patterns are "/v1/queues/{queue}/jobs": a {name} takes one segment,
 * percent-decoded, never empty. HEAD is answered by GET's handler without the body, OPTIONS and 405
 * by the server from the same table. */
struct http_route {
    enum http_method method;
    const char *pattern;
    http_handler_fn handler;
    enum http_scope scope;
    unsigned flags;
    const char *doc; /* one line for the route reference */
};

struct http_request {
    enum http_method method;
    const struct http_route *route;
    struct span path, query;                  /* raw */
    struct span params[HTTP_PATH_PARAMS_MAX]; /* decoded, in the order of the pattern */
    const struct http_header *headers;
    size_t header_count;
    struct span body; /* whole and decoded */
    struct span peer; /* "127.0.0.1", "::1" or "unix" */
    bool tls;         /* it came over TLS */
    /* What the client's certificate says, which was verified; NULL = it has shown none. */
    const struct net_client *client;
    struct arena *arena; /* for the handler; lives as long as the exchange */
};

const struct http_request *http_request(const struct http_exchange *x);
/* The header with this lower-case name; at = NULL if not found. */
struct span http_request_header(const struct http_request *r, const char *name);

typedef void (*http_closed_fn)(void *ctx);
typedef void (*http_sent_fn)(void *ctx, bool whole);
/* Either may be NULL. */
void http_watch(struct http_exchange *x, http_closed_fn closed, http_sent_fn sent, void *ctx);

/* The answer may be large: no later request is taken from the connection before the answer was
 * sent, so that one client cannot request many of them at once. Called by the handler before it
 * returns. */
void http_alone(struct http_exchange *x);

/* The handler waits for something that may take long, for example a job, and no longer needs the
 * body of the request: its memory is released. If memory is short, the server may end such a
 * request; then the client gets 503, and `closed` is called as if the client had closed the
 * connection. Only in this case it may be called from inside a function that answers or writes
 * for another exchange; it should answer, and must not answer any other exchange. */
void http_park(struct http_exchange *x);

/* The body of the answer, to be written before http_answer. Empty at first. */
struct buf *http_answer_body(struct http_exchange *x);
/* Adds a header to the answer; name and value are copied; no CR, LF or NUL (asserted: values from
 * clients are encoded by the caller). At most 2 KiB of them in all. */
void http_answer_header(struct http_exchange *x, const char *name, struct span value);
/* Sends status and body. type: "application/json" …, NULL = no body and no Content-Type. If
 * there was no memory for the body, answer 503 instead. */
void http_answer(struct http_exchange *x, unsigned status, const char *type);

/* A body that several answers share, so that it is in memory only once, however many slow
 * clients read it. It is freed with the last reference. */
struct http_shared {
    struct buf text; /* must not be changed after it is part of an answer */
    size_t refs;
};
struct http_shared *http_shared_new(void); /* one reference, the caller's; NULL: out of memory */
void http_shared_unref(struct http_shared *s); /* s may be NULL */
/* Like http_answer, with this body; the exchange takes its own reference. */
void http_answer_shared(struct http_exchange *x, unsigned status, const char *type,
                        struct http_shared *body);

/* Sends 200 with the first `bytes` bytes of a file, which other threads read piece by piece, as
 * fast as the client receives them; then the connection is closed. The server takes over the
 * descriptor. If the file cannot be read completely, the connection is aborted, so that the
 * client notices it. */
void http_answer_file(struct http_exchange *x, int fd, uint64_t bytes, const char *type);

/* A stream of server-sent events: 200, text/event-stream, no-store. The connection is used for
 * nothing else and closed at the end; later requests on the same connection are not answered.
 * HEAD gets the head only. */
void http_stream(struct http_exchange *x);
/* Queues bytes (whole events). false: the client has closed the connection, or more bytes than
 * the server's write buffer would wait, or there is no memory; then nothing was accepted. A
 * single piece that is larger than the whole write buffer is accepted if nothing else waits. */
bool http_stream_write(struct http_exchange *x, struct span bytes);
/* The same; the buffer is empty afterwards. The stream takes over its memory if that saves a
 * copy. */
bool http_stream_take(struct http_exchange *x, struct buf *bytes);
/* Whether a piece of at least this many bytes would be accepted now. false counts as a refused
 * write: a caller that asks first does not build a large piece in vain. */
bool http_stream_room(struct http_exchange *x, size_t bytes);
size_t http_stream_waiting(const struct http_exchange *x); /* bytes not yet passed to the kernel */
/* Called after a refused write, when the waiting bytes have fallen to half of the limit or less
 * and the write would be accepted. If memory was short, this is checked a few times a second. */
void http_stream_on_room(struct http_exchange *x, void (*fn)(void *ctx), void *ctx);
void http_stream_end(struct http_exchange *x);
/* Limits the waiting bytes to this, instead of the server's write buffer. */
void http_stream_bound(struct http_exchange *x, uint64_t bytes);
/* Bytes that the stream's source holds in memory, for the memory budget; false: they do not fit. */
MUST_CHECK bool http_stream_hold(struct http_exchange *x, size_t bytes);

/* ---- feeds: the same events for many streams, encoded and held once (feed.c) ---- */

struct http_feed;
/* A feed of the server that x belongs to; mark: that of the events before its first piece. NULL:
 * no memory. It must be freed before the server is closed. */
struct http_feed *http_feed_new(struct http_exchange *x, uint64_t mark);
void http_feed_free(struct http_feed *f); /* no stream follows it any more; NULL allowed */
/* Adds a piece, whole events; marks increase. Streams that are too far behind leave the feed. */
void http_feed_append(struct http_feed *f, struct span bytes, uint64_t mark);
/* The stream sends pieces that are appended from now on, after its own waiting bytes. While it
 * follows, http_stream_write may be used only if nothing waits. */
void http_stream_follow(struct http_exchange *x, struct http_feed *f);
/* Whether the stream still follows the feed. When it has left by itself, the room callback is
 * called as after a refused write, and *ret_mark is that of the last piece that it has sent or
 * will have sent. */
bool http_stream_follows(const struct http_exchange *x, uint64_t *ret_mark);
