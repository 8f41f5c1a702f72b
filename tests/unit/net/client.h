/* SPDX-License-Identifier: Apache-2.0 */
/* A client that never blocks: a test that waits for it runs the loop of the server meanwhile. Every
 * wait ends with a failure after some seconds. */
#pragma once

#include <uv.h>

#include "unit/base/support.h"

#include "base/system/clock.h"

/* Runs the loop until the condition holds. */
#define LOOP_UNTIL(loop, condition)                                                                \
    do {                                                                                           \
        uint64_t until_deadline = clock_ns() + UINT64_C(60000000000);                              \
        while (!(condition)) {                                                                     \
            if (clock_ns() > until_deadline)                                                       \
                fail_msg("never became true: %s", #condition);                                     \
            uv_run(loop, UV_RUN_NOWAIT);                                                           \
        }                                                                                          \
    } while (0)

struct client {
    int fd;
    struct ssl_st *tls; /* of OpenSSL; NULL = plain bytes */
    char *data;         /* what came so far, NUL-terminated; NULL before the first client_poll */
    size_t len, room;
    bool eof;
    int error;
};

/* A connected socket, not blocking; -1 with errno. address: as net_address gives it. */
int client_connect(const char *address);
void net_client_open(struct client *c, const char *address);
void net_client_close(struct client *c);
void client_reset(struct client *c);    /* closes with a reset */
void client_shutdown(struct client *c); /* it will send no more */
/* Sends at most len bytes, as send does. */
ssize_t client_try_send(struct client *c, const char *at, size_t len);
/* Returns when the server can read what is sent: over TLS, after the handshake. */
void client_handshake(uv_loop_t *loop, struct client *c);
void client_send(uv_loop_t *loop, struct client *c, const char *at, size_t len);
bool client_poll(struct client *c);             /* takes what is there; always true */
void client_drop(struct client *c, size_t len); /* from the front of what came */
void client_until(uv_loop_t *loop, struct client *c, const char *needle);
void client_until_eof(uv_loop_t *loop, struct client *c); /* or an error */
