/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to the server on the loop: commands are sent, and each is answered once, in order.
 *
 * hiredis parses the protocol; the socket belongs to libuv, so that TLS can be used (tls.h). When a
 * connection is lost, every waiting command is answered with NULL, then `lost` is called; the owner
 * opens it again with redis_conn_open, which does not block.
 *
 * src/backend/redis/connection is the access to the server: URL, TLS, handshake, arguments,
 * scripts. It may use hiredis, OpenSSL, libuv, base and shared/, and knows nothing about jobs. */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <uv.h>

#include "backend/redis/connection/args.h"
#include "backend/redis/connection/tls.h"
#include "backend/redis/connection/url.h"

/* The text at this index of a list; "" if it is missing, whatever the server sent. */
static inline const char *redis_text_at(const redisReply *r, size_t i)
{
    const redisReply *one =
        r && r->type == REDIS_REPLY_ARRAY && i < r->elements ? r->element[i] : NULL;
    return one && one->type == REDIS_REPLY_STRING ? one->str : "";
}

struct rconn;

/* The receiver owns the reply (freeReplyObject); NULL = the connection was lost. */
typedef void (*redis_reply_fn)(void *ctx, redisReply *r);

struct rconn_config {
    uv_loop_t *loop;
    const struct redis_url *url;
    struct redis_tls_context *tls; /* NULL = no TLS */
    uint32_t answer_ms; /* a server that sends nothing for this long counts as lost; 0 = 15,000 */
    void (*opened)(void *ctx);                /* commands may be sent */
    void (*lost)(void *ctx, const char *why); /* also if opening failed */
    /* Called with messages that answer no command, after redis_conn_listen was called; the
     * connection owns the reply. */
    void (*message)(void *ctx, const redisReply *r);
    void *ctx;
};

/* Creates one that is not connected yet. */
MUST_CHECK int redis_conn_new(const struct rconn_config *config, struct rconn **ret);
void redis_conn_open(struct rconn *c);
bool redis_conn_open_now(const struct rconn *c); /* connected */
bool redis_conn_down(const struct rconn *c);     /* … and not connecting */
/* Sends the command and clears it. Without a connection, or memory for it, fn is called with NULL
 * from the loop. */
void redis_conn_send(struct rconn *c, struct rargs *a, redis_reply_fn fn, void *ctx);
/* Sends several commands at once, as bytes; only the last one is answered: with its reply, or with
 * the first error of those before it. The connection owns the bytes. */
void redis_conn_send_all(struct rconn *c, struct buf *bytes, size_t commands, redis_reply_fn fn,
                         void *ctx);
/* Everything received from now on is a message; replies to commands are not awaited. */
void redis_conn_listen(struct rconn *c);
/* Ends it without a call of lost, as if the server had closed it: for a server that violates the
 * protocol. */
void redis_conn_drop(struct rconn *c);
/* Ends everything in progress without calling back; NULL is allowed. Not from inside its
 * callbacks. */
void redis_conn_close(struct rconn *c);
