/* SPDX-License-Identifier: Apache-2.0 */
/* Heartbeats: a time for each node, the lease of the leader, and what this node knows about both
 * and about the server, which backend_cluster returns. */
#include "backend/redis/impl.h"

/* Indexes in the answer of lua/heartbeat.lua. */
enum heartbeat_field {
    HEARTBEAT_NOW,
    HEARTBEAT_OTHERS,
    HEARTBEAT_MINE,
    HEARTBEAT_LEADER,
    HEARTBEAT_NODES,
    HEARTBEAT_TOLD,
    HEARTBEAT_WORK
};

/* told: "NUMBER VERSION" */
static void take_node(struct backend_node *n, const char *told)
{
    const char *space = strchr(told, ' ');
    n->number = (unsigned)strtoul(told, NULL, 10);
    snprintf(n->version, sizeof n->version, "%s", space ? space + 1 : "");
}

static int by_epoch(const void *x, const void *y)
{
    const struct backend_node *a = x, *b = y;
    return a->epoch < b->epoch ? -1 : a->epoch > b->epoch;
}

static void take_nodes(struct rd_store *s, const redisReply *r)
{
    struct backend_cluster *c = &s->sh.node.cluster;
    const redisReply *leader = reply_at(r, HEARTBEAT_LEADER), *nodes = reply_at(r, HEARTBEAT_NODES);
    int64_t now = rd_reply_time(reply_at(r, HEARTBEAT_NOW));
    uint32_t holder = (uint32_t)rd_reply_int(reply_at(leader, 0));
    shared_cluster_heard(&s->sh, now, rd_reply_count(reply_at(leader, 2)), holder,
                         rd_reply_time(reply_at(leader, 1)));
    for (size_t i = 0; i + 1 < reply_count(nodes) && c->node_count < BACKEND_NODES_MAX; i += 2) {
        struct backend_node *n = &c->nodes[c->node_count++];
        struct span told = reply_span(reply_at(reply_at(r, HEARTBEAT_TOLD), i / 2));
        *n = (struct backend_node){.epoch = (uint32_t)rd_reply_int(reply_at(nodes, i)),
                                   .seen_at = {rd_reply_time(reply_at(nodes, i + 1))}};
        take_node(n, told.len ? told.at : "");
        shared_node_heard(&s->sh, n, now, holder);
    }
    qsort(c->nodes, c->node_count, sizeof c->nodes[0], by_epoch);
    shared_warn_of_twin(&s->sh);
}

/* --- a heartbeat --- */

static void heartbeat_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    struct rd_store *s = rd_of_unit(&it->unit);
    if (!rd_item_answered(it, r, false))
        return;
    shared_store_opened(&s->sh); /* it may have refused the last one */
    shared_clock_heard(&s->sh, rd_reply_int(reply_at(r, HEARTBEAT_NOW)));
    s->sh.node.others = (unsigned)rd_reply_int(reply_at(r, HEARTBEAT_OTHERS));
    s->contended = false;
    shared_leader_take(&s->sh, rd_reply_int(reply_at(r, HEARTBEAT_MINE)));
    take_nodes(s, r);
    s->dependency_work |= s->sh.node.leader && rd_reply_int(reply_at(r, HEARTBEAT_WORK)) != 0;
    rd_item_over(it);
}

void rd_heartbeat_begin(struct item *it)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    struct rargs *a = &it->args;
    char told[64];
    shared_heartbeat_begun(&s->sh);
    snprintf(told, sizeof told, "%u %.23s", s->sh.config.node,
             s->sh.config.version ? s->sh.config.version : "");
    rd_item_call(it, SCRIPT_HEARTBEAT);
    rd_args_now(s, a);
    redis_args_int(a, s->sh.facts.epoch);
    redis_args_text(a, told);
    redis_args_int(a, shared_leader_ttl_ms(&s->sh));
    redis_args_int(a, NODE_OTHER_MS);
    redis_args_text(a, s->sh.config.leader_key ? s->sh.config.leader_key : "");
    redis_args_int(a, s->sh.config.node);
    /* The leader must know what is due before other operations are sent: nothing follows until this
     * is answered. */
    rd_item_send(it, STAGE_ASKING, heartbeat_cb);
}

void rd_cluster(const struct backend *b, struct backend_cluster *ret)
{
    const struct rd_store *s = (const struct rd_store *)(const void *)b;
    *ret = s->sh.node.cluster;
    ret->server = SERVER_REDIS;
    ret->connections_of = 2;
    ret->connections =
        (unsigned)redis_conn_open_now(s->pipeline) + (unsigned)redis_conn_open_now(s->listener);
}
