/* SPDX-License-Identifier: Apache-2.0 */
/* Heartbeats, which node leads, and what this node knows of both and of its store. */
#include "backend/shared/cluster.h"

#include <stdio.h>
#include <string.h>

#include "backend/shared/shared.h"
#include "base/system/ip.h"

/* Where the configuration says nothing: */
#define LEADER_TTL_MS 10000
#define NODE_SILENT_MS 15000

#define OFFSET_KEPT_MS 5000

/* --- time --- */

int64_t shared_manual_now(const struct shared *s)
{
    return s->config.clock.manual ? clock_now(&s->config.clock).wall.ms : 0;
}

int64_t shared_now(const struct shared *s)
{
    int64_t given = shared_manual_now(s);
    return given ? given : clock_now(&s->config.clock).mono.ms + s->node.offset_ms;
}

/* Uses the monotonic clock, because the wall clock of this machine may jump before the store sends
 * its time again.
 *
 * A reply that arrives late makes the clock of the store look slow, never fast. Therefore the
 * largest offset of the recent replies is the best estimate, and a slow reply does not shorten a
 * time that was promised to a client. */
void shared_clock_heard(struct shared *s, int64_t theirs)
{
    struct node_state *n = &s->node;
    struct now ours = clock_now(&s->config.clock);
    if (theirs <= 0 || theirs > LIMIT_WALL_MS)
        return; /* no time at all: it is as if nothing had been heard */
    int64_t offset = theirs - ours.mono.ms;
    if (n->offset_at_ms && offset < n->offset_ms && ours.mono.ms - n->offset_at_ms < OFFSET_KEPT_MS)
        return;
    n->offset_ms = offset;
    n->offset_at_ms = ours.mono.ms;
    n->cluster.offset_ms = theirs - ours.wall.ms;
}

int64_t shared_clock_offset(const struct backend *b)
{
    const struct shared *s = (const struct shared *)(const void *)b;
    return shared_now(s) - clock_now(&s->config.clock).wall.ms;
}

/* --- heartbeats --- */

static int64_t process_ms(void)
{
    return (int64_t)(clock_ns() / 1000000);
}

int64_t shared_leader_ttl_ms(const struct shared *s)
{
    return s->config.leader_ttl_ms ? s->config.leader_ttl_ms : LEADER_TTL_MS;
}

int64_t shared_silent_ms(const struct shared *s)
{
    return s->config.silent_ms ? s->config.silent_ms : NODE_SILENT_MS;
}

/* Often enough that neither the lease nor the patience of others runs out over one that was lost.
 */
int64_t shared_heartbeat_ms(const struct shared *s)
{
    int64_t ttl = shared_leader_ttl_ms(s), silent = shared_silent_ms(s);
    return (ttl < silent ? ttl : silent) / 5;
}

bool shared_heartbeat_due(const struct shared *s)
{
    const struct node_state *n = &s->node;
    if (n->seen_at_ms == 0 || process_ms() - n->seen_at_ms >= shared_heartbeat_ms(s))
        return true;
    /* A manual clock may leap over the leader's lease. */
    return s->config.clock.manual &&
           llabs(shared_now(s) - n->heartbeat_now_ms) >= shared_heartbeat_ms(s);
}

void shared_heartbeat_begun(struct shared *s)
{
    s->node.seen_at_ms = process_ms();
    s->node.heartbeat_now_ms = shared_now(s);
}

void shared_node_heard(const struct shared *s, struct backend_node *n, int64_t now, uint32_t holder)
{
    n->self = n->epoch == s->facts.epoch;
    n->leader = holder != 0 && n->epoch == holder;
    n->silent = now - n->seen_at.ms >= shared_silent_ms(s);
}

void shared_cluster_heard(struct shared *s, int64_t now, uint64_t leader_epoch, uint32_t holder,
                          int64_t until)
{
    struct backend_cluster *c = &s->node.cluster;
    c->leader_epoch = leader_epoch;
    c->lease_left_ms = holder && until > now ? until - now : 0;
    c->as_of.ms = now;
    c->node_count = 0;
}

/* Alive since this one is: not what it left behind itself when it last ended. */
void shared_warn_of_twin(struct shared *s)
{
    struct node_state *own = &s->node;
    if (own->first_heartbeat_ms == 0)
        own->first_heartbeat_ms = own->cluster.as_of.ms;
    for (size_t i = 0; i < own->cluster.node_count && !own->twin_told; i++) {
        const struct backend_node *n = &own->cluster.nodes[i];
        own->twin_told =
            !n->self && n->number == s->config.node && n->seen_at.ms > own->first_heartbeat_ms;
        if (own->twin_told)
            log_event(s->config.log, LOG_WARN, "duplicate_node_number", LOG_INT("node", n->number),
                      LOG_INT("epoch", n->epoch),
                      LOG_TEXT("note", "another server that uses this store has the same node "
                                       "number; give each server its own number (--node)"));
    }
}

/* --- who leads --- */

void shared_leader_lost(struct shared *s, bool overtaken)
{
    if (!s->node.leader)
        return;
    s->node.leader = false;
    s->node.cluster.overtaken += overtaken;
    log_event(s->config.log, overtaken ? LOG_WARN : LOG_INFO, "leader_lost",
              LOG_INT("epoch", s->node.leader_epoch),
              LOG_TEXT("note", overtaken ? "another node has become the leader; the pending work "
                                           "of this node as the leader was not done"
                                         : "this node is no longer the leader"));
}

void shared_leader_take(struct shared *s, int64_t epoch)
{
    bool before = s->node.leader;
    if (before && epoch != s->node.leader_epoch)
        shared_leader_lost(s, true);
    if (epoch == 0)
        return;
    if (!s->node.leader)
        log_event(s->config.log, LOG_INFO, "leader_acquired", LOG_INT("epoch", epoch),
                  LOG_TEXT("note", "this node is now the leader"));
    s->tick_wanted |= !before;
    s->node.leader = true;
    s->node.leader_epoch = epoch;
}

/* A manual clock moves by leaps: nothing is looked at where nothing can have become due. */
bool shared_tick_due(const struct shared *s)
{
    const struct node_state *n = &s->node;
    int64_t now = shared_now(s);
    if (!n->leader || s->config.still)
        return false;
    if (s->tick_wanted || (n->next_due_ms && n->next_due_ms <= now && now != n->tick_at_ms))
        return true;
    if (s->config.clock.manual)
        return s->trim_wanted || (s->dirty && now != n->tick_at_ms);
    return now - n->tick_at_ms >= TICK_IDLE_MS;
}

void shared_due_heard(struct shared *s, int64_t ms)
{
    struct node_state *n = &s->node;
    if (ms > 0 && (n->next_due_ms == 0 || ms < n->next_due_ms))
        n->next_due_ms = ms;
}

int64_t shared_next_wait(const struct shared *s)
{
    const struct node_state *n = &s->node;
    int64_t wait = n->leader ? TICK_IDLE_MS : POLL_MS, heartbeat = shared_heartbeat_ms(s);
    wait = heartbeat < wait ? heartbeat : wait;
    if (n->leader && n->next_due_ms && !s->config.clock.manual) {
        int64_t due = n->next_due_ms - shared_now(s);
        wait = due < 1 ? 1 : due < wait ? due : wait;
    }
    if (s->signal_ms && !s->config.clock.manual) {
        int64_t due = s->signal_ms - shared_now(s);
        wait = due < 1 ? 1 : due < wait ? due : wait;
    }
    return wait;
}

/* --- how the store is --- */

static void since_now(struct shared *s, bool up)
{
    struct backend_cluster *c = &s->node.cluster;
    if (c->up != up || c->since.ms == 0)
        c->since = clock_now(&s->config.clock).wall;
    c->up = up;
}

void shared_store_lost(struct shared *s, const char *why)
{
    char *at = s->node.cluster.trouble;
    since_now(s, false);
    if (*why)
        snprintf(at, sizeof s->node.cluster.trouble, "%s", why);
    for (; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = at[1] ? ' ' : '\0';
}

bool shared_host_local(const char *host)
{
    struct ip_address address;
    if (host[0] == '\0' || host[0] == '/' || host[0] == '@' || strcmp(host, "localhost") == 0)
        return true;
    if (ip_parse(span_text(host), &address) != 0)
        return false;
    const char *why = ip_not_public(&address);
    return why && strcmp(why, "loopback") == 0;
}

static const char *link_note(enum backend_link link, const char *sslmode)
{
    if (link == LINK_PLAIN)
        return "jobs and passwords cross the network unencrypted; use sslmode=verify-full in the "
               "URL of a PostgreSQL store, or rediss:// for Redis";
    if (link == LINK_LOCAL)
        return "the connection is not encrypted and does not leave this machine";
    if (sslmode[0] && strncmp(sslmode, "verify", 6) != 0)
        return "the connection is encrypted, but the server's certificate is not verified; use "
               "sslmode=verify-full to do so";
    return "the connection is encrypted";
}

void shared_link_heard(struct shared *s, enum backend_link link, const char *sslmode)
{
    struct backend_cluster *c = &s->node.cluster;
    if (c->link == link)
        return;
    c->link = link;
    snprintf(c->sslmode, sizeof c->sslmode, "%s", sslmode);
    log_event(s->config.log, link == LINK_PLAIN ? LOG_WARN : LOG_INFO, "store_connection",
              LOG_BOOL("tls", link == LINK_TLS), LOG_TEXT("sslmode", sslmode),
              LOG_TEXT("note", link_note(link, sslmode)));
}

void shared_store_opened(struct shared *s)
{
    if (s->node.cluster.up)
        return;
    since_now(s, true);
    s->node.offset_at_ms = 0; /* it may be another server */
    /* One that crashed may have forgotten a change of rules, and gives its number again. */
    alerts_known_done(s);
}
