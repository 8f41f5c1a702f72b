/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to the server on the loop: commands go out, each is answered once, in order.
 *
 * hiredis reads the protocol; the socket is libuv's, so that TLS can stand in between (tls.h). A
 * connection that is lost answers every command that waits with NULL, then calls `lost`; its owner
 * opens it again with redis_conn_open, which does not block. */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <uv.h>

#include "backend/redis/connection/args.h"
#include "backend/redis/connection/tls.h"
#include "backend/redis/connection/url.h"

/* The i-th text of a list; "" where there is none, whatever the server answered. */
static inline const char *redis_text_at(const redisReply *r, size_t i)
{
    const redisReply *one =
        r && r->type == REDIS_REPLY_ARRAY && i < r->elements ? r->element[i] : NULL;
    return one && one->type == REDIS_REPLY_STRING ? one->str : "";
}

struct rconn;

/* The reply is the receiver's from now on (freeReplyObject); NULL = the connection is gone. */
typedef void (*redis_reply_fn)(void *ctx, redisReply *r);

struct rconn_config {
    uv_loop_t *loop;
    const struct redis_url *url;
    struct redis_tls_context *tls; /* NULL = plain */
    uint32_t answer_ms; /* a server that sends nothing for this long counts as lost; 0 = 15,000 */
    void (*opened)(void *ctx);                /* commands may be sent */
    void (*lost)(void *ctx, const char *why); /* also when opening failed */
    /* What comes without having been asked for, once redis_conn_listen was called; the reply stays
     * the connection's. */
    void (*message)(void *ctx, const redisReply *r);
    void *ctx;
};

/* Without a connection yet. */
MUST_CHECK int redis_conn_new(const struct rconn_config *config, struct rconn **ret);
void redis_conn_open(struct rconn *c);
bool redis_conn_open_now(const struct rconn *c); /* connected */
bool redis_conn_down(const struct rconn *c);     /* … and is not being opened */
/* Sends the command and clears it. Without a connection, or memory for it, fn is called with NULL
 * from the loop. */
void redis_conn_send(struct rconn *c, struct rargs *a, redis_reply_fn fn, void *ctx);
/* Several commands at once, as bytes; only the last is answered: with what it got, or with the
 * first error of those before it. The bytes are the connection's from now on. */
void redis_conn_send_all(struct rconn *c, struct buf *bytes, size_t commands, redis_reply_fn fn,
                         void *ctx);
/* All that comes from now on is a message; commands that are sent are not waited for. */
void redis_conn_listen(struct rconn *c);
/* Ends it without a call of lost, as if the server had: for one that does not answer as it should.
 */
void redis_conn_drop(struct rconn *c);
/* Ends what is under way without calling anybody; NULL allowed. Not from inside its callbacks. */
void redis_conn_close(struct rconn *c);
