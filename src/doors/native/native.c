/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/native/native.h"

#include "base/check.h"
#include "base/mem.h"
#include "doors/native/native_impl.h"

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
    *ret = n;
    return 0;
}

void native_drain(struct native *n)
{
    n->draining = true;
    stream_list_drain(&n->streams);
    maintenance_drain(n);
}

static void closed_cb(uv_handle_t *handle)
{
    struct native *n = (struct native *)((char *)handle->data - offsetof(struct native, streams));
    void (*closed)(void *ctx) = n->closed;
    void *ctx = n->closed_ctx;
    mem_free(n);
    closed(ctx);
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
    uv_close((uv_handle_t *)&n->streams.tick, closed_cb);
}
