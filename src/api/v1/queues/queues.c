/* SPDX-License-Identifier: Apache-2.0 */
/* Queues: define, read, list, pause, resume, purge, delete.
 *
 * The backend replaces a policy as a whole. PATCH therefore reads the queue first and then puts
 * it with the changed members. The API works on one definition (PUT or PATCH) at a time, so that
 * no other change is lost between the two. If several nodes share a store, a change through
 * another node can still be lost. */
#include "api/json_members.h"
#include "api/v1/name_page.h"
#include "api/v1/queues/policy_fields.h"
#include "api/v1/queues/queue_view.h"
#include "api/v1/v1_impl.h"
#include "core/limits.h"
#include "core/validate.h"

/* A call for the queue of the path; NULL after a problem was answered. */
static struct call *queue_call(struct native *n, struct http_exchange *x, enum op_kind kind,
                               call_fn done)
{
    struct span name;
    struct call *c = query_none(n->broker, x) && path_queue(x, &name)
                         ? call_new(n->broker, n, x, kind, done)
                         : NULL;
    if (c)
        c->op.queue.name = name;
    return c;
}

static void answer_queue(struct call *c, const struct reply *r, unsigned status)
{
    struct json_writer w;
    struct problem p = {.code = PROBLEM_NO_QUEUE};
    if (r->queue_count == 0) {
        problem_answer(c->x, &p);
        return;
    }
    answer_object_begin(c->x, &w);
    queue_view_members(&w, &r->queues[0], broker_now(c->broker).wall);
    call_write_partial(c, &w);
    answer_object_end(c->x, &w, status);
}

static void queue_got(struct call *c, const struct reply *r)
{
    answer_queue(c, r, 200);
}

static void queue_got_new(struct call *c, const struct reply *r)
{
    answer_queue(c, r, 201);
}

/* Answers a change with the current queue. */
static void queue_show(struct call *c, const struct reply *r)
{
    struct span name = c->op.queue.name;
    c->done = r->kind == OP_QUEUE_PUT && r->created ? queue_got_new : queue_got;
    c->op = (struct op){.kind = OP_QUEUE_GET, .queue = {.name = name}};
    call_submit(c);
}

void queue_get_handle(void *ctx, struct http_exchange *x)
{
    call_submit(queue_call(ctx, x, OP_QUEUE_GET, queue_got));
}

/* ---- define ---- */

/* The attributes that an API has set, for an import: an object, or null. */
static int take_attributes(const struct field_reader *r, struct span text, struct op_queue *op)
{
    bool none = span_equal(text, SPAN_LITERAL("null"));
    op->has_attributes = fields_has(r, "attributes");
    op->attributes = none ? (struct span){NULL, 0} : text;
    if (!op->has_attributes || none || (text.at[0] == '{' && text.len <= LIMIT_NOTE_BYTES))
        return 0;
    problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "attributes",
                "attributes must be an object of at most %d bytes, or null", LIMIT_NOTE_BYTES);
    return -ERR_INVALID;
}

/* Changes `base` by the body and fills in the operation. false: the problem was answered. */
static bool take_policy(struct call *c, const struct queue_policy *base)
{
    struct problem p;
    struct policy_in *in = arena_array(c->arena, 1, sizeof *in);
    struct fields rows = policy_rows(c->arena);
    if (!in || !rows.rows) {
        answer_error(c->x, -ERR_NOMEM);
        return false;
    }
    in->policy = *base;
    struct field_reader r = reader_of(c->broker, c->x, rows, in, &p);
    if (fields_read_optional(&r, http_request(c->x)->body) < 0 || policy_in_take(in, &r) < 0 ||
        take_attributes(&r, in->attributes, &c->op.queue) < 0) {
        problem_answer(c->x, &p);
        return false;
    }
    c->op.queue.policy = &in->policy;
    c->op.queue.has_note = fields_has(&r, "description");
    c->op.queue.note = in->note;
    c->op.queue.has_owner = fields_has(&r, "owner");
    c->op.queue.owner = in->owner;
    return true;
}

/* Turns the queue that was read into the operation that changes it. false: a problem was
 * answered. */
static bool patch_take(struct call *c, const struct reply *r)
{
    struct span name = c->op.queue.name;
    struct problem p = {.code = PROBLEM_NO_QUEUE};
    if (r->queue_count == 0) {
        problem_answer(c->x, &p);
        return false;
    }
    c->op = (struct op){.kind = OP_QUEUE_PUT, .queue = {.name = name, .must_exist = true}};
    return take_policy(c, r->queues[0].policy);
}

static bool definition_step(struct call *c, const struct reply *r)
{
    if (r->outcome != OUT_OK)
        call_refuse(c, r);
    else if (r->kind == OP_QUEUE_PUT)
        queue_show(c, r);
    else
        return patch_take(c, r);
    return false;
}

static void define(struct call *c)
{
    call_line_add(&((struct native *)c->api)->defining, c, definition_step);
}

void queue_put_handle(void *ctx, struct http_exchange *x)
{
    struct call *c = queue_call(ctx, x, OP_QUEUE_PUT, queue_show);
    if (!c)
        return;
    c->op.queue.must_create =
        span_equal(http_request_header(http_request(x), "if-none-match"), SPAN_LITERAL("*"));
    if (!take_policy(c, &((struct native *)c->api)->policy))
        return;
    c->op.queue.has_note = true;
    define(c);
}

void queue_patch_handle(void *ctx, struct http_exchange *x)
{
    struct call *c = queue_call(ctx, x, OP_QUEUE_GET, queue_show);
    if (c)
        define(c);
}

/* ---- list ---- */

/* A full page has a cursor; the next page may be empty. */
static void queues_listed(struct call *c, const struct reply *r)
{
    struct json_writer w;
    struct wall_time now = broker_now(c->broker).wall;
    answer_object_begin(c->x, &w);
    write_array(&w, "queues");
    for (uint32_t i = 0; i < r->queue_count; i++)
        queue_view_write(&w, &r->queues[i], now);
    json_write_array_end(&w);
    bool full = r->queue_count == c->op.queue.limit;
    write_next_cursor(&w, full ? r->queues[r->queue_count - 1].name : (struct span){NULL, 0});
    call_write_partial(c, &w);
    answer_object_end(c->x, &w, 200);
}

void queue_list_handle(void *ctx, struct http_exchange *x)
{
    struct call *c = name_page_call(ctx, x, OP_QUEUE_LIST, queues_listed);
    if (!c)
        return;
    const struct name_page *page = c->more;
    c->op.queue.after = page->cursor;
    c->op.queue.limit = (uint32_t)page->limit;
    call_submit(c);
}

/* ---- delete, purge ---- */

static void queue_deleted(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_object_begin(c->x, &w);
    write_span(&w, "name", c->op.queue.name);
    write_bool(&w, "deleted", true);
    write_uint(&w, "jobs", r->changed);
    answer_object_end(c->x, &w, 200);
}

void queue_delete_handle(void *ctx, struct http_exchange *x)
{
    call_submit(body_none(broker_of(ctx), x) ? queue_call(ctx, x, OP_QUEUE_DELETE, queue_deleted)
                                             : NULL);
}

static void queue_purged(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_object_begin(c->x, &w);
    write_span(&w, "queue", c->op.queue.name);
    write_uint(&w, "purged", r->changed);
    answer_object_end(c->x, &w, 200);
}

void queue_purge_handle(void *ctx, struct http_exchange *x)
{
    call_submit(body_none(broker_of(ctx), x) ? queue_call(ctx, x, OP_PURGE, queue_purged) : NULL);
}

/* ---- pause ---- */

struct pause_in {
    struct wall_time until;
    int64_t for_ms;
};

static const struct field pause_rows[] = {
    {"until", FIELD_TIME, offsetof(struct pause_in, until), 0, 0, NULL, 0},
    {"for_ms", FIELD_INT, offsetof(struct pause_in, for_ms), 1, LIMIT_WALL_MS, NULL, 0},
};

static struct wall_time pause_until(const struct native *n, const struct field_reader *r,
                                    const struct pause_in *in)
{
    struct wall_time now = broker_now(n->broker).wall;
    if (fields_has(r, "until"))
        return in->until;
    if (fields_has(r, "for_ms") && in->for_ms < LIMIT_WALL_MS - now.ms)
        return (struct wall_time){now.ms + in->for_ms};
    return (struct wall_time){LIMIT_WALL_MS};
}

void queue_pause_handle(void *ctx, struct http_exchange *x)
{
    struct pause_in in = {0};
    struct problem p;
    struct field_reader r = reader_of(broker_of(ctx), x, FIELDS(pause_rows), &in, &p);
    struct call *c = queue_call(ctx, x, OP_PAUSE, queue_show);
    if (!c)
        return;
    if (fields_read_optional(&r, http_request(x)->body) < 0 ||
        fields_exclude(&r, "until", "for_ms") < 0) {
        problem_answer(x, &p);
        return;
    }
    c->op.queue.until = pause_until(ctx, &r, &in);
    call_submit(c);
}

void queue_resume_handle(void *ctx, struct http_exchange *x)
{
    call_submit(body_none(broker_of(ctx), x) ? queue_call(ctx, x, OP_PAUSE, queue_show) : NULL);
}
