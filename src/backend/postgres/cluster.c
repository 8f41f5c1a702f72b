/* SPDX-License-Identifier: Apache-2.0 */
/* Signs of life: a row for each node, a lease for the one that leads, and what this node knows of
 * both and of the database, kept for whoever asks.
 *
 * All times in the tables are the database's: a node whose clock is wrong must not take the lease
 * from one that has it, nor look dead. The lease is taken without waiting for its row: a leader
 * that was stopped in the middle of a tick holds it locked until the server ends its transaction,
 * and nobody else's work shall wait for that. */
#include "backend/postgres/impl.h"

enum beat_slot { BEAT_NOW, BEAT_SEEN, BEAT_LEADER, BEAT_NODES };
enum nodes_column {
    NODES_NOW,
    NODES_LEADER_EPOCH,
    NODES_HOLDER,
    NODES_UNTIL,
    NODES_EPOCH,
    NODES_NUMBER,
    NODES_SEEN_AT,
    NODES_VERSION,
};

int64_t pg_leader_ttl_ms(const struct pg_store *s)
{
    return s->sh.config.leader_ttl_ms ? s->sh.config.leader_ttl_ms : LEADER_TTL_MS;
}

int64_t pg_silent_ms(const struct pg_store *s)
{
    return s->sh.config.silent_ms ? s->sh.config.silent_ms : NODE_SILENT_MS;
}

int64_t pg_answer_ms(const struct pg_store *s)
{
    return s->sh.config.answer_ms ? s->sh.config.answer_ms : ANSWER_MS;
}

/* Often enough that neither the lease nor the patience of others runs out over one that was lost.
 */
int64_t pg_beat_ms(const struct pg_store *s)
{
    int64_t ttl = pg_leader_ttl_ms(s), silent = pg_silent_ms(s);
    return (ttl < silent ? ttl : silent) / 5;
}

void pg_beat_send(struct pg_store *s)
{
    struct args *a = &pg_unit(s->unit)->args;
    const char *version = s->sh.config.version ? s->sh.config.version : "";
    pg_conn_send(s->lane, SQL_NOW, a);
    pg_args_i4(a, (int32_t)s->sh.facts.epoch);
    pg_args_i4(a, (int32_t)s->sh.config.node);
    pg_args_i8(a, pg_manual_now(s));
    pg_args_bytes(a, span_text(version));
    pg_conn_send(s->lane, SQL_NODE_SEEN, a);
    pg_args_i4(a, (int32_t)s->sh.facts.epoch);
    pg_args_i8(a, pg_leader_ttl_ms(s));
    pg_args_i8(a, pg_manual_now(s));
    pg_conn_send(s->lane, SQL_LEADER_TAKE, a);
    pg_args_i8(a, pg_manual_now(s));
    pg_args_i4(a, BACKEND_NODES_MAX);
    pg_conn_send(s->lane, SQL_NODES, a);
}

/* --- who leads --- */

void pg_leader_lost(struct pg_store *s, bool overtaken)
{
    if (!s->leader)
        return;
    s->leader = false;
    s->cluster.overtaken += overtaken;
    log_event(s->sh.config.log, overtaken ? LOG_WARN : LOG_INFO, "leader_lost",
              LOG_INT("epoch", s->leader_epoch),
              LOG_TEXT("note", overtaken ? "another node leads; what this one was about to do as "
                                           "the leader was not done"
                                         : "this node does not lead any more"));
}

static void take_leader(struct pg_store *s, const PGresult *led)
{
    bool before = s->leader;
    int64_t epoch = PQntuples(led) == 1 ? pg_col_i8(led, 0, 0) : 0;
    if (before && epoch != s->leader_epoch)
        pg_leader_lost(s, true);
    if (epoch == 0)
        return;
    if (!s->leader)
        log_event(s->sh.config.log, LOG_INFO, "leader_taken", LOG_INT("epoch", epoch),
                  LOG_TEXT("note", "this node leads"));
    s->sh.tick_wanted |= !before;
    s->leader = true;
    s->leader_epoch = epoch;
}

static void take_nodes(struct pg_store *s, const PGresult *r)
{
    struct backend_cluster *c = &s->cluster;
    int64_t now = pg_col_i8(r, 0, NODES_NOW), left = pg_col_i8(r, 0, NODES_UNTIL) - now;
    int32_t holder = pg_col_i4(r, 0, NODES_HOLDER);
    c->leader_epoch = (uint64_t)pg_col_i8(r, 0, NODES_LEADER_EPOCH);
    c->lease_left_ms = holder && left > 0 ? left : 0;
    c->as_of.ms = now;
    c->node_count = 0;
    for (int i = 0; i < PQntuples(r) && c->node_count < BACKEND_NODES_MAX; i++) {
        struct backend_node *n = &c->nodes[c->node_count];
        struct span version = pg_col_bytes(r, i, NODES_VERSION);
        if (PQgetisnull(r, i, NODES_EPOCH))
            continue;
        *n = (struct backend_node){.epoch = (uint32_t)pg_col_i4(r, i, NODES_EPOCH),
                                   .number = (unsigned)pg_col_i4(r, i, NODES_NUMBER),
                                   .seen_at = {pg_col_i8(r, i, NODES_SEEN_AT)}};
        n->self = n->epoch == s->sh.facts.epoch;
        n->leader = holder != 0 && n->epoch == (uint32_t)holder;
        n->silent = now - n->seen_at.ms >= pg_silent_ms(s);
        snprintf(n->version, sizeof n->version, "%.*s", (int)version.len, version.at);
        c->node_count++;
    }
}

/* By the clock that nobody can set: ours may leap before the database tells its own again. */
void pg_clock_heard(struct pg_store *s, int64_t theirs)
{
    struct now ours = clock_now(&s->sh.config.clock);
    s->offset_ms = theirs - ours.mono.ms;
    s->cluster.offset_ms = theirs - ours.wall.ms;
}

/* Alive since this one is: not what it left behind itself when it last ended. */
static void warn_of_twin(struct pg_store *s)
{
    const struct backend_cluster *c = &s->cluster;
    if (s->first_beat_ms == 0)
        s->first_beat_ms = c->as_of.ms;
    for (size_t i = 0; i < c->node_count && !s->twin_told; i++) {
        const struct backend_node *n = &c->nodes[i];
        s->twin_told =
            !n->self && n->number == s->sh.config.node && n->seen_at.ms > s->first_beat_ms;
        if (s->twin_told)
            log_event(s->sh.config.log, LOG_WARN, "node_twice", LOG_INT("node", n->number),
                      LOG_INT("epoch", n->epoch),
                      LOG_TEXT("note", "another server of this database has the same node number; "
                                       "give each its own (--node)"));
    }
}

void pg_beat_take(struct pg_store *s)
{
    int64_t given = pg_manual_now(s);
    pg_clock_heard(s, given ? given : pg_col_i8(pg_conn_result(s->lane, BEAT_NOW), 0, 0));
    s->others = (unsigned)pg_col_i4(pg_conn_result(s->lane, BEAT_SEEN), 0, 0);
    take_leader(s, pg_conn_result(s->lane, BEAT_LEADER));
    take_nodes(s, pg_conn_result(s->lane, BEAT_NODES));
    warn_of_twin(s);
}

/* --- how the database is --- */

static void since_now(struct pg_store *s, bool up)
{
    if (s->cluster.up != up || s->cluster.since.ms == 0)
        s->cluster.since = clock_now(&s->sh.config.clock).wall;
    s->cluster.up = up;
}

void pg_cluster_lost(struct pg_store *s, const char *why)
{
    char *at = s->cluster.trouble;
    since_now(s, false);
    if (*why)
        snprintf(at, sizeof s->cluster.trouble, "%s", why);
    for (; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = at[1] ? ' ' : '\0';
}

void pg_cluster_opened(struct pg_store *s)
{
    since_now(s, true);
}

int64_t pg_clock_offset(const struct backend *b)
{
    const struct pg_store *s = (const struct pg_store *)(const void *)b;
    return pg_db_now(s) - clock_now(&s->sh.config.clock).wall.ms;
}

void pg_cluster(const struct backend *b, struct backend_cluster *ret)
{
    const struct pg_store *s = (const struct pg_store *)(const void *)b;
    const struct conn *all[] = {s->lane, s->reader, s->ear, s->syncer};
    *ret = s->cluster;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ret->connections_of += all[i] != NULL;
        ret->connections += all[i] && pg_conn_up(all[i]);
    }
}
