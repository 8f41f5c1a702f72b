/* SPDX-License-Identifier: Apache-2.0 */
/* Heartbeats: a row for each node, the lease of the leader, and what this node knows about both and
 * about the database, which backend_cluster returns.
 *
 * The lease is taken without waiting for its row: if a leader was stopped in the middle of a tick,
 * the row stays locked until the server ends its transaction, and the work of other nodes must not
 * wait for that. */
#include "backend/postgres/impl.h"

enum heartbeat_slot {
    HEARTBEAT_NOW,
    HEARTBEAT_SEEN,
    HEARTBEAT_LEADER,
    HEARTBEAT_NODES,
    HEARTBEAT_INBOX,
    HEARTBEAT_WORK
};
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

int64_t pg_answer_ms(const struct pg_store *s)
{
    return s->sh.config.answer_ms ? s->sh.config.answer_ms : ANSWER_MS;
}

void pg_heartbeat_send(struct pg_store *s)
{
    struct args *a = &pg_unit(s->unit)->args;
    const char *version = s->sh.config.version ? s->sh.config.version : "";
    pg_conn_send(s->pipeline, SQL_NOW, a);
    pg_args_i4(a, (int32_t)s->sh.facts.epoch);
    pg_args_i4(a, (int32_t)s->sh.config.node);
    pg_args_i8(a, shared_manual_now(&s->sh));
    pg_args_bytes(a, span_text(version));
    pg_conn_send(s->pipeline, SQL_NODE_HEARTBEAT, a);
    pg_args_i4(a, (int32_t)s->sh.facts.epoch);
    pg_args_i8(a, shared_leader_ttl_ms(&s->sh));
    pg_args_i8(a, shared_manual_now(&s->sh));
    pg_conn_send(s->pipeline, SQL_LEADER_TAKE, a);
    pg_args_i8(a, shared_manual_now(&s->sh));
    pg_args_i4(a, BACKEND_NODES_MAX);
    pg_conn_send(s->pipeline, SQL_NODES, a);
    pg_conn_send(s->pipeline, SQL_INBOX_WAITING, a);
    pg_conn_send(s->pipeline, SQL_WORK_WAITS, a);
}

static void take_nodes(struct pg_store *s, const PGresult *r)
{
    struct backend_cluster *c = &s->sh.node.cluster;
    int64_t now = pg_col_time(r, 0, NODES_NOW);
    uint32_t holder = (uint32_t)pg_col_i4(r, 0, NODES_HOLDER);
    shared_cluster_heard(&s->sh, now, pg_col_count(r, 0, NODES_LEADER_EPOCH), holder,
                         pg_col_time(r, 0, NODES_UNTIL));
    for (int i = 0; i < PQntuples(r) && c->node_count < BACKEND_NODES_MAX; i++) {
        struct backend_node *n = &c->nodes[c->node_count];
        struct span version = pg_col_bytes(r, i, NODES_VERSION);
        if (PQgetisnull(r, i, NODES_EPOCH))
            continue;
        *n = (struct backend_node){.epoch = (uint32_t)pg_col_i4(r, i, NODES_EPOCH),
                                   .number = (unsigned)pg_col_i4(r, i, NODES_NUMBER),
                                   .seen_at = {pg_col_time(r, i, NODES_SEEN_AT)}};
        shared_node_heard(&s->sh, n, now, holder);
        snprintf(n->version, sizeof n->version, "%.*s",
                 (int)(version.len < sizeof n->version ? version.len : sizeof n->version),
                 version.at ? version.at : "");
        c->node_count++;
    }
    shared_warn_of_twin(&s->sh);
}

void pg_heartbeat_take(struct pg_store *s)
{
    int64_t given = shared_manual_now(&s->sh);
    shared_clock_heard(
        &s->sh, given ? given : pg_col_time(pg_conn_result(s->pipeline, HEARTBEAT_NOW), 0, 0));
    unsigned others_before = s->sh.node.others;
    s->sh.node.others = (unsigned)pg_col_i4(pg_conn_result(s->pipeline, HEARTBEAT_SEEN), 0, 0);
    pg_notify_nodes_counted(s, others_before);
    const PGresult *led = pg_conn_result(s->pipeline, HEARTBEAT_LEADER);
    shared_leader_take(&s->sh, PQntuples(led) == 1 ? (int64_t)pg_col_count(led, 0, 0) : 0);
    take_nodes(s, pg_conn_result(s->pipeline, HEARTBEAT_NODES));
    pg_inbox_counted(s, pg_conn_result(s->pipeline, HEARTBEAT_INBOX));
    s->dependency_work |=
        s->sh.node.leader && pg_col_bool(pg_conn_result(s->pipeline, HEARTBEAT_WORK), 0, 0);
}

void pg_link_heard(struct pg_store *s)
{
    char sslmode[16];
    enum backend_link link = pg_conn_link(s->pipeline, sslmode);
    shared_link_heard(&s->sh, link, sslmode);
}

void pg_cluster(const struct backend *b, struct backend_cluster *ret)
{
    const struct pg_store *s = (const struct pg_store *)(const void *)b;
    const struct conn *all[] = {s->pipeline, s->reader, s->listener, s->syncer};
    *ret = s->sh.node.cluster;
    ret->server = SERVER_POSTGRES;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ret->connections_of += all[i] != NULL;
        ret->connections += all[i] && pg_conn_up(all[i]);
    }
}
