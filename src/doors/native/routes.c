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
     "Change priority, time or payload of a waiting job."},
    {HTTP_DELETE, "/v1/jobs/{id}", job_delete_handle, SCOPE_ADMIN, 0,
     "Remove a job that is not running."},
    POST("/v1/jobs/{id}/cancel", job_cancel_handle, SCOPE_ADMIN, "Cancel a job."),
    POST("/v1/jobs/{id}/requeue", job_requeue_handle, SCOPE_ADMIN,
         "Let a dead, cancelled or scheduled job run again."),
    GET("/v1/schedules", schedule_list_handle, SCOPE_READ, "List schedules by name."),
    {HTTP_PUT, "/v1/schedules/{name}", schedule_put_handle, SCOPE_ADMIN, 0,
     "Create a schedule, or set it as a whole."},
    {HTTP_PATCH, "/v1/schedules/{name}", schedule_patch_handle, SCOPE_ADMIN, 0,
     "Change the named members of a schedule."},
    GET("/v1/schedules/{name}", schedule_get_handle, SCOPE_READ,
        "A schedule, when it is due, and what it did last."),
    {HTTP_DELETE, "/v1/schedules/{name}", schedule_delete_handle, SCOPE_ADMIN, 0,
     "Delete a schedule; the jobs it made stay."},
    GET("/v1/schedules/{name}/preview", schedule_preview_handle, SCOPE_READ,
        "The next firings of a schedule."),
    POST("/v1/schedules/preview", schedule_preview_new_handle, SCOPE_READ,
         "The next firings that a definition would have."),
    POST("/v1/schedules/{name}/run", schedule_run_handle, SCOPE_ADMIN,
         "Fire now, out of turn; the schedule's own times stay."),
    POST("/v1/schedules/{name}/pause", schedule_pause_handle, SCOPE_ADMIN,
         "Fire nothing until resumed."),
    POST("/v1/schedules/{name}/resume", schedule_resume_handle, SCOPE_ADMIN,
         "Go on with the next time; what was due meanwhile is not made up for."),
    GET("/v1/events", events_handle, SCOPE_READ, "Events of all queues (server-sent)."),
    GET("/v1/workers", workers_handle, SCOPE_READ, "Workers, what they hold, who is silent."),
    GET("/v1/snapshot", snapshot_handle, SCOPE_READ, "Depth of everything, or of one queue."),
    GET("/v1/exceptions", exceptions_handle, SCOPE_READ, "The last failed attempts."),
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

static const char *const scopes[] = {
    [SCOPE_OPEN] = "open",       [SCOPE_READ] = "read",   [SCOPE_PRODUCE] = "produce",
    [SCOPE_CONSUME] = "consume", [SCOPE_ADMIN] = "admin",
};

void native_routes_print(FILE *out)
{
    fputs("| method | path | scope | what it does |\n| --- | --- | --- | --- |\n", out);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        fprintf(out, "| %s | `%s` | %s | %s |\n", http_method_name(routes[i].method),
                routes[i].pattern, scopes[routes[i].scope], routes[i].doc);
}
