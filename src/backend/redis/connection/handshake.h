/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake at the beginning of every connection that changes something: credentials, checks
 * whether the server stores data durably, loading of the scripts, and the facts of the store. */
#pragma once

#include "backend/redis/connection/conn.h"
#include "backend/redis/connection/scripts.h"
#include "backend/shared/shared.h"

#define REDIS_FORMAT 4
#define HANDSHAKE_MAX 32

/* What the handshake found out. */
struct redis_server {
    char version[24];
    char appendonly[8], appendfsync[16], eviction[24]; /* "" = no right to read it */
    bool synced_rewrites;                              /* no-appendfsync-on-rewrite is no */
    /* a reply means that the data is on the disk */
    bool durable;
    bool created;    /* the store did not exist and was created by this handshake */
    uint64_t stores; /* number of stores so far; if it is smaller than before, data was lost */
};

struct handshake;
typedef void (*handshake_fn)(void *ctx, int err, const struct err_note *note);

struct handshake {
    struct rconn *conn;
    const struct redis_url *url;
    struct script_names *names;
    struct store_facts *facts;
    struct redis_server found;
    bool boot;            /* draw a number for this boot … */
    uint32_t epoch_least; /* … above this one */
    bool loading;         /* it failed because the server is still loading its data */
    handshake_fn fn;
    void *ctx;
    /* internal */
    struct rargs args;
    redisReply *replies[HANDSHAKE_MAX];
    size_t asked, got;
};

/* -ERR_IO the connection was lost, -ERR_INVALID the server cannot be used, -ERR_VERSION the store
 * has a newer version. The caller owns the handshake; one at a time. */
void redis_handshake(struct handshake *g, handshake_fn fn, void *ctx);
void redis_handshake_drop(
    struct handshake *g); /* the connection was lost: frees its memory, calls no callback */
/* A sentence about an error reply for a log or a client, without what was sent. */
const char *redis_error_sentence(const redisReply *r);
bool redis_is_error(const redisReply *r, const char *prefix); /* such as NOSCRIPT */
