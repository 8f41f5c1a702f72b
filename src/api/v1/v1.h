/* SPDX-License-Identifier: Apache-2.0 */
/* The native API, /v1: one table of routes over the broker.
 *
 * The API holds no jobs: what it keeps is the event streams that are open, and the time it was
 * opened. Everything else is a request's own and lives in its exchange. */
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
    const struct queue_policy *policy; /* what PUT gives members that are not named; copied; NULL =
                                          policy_default */
    const struct budget *budget;       /* shown; NULL = none */
    /* Figures of the HTTP server for /metrics; NULL = none. */
    void (*http_figures)(void *ctx, struct http_server_figures *ret);
    /* Figures of the other APIs for /metrics; NULL = none. */
    void (*api_metrics)(void *ctx, struct metrics *m);
    void *http_ctx; /* of both */
};

MUST_CHECK int native_open(const struct native_config *config, struct native **ret);
/* The table for http_server_routes; the ctx of its handlers is the struct native. */
const struct http_route *native_routes(size_t *ret_count);
/* Ends the event streams; new ones are refused. Claims and streams of jobs are the broker's to end
 * (broker_drain). */
void native_drain(struct native *n);
/* All exchanges must have been answered. Calls fn when n is gone. n may be NULL: calls fn at once.
 */
void native_close(struct native *n, void (*fn)(void *ctx), void *ctx);
