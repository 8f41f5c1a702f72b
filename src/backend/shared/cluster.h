/* SPDX-License-Identifier: Apache-2.0 */
/* What a node learned at its last heartbeat about the other nodes, the leader and the clock of the
 * store. All times are those of the store's clock: a node with a wrong clock must not take the
 * leadership from another node, and must not appear to be dead. */
#pragma once

#include "backend/backend.h"

#define TICK_IDLE_MS                                                                               \
    500              /* the leader checks at least this often, because a notification may be lost */
#define POLL_MS 1000 /* watchers are woken this often while notifications may be missing */

struct shared;

struct node_state {
    struct backend_cluster cluster; /* without its connections */
    unsigned others;                /* other nodes that are alive */
    int64_t heartbeat_now_ms;       /* the store's time of the last heartbeat … */
    int64_t seen_at_ms;             /* … and the time of this process; 0 = none yet */
    int64_t first_heartbeat_ms;     /* as_of of the first; 0 = none yet */
    int64_t offset_ms;              /* the store's clock minus our monotonic clock … */
    int64_t offset_at_ms; /* … as received at this time; 0 = not yet on this connection */
    bool twin_told;       /* another node with our number has been logged */
    bool leader;
    int64_t leader_epoch;
    int64_t tick_at_ms;  /* of the leader: the store's time of the last tick */
    int64_t next_due_ms; /* when the next job or schedule is due, as of the last tick; 0 = none */
};

/* --- time --- */

int64_t shared_manual_now(const struct shared *s); /* 0 = the clock cannot be set */
int64_t shared_now(const struct shared *s);        /* of the store */
void shared_clock_heard(struct shared *s, int64_t theirs);
int64_t shared_clock_offset(const struct backend *b);

/* --- heartbeats --- */

int64_t shared_leader_ttl_ms(const struct shared *s);
int64_t
shared_silent_ms(const struct shared *s); /* a node that is silent for this long counts as dead */
int64_t shared_heartbeat_ms(const struct shared *s); /* between two heartbeats */
bool shared_heartbeat_due(const struct shared *s);
void shared_heartbeat_begun(struct shared *s);
/* Fills in the rest of *n from its epoch, number and seen_at. */
void shared_node_heard(const struct shared *s, struct backend_node *n, int64_t now,
                       uint32_t holder);
void shared_cluster_heard(struct shared *s, int64_t now, uint64_t leader_epoch, uint32_t holder,
                          int64_t until);
void shared_warn_of_twin(struct shared *s); /* call it when the nodes are known */

/* --- the leader --- */

void shared_leader_take(struct shared *s,
                        int64_t epoch); /* 0 = another node leads, or there is no leader */
void shared_leader_lost(struct shared *s, bool overtaken);
bool shared_tick_due(const struct shared *s);
void shared_due_heard(struct shared *s, int64_t ms); /* when something is due; 0 = nothing is */
int64_t shared_next_wait(const struct shared *s);    /* ms until this node has something to do */

/* --- whether the store answers --- */

void shared_store_lost(struct shared *s, const char *why); /* why: empty = unchanged */
/* How the connection to the server is protected; logged when it changes. shared_host_local says
 * whether an address is LINK_LOCAL. sslmode: "" = not set. */
void shared_link_heard(struct shared *s, enum backend_link link, const char *sslmode);
/* A Unix socket, "localhost" or a loopback address. */
bool shared_host_local(const char *host);
void shared_store_opened(struct shared *s); /* it answers; does nothing if that is known */
