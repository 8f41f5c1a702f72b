/* SPDX-License-Identifier: Apache-2.0 */
/* Counters as JSON: of one queue, and a summary of the server. */
#include "api/json_members.h"
#include "api/v1/queues/queue_view.h"
#include "api/v1/v1_impl.h"
#include "core/limits.h"
#include "core/validate.h"

#define US_PER_MS 1000

/* ---- GET /v1/queues/{queue}/stats ---- */

static void write_quantile(struct json_writer *w, const char *key, const struct histogram *h,
                           double q)
{
    uint64_t us = h->count > 0 ? histogram_quantile(h, q) : 0;
    write_uint(w, key, us / US_PER_MS + (us % US_PER_MS != 0));
}

static void write_spread(struct json_writer *w, const char *key, const struct histogram *h)
{
    write_object(w, key);
    write_quantile(w, "p50", h, 0.50);
    write_quantile(w, "p95", h, 0.95);
    write_quantile(w, "p99", h, 0.99);
    write_uint(w, "count", h->count);
    json_write_object_end(w);
}

static void write_totals(struct json_writer *w, const struct queue_counts *c)
{
    const struct {
        const char *name;
        uint64_t value;
    } totals[] = {
        {"enqueued", c->enqueued}, {"claimed", c->claimed},     {"acked", c->acked},
        {"failed", c->failed},     {"crashed", c->crashed},     {"released", c->released},
        {"died", c->died},         {"cancelled", c->cancelled}, {"removed", c->removed},
    };
    write_object(w, "totals");
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
        write_uint(w, totals[i].name, totals[i].value);
    json_write_object_end(w);
}

static void queue_counted(struct call *c, const struct reply *r)
{
    struct problem p = {.code = PROBLEM_NO_QUEUE};
    struct broker_queue_figures f = {0};
    struct json_writer w;
    if (r->queue_count == 0) {
        problem_answer(c->x, &p);
        return;
    }
    if (!broker_queue_figures_of(c->broker, c->op.queue.name, &f))
        f = (struct broker_queue_figures){0};
    answer_object_begin(c->x, &w);
    write_span(&w, "queue", r->queues[0].name);
    queue_counts_write(&w, &r->queues[0].counts);
    write_totals(&w, &r->queues[0].counts);
    write_object(&w, "since_created");
    counters_write(&w, &r->queues[0].totals);
    json_write_object_end(&w);
    write_spread(&w, "wait_ms", &f.waited_us);
    write_spread(&w, "run_ms", &f.ran_us);
    call_write_partial(c, &w);
    answer_object_end(c->x, &w, 200);
}

static const struct field stats_rows[] = {
    {"group", FIELD_TEXT, 0, FILTER_MIN, LIMIT_KEY_BYTES, NULL, 0},
};

void queue_stats_handle(void *ctx, struct http_exchange *x)
{
    struct span queue, group = {0};
    struct problem p;
    struct field_reader r = reader_of(broker_of(ctx), x, FIELDS(stats_rows), &group, &p);
    if (!path_queue(x, &queue))
        return;
    if (!query_read(&r, x))
        return;
    struct call *c = call_new(broker_of(ctx), ctx, x, OP_QUEUE_GET, queue_counted);
    if (!c)
        return;
    c->op.queue.name = queue;
    c->op.queue.group = group;
    call_submit(c);
}

/* ---- GET /v1/snapshot ---- */

static void answer_snapshot(struct native *n, struct http_exchange *x, const uint64_t *by_state)
{
    struct json_writer w;
    bool up, redis = broker_uses_redis(n->broker, &up);
    answer_object_begin(x, &w);
    write_uint(&w, "depth", by_state[STATE_READY] + by_state[STATE_SCHEDULED]);
    write_uint(&w, "ready", by_state[STATE_READY]);
    write_uint(&w, "scheduled", by_state[STATE_SCHEDULED]);
    write_uint(&w, "running", by_state[STATE_RUNNING]);
    write_uint(&w, "blocked", by_state[STATE_BLOCKED]);
    write_bool(&w, "shutdown", broker_draining(n->broker));
    write_bool(&w, "redis_active", redis && up);
    write_text(&w, "backend", broker_backend_kind(n->broker));
    if (store_is_missing(n->broker))
        write_bool(&w, "partial", true);
    answer_object_end(x, &w, 200);
}

static void queue_snapshot(struct call *c, const struct reply *r)
{
    struct problem p = {.code = PROBLEM_NO_QUEUE};
    if (r->queue_count == 0)
        problem_answer(c->x, &p);
    else
        answer_snapshot(c->api, c->x, r->queues[0].counts.by_state);
}

static const struct field snapshot_rows[] = {
    {"queue", FIELD_TEXT, 0, FILTER_MIN, LIMIT_QUEUE_NAME_BYTES, NULL, 0},
};

void snapshot_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct span queue = {0};
    struct problem p;
    struct backend_figures f;
    struct field_reader r = reader_of(n->broker, x, FIELDS(snapshot_rows), &queue, &p);
    if (!query_read(&r, x))
        return;
    if (queue.len == 0) {
        broker_backend_figures(n->broker, &f);
        if (store_is_missing(n->broker))
            answer_mark_partial(x);
        answer_snapshot(n, x, f.by_state);
        return;
    }
    struct call *c = call_new(n->broker, n, x, OP_QUEUE_GET, queue_snapshot);
    if (!c)
        return;
    c->op.queue.name = queue;
    call_submit(c);
}
