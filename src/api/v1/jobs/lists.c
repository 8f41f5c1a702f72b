/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of jobs: GET /v1/jobs and peek. */
#include "api/cursor.h"
#include "api/fields/job_text_fields.h"
#include "api/json_members.h"
#include "api/v1/jobs/job_view.h"
#include "api/v1/v1_impl.h"
#include "core/limits.h"

#define LIST_LIMIT 50
#define PEEK_LIMIT 10
#define PEEK_LIMIT_MAX 100
/* A page ends early when its answer has reached this size: 1,000 jobs may have a MiB each. */
#define PAGE_BYTES_MAX ((size_t)16 << 20)

const char *const native_states[] = {"scheduled", "ready",     "running", "done",
                                     "dead",      "cancelled", "blocked", NULL};
const char *const native_reasons[] = {"failed",
                                      "rejected",
                                      "crash_loop",
                                      "lease_expired",
                                      "expired",
                                      "cancelled",
                                      "replaced",
                                      "released",
                                      "restarted",
                                      "discarded",
                                      "damaged",
                                      "timed_out",
                                      "dependency_failed",
                                      NULL};
static const char *const orders[] = {"oldest", "newest", NULL};

/* ---- GET /v1/jobs ---- */

struct list_in {
    struct job_texts; /* its members are members of this struct */
    struct span queue, cursor;
    uint64_t states, reasons;
    int64_t priority_min, priority_max, limit;
    struct wall_time created_from, created_to;
    uint8_t newest;
    bool payload, reports, dependencies;
};

#define AT(member) offsetof(struct list_in, member)
static const struct field list_rows[] = {
    {"queue", FIELD_TEXT, AT(queue), FILTER_MIN, LIMIT_QUEUE_NAME_BYTES, NULL, 0},
    {"state", FIELD_ENUM_SET, AT(states), STATE_SCHEDULED, 0, native_states, 0},
    JOB_TEXT_FILTERS /* texts of the job */
    {"priority_min", FIELD_INT, AT(priority_min), INT64_MIN, INT64_MAX, NULL, 0},
    {"priority_max", FIELD_INT, AT(priority_max), INT64_MIN, INT64_MAX, NULL, 0},
    {"created_from", FIELD_TIME, AT(created_from), 0, 0, NULL, 0},
    {"created_to", FIELD_TIME, AT(created_to), 0, 0, NULL, 0},
    {"reason", FIELD_ENUM_SET, AT(reasons), REASON_FAILED, 0, native_reasons, 0},
    {"order", FIELD_ENUM, AT(newest), 0, 0, orders, 0},
    {"limit", FIELD_INT, AT(limit), 1, LIMIT_BATCH, NULL, 0},
    {"cursor", FIELD_TEXT, AT(cursor), 0, CURSOR_TEXT_BYTES, NULL, 0},
    {"payload", FIELD_BOOL, AT(payload), 0, 0, NULL, 0},
    {"reports", FIELD_BOOL, AT(reports), 0, 0, NULL, 0},
    {"dependencies", FIELD_BOOL, AT(dependencies), 0, 0, NULL, 0},
};

static int take_list(const struct field_reader *r, const struct list_in *in, struct op_list *op)
{
    *op = (struct op_list){
        .filter = {.states = (unsigned)in->states,
                   .has_priority = fields_has(r, "priority_min") || fields_has(r, "priority_max"),
                   .priority_min = in->priority_min,
                   .priority_max = in->priority_max,
                   .created_from = in->created_from,
                   .created_to = in->created_to,
                   .reasons = (unsigned)in->reasons},
        .queue = in->queue,
        .limit = (uint32_t)in->limit,
        .newest_first = in->newest != 0,
        .want_body = in->payload,
    };
    job_texts_set(&op->filter, in);
    if (!fields_has(r, "cursor") || cursor_parse(in->cursor, op->newest_first, &op->after) == 0)
        return 0;
    return cursor_refuse(r);
}

static void write_cursor(struct json_writer *w, uint64_t seq, bool newest_first)
{
    char text[CURSOR_TEXT_BYTES] = "";
    if (seq != 0)
        cursor_text(seq, newest_first, text);
    write_next_cursor(w, span_text(text));
}

/* Writes "jobs"; returns the cursor of the next page. */
static uint64_t write_page(struct call *c, struct json_writer *w, const struct reply *r)
{
    struct wall_time now = broker_now(c->broker).wall;
    const struct buf *body = http_answer_body(c->x);
    uint64_t cursor = r->cursor;
    json_write_key(w, "jobs");
    json_write_array(w);
    for (uint32_t i = 0; i < r->job_count; i++) {
        job_view_write(w, &r->jobs[i], now, VIEW_PAYLOAD | VIEW_LOG);
        if (body->len > PAGE_BYTES_MAX && i + 1 < r->job_count) {
            cursor = r->jobs[i].job.seq;
            break;
        }
    }
    json_write_array_end(w);
    return cursor;
}

static void jobs_listed(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_begin(c->x, &w);
    json_write_object(&w);
    uint64_t cursor = write_page(c, &w, r);
    write_cursor(&w, cursor, c->op.list.newest_first);
    write_uint(&w, "as_of", r->as_of);
    call_write_partial(c, &w);
    json_write_object_end(&w);
    answer_end(c->x, &w, 200);
}

static void details_listed(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    if (r->outcome == OUT_OK)
        jobs_listed(c, r);
    else
        call_refuse(c, r);
}

static void list_submit(struct call *c, const struct list_in *in)
{
    unsigned what = (in->reports ? LIST_REPORTS : 0) | (in->dependencies ? LIST_DEPENDENCIES : 0);
    int err = 0;
    if (what)
        err = broker_list_details(c->broker, &c->op, what, details_listed, c);
    else
        call_submit(c);
    if (err < 0)
        call_error(c, err);
}

void job_list_handle(void *ctx, struct http_exchange *x)
{
    struct list_in in = {
        .priority_min = INT64_MIN, .priority_max = INT64_MAX, .limit = LIST_LIMIT, .payload = true};
    struct problem p;
    struct field_reader r = reader_of(broker_of(ctx), x, FIELDS(list_rows), &in, &p);
    struct call *c = call_new(broker_of(ctx), ctx, x, OP_LIST, jobs_listed);
    if (!c)
        return;
    http_alone(x);
    if (fields_read_query(&r, http_request(x)->query) < 0 || take_list(&r, &in, &c->op.list) < 0)
        problem_answer(x, &p);
    else
        list_submit(c, &in);
}

/* ---- peek ---- */

struct peek_in {
    uint8_t state;
    int64_t limit;
    bool payload;
};

static const struct field peek_rows[] = {
    {"state", FIELD_ENUM, offsetof(struct peek_in, state), STATE_SCHEDULED, 0, native_states, 0},
    {"limit", FIELD_INT, offsetof(struct peek_in, limit), 1, PEEK_LIMIT_MAX, NULL, 0},
    {"payload", FIELD_BOOL, offsetof(struct peek_in, payload), 0, 0, NULL, 0},
};

static void jobs_peeked(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_begin(c->x, &w);
    json_write_object(&w);
    write_page(c, &w, r);
    call_write_partial(c, &w);
    json_write_object_end(&w);
    answer_end(c->x, &w, 200);
}

void queue_peek_handle(void *ctx, struct http_exchange *x)
{
    struct peek_in in = {.state = STATE_READY, .limit = PEEK_LIMIT, .payload = true};
    struct span queue;
    struct problem p;
    struct field_reader r = reader_of(broker_of(ctx), x, FIELDS(peek_rows), &in, &p);
    if (!path_queue(x, &queue))
        return;
    if (!query_read(&r, x))
        return;
    struct call *c = call_new(broker_of(ctx), ctx, x, OP_PEEK, jobs_peeked);
    if (!c)
        return;
    http_alone(x);
    c->op.peek = (struct op_peek){
        .queue = queue, .state = in.state, .limit = (uint32_t)in.limit, .want_body = in.payload};
    call_submit(c);
}
