/* SPDX-License-Identifier: Apache-2.0 */
/* What every connection that changes something begins with: who we are, whether the server keeps
 * what we promise, its scripts, and the facts of the store. */
#pragma once

#include "backend/redis/connection/conn.h"
#include "backend/redis/connection/scripts.h"
#include "backend/shared/shared.h"

#define REDIS_FORMAT 2
#define HANDSHAKE_MAX 24

/* What was found. */
struct redis_server {
    char version[24];
    char appendonly[8], appendfsync[16], eviction[24]; /* "" = we may not ask */
    bool synced_rewrites;                              /* no-appendfsync-on-rewrite is no */
    bool durable;                                      /* a reply is on the disk */
    bool made;       /* there was nothing: the store was made by this greeting */
    uint64_t stores; /* how often something was stored; a smaller number: data was lost */
};

struct handshake;
typedef void (*greeted_fn)(void *ctx, int err, const struct err_note *note);

struct handshake {
    struct rconn *conn;
    const struct redis_url *url;
    struct script_names *names;
    struct store_facts *facts;
    struct redis_server found;
    bool boot;            /* take a number for this boot … */
    uint32_t epoch_least; /* … above this one */
    bool loading;         /* it failed since the server still reads its data */
    greeted_fn fn;
    void *ctx;
    /* its own */
    struct rargs args;
    redisReply *replies[HANDSHAKE_MAX];
    size_t asked, got;
};

/* -ERR_IO the connection broke, -ERR_INVALID the server will not do, -ERR_VERSION the store is of a
 * newer version. The greeting stays the caller's; one at a time. */
void redis_handshake(struct handshake *g, greeted_fn fn, void *ctx);
void redis_handshake_drop(
    struct handshake *g); /* the connection was lost: frees what it had, makes no callback */
/* Words for a log or a client about an error reply, without what was sent. */
const char *redis_error_sentence(const redisReply *r);
bool redis_is_error(const redisReply *r, const char *prefix); /* such as NOSCRIPT */
