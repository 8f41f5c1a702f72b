/* SPDX-License-Identifier: Apache-2.0 */
/* Where to listen, and how many connections each client address has.
 *
 * Addresses to listen on: "127.0.0.1:8000", "[::1]:0", "localhost:80", "unix:/path". */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "base/containers/map.h"
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

/* The key of a client's address in a count: of IPv4 the address, of IPv6 its network of 64 bits, of
 * which one host can use every address. 0 = a Unix socket, which is not counted. */
uint64_t peer_key(const struct sockaddr_storage *peer);
/* false: it has `most` connections already, or there is no memory to count it. */
MUST_CHECK bool peer_count(struct map64 *counts, uint64_t key, uint32_t most);
void peer_uncount(struct map64 *counts, uint64_t key);
