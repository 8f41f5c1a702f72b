/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the native API. The route reference is printed from it. */
#include "doors/native/native_impl.h"

#define GET(pattern, handler, scope, doc)                                                          \
    {                                                                                              \
        HTTP_GET, pattern, handler, scope, 0, doc                                                  \
    }
#define POST(pattern, handler, scope, doc)                                                         \
    {                                                                                              \
        HTTP_POST, pattern, handler, scope, 0, doc                                                 \
    }
/* Bodies with payloads or results. */
#define POST_LARGE(pattern, handler, scope, doc)                                                   \
    {                                                                                              \
        HTTP_POST, pattern, handler, scope, ROUTE_LARGE, doc                                       \
    }

static const struct http_route routes[] = {
    GET("/v1/queues", queue_list_handle, SCOPE_READ, "List queues by name."),
    {HTTP_PUT, "/v1/queues/{queue}", queue_put_handle, SCOPE_ADMIN, 0,
     "Create a queue, or set its whole policy."},
    {HTTP_PATCH, "/v1/queues/{queue}", queue_patch_handle, SCOPE_ADMIN, 0,
     "Change the named members of a queue's policy."},
    GET("/v1/queues/{queue}", queue_get_handle, SCOPE_READ, "A queue with its policy and counts."),
    {HTTP_DELETE, "/v1/queues/{queue}", queue_delete_handle, SCOPE_ADMIN, 0,
     "Delete a queue with all its jobs."},
    GET("/v1/queues/{queue}/stats", queue_stats_handle, SCOPE_READ,
        "Counts, totals and times of a queue, or of one group in it."),
    GET("/v1/queues/{queue}/peek", queue_peek_handle, SCOPE_READ,
        "The next jobs of a state, without claiming them."),
    GET("/v1/queues/{queue}/history", queue_history_handle, SCOPE_READ,
        "What happened in a queue by the hour, for 30 days."),
    GET("/v1/queues/{queue}/jobs", queue_page_handle, SCOPE_READ,
        "Jobs of a ranked queue in the order they came, from any offset."),
    POST("/v1/queues/{queue}/pause", queue_pause_handle, SCOPE_ADMIN,
         "Hand out no jobs, for a time or until resumed."),
    POST("/v1/queues/{queue}/resume", queue_resume_handle, SCOPE_ADMIN, "End a pause."),
    POST("/v1/queues/{queue}/purge", queue_purge_handle, SCOPE_ADMIN,
         "Remove everything that waits."),
    POST("/v1/queues/{queue}/requeue", bulk_requeue_handle, SCOPE_ADMIN,
         "Requeue jobs by state and group."),
    POST("/v1/queues/{queue}/cancel", bulk_cancel_handle, SCOPE_ADMIN,
         "Cancel jobs by state and group."),
    POST("/v1/queues/{queue}/remove", bulk_remove_handle, SCOPE_ADMIN,
         "Remove jobs by state and group."),
    POST_LARGE("/v1/queues/{queue}/jobs", enqueue_handle, SCOPE_PRODUCE,
               "Enqueue one job, an array, NDJSON, or raw bytes."),
    POST_LARGE("/v1/import", import_handle, SCOPE_ADMIN,
               "Take over exported jobs with what they went through: an array or NDJSON."),
    POST("/v1/queues/{queue}/claim", claim_queue_handle, SCOPE_CONSUME,
         "Claim jobs of a queue, waiting for them if asked to."),
    POST("/v1/claim", claim_any_handle, SCOPE_CONSUME, "Claim jobs of several queues."),
    GET("/v1/queues/{queue}/listen", queue_events_handle, SCOPE_READ,
        "Events of a queue (server-sent)."),
    POST("/v1/queues/{queue}/listen", listen_handle, SCOPE_CONSUME,
         "Claimed jobs as they come (server-sent), bound to the connection."),
    POST_LARGE("/v1/jobs/{id}/ack", ack_handle, SCOPE_CONSUME, "The job is done."),
    POST("/v1/jobs/{id}/fail", fail_handle, SCOPE_CONSUME,
         "The attempt failed; the policy decides what follows."),
    POST("/v1/jobs/{id}/extend", extend_handle, SCOPE_CONSUME, "Lengthen the lease."),
    POST("/v1/jobs/{id}/release", release_handle, SCOPE_CONSUME, "Hand the job back, uncounted."),
    POST_LARGE("/v1/ack", ack_many_handle, SCOPE_CONSUME, "Ack many jobs."),
    POST_LARGE("/v1/fail", fail_many_handle, SCOPE_CONSUME, "Fail many jobs."),
    POST("/v1/extend", extend_many_handle, SCOPE_CONSUME, "Extend many leases."),
    POST_LARGE("/v1/release", release_many_handle, SCOPE_CONSUME, "Release many jobs."),
    GET("/v1/jobs", job_list_handle, SCOPE_READ, "List jobs by filter."),
    GET("/v1/jobs/{id}", job_get_handle, SCOPE_READ, "A job with its history."),
    {HTTP_PATCH, "/v1/jobs/{id}", job_patch_handle, SCOPE_ADMIN, ROUTE_LARGE,
     "Change priority, time or payload of a waiting job, or label and attributes of any."},
    {HTTP_DELETE, "/v1/jobs/{id}", job_delete_handle, SCOPE_ADMIN, 0,
     "Remove a job that is not running."},
    POST("/v1/jobs/{id}/cancel", job_cancel_handle, SCOPE_ADMIN, "Cancel a job."),
    POST("/v1/jobs/{id}/requeue", job_requeue_handle, SCOPE_ADMIN,
         "Let a dead, cancelled or scheduled job run again."),
    POST("/v1/jobs/{id}/discard", job_discard_handle, SCOPE_ADMIN,
         "Cancel a job, also one that has ended."),
    POST_LARGE("/v1/kv/commit", kv_commit_handle, SCOPE_PRODUCE,
               "Checks, sets, deletes and enqueues in one commit, all or nothing."),
    POST("/v1/kv/get", kv_get_handle, SCOPE_READ, "Some keys with their values."),
    GET("/v1/kv", kv_list_handle, SCOPE_READ, "Keys in their order, by prefix or range."),
    GET("/v1/kv/watch", kv_watch_handle, SCOPE_READ,
        "Changes of keys as they happen (server-sent)."),
    GET("/v1/kv/keys/{key}", kv_one_get_handle, SCOPE_READ, "The value of a key that is one text."),
    {HTTP_PUT, "/v1/kv/keys/{key}", kv_one_put_handle, SCOPE_PRODUCE, ROUTE_LARGE, "Set it."},
    {HTTP_DELETE, "/v1/kv/keys/{key}", kv_one_delete_handle, SCOPE_PRODUCE, 0, "Delete it."},
    GET("/v1/events", events_handle, SCOPE_READ, "Events of all queues (server-sent)."),
    GET("/v1/workers", workers_handle, SCOPE_READ, "Workers, what they hold, who is silent."),
    GET("/v1/snapshot", snapshot_handle, SCOPE_READ, "Depth of everything, or of one queue."),
    GET("/v1/exceptions", exceptions_handle, SCOPE_READ, "The last failed attempts."),
    GET("/v1/alerts", alert_list_handle, SCOPE_READ, "Alert rules, and what they have raised."),
    {HTTP_PUT, "/v1/alerts/{name}", alert_put_handle, SCOPE_ADMIN, 0,
     "Create an alert rule, or set the whole of it."},
    {HTTP_PATCH, "/v1/alerts/{name}", alert_patch_handle, SCOPE_ADMIN, 0,
     "Change the named members of an alert rule."},
    GET("/v1/alerts/{name}", alert_get_handle, SCOPE_READ,
        "An alert rule, and what it has raised."),
    {HTTP_DELETE, "/v1/alerts/{name}", alert_delete_handle, SCOPE_ADMIN, 0,
     "Delete an alert rule with its notices."},
    GET("/v1/notices", notice_list_handle, SCOPE_READ,
        "Notices that are not delivered, oldest first."),
    GET("/v1/notices/{id}", notice_get_handle, SCOPE_READ, "A notice that is not delivered."),
    POST("/v1/notices/{id}/redeliver", notice_redeliver_handle, SCOPE_ADMIN,
         "Deliver a notice now, as if it were new."),
    {HTTP_DELETE, "/v1/notices/{id}", notice_delete_handle, SCOPE_ADMIN, 0, "Discard a notice."},
    GET("/v1/breakers", breaker_list_handle, SCOPE_READ, "Circuit breakers of targets."),
    {HTTP_GET, "/v1/backup", backup_handle, SCOPE_ADMIN, ROUTE_NO_STORE,
     "The whole store, of one moment, as one SQLite file."},
    POST("/v1/compact", compact_handle, SCOPE_ADMIN,
         "Give the room of removed jobs back to the file system."),
    GET("/v1/server", server_handle, SCOPE_READ, "Version, backend, capabilities, clock."),
    GET("/v1/test/clock", test_clock_get_handle, SCOPE_ADMIN, "The test clock."),
    POST("/v1/test/clock", test_clock_move_handle, SCOPE_ADMIN, "Move the test clock."),
    POST("/v1/clock/accept", clock_accept_handle, SCOPE_ADMIN,
         "The wall clock is right after its leap: let things expire again."),
    GET("/healthz", health_handle, SCOPE_OPEN, "Alive; asks nothing of the store."),
    GET("/readyz", ready_handle, SCOPE_OPEN, "Whether to send requests here."),
    GET("/metrics", metrics_handle, SCOPE_READ, "Figures for Prometheus."),
};

const struct http_route *native_routes(size_t *ret_count)
{
    *ret_count = sizeof routes / sizeof *routes;
    return routes;
}
