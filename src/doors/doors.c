/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/door.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "doors/keyval/keyval.h"
#include "doors/orchestrator/orchestrator.h"
#include "doors/tasks/tasks.h"
#include "doors/webqueue/webqueue.h"

static const struct door *const all[] = {
    &keyval_door, &orchestrator_door, &tasks_door, &webqueue_door, NULL,
};

struct open_door {
    const struct door *door;
    void *ctx;
};

struct doors {
    struct open_door *list;
    size_t count;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

const struct door *door_at(size_t i)
{
    return i < sizeof all / sizeof *all ? all[i] : NULL;
}

const struct door *door_find(const char *name)
{
    for (size_t i = 0; all[i]; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

static void close_next(void *ctx)
{
    struct doors *d = ctx;
    if (d->count > 0) {
        const struct open_door *last = &d->list[--d->count];
        last->door->close(last->ctx, close_next, d);
        return;
    }
    void (*closed)(void *ctx) = d->closed;
    void *closed_ctx = d->closed_ctx;
    mem_free(d->list);
    mem_free(d);
    closed(closed_ctx);
}

void doors_close(struct doors *d, void (*fn)(void *ctx), void *ctx)
{
    if (!d) {
        fn(ctx);
        return;
    }
    d->closed = fn;
    d->closed_ctx = ctx;
    close_next(d);
}

static void nothing(void *ctx)
{
    (void)ctx;
}

int doors_open(const struct door_config *config, const char *const *names, size_t count,
               struct doors **ret)
{
    struct doors *d = mem_zalloc(sizeof *d);
    if (!d)
        return -ERR_NOMEM;
    d->list = mem_regrow(NULL, count + 1, sizeof *d->list);
    int err = d->list ? 0 : -ERR_NOMEM;
    for (size_t i = 0; !err && i < count; i++) {
        struct open_door *o = &d->list[d->count];
        o->door = door_find(names[i]);
        CHECK(o->door);
        err = o->door->open(config, &o->ctx);
        d->count += err == 0;
    }
    if (err) {
        doors_close(d, nothing, NULL);
        return err;
    }
    *ret = d;
    return 0;
}

void doors_routes(const struct doors *d,
                  void (*fn)(void *ctx, const struct door *door, void *door_ctx), void *ctx)
{
    for (size_t i = 0; i < d->count; i++)
        fn(ctx, d->list[i].door, d->list[i].ctx);
}

void doors_drain(struct doors *d)
{
    for (size_t i = 0; d && i < d->count; i++)
        if (d->list[i].door->drain)
            d->list[i].door->drain(d->list[i].ctx);
}

void doors_metrics(const struct doors *d, struct metrics *m)
{
    for (size_t i = 0; d && i < d->count; i++)
        if (d->list[i].door->metrics)
            d->list[i].door->metrics(d->list[i].ctx, m);
}

void door_routes_print(FILE *out, const struct http_route *routes, size_t count)
{
    static const char *const scopes[] = {
        [SCOPE_OPEN] = "open",       [SCOPE_READ] = "read",   [SCOPE_PRODUCE] = "produce",
        [SCOPE_CONSUME] = "consume", [SCOPE_ADMIN] = "admin",
    };
    fputs("| method | path | scope | what it does |\n| --- | --- | --- | --- |\n", out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "| %s | `%s` | %s | %s |\n", http_method_name(routes[i].method),
                routes[i].pattern, scopes[routes[i].scope], routes[i].doc);
}
