/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of src/net. */
#pragma once

#include "base/mem.h"
#include "net/net.h"

struct net_listener {
    uv_poll_t poll;
    struct net_server *server;
    struct link link;
    int fd;
    bool tls;    /* its connections use TLS */
    bool paused; /* no descriptor was free: until the next tick */
    bool closed;
    uint64_t device, inode; /* of the socket file, so that no other one is removed */
    const char *path;       /* of the socket file, in `address`; NULL = not a Unix socket */
    char address[160];      /* as net_address gives it */
};

/* server.c */
void net_wait_begin(struct net_server *s, struct net_wait *w, unsigned kind);
static inline void wait_end(struct net_wait *w)
{
    link_remove(&w->link);
}
static inline bool wait_is(const struct net_wait *w, unsigned kind)
{
    return w->kind == kind && !link_alone(&w->link);
}

/* listen.c */
void net_spare_take(struct net_server *s); /* takes the spare descriptor unless it is there */
/* Those that rest accept again; returns whether there were any. */
bool net_listeners_resume(struct net_server *s);
void net_listeners_close(struct net_server *s);

/* connection.c */
struct net_accepted {
    int fd; /* belongs to the connection, whatever happens */
    struct span peer;
    uint64_t address; /* counted already */
    bool tls, refused;
};
void net_conn_accept(struct net_server *s, const struct net_accepted *a);
bool net_conn_reads(const struct net_conn *c); /* input is wanted, if only to be discarded */
void net_conn_read(struct net_conn *c);
void net_conn_moved(struct net_conn *c, size_t bytes); /* the client has sent or taken them */

/* write.c */
void net_conn_flush(struct net_conn *c);
