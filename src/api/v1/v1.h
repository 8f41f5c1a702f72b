/* SPDX-License-Identifier: Apache-2.0 */
/* The native API, /v1: one table of routes over the broker.
 *
 * The API has no jobs. Its own state is the open event streams and the time at which it was
 * opened. Everything else belongs to a request and is in its exchange.
 *
 * src/api/v1 may use what src/api may use (api.h), but no other API. */
#pragma once

#include <uv.h>

#include "base/budget.h"
#include "base/log.h"
#include "broker/broker.h"
#include "http/http.h"
#include "http/server.h"

struct native;
struct metrics;

struct native_config {
    uv_loop_t *loop;
    struct broker *broker;        /* not owned; outlives the API */
    const struct log *log;        /* may be NULL */
    const char *version, *commit; /* borrowed */
    unsigned node;
    const struct queue_policy *policy; /* defaults of PUT; copied; NULL = policy_default */
    const struct budget *budget;       /* shown; NULL = none */
    const struct net_tls *tls;         /* likewise */
    /* Figures of the HTTP server for /metrics; NULL = none. */
    void (*http_figures)(void *ctx, struct http_server_figures *ret);
    /* Figures of the other APIs for /metrics; NULL = none. */
    void (*api_metrics)(void *ctx, struct metrics *m);
    void *http_ctx; /* of both */
};

MUST_CHECK int native_open(const struct native_config *config, struct native **ret);
/* The table for http_server_routes; the ctx of its handlers is the struct native. */
const struct http_route *native_routes(size_t *ret_count);
/* Ends the event streams; new ones are refused. The broker ends claims and streams of jobs
 * (broker_drain). */
void native_drain(struct native *n);
/* All exchanges must have been answered. Calls fn when n has been freed. n may be NULL: calls fn
 * at once. */
void native_close(struct native *n, void (*fn)(void *ctx), void *ctx);
