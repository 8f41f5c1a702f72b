/* SPDX-License-Identifier: Apache-2.0 */
/* A real server on a loop with real sockets, and clients that never block: a function that waits
 * runs the loop. Every wait fails after some seconds. The tests run over plain and
 * over split streams (RUN_OVER_STREAMS).
 *
 * Routes of every rig:
 *   GET /now            200 "now"
 *   POST /echo          200 with the body of the request
 *   PUT /large          the same with ROUTE_LARGE
 *   GET /claim          200 with ROUTE_UNSAFE
 *   GET, POST /park/{n} kept in parked[n] until the test answers
 *   GET /alone/{n}      the same with http_alone
 *   POST /wait/{n}      the same with http_park
 *   GET /size/{n}       200 with n bytes
 *   GET /stream/{n}     http_stream, kept in parked[n] */
#pragma once

#include "unit/base/support.h"

#include "http/server.h"
#include "unit/net/client.h"
#include "unit/net/split_stream.h"

#define RIG_PARKED 256

struct http_rig_parked {
    struct http_exchange *x; /* NULL: none, or the answer has been given */
    struct http_rig *rig;
    size_t index;
    unsigned taken, gone, sent, room;
    bool whole; /* as sent said */
    bool stream;
};

struct http_rig {
    uv_loop_t loop;
    struct http_server *server;
    struct http_server_config config; /* to be changed between http_rig_init and http_rig_start */
    struct http_rig_parked parked[RIG_PARKED];
    size_t order[1024]; /* indexes as their `sent` came */
    size_t sent_count;
    uint64_t sent_ns; /* when the last came */
    unsigned handled;
    unsigned drained, closed;
    bool park_answers_when_gone; /* the usual API; otherwise the test does it */
    char last_peer[64];
    struct span last_param;
    char param_text[256];
    struct log log;
    char log_text[4096];
    size_t log_lines;
};

void http_rig_init(struct http_rig *r);
void http_rig_start(struct http_rig *r); /* listens on 127.0.0.1:0 */
void http_rig_done(struct http_rig *r);  /* closes everything and checks that nothing is left */
void http_rig_turn(struct http_rig *r);  /* one turn of the loop, without waiting */
void http_rig_answer(struct http_rig *r, size_t parked, const char *text);
void http_rig_stream_end(struct http_rig *r, size_t parked);
struct http_server_figures http_rig_figures(const struct http_rig *r);

/* Turns the loop until the condition holds. */
#define RIG_UNTIL(rig, condition) LOOP_UNTIL(&(rig)->loop, condition)

/* The clients of unit/net/client.h, with the loop of this rig. */
void peer_open(struct http_rig *r, struct client *c);
static inline void peer_send_bytes(struct http_rig *r, struct client *c, const char *at, size_t len)
{
    client_send(&r->loop, c, at, len);
}
static inline void peer_send(struct http_rig *r, struct client *c, const char *text)
{
    client_send(&r->loop, c, text, strlen(text));
}
static inline void peer_until(struct http_rig *r, struct client *c, const char *needle)
{
    client_until(&r->loop, c, needle);
}
static inline void peer_until_eof(struct http_rig *r, struct client *c)
{
    client_until_eof(&r->loop, c);
}
/* Takes one whole answer off the front (head and Content-Length body): its status; body copied. */
unsigned peer_answer(struct http_rig *r, struct client *c, char *body, size_t room);
unsigned peer_head(struct http_rig *r, struct client *c, char *head, size_t room); /* head only */

/* Starts the server and connects one client; begin initialises the rig first. */
void http_rig_start_with(struct http_rig *r, struct client *c);
void http_rig_begin(struct http_rig *r, struct client *c);
void http_rig_end(struct http_rig *r, struct client *c); /* closes the client and everything else */
/* Requests /stream/0 and reads the head of the answer. */
void peer_stream(struct http_rig *r, struct client *c);

/* Sends, and expects one answer with this status. */
void expect_status(struct http_rig *r, struct client *c, const char *request, unsigned status);

#define GET(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\n\r\n"
