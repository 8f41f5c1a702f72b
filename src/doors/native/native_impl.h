/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the door share: the door itself, its handlers, small steps of an answer. */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "doors/native/fields.h"
#include "doors/native/native.h"
#include "doors/problem.h"

#define JSON_TYPE "application/json"

struct stream;
struct errand;

/* Backups since the start; a refused one is none. */
enum backup_outcome { BACKUP_DONE, BACKUP_FAILED, BACKUP_CUT, BACKUP_OUTCOME_COUNT };
struct backup_figures {
    uint64_t by_outcome[BACKUP_OUTCOME_COUNT];
    struct wall_time last; /* when the last whole one was sent; 0 = none */
    uint64_t last_ms, last_bytes;
};

struct native {
    struct native_config config;
    struct broker *broker;
    struct queue_policy policy; /* of queues that do not say */
    struct wall_time started_at;
    struct call *defining, *defining_last; /* definitions of queues, the one under way first */
    struct stream *streams;                /* open event streams and streams of jobs */
    uv_timer_t ping;                       /* runs while there are streams */
    struct errand *backup, *compact;       /* requests under way; NULL = none */
    struct backup_figures backups;
    bool draining;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

/* ---- answers ---- */

/* Begins the JSON body of an answer. */
void answer_begin(struct http_exchange *x, struct json_writer *w);
/* Ends the body with a line break, sends nothing. 0, or -ERR_NOMEM: it could not be built. */
MUST_CHECK int answer_close(struct http_exchange *x, struct json_writer *w);
/* Ends the body and sends it; `unknown` when it could not be built. */
void answer_end(struct http_exchange *x, struct json_writer *w, unsigned status);
/* Sends a problem for an operating error (-ERR_NOMEM …). */
void answer_error(struct http_exchange *x, int error);

/* A reader for the request of x. The problem must outlive it. */
struct field_reader reader_of(struct native *n, struct http_exchange *x, struct fields table,
                              void *into, struct problem *problem);

/* ---- one operation, one answer ---- */

struct call;
typedef void (*call_fn)(struct call *c, const struct reply *reply);
struct call {
    struct native *n;
    struct http_exchange *x;
    struct arena *arena;
    struct op op;
    call_fn done;      /* called with OUT_OK only; owes the answer */
    void *more;        /* the handler's own */
    struct call *next; /* definitions of queues: who waits behind it */
};
/* In the exchange's arena; NULL after answering that there is no memory. */
struct call *call_new(struct native *n, struct http_exchange *x, enum op_kind kind, call_fn done);
/* Any other outcome than OUT_OK is answered with its problem. */
void call_submit(struct call *c);

/* The request must have no query: what would be ignored might have been meant to narrow it. false:
 * the problem was answered. */
bool query_none(struct native *n, struct http_exchange *x);
/* The same for the members of a body. */
bool body_none(struct native *n, struct http_exchange *x);
/* Path parameters, checked. false: the problem was answered. */
bool path_queue(struct http_exchange *x, struct span *ret);
bool path_job(struct http_exchange *x, struct job_ref *ret);

/* What cannot go on while the server shuts down is answered. */
void maintenance_drain(struct native *n);

/* ---- handlers ---- */

#define NATIVE_HANDLER(name) void name(void *ctx, struct http_exchange *x)
NATIVE_HANDLER(queue_put_handle);
NATIVE_HANDLER(queue_patch_handle);
NATIVE_HANDLER(queue_get_handle);
NATIVE_HANDLER(queue_list_handle);
NATIVE_HANDLER(queue_delete_handle);
NATIVE_HANDLER(queue_stats_handle);
NATIVE_HANDLER(queue_pause_handle);
NATIVE_HANDLER(queue_resume_handle);
NATIVE_HANDLER(queue_purge_handle);
NATIVE_HANDLER(queue_peek_handle);
NATIVE_HANDLER(bulk_requeue_handle);
NATIVE_HANDLER(bulk_cancel_handle);
NATIVE_HANDLER(bulk_remove_handle);
NATIVE_HANDLER(enqueue_handle);
NATIVE_HANDLER(import_handle);
NATIVE_HANDLER(claim_queue_handle);
NATIVE_HANDLER(claim_any_handle);
NATIVE_HANDLER(ack_handle);
NATIVE_HANDLER(fail_handle);
NATIVE_HANDLER(extend_handle);
NATIVE_HANDLER(release_handle);
NATIVE_HANDLER(ack_many_handle);
NATIVE_HANDLER(fail_many_handle);
NATIVE_HANDLER(extend_many_handle);
NATIVE_HANDLER(release_many_handle);
NATIVE_HANDLER(job_get_handle);
NATIVE_HANDLER(job_patch_handle);
NATIVE_HANDLER(job_delete_handle);
NATIVE_HANDLER(job_cancel_handle);
NATIVE_HANDLER(job_requeue_handle);
NATIVE_HANDLER(job_list_handle);
NATIVE_HANDLER(events_handle);
NATIVE_HANDLER(queue_events_handle);
NATIVE_HANDLER(listen_handle);
NATIVE_HANDLER(workers_handle);
NATIVE_HANDLER(snapshot_handle);
NATIVE_HANDLER(exceptions_handle);
NATIVE_HANDLER(test_clock_get_handle);
NATIVE_HANDLER(test_clock_move_handle);
NATIVE_HANDLER(clock_accept_handle);
NATIVE_HANDLER(backup_handle);
NATIVE_HANDLER(compact_handle);
NATIVE_HANDLER(server_handle);
NATIVE_HANDLER(health_handle);
NATIVE_HANDLER(ready_handle);
NATIVE_HANDLER(metrics_handle);
