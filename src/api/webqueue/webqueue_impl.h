/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the API share: its types, its words, its handlers. */
#pragma once

#include "api/call.h"
#include "api/webqueue/webqueue.h"
#include "core/alerts/alert.h"

/* In the order of the words: pending, running, completed, error. */
enum web_status { WEB_PENDING, WEB_RUNNING, WEB_COMPLETED, WEB_ERROR, WEB_STATUS_COUNT };
extern const char *const web_status_words[WEB_STATUS_COUNT + 1]; /* NULL-terminated */
/* The states that are shown by this word. A cancelled job has none: this API does not know it. */
unsigned web_status_states(enum web_status s);
const char *web_status_of(uint8_t state);

#define LIBRARY_TEXT_BYTES 24

struct webqueue;
struct web_type {
    struct webqueue *w;
    struct webqueue_type config; /* its name is names[] of the API */
    struct span queue;           /* "webqueue.processing" */
    struct queue_policy policy;  /* of the queue's definition under way */
    struct op op;
    bool defined; /* the queue is there with the owner and the settings it should have */
    bool looking; /* an operation to make it so is under way */
};

#define WEB_ALERTS 3

struct webqueue {
    struct broker *broker;
    struct queue_policy base; /* the server's defaults */
    struct web_type *types;
    const char **names; /* of the types, for refusals */
    size_t type_count;
    size_t looking; /* types that are, and alerts that are being put */
    struct webqueue_alerts alerts;
    struct alert_rule alert_rules[WEB_ALERTS];
    struct op alert_ops[WEB_ALERTS];
    bool alerts_put; /* they were, or are being */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

/* ---- types ---- */

/* The type of this name; for an empty one processing, or where that is not configured the first.
 * NULL with the problem set: 422 with those there are. */
struct web_type *type_named(struct webqueue *w, struct arena *arena, struct span name,
                            struct problem *problem);
/* The type of a queue; NULL: the queue is none of this API's. */
struct web_type *type_of_queue(const struct webqueue *w, struct span queue);
/* Sees to it, in the background, that the type's queue, if it is there, has the right owner and
 * settings. */
void type_look(struct web_type *t);
/* The policy of a new queue of this type. */
void type_policy(const struct web_type *t, struct queue_policy *ret);

/* Sees to it, in the background, that the alerts of this API's queues are there. */
void web_alerts_put(struct webqueue *w);

/* Which queues a request means: all types, or the one named; of all libraries or one. */
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
    struct web_type *types; /* neighbours in the API's table */
    size_t count;
    struct span group; /* empty = every library */
};
/* 0, or -ERR_INVALID with the problem set. */
MUST_CHECK int scope_take(struct webqueue *w, struct arena *arena, const struct web_scope *scope,
                          struct web_reach *ret, struct problem *problem);
/* The library of the path, in every type. false: the problem was answered. */
bool path_library(struct webqueue *w, struct http_exchange *x, struct web_reach *ret);
/* A library as the group of its jobs, in the arena; at = NULL: no memory. */
struct span library_group(struct arena *arena, int64_t library_id);

/* ---- jobs ---- */

/* The members of JobDict, without the braces. */
void job_dict_members(struct json_writer *w, const struct job_view *v, struct arena *arena);
/* Numbers that are shown: pending, running, completed, errors. */
struct web_counts {
    uint64_t by_status[WEB_STATUS_COUNT];
};
void counts_add(struct web_counts *c, const uint64_t by_state[STATE_COUNT]);
void counts_members(struct json_writer *w, const struct web_counts *c);

/* ---- refusals in the words of this API ---- */

void web_problem(struct problem *p, struct arena *arena, const struct reply *reply, bool draining);
/* As call_submit, refusing with web_problem. */
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
