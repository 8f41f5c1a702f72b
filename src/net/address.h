/* SPDX-License-Identifier: Apache-2.0 */
/* Where to listen, and how many connections each client address has: for the files of src/net. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "base/containers/map.h"
#include "base/err.h"
#include "net/net.h"

struct listen_address {
    struct sockaddr_storage at;
    socklen_t len;
    enum net_address_kind kind;
};

/* -ERR_INVALID with a note: not an address of the forms in net.h, or not a loopback one. */
MUST_CHECK int listen_address_parse(const char *text, const struct net_schemes *schemes,
                                    struct listen_address *ret, struct err_note *note);
/* A listening socket: not blocking, not inherited. -ERR_LOCKED: another process listens there;
 * -ERR_IO. A socket file on which no process listens is replaced; any other file is left alone. */
MUST_CHECK int listen_socket(const struct listen_address *a, const char *text, int *ret_fd,
                             struct err_note *note);

/* The key of a client's address in a count: for IPv4 the address, for IPv6 its network of 64 bits,
 * of which one host can use every address. 0 = a Unix socket, which is not counted. */
uint64_t peer_key(const struct sockaddr_storage *peer);
/* false: it has `most` connections already, or there is no memory to count it. */
MUST_CHECK bool peer_count(struct map64 *counts, uint64_t key, uint32_t most);
void peer_uncount(struct map64 *counts, uint64_t key);
