/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/web/queue/enqueue: a path, or several with an outcome each.
 *
 * If the type has no queue yet, every enqueue of the request is refused for this reason. Then
 * the queue is created, and the enqueues are submitted again. */
#include <inttypes.h>
#include <stdio.h>

#include "api/json_members.h"
#include "api/trace.h"
#include "api/webqueue/webqueue_impl.h"
#include "core/limits.h"
#include "core/validate.h"

struct enqueue_in {
    struct span path, type;
    struct texts_in paths;
    int64_t library_id, priority;
};

#define AT(member) offsetof(struct enqueue_in, member)
static const struct field rows[] = {
    {"library_id", FIELD_INT, AT(library_id), 0, INT64_MAX, NULL, FIELD_REQUIRED},
    {"path", FIELD_TEXT, AT(path), 0, WEBQUEUE_PATH_BYTES_MAX, NULL, 0},
    {"paths", FIELD_TEXTS, AT(paths), 0, LIMIT_BATCH, NULL, 0},
    {"queue_type", FIELD_TEXT, AT(type), 0, WEBQUEUE_TYPE_BYTES_MAX, NULL, 0},
    {"priority", FIELD_INT, AT(priority), -INT64_MAX, INT64_MAX, NULL, 0},
};

struct enqueue_item {
    struct span path;
    struct problem problem; /* code NONE = enqueued */
    uint64_t seq;
};

struct enqueue {
    struct webqueue *w;
    struct http_exchange *x;
    struct arena *arena;
    struct web_type *type;
    struct enqueue_item *items;
    struct op *ops; /* operations to submit; tag = item */
    size_t count, op_count, waiting, kept;
    bool many, created; /* created: the queue did not exist and has been created */
    struct op put;
    struct queue_policy policy;
};

/* ---- the answer ---- */

static void write_item(struct json_writer *w, const struct enqueue_item *item)
{
    json_write_object(w);
    write_span(w, "path", item->path);
    if (item->problem.code == PROBLEM_NONE) {
        write_uint(w, "job_id", item->seq);
    } else {
        json_write_key(w, "error");
        problem_write(w, &item->problem);
    }
    json_write_object_end(w);
}

static void answer_many(struct enqueue *e, struct json_writer *w)
{
    uint64_t enqueued = 0;
    write_array(w, "job_ids");
    for (size_t i = 0; i < e->count; i++) {
        if (e->items[i].problem.code != PROBLEM_NONE)
            continue;
        json_write_uint(w, e->items[i].seq);
        enqueued++;
    }
    json_write_array_end(w);
    write_uint(w, "enqueued", enqueued);
    write_uint(w, "refused", e->count - enqueued);
    write_array(w, "jobs");
    for (size_t i = 0; i < e->count; i++)
        write_item(w, &e->items[i]);
    json_write_array_end(w);
}

static void answer(struct enqueue *e)
{
    struct json_writer w;
    if (!e->many && e->items[0].problem.code != PROBLEM_NONE) {
        problem_answer(e->x, &e->items[0].problem);
        return;
    }
    answer_object_begin(e->x, &w);
    if (e->many) {
        answer_many(e, &w);
    } else {
        write_uint(&w, "job_id", e->items[0].seq);
        write_text(&w, "queue_type", e->type->config.name);
        write_text(&w, "status", "pending");
    }
    answer_object_end(e->x, &w, e->many ? 200 : 201);
}

/* During an outage only the shared store could say whether the path is a duplicate. */
static void item_refuse(struct enqueue *e, struct enqueue_item *item, const struct reply *r)
{
    bool draining = broker_draining(e->w->broker);
    web_problem(&item->problem, e->arena, r, draining);
    if (r->outcome == OUT_UNAVAILABLE && !draining && store_is_missing(e->w->broker))
        item->problem.detail = "the shared store does not answer, and only it knows whether this "
                               "path is in the queue already; nothing was enqueued, try again "
                               "later";
}

/* ---- asking ---- */

static void enqueue_reply(void *ctx, const struct reply *r);

static void enqueue_submit(struct enqueue *e)
{
    e->waiting = e->op_count;
    e->kept = 0;
    if (e->op_count == 0) {
        answer(e);
        return;
    }
    int err = broker_submit(e->w->broker, e->ops, e->op_count, enqueue_reply, e);
    if (err < 0)
        answer_error(e->x, err);
}

static void create_reply(void *ctx, const struct reply *r)
{
    struct enqueue *e = ctx;
    struct problem p;
    if (r->outcome == OUT_OK) {
        e->type->defined = true;
        web_alerts_put(e->type->w);
        enqueue_submit(e);
        return;
    }
    web_problem(&p, e->arena, r, broker_draining(e->w->broker));
    problem_answer(e->x, &p);
}

static void queue_create(struct enqueue *e)
{
    e->created = true;
    e->type->defined = false;
    type_policy(e->type, &e->policy);
    e->put = (struct op){.kind = OP_QUEUE_PUT,
                         .queue = {.name = e->type->queue,
                                   .policy = &e->policy,
                                   .has_owner = true,
                                   .owner = SPAN_LITERAL("webqueue")}};
    int err = broker_submit(e->w->broker, &e->put, 1, create_reply, e);
    if (err < 0)
        answer_error(e->x, err);
}

/* Moves the operations that are submitted again to the front. This waits until all are answered:
 * until then the backend may still read them. */
static void missing_collect(struct enqueue *e)
{
    size_t kept = 0;
    for (size_t i = 0; i < e->op_count; i++)
        if (e->items[e->ops[i].tag].problem.code == PROBLEM_NO_QUEUE)
            e->ops[kept++] = e->ops[i];
    e->op_count = kept;
    for (size_t i = 0; i < kept; i++)
        e->items[e->ops[i].tag].problem = (struct problem){0};
}

static void enqueue_reply(void *ctx, const struct reply *r)
{
    struct enqueue *e = ctx;
    struct enqueue_item *item = &e->items[r->tag];
    if (r->outcome == OUT_OK) {
        item->seq = r->seq;
    } else {
        item_refuse(e, item, r);
        e->kept += r->outcome == OUT_NO_QUEUE;
    }
    if (--e->waiting > 0)
        return;
    if (e->kept == 0 || e->created) {
        answer(e);
        return;
    }
    missing_collect(e);
    queue_create(e);
}

/* ---- the request ---- */

/* The payload: the path as a JSON string. */
static struct span payload_of(struct arena *arena, struct span path)
{
    struct buf text;
    struct json_writer w;
    struct span ret = {NULL, 0};
    buf_init(&text);
    json_writer_init(&w, &text);
    json_write_text(&w, path);
    if (json_writer_finish(&w) == 0)
        ret = span_of(arena_copy(arena, text.data, text.len), text.len);
    buf_done(&text);
    return ret;
}

/* 0, or -ERR_INVALID with the item's problem set. */
static int path_check(struct enqueue *e, struct enqueue_item *item)
{
    struct err_note note;
    const char *field = e->many ? "paths" : "path";
    if (item->path.len == 0)
        problem_set(&item->problem, e->arena, PROBLEM_INVALID_FIELD, field,
                    "the path is empty; it must have 1 to %d bytes", WEBQUEUE_PATH_BYTES_MAX);
    else if (validate_text("the path", item->path, WEBQUEUE_PATH_BYTES_MAX, &note) < 0)
        problem_set(&item->problem, e->arena, PROBLEM_INVALID_FIELD, field, "%s", note.text);
    else
        return 0;
    return -ERR_INVALID;
}

static void add_path(struct enqueue *e, const struct enqueue_in *in, size_t i, struct span group)
{
    struct enqueue_item *item = &e->items[i];
    if (path_check(e, item) < 0)
        return;
    struct op_enqueue want = {
        .queue = e->type->queue,
        .no_create = true,
        .payload_kind = PAYLOAD_JSON,
        .has_priority = true,
        .priority = in->priority,
        .payload = payload_of(e->arena, item->path),
        .extra = {.unique = webqueue_path_key(e->arena, item->path), .group = group},
        .unique_mode = UNIQUE_REJECT,
    };
    if (!want.payload.at || !want.extra.unique.at ||
        trace_copy(http_request(e->x), &want.extra.headers) < 0) {
        problem_of_error(&item->problem, -ERR_NOMEM);
        return;
    }
    e->ops[e->op_count++] = (struct op){.kind = OP_ENQUEUE, .tag = i, .enqueue = want};
}

static int one_or_many(const struct field_reader *r)
{
    if (fields_exclude(r, "path", "paths") < 0)
        return -ERR_INVALID;
    if (fields_has(r, "path") || fields_has(r, "paths"))
        return 0;
    problem_set(r->problem, r->arena, PROBLEM_MISSING_FIELD, "path",
                "path is missing: give the path of a file, or several in paths");
    return -ERR_INVALID;
}

static void enqueue_run(struct enqueue *e, const struct enqueue_in *in)
{
    struct span group = library_group(e->arena, in->library_id);
    e->count = e->many ? in->paths.count : 1;
    e->items = arena_array(e->arena, e->count, sizeof *e->items);
    e->ops = arena_array(e->arena, e->count, sizeof *e->ops);
    if (!group.at || !e->items || !e->ops) {
        answer_error(e->x, -ERR_NOMEM);
        return;
    }
    for (size_t i = 0; i < e->count; i++) {
        e->items[i].path = e->many ? in->paths.list[i] : in->path;
        add_path(e, in, i, group);
    }
    enqueue_submit(e);
}

void web_enqueue_handle(void *ctx, struct http_exchange *x)
{
    struct webqueue *w = ctx;
    struct arena *arena = http_request(x)->arena;
    struct enqueue_in in = {0};
    struct problem p;
    struct enqueue *e = arena_array(arena, 1, sizeof *e);
    struct field_reader r = reader_of(w->broker, x, FIELDS(rows), &in, &p);
    if (!query_none(w->broker, x))
        return;
    if (!e) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    *e = (struct enqueue){.w = w, .x = x, .arena = arena};
    if (fields_read(&r, http_request(x)->body) < 0 || one_or_many(&r) < 0 ||
        !(e->type = type_named(w, arena, in.type, &p))) {
        problem_answer(x, &p);
        return;
    }
    type_check(e->type);
    e->many = fields_has(&r, "paths");
    enqueue_run(e, &in);
}
