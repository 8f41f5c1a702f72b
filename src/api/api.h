/* SPDX-License-Identifier: Apache-2.0 */
/* src/api has the APIs, one folder each, over the same broker. This header is the interface of the
 * HTTP APIs of other systems (keyval, orchestrator, tasks, webqueue). The server opens /v1
 * (v1/v1.h) and beanstalk, which is not HTTP (beanstalk/beanstalk.h), separately.
 *
 * An API translates URLs, members, names, ids and times; the rules stay in core and broker. It
 * acts only on queues that it owns (whose owner is its name), unless a request names another
 * queue. To add one: a folder with a `const struct api`, and its row in api/apis.c.
 *
 * src/api may use http, net, broker, ops, core and base. It never includes a header of src/backend.
 */
#pragma once

#include <stdio.h>
#include <uv.h>

#include "base/log.h"
#include "broker/broker.h"
#include "http/http.h"

struct metric;
struct metrics;
struct webqueue_type;
struct webqueue_alerts;

struct api_config {
    uv_loop_t *loop;
    struct broker *broker;             /* not owned; outlives the APIs */
    const struct log *log;             /* may be NULL */
    const struct queue_policy *policy; /* the server's defaults; lives as long as the APIs */
    uint32_t keyval_lock_ms;           /* keyval: lockDuration; 0 = 30 s */
    uint32_t keyval_sweep_ms;          /* keyval: cleanupInterval; 0 = never */
    const struct webqueue_type *webqueue_types; /* at least one; copied */
    size_t webqueue_type_count;
    const struct webqueue_alerts *webqueue_alerts; /* copied */
    unsigned tasks_low_share;                      /* of the API `tasks`, percent */
    uint32_t tasks_queued_wait_ms;
};

struct api {
    const char *name; /* in the setting `apis`; owner of its queues */
    const char *doc;  /* one line for the route reference */
    const struct http_route *routes;
    size_t route_count;
    /* Opens the API. *ret is the ctx of its handlers. */
    int (*open)(const struct api_config *config, void **ret);
    /* Ends streams, which do not end by themselves; NULL = it has none. */
    void (*drain)(void *ctx);
    /* Adds to /metrics; NULL = the API has no metrics. */
    void (*metrics)(void *ctx, struct metrics *m);
    const struct metric *families; /* the families that it adds; NULL = none */
    size_t family_count;
    /* Called after all exchanges were answered. Calls fn when ctx has been freed, perhaps before
     * it returns. */
    void (*close)(void *ctx, void (*fn)(void *fn_ctx), void *fn_ctx);
};

struct apis;

/* API number i, or NULL past the last. */
const struct api *api_at(size_t i);
/* NULL = no API has this name. */
const struct api *api_find(const char *name);

/* Opens the APIs with these names; an unknown name is a programmer error. */
MUST_CHECK int apis_open(const struct api_config *config, const char *const *names, size_t count,
                         struct apis **ret);
/* Calls fn with the table of each open API. */
void apis_routes(const struct apis *d, void (*fn)(void *ctx, const struct api *api, void *api_ctx),
                 void *ctx);
void apis_drain(struct apis *d);                            /* NULL allowed */
void apis_metrics(const struct apis *d, struct metrics *m); /* NULL allowed */
/* Calls fn when all are closed. d may be NULL: calls fn at once. */
void apis_close(struct apis *d, void (*fn)(void *ctx), void *ctx);

/* The rows of a route reference, Markdown. */
void api_routes_print(FILE *out, const struct http_route *routes, size_t count);
