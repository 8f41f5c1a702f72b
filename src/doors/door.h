/* SPDX-License-Identifier: Apache-2.0 */
/* Front doors: APIs of other systems over the same broker, one folder each.
 *
 * A door translates URLs, members, words, ids and times; the rules stay in core and broker. It acts
 * only on queues whose owner it is (its name), unless one is named. To add one: a folder with a
 * `const struct door`, and its row in doors.c. */
#pragma once

#include <stdio.h>
#include <uv.h>

#include "base/log.h"
#include "broker/broker.h"
#include "http/http.h"

struct metrics;
struct webqueue_type;

struct door_config {
    uv_loop_t *loop;
    struct broker *broker;             /* not owned; outlives the doors */
    const struct log *log;             /* may be NULL */
    const struct queue_policy *policy; /* the server's defaults; lives as long as the doors */
    uint32_t keyval_lock_ms;           /* keyval: lockDuration; 0 = 30 s */
    uint32_t keyval_sweep_ms;          /* keyval: cleanupInterval; 0 = never */
    const struct webqueue_type *webqueue_types; /* at least one; copied */
    size_t webqueue_type_count;
    unsigned tasks_low_share; /* of the door `tasks`, percent */
};

struct door {
    const char *name; /* in the setting `doors`; owner of its queues */
    const char *doc;  /* one line for the route reference */
    const struct http_route *routes;
    size_t route_count;
    /* The ctx of its handlers. */
    int (*open)(const struct door_config *config, void **ret);
    /* Ends what would never end by itself (streams); NULL = nothing does. */
    void (*drain)(void *ctx);
    /* Adds to /metrics; NULL = it has no figures of its own. */
    void (*metrics)(void *ctx, struct metrics *m);
    /* All exchanges were answered. Calls fn when ctx is gone, perhaps before it returns. */
    void (*close)(void *ctx, void (*fn)(void *fn_ctx), void *fn_ctx);
};

struct doors;

/* Door i of all there are, or NULL past the last. */
const struct door *door_at(size_t i);
/* NULL = no door has this name. */
const struct door *door_find(const char *name);

/* Opens the doors with these names; unknown ones are programmer errors. */
MUST_CHECK int doors_open(const struct door_config *config, const char *const *names, size_t count,
                          struct doors **ret);
/* Calls fn with the table of each open door. */
void doors_routes(const struct doors *d,
                  void (*fn)(void *ctx, const struct door *door, void *door_ctx), void *ctx);
void doors_drain(struct doors *d);                            /* NULL allowed */
void doors_metrics(const struct doors *d, struct metrics *m); /* NULL allowed */
/* Calls fn when all are gone. d may be NULL: calls fn at once. */
void doors_close(struct doors *d, void (*fn)(void *ctx), void *ctx);

/* The rows of a route reference, Markdown. */
void door_routes_print(FILE *out, const struct http_route *routes, size_t count);
