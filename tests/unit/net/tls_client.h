/* SPDX-License-Identifier: Apache-2.0 */
/* The other side of TLS, for the clients of unit/net/client.h: it does not block and verifies
 * nothing. */
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>
#include <sys/types.h>

/* A session on this socket, before its handshake. */
SSL *tls_client_open(int fd);
void tls_client_close(SSL *ssl); /* sends nothing; NULL allowed */
/* As send and recv: -1 with errno; EAGAIN also during the handshake. */
ssize_t tls_client_send(SSL *ssl, const char *at, size_t len);
ssize_t tls_client_recv(SSL *ssl, char *into, size_t len);
