/* SPDX-License-Identifier: Apache-2.0 */
/* The server as a whole: its configuration, its routes, and HTTP as a protocol of src/net. */
#include "http/server.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "http/server_impl.h"

void http_server_config_default(struct http_server_config *c)
{
    *c = (struct http_server_config){
        .clock = clock_system(),
        .limits = {.uri_bytes = 8 << 10, .head_bytes = 16 << 10, .body_bytes = 2 << 20},
        .large_body_bytes = 32 << 20,
        .head_ms = 10000,
        .body_ms = 60000,
        .idle_ms = 75000,
        .pipeline_max = 128,
    };
    net_config_default(&c->net);
}

/* ---- the protocol ---- */

const struct net_schemes http_schemes = {"http://", "https://", "unix:"};

static struct http_server *server_from(struct net_server *s)
{
    return LINK_OWNER(s, struct http_server, net);
}

static void iteration(struct net_server *s)
{
    server_loose_run(server_from(s));
}

/* A retry may shed other connections: the next one is read after it has returned. */
static void starved_retry(struct http_server *s)
{
    s->starved = false;
    for (struct link *l = s->net.connections.next; l != &s->net.connections; l = l->next) {
        struct http_exchange *x = connection_of(LINK_OWNER(l, struct net_conn, all))->first;
        if (x && x->state == EXCHANGE_STREAM && x->starved)
            stream_retry(x);
    }
}

static bool tick(struct net_server *n)
{
    struct http_server *s = server_from(n);
    if (s->starved)
        starved_retry(s);
    return false;
}

static void ended(struct net_server *n)
{
    struct http_server *s = server_from(n);
    router_done(&s->router);
    mem_free(s);
}

static const struct net_protocol http_protocol = {
    .conn_bytes = sizeof(struct connection),
    .schemes = &http_schemes,
    .alpn = "http/1.1",
    .plain_reply = &answer_needs_tls,
    .rest_may_end = true,
    .input_kind = BUDGET_CONNECTIONS,
    .hang_up_ends = true,
    .refused = connection_refused,
    .input = intake_input,
    .no_room = intake_no_room,
    .input_ended = connection_input_ended,
    .wants_input = intake_wanted,
    .settle = connection_settle,
    .late = connection_late,
    .may_shed = connection_may_shed,
    .shed = connection_shed,
    .gather = write_gather,
    .sent = write_sent,
    .flushed = write_flushed,
    .at_rest = connection_at_rest,
    .closed = connection_closed,
    .iteration = iteration,
    .tick = tick,
    .ended = ended,
};

/* ---- server.h ---- */

int http_server_new(const struct http_server_config *config, struct http_server **ret)
{
    CHECK(config->pipeline_max > 0);
    struct http_server *s = mem_zalloc(sizeof *s);
    if (!s)
        return -ERR_NOMEM;
    s->config = *config;
    s->limits_large = config->limits;
    if (config->large_body_bytes > config->limits.body_bytes)
        s->limits_large.body_bytes = config->large_body_bytes;
    router_init(&s->router);
    net_server_init(&s->net, &config->net, &http_protocol);
    s->net.wait_ms[WAIT_IDLE] = config->idle_ms;
    s->net.wait_ms[WAIT_HEAD] = config->head_ms;
    s->net.wait_ms[WAIT_BODY] = config->body_ms;
    *ret = s;
    return 0;
}

void http_server_routes(struct http_server *s, const struct http_route *routes, size_t count,
                        void *ctx)
{
    for (size_t i = 0; i < count; i++)
        if (router_add(&s->router, &routes[i], ctx) != 0)
            s->routes_failed = true;
}

int http_server_listen(struct http_server *s, const char *address, struct err_note *note)
{
    if (s->routes_failed)
        return err_note_set(note, -ERR_NOMEM, "There is not enough memory for the routes.");
    return net_listen(&s->net, address, note);
}

const char *http_server_address(const struct http_server *s, size_t i)
{
    return net_address(&s->net, i);
}

void http_server_drain(struct http_server *s, uint32_t limit_ms, void (*fn)(void *ctx), void *ctx)
{
    net_drain(&s->net, limit_ms, fn, ctx);
}

void http_server_close(struct http_server *s, void (*fn)(void *ctx), void *ctx)
{
    net_close(&s->net, fn, ctx);
}

void http_server_figures(const struct http_server *s, struct http_server_figures *ret)
{
    const struct net_figures *net = &s->net.figures;
    *ret = (struct http_server_figures){
        .connections = net->connections,
        .accepted = net->accepted,
        .refused = net->refused,
        .bytes_in = net->bytes_in,
        .bytes_out = net->bytes_out,
        .requests = s->requests,
        .parked = s->net.under_way,
    };
    memcpy(ret->by_status, s->by_status, sizeof ret->by_status);
}
