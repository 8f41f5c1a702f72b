/* SPDX-License-Identifier: Apache-2.0 */
#include "server/stores.h"

#include <string.h>

#include "backend/dispatch/dispatch.h"
#include "backend/failover/failover.h"

struct opening {
    struct stores *stores;
    const struct config *config;
    const struct backend_config *base;
    struct router_child children[ROUTER_NUMBER_MAX + 1];
    unsigned count;
    struct err_note *note;
};

static void closed_cb(void *ctx)
{
    (void)ctx;
}

static bool is_open(const struct opening *o, unsigned number)
{
    for (unsigned i = 0; i < o->count; i++) {
        if (o->children[i].number == number)
            return true;
    }
    return false;
}

/* A single store needs no names in log lines. */
static bool several(const struct config *c)
{
    for (size_t i = 0; i < c->routes.items.count; i++) {
        if (c->routes.list[i].number != 0)
            return true;
    }
    return false;
}

static struct backend_config config_of(const struct opening *o, unsigned number)
{
    struct backend_config own = *o->base;
    struct log *log = &o->stores->logs[number];
    if (!own.log || !several(o->config))
        return own;
    *log = log_marked(own.log, LOG_INT("backend", number));
    own.log = log;
    return own;
}

static int open_child(struct opening *o, const struct config_route *route)
{
    struct err_note inner = {""};
    struct router_child *child = &o->children[o->count];
    if (is_open(o, route->number))
        return 0;
    struct backend_config own = config_of(o, route->number);
    int err = backend_open(route->url, &own, &child->backend, &inner);
    if (err)
        return err_note_set(o->note, err, "routes, backend %u: %s", route->number,
                            inner.text[0] ? inner.text : err_text(err));
    child->number = route->number;
    o->count++;
    return 0;
}

static int open_router(struct opening *o, struct backend **ret)
{
    const struct config_routes *from = &o->config->routes;
    struct router_route routes[CONFIG_ROUTES_MAX];
    for (size_t i = 0; i < from->items.count; i++)
        routes[i] = (struct router_route){from->list[i].pattern, from->list[i].number};
    return backend_open_router(o->children, o->count, routes, (unsigned)from->items.count, o->base,
                               ret);
}

/* --- dispatch: the default store behind its wrapper --- */

static bool dispatches(const struct config *c)
{
    return *c->dispatch.high || *c->dispatch.low;
}

static int open_dispatch(const struct config *from, const struct backend_config *base,
                         struct backend **at, struct err_note *note)
{
    const struct config_dispatch *c = &from->dispatch;
    struct span urgent[CONFIG_URGENT_MAX];
    struct dispatch_config dispatch = {.high = *c->high ? c->high : c->low,
                                       .low = *c->low ? c->low : c->high,
                                       .urgent = urgent,
                                       .interval_ms = c->interval_ms,
                                       .batch = c->batch};
    for (; dispatch.urgent_count < c->urgent.count; dispatch.urgent_count++)
        urgent[dispatch.urgent_count] = span_text(c->urgent.items[dispatch.urgent_count]);
    return backend_open_dispatch(*at, base, &dispatch, at, note);
}

static int open_default(const struct config *c, const struct backend_config *base,
                        struct backend **ret, struct err_note *note)
{
    struct backend_config own = *base;
    const struct config_failover *f = &c->failover;
    own.dispatches = dispatches(c);
    if (own.dispatches && f->primary_url)
        return err_note_set(note, -ERR_INVALID,
                            "dispatch cannot be combined with failover; keep one of them");
    if (f->primary_url)
        return backend_open_failover_urls(f->primary_url, f->spool_url, f->timeout_ms, base, ret,
                                          note);
    if (own.dispatches && strncmp(c->backend_url, "postgres", 8) != 0)
        return err_note_set(note, -ERR_INVALID,
                            "dispatch.high and dispatch.low need a store on PostgreSQL: write "
                            "backend: postgres://…");
    int err = backend_open(c->backend_url, &own, ret, note);
    return err || !own.dispatches ? err : open_dispatch(c, &own, ret, note);
}

int stores_open(struct stores *s, const struct config *c, const struct backend_config *base,
                struct backend **ret, struct err_note *note)
{
    struct opening o = {.stores = s, .config = c, .base = base, .note = note};
    struct backend_config own = config_of(&o, 0);
    int err = open_default(c, &own, &o.children[0].backend, note);
    if (err || c->routes.items.count == 0) {
        if (!err)
            *ret = o.children[0].backend;
        return err;
    }
    o.count = 1;
    for (size_t i = 0; !err && i < c->routes.items.count; i++)
        err = open_child(&o, &c->routes.list[i]);
    if (!err)
        return open_router(&o, ret);
    for (unsigned i = 0; i < o.count; i++)
        backend_close(o.children[i].backend, closed_cb, NULL);
    return err;
}
