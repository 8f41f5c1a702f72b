/* SPDX-License-Identifier: Apache-2.0 */
/* The server as a whole: its turn of the loop, its clock, and how it ends.
 *
 * The end of a turn is a prepare handle: right before the loop would wait for input, answers are
 * written and callbacks made. An answer that is given later than that (in another prepare handle
 * that runs after ours) finds the idle handle active, which keeps the loop from waiting, so the
 * next turn comes at once. */
#include "http/server.h"

#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "http/server_impl.h"

#define TICK_MS_MIN 5
#define TICK_MS_MAX 250

void http_server_config_default(struct http_server_config *c)
{
    *c = (struct http_server_config){
        .clock = clock_system(),
        .limits = {.uri_bytes = 8 << 10, .head_bytes = 16 << 10, .body_bytes = 2 << 20},
        .large_body_bytes = 32 << 20,
        .connections_max = 16384,
        .connections_per_address = 16384,
        .head_ms = 10000,
        .body_ms = 60000,
        .idle_ms = 75000,
        .write_ms = 30000,
        .write_buffer_bytes = 1 << 20,
        .pipeline_max = 128,
    };
}

uint64_t server_now(const struct http_server *s)
{
    return uv_now(s->config.loop);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

void wait_start(struct http_server *s, struct wait *w, enum wait_kind kind)
{
    link_remove(&w->link);
    w->kind = kind;
    w->deadline = server_now(s) + s->wait_ms[kind];
    link_append(&s->waits[kind], &w->link);
}

void wait_stop(struct wait *w)
{
    link_remove(&w->link);
}

bool wait_is(const struct wait *w, enum wait_kind kind)
{
    return w->kind == kind && !link_alone(&w->link);
}

static struct connection *wait_owner(struct wait *w)
{
    return w->kind == WAIT_WRITE || w->kind == WAIT_LINGER
               ? LINK_OWNER(w, struct connection, writes)
               : LINK_OWNER(w, struct connection, reads);
}

static void waits_expire(struct http_server *s, enum wait_kind kind)
{
    uint64_t now = server_now(s);
    while (!link_alone(&s->waits[kind])) {
        struct wait *w = LINK_OWNER(s->waits[kind].next, struct wait, link);
        if (w->deadline > now)
            return;
        wait_stop(w);
        connection_late(wait_owner(w), kind);
    }
}

static void connections_close(struct http_server *s, bool only_at_rest)
{
    struct link *l = s->connections.next;
    while (l != &s->connections) {
        struct connection *c = LINK_OWNER(l, struct connection, all);
        l = l->next;
        if (!only_at_rest || connection_at_rest(c))
            connection_close(c);
    }
}

static bool listeners_resume(struct http_server *s)
{
    bool any = false;
    for (struct link *l = s->listeners.next; l != &s->listeners; l = l->next) {
        struct listener *listener = LINK_OWNER(l, struct listener, link);
        any |= listener->paused;
        listener_resume(listener);
    }
    return any;
}

/* After a stop of the process or of the machine what the clients sent meanwhile is read first. */
static bool stood_still(struct http_server *s)
{
    uint64_t now = server_now(s), gap = now - s->ticked_ms;
    s->ticked_ms = now;
    return gap > TICK_MS_MAX + 1000;
}

/* A retry may shed other connections: the next one is looked up when it has returned. */
static void starved_retry(struct http_server *s)
{
    s->starved = false;
    for (struct link *l = s->connections.next; l != &s->connections; l = l->next) {
        struct http_exchange *x = LINK_OWNER(l, struct connection, all)->first;
        if (x && x->state == EXCHANGE_STREAM && x->starved)
            stream_retry(x);
    }
}

static void tick_cb(uv_timer_t *timer)
{
    struct http_server *s = timer->data;
    if (s->starved)
        starved_retry(s);
    if (stood_still(s))
        return;
    for (int kind = 0; kind < WAIT_COUNT; kind++)
        waits_expire(s, (enum wait_kind)kind);
    if (s->draining && server_now(s) >= s->drain_deadline)
        connections_close(s, false);
    if (!listeners_resume(s) && link_alone(&s->connections)) {
        uv_timer_stop(timer);
        s->ticking = false;
    }
}

static uint64_t tick_ms(const struct http_server *s)
{
    uint64_t least = UINT64_MAX;
    for (int kind = 0; kind < WAIT_COUNT; kind++)
        least = s->wait_ms[kind] < least ? s->wait_ms[kind] : least;
    least /= 4;
    return least < TICK_MS_MIN ? TICK_MS_MIN : least > TICK_MS_MAX ? TICK_MS_MAX : least;
}

void server_tick_start(struct http_server *s)
{
    if (s->ticking || s->ending)
        return;
    s->ticking = true;
    s->ticked_ms = server_now(s);
    uv_timer_start(&s->timer, tick_cb, tick_ms(s), tick_ms(s));
}

/* ---- the end of a turn ----------------------------------------------------------------------- */

static void idle_cb(uv_idle_t *idle)
{
    (void)idle; /* being active is all it is for */
}

void server_rouse(struct http_server *s)
{
    if (s->idling || s->ending)
        return;
    s->idling = true;
    uv_idle_start(&s->idle, idle_cb);
}

/* A connection that becomes dirty meanwhile has its turn next time, so that nobody can keep the
 * loop here. */
static void dirty_flush(struct http_server *s)
{
    struct link now;
    link_init(&now);
    while (!link_alone(&s->dirty)) {
        struct link *l = s->dirty.next;
        link_remove(l);
        link_append(&now, l);
    }
    while (!link_alone(&now)) {
        struct link *l = now.next;
        link_remove(l);
        connection_flush(LINK_OWNER(l, struct connection, dirty));
    }
}

static void drained_tell(struct http_server *s)
{
    void (*fn)(void *ctx) = s->drained;
    if (!s->draining || !fn || !link_alone(&s->connections))
        return;
    s->drained = NULL;
    fn(s->drained_ctx);
}

static void handle_closed_cb(uv_handle_t *handle)
{
    server_handle_closed(handle->data);
}

static void end_if_done(struct http_server *s)
{
    if (!s->closing || s->ending || s->exchanges > 0 || !link_alone(&s->connections))
        return;
    s->ending = true;
    uv_close((uv_handle_t *)&s->prepare, handle_closed_cb);
    uv_close((uv_handle_t *)&s->idle, handle_closed_cb);
    uv_close((uv_handle_t *)&s->timer, handle_closed_cb);
}

static void turn_cb(uv_prepare_t *prepare)
{
    struct http_server *s = prepare->data;
    if (!s->idling)
        return;
    s->idling = false;
    uv_idle_stop(&s->idle);
    dirty_flush(s);
    server_loose_run(s);
    drained_tell(s);
    end_if_done(s);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void handles_init(struct http_server *s)
{
    uv_loop_t *loop = s->config.loop;
    uv_prepare_init(loop, &s->prepare);
    uv_idle_init(loop, &s->idle);
    uv_timer_init(loop, &s->timer);
    s->prepare.data = s->idle.data = s->timer.data = s;
    s->handles = 3;
    uv_prepare_start(&s->prepare, turn_cb);
}

static void waits_init(struct http_server *s)
{
    const struct http_server_config *c = &s->config;
    for (int kind = 0; kind < WAIT_COUNT; kind++)
        link_init(&s->waits[kind]);
    s->wait_ms[WAIT_IDLE] = c->idle_ms;
    s->wait_ms[WAIT_HEAD] = c->head_ms;
    s->wait_ms[WAIT_BODY] = c->body_ms;
    s->wait_ms[WAIT_WRITE] = c->write_ms;
    s->wait_ms[WAIT_LINGER] = LINGER_MS;
}

int http_server_new(const struct http_server_config *config, struct http_server **ret)
{
    CHECK(config->loop && config->pipeline_max > 0);
    struct http_server *s = mem_alloc(sizeof *s);
    if (!s)
        return -ERR_NOMEM;
    memset(s, 0, offsetof(struct http_server, head));
    s->config = *config;
    budget_init(&s->unlimited, BUDGET_NO_LIMIT);
    if (!config->budget)
        s->config.budget = &s->unlimited;
    budget_open(&s->loose, s->config.budget, NULL, NULL, 0);
    s->limits_large = config->limits;
    if (config->large_body_bytes > config->limits.body_bytes)
        s->limits_large.body_bytes = config->large_body_bytes;
    router_init(&s->router);
    map64_init(&s->addresses);
    link_init(&s->listeners);
    link_init(&s->connections);
    link_init(&s->dirty);
    waits_init(s);
    s->spare_fd = -1;
    listen_spare(s);
    handles_init(s);
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

static void listeners_close(struct http_server *s)
{
    while (!link_alone(&s->listeners))
        listener_close(LINK_OWNER(s->listeners.next, struct listener, link));
}

void http_server_drain(struct http_server *s, uint32_t limit_ms, void (*fn)(void *ctx), void *ctx)
{
    s->draining = true;
    s->drained = fn;
    s->drained_ctx = ctx;
    s->drain_deadline = server_now(s) + limit_ms;
    listeners_close(s);
    connections_close(s, true);
    server_tick_start(s);
    server_rouse(s);
}

void http_server_close(struct http_server *s, void (*fn)(void *ctx), void *ctx)
{
    CHECK(!s->closing);
    s->closing = true;
    s->closed = fn;
    s->closed_ctx = ctx;
    listeners_close(s);
    connections_close(s, false);
    server_rouse(s);
}

void server_handle_closed(struct http_server *s)
{
    if (--s->handles > 0)
        return;
    void (*fn)(void *ctx) = s->closed;
    void *ctx = s->closed_ctx;
    budget_close(&s->loose);
    router_done(&s->router);
    map64_done(&s->addresses);
    if (s->spare_fd >= 0)
        close(s->spare_fd);
    mem_free(s);
    if (fn)
        fn(ctx);
}

void http_server_figures(const struct http_server *s, struct http_server_figures *ret)
{
    *ret = s->figures;
    ret->parked = s->exchanges;
}
