/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/cluster: which servers share the store, who leads, and how the store is. It is answered
 * from what is known here, also while the store is out of reach. */
#include "doors/native/native_impl.h"
#include "doors/words.h"

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

static void write_backend(struct json_writer *w, const struct native *n,
                          const struct backend_cluster *c)
{
    json_write_key(w, "backend");
    json_write_object(w);
    write_text(w, "kind", broker_backend_kind(n->broker));
    write_bool(w, "shared", (broker_caps(n->broker) & CAP_SHARED) != 0);
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
    answer_begin(x, &w);
    json_write_object(&w);
    json_write_key(&w, "nodes");
    json_write_array(&w);
    for (size_t i = 0; i < c.node_count; i++)
        write_node(&w, &c.nodes[i]);
    json_write_array_end(&w);
    write_leader(&w, &c);
    write_backend(&w, n, &c);
    write_time(&w, "as_of", c.as_of);
    json_write_object_end(&w);
    answer_end(x, &w, 200);
}
