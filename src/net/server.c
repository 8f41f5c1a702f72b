/* SPDX-License-Identifier: Apache-2.0 */
/* A server as a whole: its loop iteration, its deadlines, and how it ends. */
#include <unistd.h>

#include "base/check.h"
#include "net/impl.h"

#define TICK_MS_MIN 5
#define TICK_MS_MAX 250
#define LINGER_MS 2000 /* how long a client may go on sending after its last reply */

void net_config_default(struct net_config *c)
{
    *c = (struct net_config){
        .connections_max = 16384,
        .connections_per_address = 16384,
        .write_ms = 30000,
        .handshake_ms = 10000,
        .write_buffer_bytes = 1 << 20,
    };
}

/* ---- deadlines ---- */

void net_wait_begin(struct net_server *s, struct net_wait *w, unsigned kind)
{
    link_remove(&w->link);
    w->kind = kind;
    w->deadline = net_now(s) + s->wait_ms[kind];
    link_append(&s->waits[kind], &w->link);
}

void net_wait_start(struct net_conn *c, unsigned kind)
{
    net_wait_begin(c->server, &c->reads, kind);
}

void net_wait_ensure(struct net_conn *c, unsigned kind)
{
    if (!wait_is(&c->reads, kind))
        net_wait_start(c, kind);
}

void net_wait_stop(struct net_conn *c)
{
    wait_end(&c->reads);
}

bool net_wait_is(const struct net_conn *c, unsigned kind)
{
    return wait_is(&c->reads, kind);
}

static void write_late(struct net_wait *w)
{
    net_conn_close(LINK_OWNER(w, struct net_conn, writes));
}

static void read_late(struct net_wait *w)
{
    struct net_conn *c = LINK_OWNER(w, struct net_conn, reads);
    if (w->kind == NET_WAIT_HANDSHAKE)
        net_conn_close(c);
    else
        c->server->protocol->late(c, w->kind);
    net_conn_settle(c);
}

static void waits_expire(struct net_server *s, unsigned kind)
{
    uint64_t now = net_now(s);
    while (!link_alone(&s->waits[kind])) {
        struct net_wait *w = LINK_OWNER(s->waits[kind].next, struct net_wait, link);
        if (w->deadline > now)
            return;
        wait_end(w);
        if (kind < NET_WAIT_HANDSHAKE)
            write_late(w);
        else
            read_late(w);
    }
}

/* ---- ticks ---- */

static void connections_close(struct net_server *s, bool only_at_rest)
{
    struct link *l = s->connections.next;
    while (l != &s->connections) {
        struct net_conn *c = LINK_OWNER(l, struct net_conn, all);
        l = l->next;
        if (!only_at_rest || s->protocol->at_rest(c))
            net_conn_close(c);
    }
}

/* After a stop of the process or of the machine, what the clients sent meanwhile is read first. */
static bool stood_still(struct net_server *s)
{
    uint64_t now = net_now(s), gap = now - s->ticked_ms;
    s->ticked_ms = now;
    return gap > TICK_MS_MAX + 1000;
}

static void tick_cb(uv_timer_t *timer)
{
    struct net_server *s = timer->data;
    bool more = s->protocol->tick(s);
    if (stood_still(s))
        return;
    for (unsigned kind = 0; kind < NET_WAITS; kind++)
        waits_expire(s, kind);
    if (s->draining && net_now(s) >= s->drain_deadline)
        connections_close(s, false);
    if (!net_listeners_resume(s) && !more && link_alone(&s->connections)) {
        uv_timer_stop(timer);
        s->ticking = false;
    }
}

static uint64_t tick_ms(const struct net_server *s)
{
    uint64_t least = UINT64_MAX;
    for (unsigned kind = 0; kind < NET_WAITS; kind++)
        least = s->wait_ms[kind] < least ? s->wait_ms[kind] : least;
    least /= 4;
    return least < TICK_MS_MIN ? TICK_MS_MIN : least > TICK_MS_MAX ? TICK_MS_MAX : least;
}

void net_tick_start(struct net_server *s)
{
    if (s->ticking || s->ending)
        return;
    s->ticking = true;
    s->ticked_ms = net_now(s);
    uv_timer_start(&s->timer, tick_cb, tick_ms(s), tick_ms(s));
}

/* ---- the end of an iteration ---- */

static void idle_cb(uv_idle_t *idle)
{
    (void)idle; /* as long as it is active, the loop does not wait */
}

void net_wake(struct net_server *s)
{
    if (s->awake || s->ending)
        return;
    s->awake = true;
    uv_idle_start(&s->idle, idle_cb);
}

/* A connection that is scheduled meanwhile is written in the next iteration, so that no client can
 * keep the loop here. */
static void scheduled_flush(struct net_server *s)
{
    struct link now;
    link_init(&now);
    while (!link_alone(&s->scheduled)) {
        struct link *l = s->scheduled.next;
        link_remove(l);
        link_append(&now, l);
    }
    while (!link_alone(&now)) {
        struct link *l = now.next;
        link_remove(l);
        net_conn_flush(LINK_OWNER(l, struct net_conn, scheduled));
    }
}

static void drained_check(struct net_server *s)
{
    void (*fn)(void *ctx) = s->drained;
    if (!s->draining || !fn || !link_alone(&s->connections))
        return;
    s->drained = NULL;
    fn(s->drained_ctx);
}

static void handle_closed_cb(uv_handle_t *handle)
{
    net_handle_closed(handle->data);
}

static void end_if_done(struct net_server *s)
{
    if (!s->closing || s->ending || s->under_way > 0 || !link_alone(&s->connections))
        return;
    s->ending = true;
    uv_close((uv_handle_t *)&s->prepare, handle_closed_cb);
    uv_close((uv_handle_t *)&s->idle, handle_closed_cb);
    uv_close((uv_handle_t *)&s->timer, handle_closed_cb);
    if (s->protocol->ending)
        s->protocol->ending(s);
}

static void prepare_cb(uv_prepare_t *prepare)
{
    struct net_server *s = prepare->data;
    s->handshake_ns = 0;
    if (!s->awake)
        return;
    s->awake = false;
    uv_idle_stop(&s->idle);
    scheduled_flush(s);
    s->protocol->iteration(s);
    drained_check(s);
    end_if_done(s);
}

/* ---- beginning and end ---- */

static void handles_init(struct net_server *s)
{
    uv_loop_t *loop = s->config.loop;
    CHECK(uv_prepare_init(loop, &s->prepare) == 0 && uv_idle_init(loop, &s->idle) == 0 &&
          uv_timer_init(loop, &s->timer) == 0);
    s->prepare.data = s->idle.data = s->timer.data = s;
    s->handles = 3;
    uv_prepare_start(&s->prepare, prepare_cb);
}

static void waits_init(struct net_server *s)
{
    for (unsigned kind = 0; kind < NET_WAITS; kind++) {
        link_init(&s->waits[kind]);
        s->wait_ms[kind] = UINT64_MAX;
    }
    s->wait_ms[NET_WAIT_WRITE] = s->config.write_ms;
    s->wait_ms[NET_WAIT_LINGER] = LINGER_MS;
    s->wait_ms[NET_WAIT_HANDSHAKE] = s->config.handshake_ms;
}

void net_server_init(struct net_server *s, const struct net_config *config,
                     const struct net_protocol *protocol)
{
    CHECK(config->loop);
    s->config = *config;
    s->protocol = protocol;
    if (!config->stream)
        s->config.stream = &net_stream_plain;
    s->service = (struct net_tls_service){.tls = config->tls, .alpn = protocol->alpn};
    if (protocol->plain_reply)
        s->service.plain_reply = *protocol->plain_reply;
    budget_init(&s->unlimited, BUDGET_NO_LIMIT);
    if (!config->budget)
        s->config.budget = &s->unlimited;
    budget_open(&s->loose, s->config.budget, NULL, NULL, 0);
    map64_init(&s->addresses);
    link_init(&s->listeners);
    link_init(&s->connections);
    link_init(&s->scheduled);
    waits_init(s);
    s->spare_fd = -1;
    net_spare_take(s);
    handles_init(s);
}

void net_drain(struct net_server *s, uint32_t limit_ms, void (*fn)(void *ctx), void *ctx)
{
    s->draining = true;
    s->drained = fn;
    s->drained_ctx = ctx;
    s->drain_deadline = net_now(s) + limit_ms;
    net_listeners_close(s);
    connections_close(s, true);
    net_tick_start(s);
    net_wake(s);
}

void net_close(struct net_server *s, void (*fn)(void *ctx), void *ctx)
{
    CHECK(!s->closing);
    s->closing = true;
    s->closed = fn;
    s->closed_ctx = ctx;
    net_listeners_close(s);
    connections_close(s, false);
    net_wake(s);
}

void net_handle_closed(struct net_server *s)
{
    if (--s->handles > 0)
        return;
    void (*fn)(void *ctx) = s->closed;
    void *ctx = s->closed_ctx;
    budget_close(&s->loose);
    map64_done(&s->addresses);
    if (s->spare_fd >= 0)
        close(s->spare_fd);
    s->protocol->ended(s);
    if (fn)
        fn(ctx);
}
