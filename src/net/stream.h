/* SPDX-License-Identifier: Apache-2.0 */
/* Where the bytes of a connection come from and go to: the extension point below net.h.
 *
 * A stream stands between a connection and its socket. There are two kinds: one passes bytes
 * through (net_stream_plain), the other one is TLS (net/tls/tls.h). The tests have a third one,
 * which splits and delays bytes (tests/unit/net/split_stream.h). A kind of stream is a const table
 * of functions; the address of a listener says which one its connections use.
 *
 * The network layer owns the socket: it accepts, polls and closes it. The socket does not block.
 * All functions run on the loop thread and must not call back into the network layer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/err.h"
#include "base/span.h"

struct net_stream;

/* What read, write and shutdown return when they cannot give a count. */
enum net_stream_result {
    NET_AGAIN = -1,  /* nothing can be done now; the socket is polled, see `events` */
    NET_BROKEN = -2, /* the connection is of no use any more and will be closed */
};

struct net_stream_kind {
    /* Prepares `state` for an accepted socket, for example the state of a TLS session. ctx is
     * net_config.stream_ctx. 0 or -ERR_NOMEM; after a failure the socket is closed and no other
     * function is called. NULL: nothing has to be prepared. */
    int (*open)(struct net_stream *s, void *ctx);

    /* Whether the handshake is done. Until then the network layer reads whether or not the protocol
     * wants input, and closes the connection at the deadline of handshakes. NULL: it has no
     * handshake. */
    bool (*ready)(const struct net_stream *s);

    /* Bytes of memory that the stream holds, for the budget; asked after each call. Only the
     * handshake may hold more than at first. NULL: nothing worth counting. */
    size_t (*held)(const struct net_stream *s);

    /* Reads at most len bytes. Returns how many, 0 at the end of the input (and from then on),
     * NET_AGAIN or NET_BROKEN. A handshake takes place in here: until it has succeeded, the result
     * is NET_AGAIN. */
    ssize_t (*read)(struct net_stream *s, char *into, size_t len);

    /* Whether a read may give bytes although the socket is not readable, because they were received
     * before. The network layer asks after each read and reads again in the next loop iteration.
     * NULL: never. */
    bool (*pending)(const struct net_stream *s);

    /* Writes the pieces in order. Returns how many bytes it took, which may be fewer than there
     * are; NET_AGAIN or NET_BROKEN. Bytes count as taken when the kernel has everything that
     * results from them: callers rely on it to know what a client can have received. After a write
     * that took less than everything the next call begins with at least `begun` of the same bytes,
     * perhaps at another address. */
    ssize_t (*write)(struct net_stream *s, const struct iovec *pieces, size_t count);

    /* How many bytes that it has not taken it has begun to send, as a part of a record of TLS. The
     * protocol must not withdraw them. NULL: always 0. */
    size_t (*begun)(const struct net_stream *s);

    /* Says to the client that nothing more will be sent. 0: done. NET_AGAIN: it is called again
     * when the socket is ready. NET_BROKEN. Not called for connections that are closed at once. */
    int (*shutdown)(struct net_stream *s);

    /* Which events the socket must be polled for (UV_READABLE, UV_WRITABLE), given those for which
     * the connection waits. They differ while one direction waits for the other, for example a read
     * for the end of a handshake message that has to be written. When one of them occurs,
     * everything that the connection waits for is tried again. NULL: they are the same. */
    int (*events)(const struct net_stream *s, int wanted);

    /* Frees `state`, and may make a last attempt to say that the connection ends. The socket is
     * closed by the network layer afterwards. NULL: there is nothing to free. */
    void (*close)(struct net_stream *s);
};

struct net_stream {
    const struct net_stream_kind *kind;
    void *state; /* of the kind; NULL at first */
    int fd;
    const struct net_client *client; /* after the handshake; NULL = it has shown no certificate */
};

/* What the certificate of a client says, which was verified: "dns:NAME", "email:ADDRESS",
 * "uri:URI" and "ip:ADDRESS" in the order of the certificate. */
#define NET_CLIENT_NAMES 16
#define NET_CLIENT_BYTES ((size_t)2 << 10) /* of all names */
struct net_client {
    size_t count;
    struct span names[NET_CLIENT_NAMES];
    size_t bytes; /* of the names, whose text follows the struct in memory */
};
/* Copies it to `room`, which has sizeof *c + c->bytes bytes and is aligned for pointers. */
const struct net_client *net_client_copy(const struct net_client *c, void *room);

extern const struct net_stream_kind net_stream_plain;
