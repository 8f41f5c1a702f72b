/* SPDX-License-Identifier: Apache-2.0 */
/* Who works, and what went wrong: GET /v1/workers and GET /v1/exceptions. */
#include "api/v1/jobs/job_view.h"
#include "api/v1/v1_impl.h"
#include "api/words.h"
#include "core/limits.h"

#define EXCEPTIONS_MAX 1000

static void write_worker(struct json_writer *w, const struct broker_worker *worker)
{
    json_write_object(w);
    write_span(w, "name", worker->name);
    write_time(w, "last_seen", worker->last_seen);
    write_uint(w, "running", worker->running);
    write_uint(w, "claimed", worker->claimed);
    write_uint(w, "acked", worker->acked);
    write_uint(w, "failed", worker->failed);
    write_uint(w, "released", worker->released);
    write_bool(w, "silent", worker->silent);
    json_write_object_end(w);
}

static void workers_known(void *ctx, const struct broker_worker *workers, size_t count, int error)
{
    struct http_exchange *x = ctx;
    struct json_writer w;
    if (error < 0) {
        answer_error(x, error);
        return;
    }
    answer_begin(x, &w);
    json_write_object(&w);
    json_write_key(&w, "workers");
    json_write_array(&w);
    for (size_t i = 0; i < count; i++)
        write_worker(&w, &workers[i]);
    json_write_array_end(&w);
    json_write_object_end(&w);
    answer_end(x, &w, 200);
}

void workers_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    if (!query_none(n->broker, x))
        return;
    int err = broker_workers(n->broker, workers_known, x);
    if (err < 0)
        answer_error(x, err);
}

/* ---- exceptions ---- */

struct exceptions_in {
    struct span queue;
    int64_t limit;
};

static const struct field exception_rows[] = {
    {"queue", FIELD_TEXT, offsetof(struct exceptions_in, queue), FILTER_MIN, LIMIT_QUEUE_NAME_BYTES,
     NULL, 0},
    {"limit", FIELD_INT, offsetof(struct exceptions_in, limit), 1, EXCEPTIONS_MAX, NULL, 0},
};

static const char *exception_type(const struct attempt_view *a)
{
    return a->outcome == ATTEMPT_CRASHED ? "crash" : error_kind_name(a->error_kind);
}

static void write_exception(struct json_writer *w, const struct attempt_view *a)
{
    json_write_object(w);
    write_id(w, "job_id", a->id_hi, a->seq);
    write_span(w, "queue", a->queue);
    write_span(w, "error", a->error);
    write_text(w, "type", exception_type(a));
    write_span(w, "worker", a->worker);
    write_time(w, "at", a->ended_at);
    write_uint(w, "attempt", a->number);
    json_write_object_end(w);
}

static void exceptions_found(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_begin(c->x, &w);
    json_write_object(&w);
    json_write_key(&w, "exceptions");
    json_write_array(&w);
    for (uint32_t i = 0; i < r->attempt_count; i++)
        write_exception(&w, &r->attempts[i]);
    json_write_array_end(&w);
    json_write_object_end(&w);
    answer_end(c->x, &w, 200);
}

void exceptions_handle(void *ctx, struct http_exchange *x)
{
    struct exceptions_in in = {.limit = EXCEPTIONS_MAX};
    struct problem p;
    struct field_reader r = reader_of(broker_of(ctx), x, FIELDS(exception_rows), &in, &p);
    if (fields_read_query(&r, http_request(x)->query) < 0) {
        problem_answer(x, &p);
        return;
    }
    struct call *c = call_new(broker_of(ctx), ctx, x, OP_EXCEPTIONS, exceptions_found);
    if (!c)
        return;
    c->op.exceptions = (struct op_exceptions){.queue = in.queue, .limit = (uint32_t)in.limit};
    call_submit(c);
}
