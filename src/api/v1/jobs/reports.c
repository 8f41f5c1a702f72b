/* SPDX-License-Identifier: Apache-2.0 */
/* What workers reported about an imported job: its members progress and log. */
#include "api/v1/jobs/reports.h"

#include "base/buf.h"
#include "core/limits.h"

struct past_progress {
    struct span percent, message, data;
    struct wall_time at;
};

#define AT(member) offsetof(struct past_progress, member)
static const struct field progress_rows[] = {
    {"percent", FIELD_RAW, AT(percent), 0, 0, NULL, 0},
    {"message", FIELD_TEXT, AT(message), 0, LIMIT_PROGRESS_MESSAGE_BYTES, NULL, FIELD_OPTIONAL},
    {"data", FIELD_RAW, AT(data), 0, 0, NULL, 0},
    {"at", FIELD_TIME, AT(at), 0, 0, NULL, FIELD_REQUIRED},
};

struct past_line {
    struct span text;
    struct wall_time at;
    int64_t attempt;
};

static const struct field line_rows[] = {
    {"at", FIELD_TIME, offsetof(struct past_line, at), 0, 0, NULL, FIELD_REQUIRED},
    {"attempt", FIELD_INT, offsetof(struct past_line, attempt), 0, UINT32_MAX, NULL, 0},
    {"text", FIELD_TEXT, offsetof(struct past_line, text), 0, LIMIT_LOG_LINE_BYTES, NULL,
     FIELD_REQUIRED},
};

/* For the members of one job. */
struct past_reader {
    struct broker *broker;
    struct http_exchange *x;
    struct problem *problem;
    struct arena *arena;
};

static int no_memory(const struct past_reader *r)
{
    problem_of_error(r->problem, -ERR_NOMEM);
    return -ERR_INVALID;
}

static int object_read(const struct past_reader *r, const char *name, struct fields table,
                       struct span text, void *into)
{
    struct field_reader fields = reader_of(r->broker, r->x, table, into, r->problem);
    fields.name = name;
    return fields_read(&fields, text);
}

static int progress_take(const struct past_reader *r, struct span text, struct span *ret)
{
    struct past_progress in = {.at = {0}};
    int err = object_read(r, "progress", FIELDS(progress_rows), text, &in);
    struct progress p = {.at = in.at, .message = in.message};
    if (err == 0)
        err = progress_values_read(r->arena, in.percent, in.data, &p, r->problem);
    if (err < 0)
        return err;
    uint8_t *stored = arena_alloc(r->arena, progress_bytes_max(&p));
    *ret = span_of(stored, stored ? progress_encode(&p, stored) : 0);
    return stored ? 0 : no_memory(r);
}

static int line_append(const struct past_reader *r, struct span text, struct buf *log)
{
    struct past_line in = {.attempt = 0};
    int err = object_read(r, "log", FIELDS(line_rows), text, &in);
    struct joblog_line line = {.at = in.at, .attempt = (uint32_t)in.attempt, .text = in.text};
    if (err < 0)
        return err;
    return joblog_append(log, &line) == 0 ? 0 : no_memory(r);
}

static int log_take(const struct past_reader *r, const struct texts_in *lines, struct span *ret)
{
    struct buf log;
    int err = 0;
    buf_init(&log);
    for (size_t i = 0; i < lines->count && err == 0; i++)
        err = line_append(r, lines->list[i], &log);
    struct span tail = joblog_tail(buf_span(&log));
    const char *copy = err == 0 ? arena_copy(r->arena, tail.at, tail.len) : NULL;
    *ret = span_of(copy, copy ? tail.len : 0);
    if (err == 0 && !copy)
        err = no_memory(r);
    buf_done(&log);
    return err;
}

int reports_read(struct broker *b, struct http_exchange *x, struct span progress,
                 const struct texts_in *log, struct job_past *past, struct problem *p)
{
    struct past_reader r = {b, x, p, http_request(x)->arena};
    int err = 0;
    if (progress.len > 0 && !span_equal(progress, SPAN_LITERAL("null")))
        err = progress_take(&r, progress, &past->progress);
    if (err == 0 && log->count > 0)
        err = log_take(&r, log, &past->log);
    return err;
}
