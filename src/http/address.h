/* SPDX-License-Identifier: Apache-2.0 */
/* Where to listen: "127.0.0.1:8000", "[::1]:0", "localhost:80", "unix:/path". */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "base/err.h"

struct listen_address {
    struct sockaddr_storage at;
    socklen_t len;
    bool unix_socket;
};

/* -ERR_INVALID with a note: not such an address, or not a loopback one. */
MUST_CHECK int listen_address_parse(const char *text, struct listen_address *ret,
                                    struct err_note *note);
/* A listening socket: not blocking, not inherited. -ERR_LOCKED: somebody listens there already;
 * -ERR_IO. A socket file that nobody listens on is replaced; any other file is left alone. */
MUST_CHECK int listen_socket(const struct listen_address *a, const char *text, int *ret_fd,
                             struct err_note *note);
