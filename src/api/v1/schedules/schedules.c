/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: define, read, list, preview, run, pause, resume, delete.
 *
 * As with queues, PATCH reads the schedule first and then puts it with the changed members; the
 * API works on one definition at a time. */
#include <stdio.h>

#include "api/json_members.h"
#include "api/v1/name_page.h"
#include "api/v1/schedules/schedule_fields.h"
#include "api/v1/v1_impl.h"
#include "core/jobs/job_texts.h"
#include "core/limits.h"
#include "core/validate.h"

#define PREVIEW_COUNT 5
#define PREVIEW_MAX 1000

static bool path_schedule(struct http_exchange *x, struct span *ret)
{
    const struct http_request *r = http_request(x);
    struct problem p;
    *ret = r->params[0];
    if (validate_queue_name(*ret, NULL) == 0)
        return true;
    problem_set(&p, r->arena, PROBLEM_INVALID_FIELD, "name",
                "the name of a schedule must have 1 to %d bytes of UTF-8 without control "
                "characters, and not begin with '-'",
                LIMIT_QUEUE_NAME_BYTES);
    problem_answer(x, &p);
    return false;
}

/* A call for the schedule of the path; NULL after a problem was answered. */
static struct call *schedule_call(struct native *n, struct http_exchange *x, enum op_kind kind,
                                  call_fn done)
{
    struct span name;
    struct call *c = path_schedule(x, &name) ? call_new(n->broker, n, x, kind, done) : NULL;
    if (c)
        c->op.schedule.name = name;
    return c;
}

static void answer_schedule(struct call *c, const struct reply *r, unsigned status)
{
    struct json_writer w;
    if (r->schedule_count == 0) { /* the change succeeded, but there was no memory to show it */
        answer_error(c->x, -ERR_NOMEM);
        return;
    }
    answer_begin(c->x, &w);
    schedule_view_write(&w, &r->schedules[0], broker_now(c->broker).wall);
    answer_end(c->x, &w, status);
}

static void schedule_got(struct call *c, const struct reply *r)
{
    answer_schedule(c, r, r->created ? 201 : 200);
}

void schedule_get_handle(void *ctx, struct http_exchange *x)
{
    call_submit(query_none(broker_of(ctx), x) ? schedule_call(ctx, x, OP_SCHEDULE_GET, schedule_got)
                                              : NULL);
}

/* ---- define ---- */

/* Changes `in` by the body and fills in the operation. false: the problem was answered. */
static bool take_definition(struct call *c, struct schedule_in *in)
{
    struct problem p;
    struct schedule_spec *spec = arena_array(c->arena, 1, sizeof *spec);
    struct field_reader r = reader_of(c->broker, c->x, schedule_fields(), in, &p);
    if (!spec) {
        answer_error(c->x, -ERR_NOMEM);
        return false;
    }
    if (fields_read_optional(&r, http_request(c->x)->body) < 0 ||
        schedule_in_take(in, &r, c->broker, spec) < 0) {
        problem_answer(c->x, &p);
        return false;
    }
    c->op.schedule.spec = spec;
    c->op.schedule.has_note = fields_has(&r, "description");
    c->op.schedule.note = in->note;
    c->op.schedule.has_owner = fields_has(&r, "owner");
    c->op.schedule.owner = in->owner;
    c->op.schedule.has_paused = fields_has(&r, "paused");
    c->op.schedule.paused = in->paused;
    return true;
}

/* Turns the schedule that was read into the operation that changes it. false: a problem was
 * answered. */
static bool patch_take(struct call *c, const struct reply *r)
{
    struct span name = c->op.schedule.name;
    struct schedule_in in;
    struct schedule_spec spec = r->schedules[0].spec;
    if (schedule_spec_keep(c->arena, &spec) < 0 || schedule_in_from(&in, &spec) < 0) {
        answer_error(c->x, -ERR_NOMEM);
        return false;
    }
    c->op = (struct op){.kind = OP_SCHEDULE_PUT, .schedule = {.name = name, .must_exist = true}};
    return take_definition(c, &in);
}

static bool definition_step(struct call *c, const struct reply *r)
{
    if (r->outcome != OUT_OK)
        call_refuse(c, r);
    else if (r->kind == OP_SCHEDULE_PUT)
        schedule_got(c, r);
    else
        return patch_take(c, r);
    return false;
}

static void define(struct call *c)
{
    call_line_add(&((struct native *)c->api)->scheduling, c, definition_step);
}

void schedule_put_handle(void *ctx, struct http_exchange *x)
{
    struct schedule_in in;
    struct call *c =
        query_none(broker_of(ctx), x) ? schedule_call(ctx, x, OP_SCHEDULE_PUT, schedule_got) : NULL;
    if (!c)
        return;
    schedule_in_new(&in);
    if (!take_definition(c, &in))
        return;
    c->op.schedule.must_create =
        span_equal(http_request_header(http_request(x), "if-none-match"), SPAN_LITERAL("*"));
    c->op.schedule.has_note = c->op.schedule.has_paused = true;
    define(c);
}

void schedule_patch_handle(void *ctx, struct http_exchange *x)
{
    struct call *c =
        query_none(broker_of(ctx), x) ? schedule_call(ctx, x, OP_SCHEDULE_GET, schedule_got) : NULL;
    if (c)
        define(c);
}

/* ---- list ---- */

static void schedules_listed(struct call *c, const struct reply *r)
{
    struct json_writer w;
    struct wall_time now = broker_now(c->broker).wall;
    answer_object_begin(c->x, &w);
    write_array(&w, "schedules");
    for (uint32_t i = 0; i < r->schedule_count; i++)
        schedule_view_write(&w, &r->schedules[i], now);
    json_write_array_end(&w);
    bool more = r->more && r->schedule_count > 0;
    write_next_cursor(&w, more ? r->schedules[r->schedule_count - 1].name : (struct span){NULL, 0});
    answer_object_end(c->x, &w, 200);
}

void schedule_list_handle(void *ctx, struct http_exchange *x)
{
    struct call *c = name_page_call(ctx, x, OP_SCHEDULE_LIST, schedules_listed);
    if (!c)
        return;
    const struct name_page *page = c->more;
    c->op.schedule.after = page->cursor;
    c->op.schedule.limit = (uint32_t)page->limit;
    call_submit(c);
}

/* ---- delete, pause, resume ---- */

static void schedule_deleted(struct call *c, const struct reply *r)
{
    (void)r;
    struct json_writer w;
    answer_object_begin(c->x, &w);
    write_span(&w, "name", c->op.schedule.name);
    write_bool(&w, "deleted", true);
    answer_object_end(c->x, &w, 200);
}

/* A call that takes neither query nor body. */
static struct call *plain_call(void *ctx, struct http_exchange *x, enum op_kind kind, call_fn done)
{
    struct broker *b = broker_of(ctx);
    return query_none(b, x) && body_none(b, x) ? schedule_call(ctx, x, kind, done) : NULL;
}

void schedule_delete_handle(void *ctx, struct http_exchange *x)
{
    call_submit(plain_call(ctx, x, OP_SCHEDULE_DELETE, schedule_deleted));
}

void schedule_pause_handle(void *ctx, struct http_exchange *x)
{
    struct call *c = plain_call(ctx, x, OP_SCHEDULE_PAUSE, schedule_got);
    if (!c)
        return;
    c->op.schedule.paused = true;
    call_submit(c);
}

void schedule_resume_handle(void *ctx, struct http_exchange *x)
{
    call_submit(plain_call(ctx, x, OP_SCHEDULE_PAUSE, schedule_got));
}

/* ---- run now ---- */

static void schedule_ran(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_object_begin(c->x, &w);
    write_span(&w, "name", c->op.schedule.name);
    write_bool(&w, "fired", r->fired);
    if (r->fired) {
        write_object(&w, "job");
        write_job_name(&w, r->id_hi, r->seq);
        json_write_object_end(&w);
    }
    if (r->kind == OP_TRIGGER)
        write_uint(&w, "items", r->taken);
    answer_object_end(c->x, &w, 200);
}

/* The allowed parameters depend on the kind of the schedule. */
static void schedule_run(struct call *c, const struct reply *r)
{
    struct span name = c->op.schedule.name;
    bool takes_items = r->schedules[0].spec.kind == SCHEDULE_QUEUE;
    c->op = (struct op){.kind = takes_items ? OP_TRIGGER : OP_FIRE,
                        .schedule = {.name = name, .now = true}};
    c->done = schedule_ran;
    call_submit(c);
}

void schedule_run_handle(void *ctx, struct http_exchange *x)
{
    call_submit(plain_call(ctx, x, OP_SCHEDULE_GET, schedule_run));
}

/* ---- preview ---- */

struct preview_in {
    int64_t count;
    struct wall_time after;
};

static const struct field preview_rows[] = {
    {"count", FIELD_INT, offsetof(struct preview_in, count), 1, PREVIEW_MAX, NULL, 0},
    {"after", FIELD_TIME, offsetof(struct preview_in, after), 0, 0, NULL, 0},
};

/* 2026-03-29T03:00:00+02:00 */
static void write_local(struct json_writer *w, const struct broker_firing *f)
{
    char text[WALL_TEXT_BYTES], local[40];
    int32_t minutes = (f->offset_s < 0 ? -f->offset_s : f->offset_s) / 60;
    wall_text((struct wall_time){f->at.ms + (int64_t)f->offset_s * 1000}, text);
    snprintf(local, sizeof local, "%.19s%c%02d:%02d", text, f->offset_s < 0 ? '-' : '+',
             (int)(minutes / 60), (int)(minutes % 60));
    write_text(w, "local", local);
}

static void answer_preview(struct call *c, const struct schedule_spec *spec)
{
    const struct preview_in *in = c->more;
    struct err_note note = {""};
    struct json_writer w;
    struct problem p;
    size_t count = 0;
    struct broker_firing *firings = arena_array(c->arena, (size_t)in->count, sizeof *firings);
    struct wall_time after = in->after.ms ? in->after : broker_now(c->broker).wall;
    if (!firings) {
        answer_error(c->x, -ERR_NOMEM);
        return;
    }
    if (broker_schedule_preview(c->broker, spec, after, firings, (size_t)in->count, &count, &note) <
        0) {
        problem_set(&p, c->arena, PROBLEM_INVALID_FIELD, problem_note_field(c->arena, note.text),
                    "%s", note.text);
        problem_answer(c->x, &p);
        return;
    }
    answer_object_begin(c->x, &w);
    write_array(&w, "firings");
    for (size_t i = 0; i < count; i++) {
        json_write_object(&w);
        write_time(&w, "at", firings[i].at);
        if (spec->kind == SCHEDULE_CRON)
            write_local(&w, &firings[i]);
        if (firings[i].note)
            write_text(&w, "dst", firings[i].note);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    schedule_spec_write(&w, spec);
    answer_object_end(c->x, &w, 200);
}

/* Reads count and after from the query. false: the problem was answered. */
static bool take_preview(struct call *c)
{
    struct problem p;
    struct preview_in *in = call_more(c, sizeof *in);
    if (!in)
        return false;
    in->count = PREVIEW_COUNT;
    struct field_reader r = reader_of(c->broker, c->x, FIELDS(preview_rows), in, &p);
    return query_read(&r, c->x);
}

static void previewed(struct call *c, const struct reply *r)
{
    answer_preview(c, &r->schedules[0].spec);
}

void schedule_preview_handle(void *ctx, struct http_exchange *x)
{
    struct call *c = schedule_call(ctx, x, OP_SCHEDULE_GET, previewed);
    if (c && take_preview(c))
        call_submit(c);
}

void schedule_preview_new_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct schedule_in in;
    struct call *c = call_new(n->broker, n, x, OP_TICK, NULL);
    if (!c || !take_preview(c))
        return;
    schedule_in_new(&in);
    if (take_definition(c, &in))
        answer_preview(c, c->op.schedule.spec);
}
