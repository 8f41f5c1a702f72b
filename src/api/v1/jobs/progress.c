/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of a worker that runs a job: POST /v1/jobs/{id}/progress, POST and GET
 * /v1/jobs/{id}/log. */
#include "api/v1/jobs/reports.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/json_members.h"
#include "api/v1/jobs/job_view.h"
#include "api/v1/v1_impl.h"
#include "core/limits.h"

/* ---- progress ---- */

struct progress_in {
    struct job_token token;
    struct span percent, message, data;
    int64_t lease_ms;
};

#define AT(member) offsetof(struct progress_in, member)
static const struct field progress_rows[] = {
    {"token", FIELD_TOKEN, AT(token), 0, 0, NULL, FIELD_REQUIRED},
    {"percent", FIELD_RAW, AT(percent), 0, 0, NULL, 0},
    {"message", FIELD_TEXT, AT(message), 0, LIMIT_PROGRESS_MESSAGE_BYTES, NULL, FIELD_OPTIONAL},
    {"data", FIELD_RAW, AT(data), 0, 0, NULL, 0},
    {"lease_ms", FIELD_INT, AT(lease_ms), LIMIT_LEASE_MS_MIN, LIMIT_LEASE_MS, NULL, 0},
};

static bool is_null(struct span value)
{
    return value.len == 0 || span_equal(value, SPAN_LITERAL("null"));
}

/* A number from 0 to 100, rounded to two decimal places. */
static bool percent_read(struct span text, struct progress *p)
{
    char copy[32];
    char *end;
    if (is_null(text))
        return true;
    if (text.len >= sizeof copy)
        return false;
    snprintf(copy, sizeof copy, "%.*s", (int)text.len, text.at);
    double v = strtod(copy, &end);
    if (*end || !(v >= 0 && v <= 100))
        return false;
    p->has_percent = true;
    p->percent_100 = (uint16_t)lround(v * 100);
    return true;
}

static void reported(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_begin(c->x, &w);
    json_write_object(&w);
    write_job_name(&w, r->id_hi, r->seq);
    write_text(&w, "state", state_name(r->state));
    if (r->lease.left_ms > 0)
        write_time(&w, "lease_until",
                   (struct wall_time){broker_now(c->broker).wall.ms + r->lease.left_ms});
    cancel_write(&w, &r->lease);
    json_write_object_end(&w);
    answer_end(c->x, &w, 200);
}

int progress_values_read(struct arena *arena, struct span percent, struct span data,
                         struct progress *p, struct problem *problem)
{
    p->data = is_null(data) ? (struct span){NULL, 0} : data;
    if (!percent_read(percent, p)) {
        problem_set(problem, arena, PROBLEM_INVALID_FIELD, "percent",
                    "percent must be a number from 0 to 100");
        return -ERR_INVALID;
    }
    if (data.len > LIMIT_PROGRESS_DATA_BYTES) {
        problem_set(problem, arena, PROBLEM_INVALID_FIELD, "data",
                    "data must have at most %d bytes of JSON, not %zu", LIMIT_PROGRESS_DATA_BYTES,
                    data.len);
        return -ERR_INVALID;
    }
    return 0;
}

static bool progress_take(struct call *c, struct progress_in *in, struct problem *p)
{
    struct progress *progress = arena_array(c->arena, 1, sizeof *progress);
    if (!progress) {
        problem_of_error(p, -ERR_NOMEM);
        return false;
    }
    progress->message = in->message;
    if (progress_values_read(c->arena, in->percent, in->data, progress, p) < 0)
        return false;
    c->op.lease.progress = progress;
    c->op.lease.token = in->token;
    c->op.lease.lease_ms = (uint32_t)in->lease_ms;
    return true;
}

struct call *report_call(void *ctx, struct http_exchange *x, enum op_kind kind, struct fields table,
                         void *into)
{
    struct job_ref job;
    struct problem p;
    if (!query_none(broker_of(ctx), x) || !path_job(x, &job))
        return NULL;
    struct call *c = call_new(broker_of(ctx), ctx, x, kind, reported);
    if (!c)
        return NULL;
    struct field_reader r = reader_of(broker_of(ctx), x, table, into, &p);
    if (!body_read(&r, x))
        return NULL;
    c->op.lease.job = job;
    return c;
}

void progress_handle(void *ctx, struct http_exchange *x)
{
    struct progress_in in = {.lease_ms = 0};
    struct problem p;
    struct call *c = report_call(ctx, x, OP_PROGRESS, FIELDS(progress_rows), &in);
    if (!c)
        return;
    if (progress_take(c, &in, &p))
        call_submit(c);
    else
        problem_answer(x, &p);
}

void progress_write(struct json_writer *w, struct span stored)
{
    struct progress p;
    char percent[16];
    if (!stored.len || progress_decode(stored, &p) != 0)
        return;
    json_write_key(w, "progress");
    json_write_object(w);
    if (p.has_percent) {
        int len = snprintf(percent, sizeof percent, "%.10g", p.percent_100 / 100.0);
        json_write_key(w, "percent");
        json_write_raw(w, span_of(percent, (size_t)len));
    }
    write_span_if(w, "message", p.message);
    if (p.data.len) {
        json_write_key(w, "data");
        json_write_raw(w, p.data);
    }
    write_time(w, "at", p.at);
    json_write_object_end(w);
}

/* ---- the log ---- */

struct log_in {
    struct job_token token;
    struct texts_in lines;
};

static const struct field log_rows[] = {
    {"token", FIELD_TOKEN, offsetof(struct log_in, token), 0, 0, NULL, FIELD_REQUIRED},
    {"lines", FIELD_TEXTS, offsetof(struct log_in, lines), 0, LIMIT_LOG_LINES, NULL,
     FIELD_REQUIRED},
};

void log_handle(void *ctx, struct http_exchange *x)
{
    struct log_in in = {.lines = {NULL, 0}};
    struct call *c = report_call(ctx, x, OP_LOG, FIELDS(log_rows), &in);
    if (!c)
        return;
    c->op.lease.token = in.token;
    c->op.lease.lines = in.lines.list;
    c->op.lease.line_count = (uint32_t)in.lines.count;
    call_submit(c);
}

void joblog_write(struct json_writer *w, const char *name, struct span log)
{
    struct joblog_line line;
    log = joblog_begin(log);
    json_write_key(w, name);
    json_write_array(w);
    while (joblog_next(&log, &line)) {
        json_write_object(w);
        write_time(w, "at", line.at);
        write_uint(w, "attempt", line.attempt);
        write_span(w, "text", line.text);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

static void log_got(struct call *c, const struct reply *r)
{
    struct json_writer w;
    if (!call_has_job(c, r))
        return;
    answer_begin(c->x, &w);
    json_write_object(&w);
    write_job_name(&w, r->jobs[0].job.id_hi, r->jobs[0].job.seq);
    joblog_write(&w, "lines", r->jobs[0].log);
    json_write_object_end(&w);
    answer_end(c->x, &w, 200);
}

void log_get_handle(void *ctx, struct http_exchange *x)
{
    struct job_ref job;
    if (!query_none(broker_of(ctx), x) || !path_job(x, &job))
        return;
    struct call *c = call_new(broker_of(ctx), ctx, x, OP_GET, log_got);
    if (!c)
        return;
    http_alone(x);
    c->op.job =
        (struct op_job){.job = job, .want_texts = true, .want_attempts = true, .want_log = true};
    call_submit(c);
}
