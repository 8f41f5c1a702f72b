/* SPDX-License-Identifier: Apache-2.0 */
/* TLS between two buffers: bytes of the network in and out, bytes of the protocol out and in. The
 * hiredis of Debian 12 has no TLS. */
#pragma once

#include <stdbool.h>

#include "backend/redis/connection/url.h"
#include "base/buf.h"

struct redis_tls_context; /* certificates: one for each store */
struct redis_tls;         /* one for each connection */

MUST_CHECK int redis_tls_context_new(const struct redis_url *url, struct redis_tls_context **ret,
                                     struct err_note *note);
void redis_tls_context_free(struct redis_tls_context *c); /* NULL is allowed */

/* The server must show a certificate for the URL's host. NULL: no memory. */
struct redis_tls *redis_tls_new(struct redis_tls_context *c, const struct redis_url *url);
void redis_tls_free(struct redis_tls *t); /* NULL is allowed */

/* Takes bytes from the network; appends what the protocol has to read to plain, and what is to be
 * sent to wire. -ERR_IO: the certificate of the peer is not accepted, or it does not use TLS. */
MUST_CHECK int redis_tls_feed(struct redis_tls *t, struct span in, struct buf *plain,
                              struct buf *wire, struct err_note *note);
/* Produces the first message of the handshake (empty out), or encrypts bytes to send when the
 * handshake is complete. */
MUST_CHECK int redis_tls_send(struct redis_tls *t, struct span out, struct buf *wire);
bool redis_tls_ready(const struct redis_tls *t); /* the handshake is complete */
