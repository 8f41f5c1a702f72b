/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the native API: its state and its handlers, by folder.
 *
 *   jobs/       jobs: enqueue, claim, reports, lists, bulk actions, import; their views
 *   queues/     queues and their settings, statistics, workers
 *   schedules/  schedules
 *   alerts/     alert rules, notices, breakers
 *   kv/         the key-value store
 *   server/     the server itself: metrics, health, backup, problems
 *
 * routes.c has the table of routes, events.c the stream of events. Each folder may use what src/api
 * may use (api/api.h), and the views of another folder. */
#pragma once

#include "api/call.h"
#include "api/streams/stream.h"
#include "api/v1/v1.h"

struct maintenance;
struct page_making;
struct page_waiter;

/* Backups since the start; refused requests are not counted. */
enum backup_outcome { BACKUP_DONE, BACKUP_FAILED, BACKUP_CUT, BACKUP_OUTCOME_COUNT };
struct backup_figures {
    uint64_t by_outcome[BACKUP_OUTCOME_COUNT];
    struct wall_time last; /* when the last whole one was sent; 0 = none */
    uint64_t last_ms, last_bytes;
};

/* Pages of GET /metrics: the one that is being written, the requests that wait for it, and the
 * last expensive one (metrics_page.c). */
struct page_maker {
    uv_idle_t idle; /* active while a page is written */
    struct page_making *making;
    struct page_waiter *waiters; /* empty unless a page is being written */
    struct http_shared *kept;    /* NULL = none */
    uint64_t kept_ms;            /* loop time at which it was begun, and the time of the broker */
    struct now kept_at;
};

struct native {
    struct native_config config;
    struct broker *broker;
    struct queue_policy policy; /* defaults of queues */
    struct wall_time started_at;
    struct call_line defining, alerting, scheduling; /* definitions of queues, alerts, schedules */
    struct stream_list streams;                      /* of events, of jobs, of keys */
    struct maintenance *backup, *compact;            /* requests under way; NULL = none */
    struct backup_figures backups;
    struct page_maker pages;
    unsigned handles; /* handles to be closed */
    bool draining;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

/* The broker of the API; ctx is that of a handler. */
static inline struct broker *broker_of(const void *ctx)
{
    return ((const struct native *)ctx)->broker;
}

void pages_init(struct native *n);
void pages_close(struct native *n, uv_close_cb closed);

/* Answers requests that cannot continue while the server shuts down. */
void maintenance_drain(struct native *n);

/* Reads one job of a commit: as in an enqueue, with its queue among the members. -ERR_INVALID
 * with the problem set. */
MUST_CHECK int enqueue_read(struct native *n, struct http_exchange *x, struct span text,
                            struct op_enqueue *op, struct problem *problem);
/* Gives the job of an enqueue_read an idempotency key that its text does not contain; and the check
 * of such a key. */
void enqueue_set_key(struct op_enqueue *op, struct span key, struct span text);
/* The same key with another scope is then a key that was reused. */
void enqueue_scope_key(struct op_enqueue *op, uint64_t scope);
MUST_CHECK int enqueue_check_key(struct span key, struct err_note *note);
/* Writes the members, without braces (history.c). */
void counters_write(struct json_writer *w, const struct counters *t);

/* Writes whether the connection to a store's server is encrypted (cluster.c). */
void link_write(struct json_writer *w, const struct backend_cluster *c);
/* Writes "failover", if it is configured (cluster.c). */
void failover_write_if(struct json_writer *w, const struct native *n);

/* The names of the states, in the order of enum job_state from STATE_SCHEDULED; ends with NULL. */
extern const char *const native_states[];
/* The names of the reasons, from REASON_FAILED; likewise. */
extern const char *const native_reasons[];

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
NATIVE_HANDLER(queue_history_handle);
NATIVE_HANDLER(queue_page_handle);
NATIVE_HANDLER(bulk_requeue_handle);
NATIVE_HANDLER(bulk_cancel_handle);
NATIVE_HANDLER(bulk_remove_handle);
NATIVE_HANDLER(enqueue_handle);
NATIVE_HANDLER(import_handle);
NATIVE_HANDLER(batch_create_handle);
NATIVE_HANDLER(batch_add_handle);
NATIVE_HANDLER(batch_get_handle);
NATIVE_HANDLER(batch_close_handle);
NATIVE_HANDLER(job_depends_handle);
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
NATIVE_HANDLER(job_why_handle);
NATIVE_HANDLER(job_patch_handle);
NATIVE_HANDLER(job_delete_handle);
NATIVE_HANDLER(job_cancel_handle);
NATIVE_HANDLER(job_requeue_handle);
NATIVE_HANDLER(job_discard_handle);
NATIVE_HANDLER(job_list_handle);
NATIVE_HANDLER(events_handle);
NATIVE_HANDLER(queue_events_handle);
NATIVE_HANDLER(listen_handle);
NATIVE_HANDLER(workers_handle);
NATIVE_HANDLER(heartbeat_handle);
NATIVE_HANDLER(progress_handle);
NATIVE_HANDLER(log_handle);
NATIVE_HANDLER(step_handle);
NATIVE_HANDLER(log_get_handle);
NATIVE_HANDLER(snapshot_handle);
NATIVE_HANDLER(exceptions_handle);
NATIVE_HANDLER(schedule_list_handle);
NATIVE_HANDLER(schedule_put_handle);
NATIVE_HANDLER(schedule_patch_handle);
NATIVE_HANDLER(schedule_get_handle);
NATIVE_HANDLER(schedule_delete_handle);
NATIVE_HANDLER(schedule_preview_handle);
NATIVE_HANDLER(schedule_preview_new_handle);
NATIVE_HANDLER(schedule_run_handle);
NATIVE_HANDLER(schedule_pause_handle);
NATIVE_HANDLER(schedule_resume_handle);
NATIVE_HANDLER(test_clock_get_handle);
NATIVE_HANDLER(test_clock_move_handle);
NATIVE_HANDLER(clock_accept_handle);
NATIVE_HANDLER(alert_put_handle);
NATIVE_HANDLER(alert_patch_handle);
NATIVE_HANDLER(alert_get_handle);
NATIVE_HANDLER(alert_list_handle);
NATIVE_HANDLER(alert_delete_handle);
NATIVE_HANDLER(notice_list_handle);
NATIVE_HANDLER(notice_get_handle);
NATIVE_HANDLER(notice_redeliver_handle);
NATIVE_HANDLER(notice_delete_handle);
NATIVE_HANDLER(breaker_list_handle);
NATIVE_HANDLER(breaker_get_handle);
NATIVE_HANDLER(breaker_put_handle);
NATIVE_HANDLER(breaker_delete_handle);
NATIVE_HANDLER(breaker_allow_handle);
NATIVE_HANDLER(breaker_report_handle);
NATIVE_HANDLER(backup_handle);
NATIVE_HANDLER(compact_handle);
NATIVE_HANDLER(kv_commit_handle);
NATIVE_HANDLER(kv_get_handle);
NATIVE_HANDLER(kv_list_handle);
NATIVE_HANDLER(kv_watch_handle);
NATIVE_HANDLER(kv_one_get_handle);
NATIVE_HANDLER(kv_one_put_handle);
NATIVE_HANDLER(kv_one_delete_handle);
NATIVE_HANDLER(server_handle);
NATIVE_HANDLER(cluster_handle);
NATIVE_HANDLER(problem_list_handle);
NATIVE_HANDLER(problem_get_handle);
NATIVE_HANDLER(health_handle);
NATIVE_HANDLER(ready_handle);
NATIVE_HANDLER(metrics_handle);
