/* SPDX-License-Identifier: Apache-2.0 */
/* What a node knew, at its last heartbeat, of the other nodes, of the leader and of the clock of
 * the store. All times are those of the store: a node with a wrong clock must neither take the
 * lease from the node that has it nor appear to be dead. */
#pragma once

#include "backend/backend.h"

#define TICK_IDLE_MS 500 /* the leader looks at least this often: a notification may be lost */
#define POLL_MS 1000     /* watchers are woken this often where notifications may be missing */

struct shared;

struct node_state {
    struct backend_cluster cluster; /* without its connections */
    unsigned others;                /* other nodes that live */
    int64_t heartbeat_now_ms;       /* the store's time of the last heartbeat … */
    int64_t seen_at_ms;             /* … and the process's; 0 = none yet */
    int64_t first_heartbeat_ms;     /* as_of of the first; 0 = none yet */
    int64_t offset_ms;              /* the store's clock minus our monotonic one … */
    int64_t offset_at_ms;           /* … as heard then; 0 = not yet from this connection */
    bool twin_told;                 /* the log knows of another node with our number */
    bool leader;
    int64_t leader_epoch;
    int64_t tick_at_ms;  /* of the leader: the store's time of the last tick */
    int64_t next_due_ms; /* what is due next, by the last tick; 0 = nothing */
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
/* Its epoch, number and seen_at are there; the rest follows from them. */
void shared_node_heard(const struct shared *s, struct backend_node *n, int64_t now,
                       uint32_t holder);
void shared_cluster_heard(struct shared *s, int64_t now, uint64_t leader_epoch, uint32_t holder,
                          int64_t until);
void shared_warn_of_twin(struct shared *s); /* the nodes are known */

/* --- who leads --- */

void shared_leader_take(struct shared *s, int64_t epoch); /* 0 = another node leads, or none does */
void shared_leader_lost(struct shared *s, bool overtaken);
bool shared_tick_due(const struct shared *s);
void shared_due_heard(struct shared *s, int64_t ms); /* something is due then; 0 = nothing */
int64_t shared_next_wait(const struct shared *s);    /* until there is something to look at */

/* --- how the store is --- */

void shared_store_lost(struct shared *s, const char *why); /* empty: nothing new is known */
/* How the server is reached; logged when it is new. An address is LINK_LOCAL by
 * shared_host_local. sslmode: "" = not set. */
void shared_link_heard(struct shared *s, enum backend_link link, const char *sslmode);
/* A Unix socket, "localhost" or a loopback address. */
bool shared_host_local(const char *host);
void shared_store_opened(struct shared *s); /* it answers; known already: nothing */
