/* SPDX-License-Identifier: Apache-2.0 */
/* The network layer: it accepts connections for a protocol, reads and writes them within their
 * limits, and knows nothing about HTTP or jobs; it may touch sockets, libuv and src/base.
 *
 * server.c      a server as a whole: its loop iteration, deadlines, drain and end
 * listen.c      listening sockets, accepting, connections beyond the limits
 * address.c     addresses: from text to a socket; connections per client address
 * connection.c  one connection: reading, kept input, what it waits for, its end
 * write.c       the output of a connection: one write per loop iteration
 * stream.c      the plain stream; stream.h is the extension point for other kinds
 * tls/          streams with TLS; tls/tls.h is its header
 * impl.h        what these files share
 *
 * A protocol (src/http, src/api/beanstalk) embeds a struct net_server as the first member of its
 * server and a struct net_conn as the first member of its connection, and gives a const table of
 * functions (struct net_protocol). Fields are read by the protocol as needed; those that it may
 * also write are marked.
 *
 * Input. A server has one read buffer. Bytes that were read are passed to the protocol, which
 * returns how many it has used. A connection keeps bytes of its own (`in`) only for a message that
 * is incomplete, or for messages that have to wait.
 *
 * Output. Nothing is written when the protocol has something to send: net_conn_schedule puts the
 * connection on a list, and at the end of the loop iteration (a prepare handle, right before the
 * loop waits for events) each listed connection is asked for its pieces, which are written with one
 * call. A connection that is scheduled later than that is written in the next iteration, which the
 * idle handle makes follow at once.
 *
 * Deadlines. A protocol has kinds of waits, each with one length, so the list of each kind is in
 * the order of the deadlines, and starting or stopping one costs nothing. A timer looks at the
 * front of each list a few times a second, as long as there are connections. After the process has
 * stood still, clients get another period, so that what they sent meanwhile is read first.
 *
 * Memory. Each connection has an account of the memory budget (base/budget.h), charged here for the
 * connection and the input it keeps, and by the protocol for everything else. The budget may shed a
 * connection that waits for its client.
 *
 * Callbacks. No function of this header calls a function of the protocol before it returns, except
 * where its comment says so. A connection that is closed in the middle of anything stays in memory,
 * with `closed` set, until libuv's close callback. Everything happens on the loop thread. */
#pragma once

#include <sys/uio.h>
#include <uv.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/containers/link.h"
#include "base/containers/map.h"
#include "base/err.h"
#include "base/log.h"
#include "net/stream.h"
#include "net/tls/tls.h"

#define NET_READ_BYTES ((size_t)64 << 10)
#define NET_WRITE_PIECES 256 /* of one write */
#define NET_PEER_BYTES 46    /* the longest IPv6 address as text */

struct net_conn;
struct net_server;

/* What a client has only a limited time for. A protocol numbers its kinds from NET_WAIT_PROTOCOL
 * on; these are for reading, and a connection has at most one of them at a time. */
enum net_wait_kind {
    NET_WAIT_WRITE,     /* the client must take something of what is sent */
    NET_WAIT_LINGER,    /* the client must read the last reply and close */
    NET_WAIT_HANDSHAKE, /* the stream must become ready */
    NET_WAIT_PROTOCOL,
    NET_WAITS = NET_WAIT_PROTOCOL + 3,
};
struct net_wait {
    struct link link;
    uint64_t deadline; /* loop time, ms */
    unsigned kind;     /* as long as link is in a list */
};

/* What is to be written next. */
struct net_pieces {
    struct iovec iov[NET_WRITE_PIECES];
    size_t count, bytes;
};
static inline void net_piece_add(struct net_pieces *p, const char *at, size_t len)
{
    if (len == 0)
        return;
    p->iov[p->count++] = (struct iovec){.iov_base = (void *)(uintptr_t)at, .iov_len = len};
    p->bytes += len;
}

/* ---- a protocol ---- */

/* How its addresses begin: of HOST:PORT without TLS and with it, and of a Unix socket's path. */
struct net_schemes {
    const char *plain, *tls, *unix_socket; /* "http://", "https://", "unix:" */
};

struct net_protocol {
    size_t conn_bytes;                 /* of its struct for a connection */
    const struct net_schemes *schemes; /* of its addresses */
    const char *alpn;                  /* its name in TLS: "http/1.1" */
    /* For a client that speaks HTTP to a listener with TLS; NULL = none. */
    const struct span *plain_reply;
    /* The client of a connection at rest opens another one when it is closed, and loses nothing:
     * such a connection with TLS may be shed. */
    bool rest_may_end;
    enum budget_kind input_kind; /* what kept input is charged as */
    /* A client that has closed its socket altogether is closed at once, even if something that it
     * sent has not been read: it cannot receive replies. */
    bool hang_up_ends;

    /* A connection was accepted; all of it that is not net_conn is zero. NULL: nothing to do. */
    void (*opened)(struct net_conn *c);
    /* It is beyond the limits: schedule the reply that says so. Nothing is read from it, and it
     * ends when the reply was sent. NULL: such connections are closed without a reply. */
    void (*refused)(struct net_conn *c);
    /* Takes messages off the front of `in`; returns how many bytes are done with. The rest is kept
     * and given again, with what follows it. Not called when `no_more` is set. */
    size_t (*input)(struct net_conn *c, struct span in);
    /* There is no memory to keep input of `len` bytes in all. What came last is lost: the protocol
     * sets no_more, discards its message or closes. */
    void (*no_room)(struct net_conn *c, size_t len);
    /* The client sends no more: it has closed, or shut down its sending side. */
    void (*input_ended)(struct net_conn *c);
    /* The client seems to have sent all that it will send, but not all of it was read yet. NULL:
     * nothing to do. */
    void (*hung_up)(struct net_conn *c);
    /* Whether more input can be used now. Asked only before the end of input. */
    bool (*wants_input)(const struct net_conn *c);
    /* After anything that may have changed what the connection waits for: starts or stops the wait
     * for the client (net_wait_*). */
    void (*settle)(struct net_conn *c);
    /* A wait of the protocol's own kinds has ended. The other kinds close the connection. */
    void (*late)(struct net_conn *c, unsigned kind);

    /* For the budget: whether it waits for its client or for something that may take long. */
    bool (*may_shed)(const struct net_conn *c);
    /* Gives up what the client has to do first, or closes (budget_shed_fn; ctx: the net_conn). */
    budget_shed_fn shed;

    /* Adds what is ready to be sent, in order: net_piece_add, at most NET_WRITE_PIECES. */
    void (*gather)(struct net_conn *c, struct net_pieces *p);
    /* This many bytes of what was gathered were handed to the kernel. Called with 0 before the
     * first gather of an iteration, for replies that have no bytes left to be sent. May close. */
    void (*sent)(struct net_conn *c, size_t len);
    /* All that is ready was written, or the client takes no more now (`blocked`). Goes on with what
     * waited for that, perhaps with kept input (net_conn_resume). true: the connection ends. */
    bool (*flushed)(struct net_conn *c);
    /* Neither a message under way nor a part of one, nor a reply that is not sent. */
    bool (*at_rest)(const struct net_conn *c);
    /* It is closed: releases what the protocol holds for it. The struct itself is the layer's. */
    void (*closed)(struct net_conn *c);

    /* The end of a loop iteration in which net_wake was called, after all writes. */
    void (*iteration)(struct net_server *s);
    /* A few times a second while there are connections. true: also without any. */
    bool (*tick)(struct net_server *s);
    /* The server ends: closes handles of its own (net_server.handles). NULL: it has none. */
    void (*ending)(struct net_server *s);
    /* The last handle is closed: frees the server. */
    void (*ended)(struct net_server *s);
};

/* ---- a server ---- */

struct net_config {
    uv_loop_t *loop;
    const struct log *log; /* may be NULL */
    /* What all connections hold together; outlives the server. NULL = no limit. */
    struct budget *budget;
    uint32_t connections_max;         /* beyond it new ones are refused */
    uint32_t connections_per_address; /* likewise; Unix sockets are not counted here */
    uint32_t write_ms;                /* a write must make progress */
    uint32_t handshake_ms;            /* for the whole handshake of a stream */
    uint64_t write_buffer_bytes;      /* per connection, beyond what the kernel took */
    struct net_tls *tls; /* for addresses with the scheme of TLS; NULL = they are refused */
    const struct net_stream_kind *stream; /* for all others; NULL = net_stream_plain */
    void *stream_ctx;                     /* for stream->open; both outlive the server */
};
void net_config_default(struct net_config *c); /* all but the loop */

struct net_figures {
    uint64_t connections, accepted, refused; /* open now; since start */
    uint64_t bytes_in, bytes_out;
};

struct net_server {
    struct net_config config;
    const struct net_protocol *protocol;
    uint64_t wait_ms[NET_WAITS]; /* the protocol sets those of its own kinds before listening */
    struct net_figures figures;
    struct budget_account loose; /* for the protocol: what has lost its connection; never shed */
    size_t under_way; /* the protocol's: replies that are owed to it; it does not end before 0 */
    unsigned handles; /* open; the protocol adds its own, each ends with net_handle_closed */
    bool draining, closing, ending;
    /* For the files of src/net. */
    struct budget unlimited; /* used when the configuration has no budget */
    struct link listeners, connections, scheduled;
    struct link waits[NET_WAITS];
    struct map64 addresses; /* connections for each peer address */
    uint64_t refused_open;  /* connections beyond the limits that are sent a reply */
    int spare_fd;           /* released for a moment when the process has no descriptor left */
    uint64_t dropped, dropped_logged_ms; /* connections without a descriptor */
    struct net_tls_service service;      /* what its streams with TLS use */
    uint64_t handshake_ns;               /* time that handshakes took in this iteration */
    uv_prepare_t prepare;
    uv_idle_t idle;
    uv_timer_t timer;
    bool ticking, awake;
    uint64_t drain_deadline;
    uint64_t ticked_ms; /* loop time of the last tick */
    void (*drained)(void *ctx);
    void *drained_ctx;
    void (*closed)(void *ctx);
    void *closed_ctx;
    struct net_pieces pieces; /* scratch, as is read_buf */
    char read_buf[NET_READ_BYTES];
};

/* The configuration is copied. s is zero. The server ends with net_close. Its prepare handle is
 * started here: a prepare handle whose callbacks send replies should be started later (the loop
 * runs the last one first), which saves an iteration of the loop. */
void net_server_init(struct net_server *s, const struct net_config *config,
                     const struct net_protocol *protocol);
/* "127.0.0.1:8000", "[::1]:0", "localhost:80", perhaps behind a scheme of the protocol, or
 * "unix:/path". Port 0 takes a free one. An address that is not loopback is refused (-ERR_INVALID)
 * with a note, as is one with TLS without config.tls. A left-over socket file on which no
 * process listens is removed; one in use is -ERR_LOCKED, as is a port in use. A socket file is for
 * its owner alone (0600). Otherwise -ERR_IO or -ERR_NOMEM, with a note. */
MUST_CHECK int net_listen(struct net_server *s, const char *address, struct err_note *note);
enum net_address_kind { NET_ADDRESS_BARE, NET_ADDRESS_PLAIN, NET_ADDRESS_TLS, NET_ADDRESS_UNIX };
/* Whether net_listen takes the address as such, and what kind it is; bare means HOST:PORT without a
 * scheme. 0, or -ERR_INVALID with a note. */
MUST_CHECK int net_address_check(const char *address, const struct net_schemes *schemes,
                                 enum net_address_kind *ret, struct err_note *note);
/* The scheme and address of listener i; NULL past the last. The server's, until it drains or
 * closes. */
const char *net_address(const struct net_server *s, size_t i);
/* Stops listening and closes connections at rest. Calls fn once, later, when the last connection is
 * closed, at the latest after limit_ms, when the rest is closed. Calls closed(). */
void net_drain(struct net_server *s, uint32_t limit_ms, void (*fn)(void *ctx), void *ctx);
/* Closes everything. fn (may be NULL) is called, later, when nothing is under way and the server's
 * memory was freed. Calls closed(). */
void net_close(struct net_server *s, void (*fn)(void *ctx), void *ctx);
/* The end of the loop iteration must be reached without waiting for events. */
void net_wake(struct net_server *s);
/* Ticks begin even without a connection. */
void net_tick_start(struct net_server *s);
/* A handle of the protocol was closed. May call ended(): s may be gone. */
void net_handle_closed(struct net_server *s);
/* One of what was under way is done. */
static inline void net_work_done(struct net_server *s)
{
    s->under_way--;
    if (s->closing)
        net_wake(s);
}
static inline uint64_t net_now(const struct net_server *s)
{
    return uv_now(s->config.loop);
}

/* ---- a connection ---- */

struct net_conn {
    uv_poll_t poll;
    struct net_server *server;
    struct net_stream stream;
    struct budget_account account;
    struct buf in;
    size_t in_need;        /* the protocol's: it has no use for fewer bytes of input; 0 = unknown */
    size_t in_charged;     /* bytes of `in` that the budget knows of */
    size_t stream_charged; /* likewise, of the stream */
    size_t out_bytes;      /* the protocol's: ready to be sent, and not handed to the kernel */
    uint64_t bytes_in;     /* since it was accepted */
    struct link all, scheduled;
    struct net_wait reads, writes;
    uint64_t address;   /* key of the count for each client address; 0 = not counted */
    int wanted, events; /* what it waits for; what the socket is polled for */
    bool no_more : 1;   /* the protocol's: what comes from now on is discarded */
    bool linger : 1;    /* the protocol's: the client may still be sending when it ends */
    bool lingering : 1; /* everything is sent; waits for the client to close */
    bool refused : 1;   /* beyond the limits */
    bool opening : 1;   /* the handshake of the stream is not done */
    bool eof : 1;       /* the client has sent everything that it will send */
    bool hung_up : 1;   /* so it seems, but not all of it was read yet */
    bool urgent : 1;    /* urgent data came: that event says nothing any more */
    bool unread : 1;    /* the stream has bytes for which the socket need not be polled */
    bool blocked : 1;   /* the client did not take all that there was */
    bool taking : 1;    /* the protocol is taking messages from `in` */
    bool closed : 1;    /* its memory is freed in the close callback */
    uint8_t peer_len;
    char peer[NET_PEER_BYTES]; /* the client's address as text; "unix" */
};

/* It has something to send, or its state must be looked at: at the end of the loop iteration. */
void net_conn_schedule(struct net_conn *c);
/* Closes at once. Calls closed(). Allowed at any time, also more than once. */
void net_conn_close(struct net_conn *c);
/* Calls settle(), then polls for what the connection waits for. For changes that happened outside
 * of the callbacks of the protocol, after which this happens anyway. May close. */
void net_conn_settle(struct net_conn *c);
/* Gives the kept input to the protocol again. Calls input(). */
void net_conn_resume(struct net_conn *c);
void net_conn_input_free(struct net_conn *c); /* discards the kept input */
/* The budget hears whether the connection may be shed. Part of net_conn_settle. Calls may_shed().
 */
void net_conn_account(struct net_conn *c);
/* More waits to be sent than the configuration allows for input to be taken. */
static inline bool net_conn_full(const struct net_conn *c)
{
    return c->out_bytes > c->server->config.write_buffer_bytes;
}
/* The first bytes that wait to be sent and cannot be withdrawn: see net_stream_kind.begun. */
static inline size_t net_conn_begun(const struct net_conn *c)
{
    return c->stream.kind->begun ? c->stream.kind->begun(&c->stream) : 0;
}
/* The kernel holds at most about this many bytes that the client has not received. */
void net_conn_kernel_bytes(struct net_conn *c, int bytes);

/* The wait for the client to send something. kind: NET_WAIT_PROTOCOL and beyond. */
void net_wait_start(struct net_conn *c, unsigned kind);  /* from now on, whatever was before */
void net_wait_ensure(struct net_conn *c, unsigned kind); /* unless it has this kind already */
void net_wait_stop(struct net_conn *c);
bool net_wait_is(const struct net_conn *c, unsigned kind);
