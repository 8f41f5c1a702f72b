/* SPDX-License-Identifier: Apache-2.0 */
/* /api/jobs: the jobs that this API's triggers created. They are in the queue that the trigger
 * names; their attributes, which the engine writes when the trigger fires, mark them as jobs of
 * this API. A list finds them by their common correlation id, newest first. */
#include "api/json_members.h"
#include "api/orchestrator/orchestrator_impl.h"
#include "core/jobs/job_error.h"
#include "core/limits.h"

#define LIST_LIMIT 100

/* ---- a job in the document's words ---- */

struct origin {
    struct span fire_time, items; /* as they stand */
    int64_t number;               /* of the trigger */
    bool ours;
};

static int member(void *ctx, struct json_reader *r, struct span name, struct json_token value)
{
    struct origin *o = ctx;
    struct span whole;
    int64_t number;
    int err = json_skip(r, value, &whole);
    if (err < 0)
        return err;
    if (span_equal(name, SPAN_LITERAL("owner")))
        o->ours = span_equal(whole, SPAN_LITERAL("\"" ORC_NAME "\""));
    else if (span_equal(name, SPAN_LITERAL("fire_time")) && value.kind == JSON_STRING)
        o->fire_time = whole;
    else if (span_equal(name, SPAN_LITERAL("items")) && value.kind == JSON_ARRAY_BEGIN)
        o->items = whole;
    else if (span_equal(name, SPAN_LITERAL("number")) && value.kind == JSON_NUMBER &&
             json_int(&value, &number) == 0)
        o->number = number;
    return 0;
}

/* Reads the origin of the job; false: it is not from a trigger of this API. */
static bool origin_of(const struct job_view *v, struct origin *ret)
{
    struct json_reader r;
    struct arena arena;
    *ret = (struct origin){0};
    if (v->extra.attributes.len == 0)
        return false;
    arena_init(&arena);
    json_open(&r, v->extra.attributes);
    int err = json_object(&r, &arena, member, ret);
    arena_done(&arena);
    return err == 0 && ret->ours && ret->number > 0;
}

/* The engine writes ULIDs, this API UUIDs. */
static void write_items(struct json_writer *w, struct span items)
{
    struct json_reader r;
    struct json_token t;
    struct job_ref id;
    char uuid[ID_UUID_BYTES];
    write_array(w, "queue_item_ids");
    json_open(&r, items);
    while (items.len && json_next(&r, &t) == 0 && t.kind != JSON_END) {
        if (t.kind != JSON_STRING || id_parse(span_of(t.raw.at + 1, t.raw.len - 2), &id) < 0)
            continue;
        id_uuid(id_make(id.hi, id.seq), uuid);
        json_write_text(w, span_text(uuid));
    }
    json_write_array_end(w);
}

static void job_write(struct json_writer *w, const struct job_view *v, const struct origin *o)
{
    json_write_object(w);
    write_uint(w, "id", v->job.seq);
    write_text(w, "source", "TRIGGER");
    write_int(w, "trigger_id", o->number);
    json_write_key(w, "fire_time");
    if (o->fire_time.len)
        json_write_raw(w, o->fire_time);
    else
        json_write_null(w);
    write_span(w, "target_queue", v->queue);
    write_text(w, "status", orc_status_names[orc_status_of(&v->job)]);
    write_int(w, "priority", v->job.priority);
    write_items(w, o->items);
    write_bytes(w, "result", v->result_kind, v->result);
    bool done = v->job.state == STATE_DONE; /* not the error of an earlier attempt */
    orc_write_text(w, "error_message",
                   done ? (struct span){NULL, 0} : job_error_split(v->error).text);
    write_uint(w, "retries", orc_retries(&v->job));
    write_time(w, "locked_at", v->job.state == STATE_RUNNING ? v->job.since : v->started_at);
    if (v->job.state == STATE_SCHEDULED)
        write_time(w, "not_before", v->job.run_at);
    write_time(w, "created_at", id_time(v->job.id_hi));
    write_time(w, "updated_at", v->job.since);
    json_write_object_end(w);
}

/* ---- one ---- */

static void no_job(struct http_exchange *x)
{
    struct problem p = {
        .code = PROBLEM_NOT_FOUND,
        .detail =
            "no trigger created a job with this id, or the job was removed after its retention"};
    problem_answer(x, &p);
}

static void got(struct call *c, const struct reply *r)
{
    struct origin o;
    struct json_writer w;
    if (r->job_count != 1 || !origin_of(&r->jobs[0], &o)) {
        no_job(c->x);
        return;
    }
    answer_begin(c->x, &w);
    job_write(&w, &r->jobs[0], &o);
    answer_end(c->x, &w, 200);
}

void orc_job_get(void *ctx, struct http_exchange *x)
{
    struct problem p = {.code = PROBLEM_INVALID_ID,
                        .field = "id",
                        .detail = "the id of a job is a whole number, 1 or more"};
    struct job_ref job;
    if (!query_none(orc_broker(ctx), x))
        return;
    int err = id_parse(http_request(x)->params[0], &job);
    if (err == -ERR_RANGE)
        no_job(x);
    else if (err < 0)
        problem_answer(x, &p);
    struct call *c = err == 0 ? orc_call(ctx, x, OP_GET, got) : NULL;
    if (!c)
        return;
    http_alone(x);
    c->op.job = (struct op_job){.job = job, .want_body = true};
    call_submit(c);
}

/* ---- list ---- */

struct list {
    int64_t trigger_id, limit, offset;
    struct span status;
    struct json_writer w;
};

#define AT(name) offsetof(struct list, name)
static const struct field rows[] = {
    {"trigger_id", FIELD_INT, AT(trigger_id), 1, UINT32_MAX, NULL, 0},
    {"status", FIELD_TEXT, AT(status), 0, LIMIT_LABEL_BYTES, NULL, 0},
    {"limit", FIELD_INT, AT(limit), 1, LIMIT_BATCH, NULL, 0},
    {"offset", FIELD_INT, AT(offset), 0, INT64_MAX, NULL, 0},
};

static void list_add(struct list *l, const struct job_view *v)
{
    struct origin o;
    bool meant = origin_of(v, &o) && (!l->trigger_id || o.number == l->trigger_id);
    if (!meant || l->limit == 0)
        return;
    if (l->offset > 0) {
        l->offset--;
        return;
    }
    l->limit--;
    job_write(&l->w, v, &o);
}

static void listed(struct call *c, const struct reply *r)
{
    struct list *l = c->more;
    for (uint32_t i = 0; i < r->job_count; i++)
        list_add(l, &r->jobs[i]);
    if (l->limit > 0 && r->cursor != 0) {
        c->op.list.after = r->cursor;
        call_submit(c);
        return;
    }
    json_write_array_end(&l->w);
    answer_end(c->x, &l->w, 200);
}

static int take_status(const struct field_reader *r, const struct list *l, unsigned *ret)
{
    enum orc_status s = orc_status_parse(l->status);
    *ret = 0;
    if (!fields_has(r, "status"))
        return 0;
    if (s != ORC_CUSTOM) {
        *ret = orc_states_of(s);
        return 0;
    }
    problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "status",
                "status must be one of the values in `allowed`");
    r->problem->allowed = orc_status_names;
    r->problem->allowed_count = ORC_CUSTOM;
    return -ERR_INVALID;
}

void orc_job_list(void *ctx, struct http_exchange *x)
{
    struct problem p;
    struct call *c = orc_call(ctx, x, OP_LIST, listed);
    struct list *l = call_more(c, sizeof *l);
    unsigned states;
    if (!l)
        return;
    l->limit = LIST_LIMIT;
    struct field_reader r = reader_of(c->broker, x, FIELDS(rows), l, &p);
    if (fields_read_query(&r, http_request(x)->query) < 0 || take_status(&r, l, &states) < 0) {
        problem_answer(x, &p);
        return;
    }
    http_alone(x);
    answer_begin(x, &l->w);
    json_write_array(&l->w);
    c->op.list = (struct op_list){.filter = {.states = states, .correlation = ORC_CORRELATION},
                                  .limit = LIMIT_BATCH,
                                  .newest_first = true,
                                  .want_body = true};
    call_submit(c);
}
