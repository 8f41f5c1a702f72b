/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to the server, in pipeline mode on the loop.
 *
 * Work goes over it in rounds: conn_send any number of statements, then conn_round. When the server
 * has answered them all, the round's function is called with their results, in order, from the
 * loop. One round at a time. Statements are prepared once a connection, unless a pooler stands in
 * between, which may give each transaction to another server process.
 *
 * A connection that is lost ends its round with -ERR_IO and calls `lost` of its owner, who opens
 * another with conn_reopen; that happens on the loop and does not block. */
#pragma once

#include <libpq-fe.h>
#include <stdbool.h>
#include <uv.h>

#include "backend/postgres/connection/args.h"
#include "backend/postgres/sql/sql.h"
#include "backend/shared/shared.h"
#include "base/log.h"

#define ROUND_MAX 96 /* statements */

struct conn;

struct round_error {
    char state[6];  /* SQLSTATE; "" when the connection broke */
    char text[400]; /* the server's words, for the log */
    int at;         /* index of the statement; -1 = none */
};

/* err: 0; -ERR_IO the connection is gone; -ERR_INVALID the server refused a statement (error says
 * which and why), and those behind it were not run. Results live until the next round begins. */
typedef void (*round_fn)(void *ctx, int err, const struct round_error *error);
/* All before the mark was done; the results of that are there, the rest of the round is to come. */
typedef void (*mark_fn)(void *ctx);

struct conn_config {
    uv_loop_t *loop;
    const struct log *log;
    const char *conninfo;       /* for libpq; holds the password: never logged */
    const struct sql_text *sql; /* statements, with the schema filled in */
    bool pooled;                /* a pooler is in between: nothing may outlive a transaction */
    const char *setup;          /* one query sent before anything else; NULL = none */
    const char *local;          /* pooled: sent behind each BEGIN; its result is dropped */
    void (*opened)(void *ctx);  /* after conn_reopen: usable again */
    void (*lost)(void *ctx);    /* no round is under way any more; also when reopening failed */
    void (*notified)(void *ctx, const char *payload); /* NULL = notices are dropped */
    void *ctx;
};

/* Takes over a connected and idle PGconn, also on failure. */
MUST_CHECK int pg_conn_new(const struct conn_config *config, PGconn *pg, struct conn **ret);
/* Without a connection yet; conn_reopen makes one. */
MUST_CHECK int pg_conn_new_closed(const struct conn_config *config, struct conn **ret);
bool pg_conn_usable(const struct conn *c); /* connected, and no round under way */
bool pg_conn_up(const struct conn *c);     /* connected */
bool pg_conn_down(const struct conn *c);   /* … and is not being opened */
void pg_conn_reopen(struct conn *c);
/* From time to time: a connection on which an answer is awaited and nothing came for longer than
 * this is lost (to connect may take a third of it). A server that was stopped, or a network that
 * swallows everything, says nothing of it. */
void pg_conn_wake(struct conn *c, int64_t patience_ms);
/* How the server is reached, and the sslmode that was asked for; while it is connected. */
enum backend_link pg_conn_link(const struct conn *c, char sslmode[16]);
const char *pg_conn_trouble(const struct conn *c); /* why it was lost last; "" = it never was */

/* Adds a statement to the round to come; clears the arguments. */
void pg_conn_send(struct conn *c, enum sql_id id, struct args *a);
/* In the middle of a round, at most once: fn is called, with the round's context, as soon as all
 * that was added so far is done; not at all if a statement before it is refused. */
void pg_conn_mark(struct conn *c, mark_fn fn);
/* -ERR_IO, -ERR_NOMEM: fn is not called, and any of it may have been done. */
MUST_CHECK int pg_conn_round(struct conn *c, round_fn fn, void *ctx);
size_t pg_conn_sent(const struct conn *c); /* statements of this round, so far */
const PGresult *pg_conn_result(const struct conn *c, size_t index);
PGresult *pg_conn_take_result(struct conn *c, size_t index); /* the caller's from now on */

/* Ends what is under way without calling anybody; NULL allowed. Not from inside a round's function.
 */
void pg_conn_close(struct conn *c);
