/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/cluster: the servers that share the store, the leader, and the state of the store; the
 * same for each store if there are several. The answer comes from what this node knows, also
 * while a store is unavailable. */
#include "api/json_members.h"
#include "api/v1/v1_impl.h"

static void write_node(struct json_writer *w, const struct backend_node *n)
{
    json_write_object(w);
    write_uint(w, "node", n->number);
    write_uint(w, "epoch", n->epoch);
    write_bool(w, "self", n->self);
    write_bool(w, "leader", n->leader);
    write_bool(w, "silent", n->silent);
    write_time(w, "seen_at", n->seen_at);
    json_write_key(w, "version");
    if (n->version[0])
        json_write_text(w, span_text(n->version));
    else
        json_write_null(w);
    json_write_object_end(w);
}

static void write_nodes(struct json_writer *w, const struct backend_cluster *c)
{
    write_array(w, "nodes");
    for (size_t i = 0; i < c->node_count; i++)
        write_node(w, &c->nodes[i]);
    json_write_array_end(w);
}

static void write_leader(struct json_writer *w, const struct backend_cluster *c)
{
    const struct backend_node *leader = NULL;
    for (size_t i = 0; i < c->node_count; i++)
        leader = c->nodes[i].leader ? &c->nodes[i] : leader;
    json_write_key(w, "leader");
    if (!leader) {
        json_write_null(w);
        return;
    }
    json_write_object(w);
    write_uint(w, "node", leader->number);
    write_bool(w, "self", leader->self);
    write_uint(w, "epoch", c->leader_epoch);
    json_write_key(w, "lease_left_ms");
    if (c->connections_of)
        json_write_int(w, c->lease_left_ms);
    else
        json_write_null(w);
    json_write_object_end(w);
}

void link_write(struct json_writer *w, const struct backend_cluster *c)
{
    write_bool(w, "tls", c->link == LINK_TLS);
    write_bool(w, "local", c->link == LINK_LOCAL);
    if (c->sslmode[0])
        write_text(w, "sslmode", c->sslmode);
}

/* Writes members into an open object. */
static void write_health(struct json_writer *w, const char *kind, unsigned caps,
                         const struct backend_cluster *c)
{
    write_text(w, "type", kind);
    write_bool(w, "shared", (caps & CAP_SHARED) != 0);
    write_bool(w, "up", c->up);
    write_time(w, "since", c->since);
    json_write_key(w, "last_error");
    if (c->trouble[0])
        json_write_text(w, span_text(c->trouble));
    else
        json_write_null(w);
    write_int(w, "clock_offset_ms", c->offset_ms);
    write_uint(w, "connections", c->connections);
    write_uint(w, "connections_wanted", c->connections_of);
    if (c->link != LINK_NONE)
        link_write(w, c);
}

static void write_store(struct json_writer *w, const struct backend_store *s)
{
    json_write_object(w);
    write_uint(w, "number", s->number);
    write_health(w, s->kind, s->caps, &s->cluster);
    write_nodes(w, &s->cluster);
    write_leader(w, &s->cluster);
    write_time(w, "as_of", s->cluster.as_of);
    json_write_object_end(w);
}

/* The members outside the list describe the default store. */
static void write_stores_if(struct json_writer *w, const struct native *n)
{
    struct backend_store s;
    if (!broker_store(n->broker, 1, &s))
        return;
    write_array(w, "backends");
    for (unsigned i = 0; broker_store(n->broker, i, &s); i++)
        write_store(w, &s);
    json_write_array_end(w);
}

void failover_write_if(struct json_writer *w, const struct native *n)
{
    struct backend_figures f;
    struct backend_cluster c;
    broker_backend_figures(n->broker, &f);
    if (!f.has_spool)
        return;
    broker_cluster(n->broker, &c);
    write_object(w, "failover");
    write_bool(w, "primary_up", f.primary_up);
    write_time(w, "since", c.since);
    write_uint(w, "spool_jobs", f.spool_jobs);
    json_write_object_end(w);
}

void cluster_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct backend_cluster c;
    struct json_writer w;
    if (!query_none(n->broker, x))
        return;
    broker_cluster(n->broker, &c);
    answer_object_begin(x, &w);
    write_nodes(&w, &c);
    write_leader(&w, &c);
    write_object(&w, "backend");
    write_health(&w, broker_backend_kind(n->broker), broker_caps(n->broker), &c);
    json_write_object_end(&w);
    write_stores_if(&w, n);
    failover_write_if(&w, n);
    write_time(&w, "as_of", c.as_of);
    answer_object_end(x, &w, 200);
}
