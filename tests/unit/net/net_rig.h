/* SPDX-License-Identifier: Apache-2.0 */
/* A small protocol on the network layer, for its tests: lines of text.
 *
 * A line is sent back. "hold" is sent back when the test says so (`release`), "end" is sent back
 * and ends the connection, "close" closes at once, "size N" gives N bytes. */
#pragma once

#include "net/net.h"
#include "unit/net/client.h"
#include "unit/net/split_stream.h"

enum { LINE_WAIT = NET_WAIT_PROTOCOL, IDLE_WAIT };

extern const struct net_schemes line_schemes;

struct line_conn {
    struct net_conn net; /* first */
    struct buf out;      /* ready to be sent */
    size_t done;         /* bytes of `out` that were sent */
    bool held;           /* a "hold" is not answered */
};

struct net_rig {
    struct net_server net; /* first */
    uv_loop_t loop;
    struct net_config config; /* to be changed between net_rig_init and net_rig_start */
    uint64_t line_ms, idle_ms;
    struct log log;
    unsigned lines, holds, opened, refused, ended, hung_up, late[2], no_room, shed, closed;
    unsigned iterations, ticks;
    unsigned drained, server_ended, server_closed;
    bool tick_more;
    uint64_t under_way_at_end;
};

void net_rig_init(struct net_rig *r);
void net_rig_start(struct net_rig *r);   /* listens on 127.0.0.1:0 */
void net_rig_done(struct net_rig *r);    /* closes everything and checks that nothing is left */
void net_rig_release(struct net_rig *r); /* answers every "hold" */
void net_rig_client(struct net_rig *r, struct client *c);
void net_rig_send(struct net_rig *r, struct client *c, const char *text);
/* Starts the server and connects one client; begin initialises the rig first. */
void net_rig_start_with(struct net_rig *r, struct client *c);
void net_rig_begin(struct net_rig *r, struct client *c);
void net_rig_end(struct net_rig *r, struct client *c); /* closes the client and everything else */
void net_rig_hold(struct net_rig *r,
                  struct client *c); /* sends the first "hold", and waits for it */
#define NET_UNTIL(rig, condition) LOOP_UNTIL(&(rig)->loop, condition)
