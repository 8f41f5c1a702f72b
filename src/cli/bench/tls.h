/* SPDX-License-Identifier: Apache-2.0 */
/* TLS for the connections of the load generator, by OpenSSL. The server's certificate is verified.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "cli/client/http/endpoint.h"

struct bench_tls;         /* what all connections share; several threads may use it */
struct bench_tls_session; /* of one connection */

/* host: the name or address that the certificate must be for. -ERR_INVALID with a note: a file of
 * the endpoint cannot be used; -ERR_NOMEM. SIGPIPE must be ignored from now on. */
MUST_CHECK int bench_tls_new(const struct client_endpoint *to, const char *host,
                             struct bench_tls **ret, struct err_note *note);
void bench_tls_free(struct bench_tls *t); /* NULL allowed */
/* The handshake on a connected socket that blocks. -ERR_IO with a note, -ERR_NOMEM. */
MUST_CHECK int bench_tls_connect(struct bench_tls *t, int fd, struct bench_tls_session **ret,
                                 struct err_note *note);
void bench_tls_close(struct bench_tls_session *s); /* NULL allowed */
/* As send and recv: -1 with errno, which is EAGAIN as long as the socket is not ready. */
ssize_t bench_tls_send(struct bench_tls_session *s, const char *at, size_t len);
ssize_t bench_tls_recv(struct bench_tls_session *s, char *into, size_t len);
