/* SPDX-License-Identifier: Apache-2.0 */
#include "api/v1/v1.h"

#include "api/v1/v1_impl.h"
#include "base/check.h"
#include "base/mem.h"

int native_open(const struct native_config *config, struct native **ret)
{
    struct native *n = mem_zalloc(sizeof *n);
    if (!n)
        return -ERR_NOMEM;
    n->config = *config;
    n->broker = config->broker;
    n->started_at = broker_now(config->broker).wall;
    if (config->policy)
        n->policy = *config->policy;
    else
        policy_default(&n->policy);
    stream_list_init(&n->streams, config->loop, n->broker, ": ping\n\n");
    pages_init(n);
    *ret = n;
    return 0;
}

void native_drain(struct native *n)
{
    n->draining = true;
    stream_list_drain(&n->streams);
    maintenance_drain(n);
}

static void handle_closed(struct native *n)
{
    if (--n->handles > 0)
        return;
    void (*closed)(void *ctx) = n->closed;
    void *ctx = n->closed_ctx;
    mem_free(n);
    closed(ctx);
}

static void streams_closed_cb(uv_handle_t *handle)
{
    handle_closed((struct native *)((char *)handle->data - offsetof(struct native, streams)));
}

static void pages_closed_cb(uv_handle_t *handle)
{
    handle_closed((struct native *)((char *)handle->data - offsetof(struct native, pages)));
}

void native_close(struct native *n, void (*fn)(void *ctx), void *ctx)
{
    if (!n) {
        fn(ctx);
        return;
    }
    CHECK(!n->streams.first && !n->backup && !n->compact);
    n->closed = fn;
    n->closed_ctx = ctx;
    n->handles = 2;
    uv_close((uv_handle_t *)&n->streams.tick, streams_closed_cb);
    pages_close(n, pages_closed_cb);
}
