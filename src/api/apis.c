/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api.h"

#include <string.h>

#include "api/keyval/keyval.h"
#include "api/orchestrator/orchestrator.h"
#include "api/tasks/tasks.h"
#include "api/webqueue/webqueue.h"
#include "base/check.h"
#include "base/mem.h"

static const struct api *const all[] = {
    &keyval_api, &orchestrator_api, &tasks_api, &webqueue_api, NULL,
};

struct open_api {
    const struct api *api;
    void *ctx;
};

struct apis {
    struct open_api *list;
    size_t count;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

const struct api *api_at(size_t i)
{
    return i < sizeof all / sizeof *all ? all[i] : NULL;
}

const struct api *api_find(const char *name)
{
    for (size_t i = 0; all[i]; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

static void close_next(void *ctx)
{
    struct apis *d = ctx;
    if (d->list && d->count > 0) {
        const struct open_api *last = &d->list[--d->count];
        last->api->close(last->ctx, close_next, d);
        return;
    }
    void (*closed)(void *ctx) = d->closed;
    void *closed_ctx = d->closed_ctx;
    mem_free(d->list);
    mem_free(d);
    closed(closed_ctx);
}

void apis_close(struct apis *d, void (*fn)(void *ctx), void *ctx)
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

int apis_open(const struct api_config *config, const char *const *names, size_t count,
              struct apis **ret)
{
    struct apis *d = mem_zalloc(sizeof *d);
    if (!d)
        return -ERR_NOMEM;
    d->list = mem_regrow(NULL, count + 1, sizeof *d->list);
    int err = d->list ? 0 : -ERR_NOMEM;
    for (size_t i = 0; !err && i < count; i++) {
        struct open_api *o = &d->list[d->count];
        o->api = api_find(names[i]);
        CHECK(o->api);
        err = o->api->open(config, &o->ctx);
        d->count += err == 0;
    }
    if (err) {
        apis_close(d, nothing, NULL);
        return err;
    }
    *ret = d;
    return 0;
}

void apis_routes(const struct apis *d, void (*fn)(void *ctx, const struct api *api, void *api_ctx),
                 void *ctx)
{
    for (size_t i = 0; i < d->count; i++)
        fn(ctx, d->list[i].api, d->list[i].ctx);
}

void apis_drain(struct apis *d)
{
    for (size_t i = 0; d && i < d->count; i++)
        if (d->list[i].api->drain)
            d->list[i].api->drain(d->list[i].ctx);
}

void apis_metrics(const struct apis *d, struct metrics *m)
{
    for (size_t i = 0; d && i < d->count; i++)
        if (d->list[i].api->metrics)
            d->list[i].api->metrics(d->list[i].ctx, m);
}

void api_routes_print(FILE *out, const struct http_route *routes, size_t count)
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
