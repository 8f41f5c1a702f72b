/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/workers and GET /v1/exceptions. */
#include <inttypes.h>
#include <stdio.h>

#include "api/cursor.h"
#include "api/json_members.h"
#include "api/v1/jobs/job_view.h"
#include "api/v1/name_page.h"
#include "api/v1/v1_impl.h"
#include "core/jobs/job_error.h"
#include "core/limits.h"

#define EXCEPTIONS_MAX 1000

static const char *const worker_states[] = {
    [WORKER_ACTIVE] = "active", [WORKER_SILENT] = "silent", [WORKER_STOPPED] = "stopped", NULL};

static void write_worker(struct json_writer *w, const struct broker_worker *worker)
{
    char id[ID_ULID_BYTES];
    json_write_object(w);
    write_span(w, "name", worker->name);
    write_text(w, "state", worker_states[worker->state]);
    write_span_if(w, "host", worker->host);
    if (worker->pid)
        write_uint(w, "pid", worker->pid);
    write_span_if(w, "version", worker->version);
    write_time(w, "last_seen", worker->last_seen);
    write_uint(w, "running", worker->running);
    write_array(w, "jobs");
    for (uint32_t i = 0; i < worker->held_count; i++) {
        id_ulid(id_make(worker->held[i].hi, worker->held[i].seq), id);
        json_write_text(w, span_text(id));
    }
    json_write_array_end(w);
    write_uint(w, "claimed", worker->claimed);
    write_uint(w, "done", worker->told ? worker->told_done : worker->done);
    write_uint(w, "failed", worker->told ? worker->told_failed : worker->failed);
    write_uint(w, "released", worker->released);
    write_bool(w, "silent", worker->state == WORKER_SILENT);
    json_write_object_end(w);
}

struct workers_call {
    struct name_page page;
    struct http_exchange *x;
    const struct broker *broker;
    uint64_t states; /* bits 1 << enum broker_worker_state; 0 = all */
};

static const struct field workers_rows[] = {
    NAME_PAGE_ROWS(struct workers_call, page),
    {"state", FIELD_ENUM_SET, offsetof(struct workers_call, states), WORKER_ACTIVE, 0,
     worker_states, 0},
};

static void workers_listed(void *ctx, const struct broker_worker *workers, size_t count, int error)
{
    struct workers_call *call = ctx;
    struct http_exchange *x = call->x;
    struct json_writer w;
    if (error < 0) {
        answer_error(x, error);
        return;
    }
    bool partial = store_is_missing(call->broker);
    if (partial)
        answer_mark_partial(x);
    answer_object_begin(x, &w);
    write_array(&w, "workers");
    for (size_t i = 0; i < count; i++)
        if ((!call->states || call->states & UINT64_C(1) << workers[i].state) &&
            name_page_takes(&call->page, workers[i].name))
            write_worker(&w, &workers[i]);
    json_write_array_end(&w);
    name_page_end(&call->page, &w);
    if (partial)
        write_bool(&w, "partial", true);
    answer_object_end(x, &w, 200);
}

void workers_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct workers_call first = {.page = {.limit = NAME_PAGE_LIMIT}, .x = x, .broker = n->broker};
    struct workers_call *call = arena_copy(http_request(x)->arena, &first, sizeof first);
    struct problem p;
    if (!call) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    struct field_reader r = reader_of(n->broker, x, FIELDS(workers_rows), call, &p);
    if (!query_read(&r, x))
        return;
    int err = broker_workers(n->broker, workers_listed, call);
    if (err < 0)
        answer_error(x, err);
}

/* ---- exceptions ---- */

/* A cursor is the last attempt of the previous page: the sequence of its job and the number of
 * the attempt, separated by a dash. */
#define CURSOR_BYTES 48

struct exceptions_in {
    struct span queue, cursor;
    int64_t limit;
};

static const struct field exception_rows[] = {
    {"queue", FIELD_TEXT, offsetof(struct exceptions_in, queue), FILTER_MIN, LIMIT_QUEUE_NAME_BYTES,
     NULL, 0},
    {"limit", FIELD_INT, offsetof(struct exceptions_in, limit), 1, EXCEPTIONS_MAX, NULL, 0},
    {"cursor", FIELD_TEXT, offsetof(struct exceptions_in, cursor), 0, CURSOR_BYTES - 1, NULL, 0},
};

/* The error type that the worker reported, or else the kind of failure. */
static struct span exception_type(const struct attempt_view *a, struct span given)
{
    if (given.len > 0)
        return given;
    return span_text(a->outcome == ATTEMPT_LEASE_EXPIRED ? "crash"
                                                         : error_kind_name(a->error_kind));
}

static void write_exception(struct json_writer *w, const struct attempt_view *a)
{
    struct job_error e = job_error_split(a->error);
    json_write_object(w);
    write_id(w, "job_id", a->id_hi, a->seq);
    write_span(w, "queue", a->queue);
    write_span(w, "error", e.text);
    write_span(w, "type", exception_type(a, e.type));
    write_span(w, "worker", a->worker);
    write_time(w, "at", a->ended_at);
    write_uint(w, "attempt", a->number);
    json_write_object_end(w);
}

static struct span exception_cursor(const struct attempt_view *a, char text[CURSOR_BYTES])
{
    snprintf(text, CURSOR_BYTES, "%" PRIu64 "-%" PRIu32, a->seq, a->number);
    return span_text(text);
}

static bool cursor_valid(struct span cursor)
{
    size_t dashes = 0;
    for (size_t i = 0; i < cursor.len; i++) {
        bool inside = i > 0 && i + 1 < cursor.len;
        if (cursor.at[i] == '-' ? !inside : cursor.at[i] < '0' || cursor.at[i] > '9')
            return false;
        dashes += cursor.at[i] == '-';
    }
    return dashes == 1;
}

/* The position after the attempt that the cursor names. If this attempt is no longer listed, all
 * listed attempts are newer, so the page is empty. */
static uint32_t exceptions_begin(const struct reply *r, struct span cursor)
{
    char text[CURSOR_BYTES];
    uint32_t i = 0;
    if (cursor.len == 0)
        return 0;
    while (i < r->attempt_count && !span_equal(exception_cursor(&r->attempts[i], text), cursor))
        i++;
    return i < r->attempt_count ? i + 1 : i;
}

static void exceptions_found(struct call *c, const struct reply *r)
{
    const struct exceptions_in *in = c->more;
    char cursor[CURSOR_BYTES];
    struct json_writer w;
    uint32_t first = exceptions_begin(r, in->cursor), i = first;
    answer_object_begin(c->x, &w);
    write_array(&w, "exceptions");
    for (; i < r->attempt_count && i - first < in->limit; i++)
        write_exception(&w, &r->attempts[i]);
    json_write_array_end(&w);
    bool more = i > first && i < r->attempt_count;
    write_next_cursor(&w, more ? exception_cursor(&r->attempts[i - 1], cursor)
                               : (struct span){NULL, 0});
    call_write_partial(c, &w);
    answer_object_end(c->x, &w, 200);
}

/* One attempt more than the page shows whether another page follows; a page after a cursor may
 * begin anywhere. */
static uint32_t exceptions_wanted(const struct exceptions_in *in)
{
    bool some = in->cursor.len == 0 && in->limit < EXCEPTIONS_MAX;
    return some ? (uint32_t)in->limit + 1 : EXCEPTIONS_MAX;
}

void exceptions_handle(void *ctx, struct http_exchange *x)
{
    struct exceptions_in in = {.limit = EXCEPTIONS_MAX};
    struct problem p;
    struct field_reader r = reader_of(broker_of(ctx), x, FIELDS(exception_rows), &in, &p);
    int err = fields_read_query(&r, http_request(x)->query);
    if (err == 0 && in.cursor.len > 0 && !cursor_valid(in.cursor))
        err = cursor_refuse(&r);
    if (err < 0) {
        problem_answer(x, &p);
        return;
    }
    struct call *c = call_new(broker_of(ctx), ctx, x, OP_EXCEPTIONS, exceptions_found);
    if (!c)
        return;
    c->more = arena_copy(c->arena, &in, sizeof in);
    if (!c->more) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    c->op.exceptions = (struct op_exceptions){.queue = in.queue, .limit = exceptions_wanted(&in)};
    call_submit(c);
}
