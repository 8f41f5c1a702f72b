/* SPDX-License-Identifier: Apache-2.0 */
/* The API, and its metrics and log lines, which come from a listener for events of its queues. */
#include "api/tasks/tasks_impl.h"

#include "api/v1/server/metrics.h"
#include "base/check.h"
#include "base/mem.h"

static const struct http_route routes[] = {
    {HTTP_POST, "/api/tasks", task_create_handle, SCOPE_PRODUCE, ROUTE_LARGE, "Create a task."},
    {HTTP_GET, "/api/tasks", task_list_handle, SCOPE_READ, 0,
     "List tasks by status and priority, from any offset."},
    {HTTP_POST, "/api/tasks/claim", task_claim_handle, SCOPE_CONSUME, 0,
     "Claim tasks: high before low, with a minimum share for low."},
    {HTTP_GET, "/api/tasks/{id}", task_get_handle, SCOPE_READ, 0, "Read a task."},
    {HTTP_POST, "/api/tasks/{id}/claim", task_claim_one_handle, SCOPE_CONSUME, 0,
     "Claim this task if it is due and not claimed: for ids from a list of Redis."},
    {HTTP_POST, "/api/tasks/{id}/heartbeat", task_heartbeat_handle, SCOPE_CONSUME, 0,
     "Extend the lease by 300 s."},
    {HTTP_POST, "/api/tasks/{id}/complete", task_complete_handle, SCOPE_CONSUME, ROUTE_LARGE,
     "Complete the task."},
    {HTTP_POST, "/api/tasks/{id}/fail", task_fail_handle, SCOPE_CONSUME, ROUTE_LARGE,
     "Report a failed run: the task is retried, or FAILED if no retry is left."},
};

/* ---- what is counted and logged ---- */

static void log_dead(const struct tasks *t, const struct backend_event *e)
{
    char id[ID_UUID_BYTES];
    if (e->reason != REASON_CRASH_LOOP && e->reason != REASON_LEASE_EXPIRED)
        return;
    id_uuid(id_make(e->id_hi, e->seq), id);
    log_event(t->config.log, LOG_ERROR, "task_failed", LOG_TEXT("task", id),
              LOG_SPAN("queue", e->queue), LOG_TEXT("why", "its worker sent no heartbeat"),
              LOG_INT("attempts", e->attempts));
}

static bool event_cb(void *ctx, const struct broker_event *from)
{
    struct tasks *t = ctx;
    const struct backend_event *e = &from->event;
    if (!task_queue_own(e->queue))
        return true;
    if (e->kind == EVENT_DEAD) {
        log_dead(t, e);
        return true;
    }
    t->queued += e->state == STATE_READY;
    if (e->kind == EVENT_READY) {
        t->scanned++;
        histogram_add(&t->lag_ms,
                      e->at.ms > e->run_at.ms ? (uint64_t)(e->at.ms - e->run_at.ms) : 0);
    }
    return true;
}

static bool gap_cb(void *ctx, uint64_t oldest)
{
    struct tasks *t = ctx;
    (void)oldest;
    t->missed++;
    log_event(t->config.log, LOG_WARN, "task_events_missed");
    return true;
}

void tasks_listen(struct tasks *t)
{
    struct broker_listener_config config = {
        .kinds = UINT64_C(1) << EVENT_READY | UINT64_C(1) << EVENT_RETRIED |
                 UINT64_C(1) << EVENT_CRASHED | UINT64_C(1) << EVENT_RELEASED |
                 UINT64_C(1) << EVENT_DEAD,
        .no_texts = true,
        .event = event_cb,
        .gap = gap_cb,
        .ctx = t,
    };
    if (!t->listener && broker_listen(t->broker, &config, &t->listener) < 0)
        t->listener = NULL; /* the next request tries again */
}

enum { FAMILY_SCANNED, FAMILY_QUEUED, FAMILY_FAILURES, FAMILY_LAG, FAMILY_COUNT };
static const struct metric families[FAMILY_COUNT] = {
    [FAMILY_SCANNED] = {"holdfast_tasks_scanned_total", "counter", NULL,
                        "Scheduled tasks that became due."},
    [FAMILY_QUEUED] = {"holdfast_tasks_queued_total", "counter", NULL,
                       "Tasks dispatched: created due, become due, or returned for another run."},
    [FAMILY_FAILURES] = {"holdfast_tasks_push_failures_total", "counter", NULL,
                         "Failed pushes to Redis; every retry is counted; 0 without dispatch."},
    [FAMILY_LAG] = {"holdfast_tasks_schedule_lag_seconds", "histogram", NULL,
                    "Time from scheduled_at until the task was dispatched."},
};

/* On the embedded store a task is dispatched when it becomes ready: nothing is pushed, so no push
 * can fail. */
static void tasks_metrics(void *ctx, struct metrics *m)
{
    static const struct metric_scale scale = {.from = 0, .to = 16, .step = 2, .unit = 0.001};
    const struct tasks *t = ctx;
    metric_family(m, &families[FAMILY_SCANNED]);
    metric_count(m, &families[FAMILY_SCANNED], NULL, t->scanned);
    metric_family(m, &families[FAMILY_QUEUED]);
    metric_count(m, &families[FAMILY_QUEUED], NULL, t->queued);
    struct backend_figures store;
    broker_backend_figures(t->broker, &store);
    metric_family(m, &families[FAMILY_FAILURES]);
    metric_count(m, &families[FAMILY_FAILURES], NULL, store.dispatch_failed);
    metric_family(m, &families[FAMILY_LAG]);
    metric_histogram(m, &families[FAMILY_LAG], NULL, &t->lag_ms, &scale);
}

/* ---- the API ---- */

static const struct op queue_ops[RANK_COUNT] = {
    {.kind = OP_QUEUE_GET, .queue = {.name = {"tasks.high", 10}}},
    {.kind = OP_QUEUE_GET, .queue = {.name = {"tasks.low", 9}}},
};

static void timer_closed(uv_handle_t *timer)
{
    struct tasks *t = timer->data;
    void (*closed)(void *ctx) = t->closed;
    void *ctx = t->closed_ctx;
    mem_free(t);
    closed(ctx);
}

static void tasks_end(struct tasks *t)
{
    broker_listener_close(t->listener);
    uv_close((uv_handle_t *)&t->timer, timer_closed);
}

static void queues_read(void *ctx, const struct reply *r)
{
    struct tasks *t = ctx;
    t->reading--;
    if (t->closed && t->reading == 0)
        tasks_end(t);
    else if (r->outcome == OUT_OK && !t->closed)
        tasks_listen(t);
}

static int tasks_open(const struct api_config *config, void **ret)
{
    struct tasks *t = mem_zalloc(sizeof *t);
    if (!t)
        return -ERR_NOMEM;
    t->config = *config;
    t->broker = config->broker;
    t->reading = RANK_COUNT;
    /* Tasks of an earlier run are counted from the start. */
    int err = broker_submit(t->broker, queue_ops, RANK_COUNT, queues_read, t);
    if (err < 0) {
        mem_free(t);
        return err;
    }
    CHECK(uv_timer_init(config->loop, &t->timer) == 0);
    t->timer.data = t;
    *ret = t;
    return 0;
}

static void tasks_close(void *ctx, void (*fn)(void *fn_ctx), void *fn_ctx)
{
    struct tasks *t = ctx;
    t->closed = fn;
    t->closed_ctx = fn_ctx;
    if (t->reading == 0)
        tasks_end(t);
}

const struct api tasks_api = {
    .name = TASKS_NAME,
    .doc = "tasks of high and low priority, with a janitor",
    .routes = routes,
    .route_count = sizeof routes / sizeof *routes,
    .open = tasks_open,
    .close = tasks_close,
    .metrics = tasks_metrics,
    .families = families,
    .family_count = FAMILY_COUNT,
};
