/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to the server, in pipeline mode on the loop.
 *
 * Statements are sent in rounds: pg_conn_send adds a statement, pg_conn_round sends all of them.
 * When the server has answered them all, the round's function is called with their results, in
 * order, from the loop. There is one round at a time. Statements are prepared once for each
 * connection, unless a pooler is used, which may give each transaction to another server process.
 *
 * When a connection is lost, its round ends with -ERR_IO, and `lost` of the owner is called. The
 * owner opens another with pg_conn_reopen, which runs on the loop and does not block.
 *
 * src/backend/postgres/connection is the access to the server: URL, arguments, connections. It may
 * use libpq, libuv, base and shared/, and knows nothing about jobs. */
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
    char state[6];  /* SQLSTATE; "" if the connection was lost */
    char text[400]; /* the server's message, for the log */
    int at;         /* index of the statement; -1 = none */
};

/* err: 0; -ERR_IO the connection was lost; -ERR_INVALID the server refused a statement (error says
 * which and why), and the ones after it were not run. Results are valid until the next round
 * begins. */
typedef void (*round_fn)(void *ctx, int err, const struct round_error *error);
/* Everything before the mark has been done and its results are available; the rest of the round
 * follows. */
typedef void (*mark_fn)(void *ctx);

struct conn_config {
    uv_loop_t *loop;
    const struct log *log;
    const char *conninfo;       /* for libpq; contains the password: never logged */
    const struct sql_text *sql; /* statements, with the schema filled in */
    bool pooled;                /* a pooler is used: nothing may outlive a transaction */
    const char *setup;          /* a query sent before anything else; NULL = none */
    const char *local;          /* pooled: sent after each BEGIN; its result is dropped */
    void (*opened)(void *ctx);  /* after pg_conn_reopen: usable again */
    void (*lost)(void *ctx);    /* no round is in progress any more; also if reopening failed */
    void (*notified)(void *ctx, const char *payload); /* NULL = notifications are dropped */
    void *ctx;
};

/* Takes ownership of a connected and idle PGconn, also on failure. */
MUST_CHECK int pg_conn_new(const struct conn_config *config, PGconn *pg, struct conn **ret);
/* Creates one that is not connected yet; pg_conn_reopen connects it. */
MUST_CHECK int pg_conn_new_closed(const struct conn_config *config, struct conn **ret);
bool pg_conn_usable(const struct conn *c); /* connected, and no round in progress */
bool pg_conn_up(const struct conn *c);     /* connected */
bool pg_conn_down(const struct conn *c);   /* … and not connecting */
void pg_conn_reopen(struct conn *c);
/* To be called periodically: a connection that awaits an answer and has received nothing for longer
 * than this is lost (connecting may take a third of it). A stopped server, or a network that drops
 * everything, causes no error. */
void pg_conn_wake(struct conn *c, int64_t patience_ms);
/* How the connection is protected, and the requested sslmode; while it is connected. */
enum backend_link pg_conn_link(const struct conn *c, char sslmode[16]);
const char *pg_conn_trouble(const struct conn *c); /* why it was last lost; "" = it never was */

/* Adds a statement to the next round; clears the arguments. */
void pg_conn_send(struct conn *c, enum sql_id id, struct args *a);
/* To be called between the statements of a round, at most once: fn is called, with the context of
 * the round, as soon as everything added so far has been done. It is not called if a statement
 * before it is refused. */
void pg_conn_mark(struct conn *c, mark_fn fn);
/* -ERR_IO, -ERR_NOMEM: fn is not called, and any part of the round may have been done. */
MUST_CHECK int pg_conn_round(struct conn *c, round_fn fn, void *ctx);
size_t pg_conn_sent(const struct conn *c); /* statements added to this round */
const PGresult *pg_conn_result(const struct conn *c, size_t index);
PGresult *pg_conn_take_result(struct conn *c, size_t index); /* owned by the caller from now on */

/* Ends the current round without calling its function; NULL is allowed. Not from inside a round's
 * function. */
void pg_conn_close(struct conn *c);
