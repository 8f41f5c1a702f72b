/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the webqueue API: its types, terms and handlers.
 *
 *   webqueue.c  the API, its routes, opening and closing
 *   types.c     queue types, each with its own queue
 *   job_dict.c  the terms of the API: statuses, JobDict, counts, refusals
 *   enqueue.c, dequeue.c    jobs in and out
 *   moves.c     complete, fail, renew and requeue of one job;  bulk.c  of many
 *   list.c      lists and single jobs;  counts.c  counts
 *   alerts.c    the three alerts of all its queues
 *
 * What this folder may use is in api/api.h. */
#pragma once

#include "api/call.h"
#include "api/webqueue/webqueue.h"
#include "core/alerts/alert.h"

/* In the order of the names: pending, running, completed, error. */
enum web_status { WEB_PENDING, WEB_RUNNING, WEB_COMPLETED, WEB_ERROR, WEB_STATUS_COUNT };
extern const char *const web_status_names[WEB_STATUS_COUNT + 1]; /* NULL-terminated */
/* The states that are shown as this status. A cancelled job has no status in this API. */
unsigned web_status_states(enum web_status s);
const char *web_status_of(uint8_t state);

#define LIBRARY_TEXT_BYTES 24

struct webqueue;
struct web_type {
    struct webqueue *w;
    struct webqueue_type config; /* its name is in names[] of the API */
    struct span queue;           /* "webqueue.processing" */
    struct queue_policy policy;  /* for the definition of the queue */
    struct op op;
    bool defined;  /* the queue exists and has the right owner and settings */
    bool checking; /* an operation that ensures this is under way */
};

#define WEB_ALERTS 3

struct webqueue {
    struct broker *broker;
    struct queue_policy base; /* the server's defaults */
    struct web_type *types;
    const char **names; /* names of the types, for refusals */
    size_t type_count;
    size_t checking; /* checks of types and puts of alerts that are under way */
    struct webqueue_alerts alerts;
    struct alert_rule alert_rules[WEB_ALERTS];
    struct op alert_ops[WEB_ALERTS];
    bool alerts_put; /* they were put, or this is under way */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

/* ---- types ---- */

/* The type of this name; for an empty name processing, or the first type if that is not
 * configured. NULL with the problem set: 422 with the list of types. */
struct web_type *type_named(struct webqueue *w, struct arena *arena, struct span name,
                            struct problem *problem);
/* The type of a queue; NULL: the queue does not belong to this API. */
struct web_type *type_of_queue(const struct webqueue *w, struct span queue);
/* Ensures, in the background, that the queue of the type, if it exists, has the right owner and
 * settings. */
void type_check(struct web_type *t);
/* The policy of a new queue of this type. */
void type_policy(const struct web_type *t, struct queue_policy *ret);

/* Ensures, in the background, that the alerts for this API's queues exist. */
void web_alerts_put(struct webqueue *w);

/* The queues that a request concerns: all types, or the named one; of all libraries or one. */
struct web_scope {
    struct span type;
    int64_t library_id;
};
#define NO_LIBRARY INT64_MIN
#define SCOPE_ROWS(holder)                                                                         \
    {                                                                                              \
        "queue_type",                                                                              \
        FIELD_TEXT,                                                                                \
        (uint32_t)(offsetof(holder, scope.type)),                                                  \
        0,                                                                                         \
        WEBQUEUE_TYPE_BYTES_MAX,                                                                   \
        NULL,                                                                                      \
        0},                                                                                        \
    {                                                                                              \
        "library_id", FIELD_INT, (uint32_t)(offsetof(holder, scope.library_id)), 0, INT64_MAX,     \
            NULL, 0                                                                                \
    }
struct web_reach {
    struct web_type *types; /* consecutive in the API's table */
    size_t count;
    struct span group; /* empty = every library */
};
/* 0, or -ERR_INVALID with the problem set. */
MUST_CHECK int scope_take(struct webqueue *w, struct arena *arena, const struct web_scope *scope,
                          struct web_reach *ret, struct problem *problem);
/* Reads the library of the path, for all types. false: the problem was answered. */
bool path_library(struct webqueue *w, struct http_exchange *x, struct web_reach *ret);
/* A library as the group of its jobs, in the arena; at = NULL: no memory. */
struct span library_group(struct arena *arena, int64_t library_id);

/* ---- jobs ---- */

/* Writes the members of JobDict, without the braces. */
void job_dict_members(struct json_writer *w, const struct job_view *v, struct arena *arena);
/* Counts: pending, running, completed, errors. */
struct web_counts {
    uint64_t by_status[WEB_STATUS_COUNT];
};
void counts_add(struct web_counts *c, const uint64_t by_state[STATE_COUNT]);
void counts_members(struct json_writer *w, const struct web_counts *c);

/* ---- refusals in the words of this API ---- */

void web_problem(struct problem *p, struct arena *arena, const struct reply *reply, bool draining);
/* Like call_submit; refuses with web_problem. */
void web_submit(struct call *c);

/* ---- handlers ---- */

#define WEB_HANDLER(name) void name(void *ctx, struct http_exchange *x)
WEB_HANDLER(web_depth_handle);
WEB_HANDLER(web_types_handle);
WEB_HANDLER(web_list_handle);
WEB_HANDLER(web_stale_handle);
WEB_HANDLER(web_job_handle);
WEB_HANDLER(web_enqueue_handle);
WEB_HANDLER(web_dequeue_handle);
WEB_HANDLER(web_complete_handle);
WEB_HANDLER(web_fail_handle);
WEB_HANDLER(web_renew_handle);
WEB_HANDLER(web_requeue_handle);
WEB_HANDLER(web_retry_errors_handle);
WEB_HANDLER(web_clear_completed_handle);
WEB_HANDLER(web_clear_errors_handle);
WEB_HANDLER(web_library_handle);
WEB_HANDLER(web_library_delete_handle);
