/* SPDX-License-Identifier: Apache-2.0 */
/* Counts: queue-depth, of a library, and the list of types. The store maintains the counts;
 * nothing is searched. */
#include "api/json_members.h"
#include "api/webqueue/webqueue_impl.h"

/* One operation per type; the answer is written after the last reply. */
struct survey {
    struct webqueue *w;
    struct http_exchange *x;
    struct web_reach reach;
    struct op *ops; /* tag = type */
    struct web_counts *counts;
    size_t waiting;
    bool partial;           /* the part of the shared store is missing */
    struct problem problem; /* code NONE = success */
    void (*answer)(struct survey *t, struct json_writer *w);
};

static void survey_reply(void *ctx, const struct reply *r)
{
    struct survey *t = ctx;
    struct json_writer w;
    t->partial = t->partial || r->left_out;
    if (r->outcome == OUT_OK && r->queue_count == 1)
        counts_add(&t->counts[r->tag], r->queues[0].counts.by_state);
    else if (r->outcome != OUT_OK && r->outcome != OUT_NO_QUEUE)
        web_problem(&t->problem, http_request(t->x)->arena, r, broker_draining(t->w->broker));
    if (--t->waiting > 0)
        return;
    if (t->problem.code != PROBLEM_NONE) {
        problem_answer(t->x, &t->problem);
        return;
    }
    if (t->partial)
        answer_mark_partial(t->x);
    answer_object_begin(t->x, &w);
    t->answer(t, &w);
    if (t->partial)
        write_bool(&w, "partial", true);
    answer_object_end(t->x, &w, 200);
}

static void survey_run(struct webqueue *w, struct http_exchange *x, const struct web_reach *reach,
                       void (*answer)(struct survey *t, struct json_writer *w))
{
    struct arena *arena = http_request(x)->arena;
    struct survey *t = arena_array(arena, 1, sizeof *t);
    if (!t || !(t->ops = arena_array(arena, reach->count, sizeof *t->ops)) ||
        !(t->counts = arena_array(arena, reach->count, sizeof *t->counts))) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    t->w = w;
    t->x = x;
    t->reach = *reach;
    t->waiting = reach->count;
    t->answer = answer;
    for (size_t i = 0; i < reach->count; i++)
        t->ops[i] = (struct op){.kind = OP_QUEUE_GET,
                                .tag = i,
                                .queue = {.name = reach->types[i].queue, .group = reach->group}};
    int err = broker_submit(w->broker, t->ops, reach->count, survey_reply, t);
    if (err < 0)
        answer_error(x, err);
}

static void sum(const struct survey *t, struct web_counts *ret)
{
    *ret = (struct web_counts){0};
    for (size_t i = 0; i < t->reach.count; i++)
        for (unsigned s = 0; s < WEB_STATUS_COUNT; s++)
            ret->by_status[s] += t->counts[i].by_status[s];
}

/* ---- GET queue-depth ---- */

struct depth_in {
    struct web_scope scope;
};
static const struct field depth_rows[] = {SCOPE_ROWS(struct depth_in)};

static void depth_answer(struct survey *t, struct json_writer *w)
{
    struct web_counts all;
    sum(t, &all);
    counts_members(w, &all);
}

void web_depth_handle(void *ctx, struct http_exchange *x)
{
    struct webqueue *w = ctx;
    struct depth_in in = {.scope.library_id = NO_LIBRARY};
    struct web_reach reach;
    struct problem p;
    struct field_reader r = reader_of(w->broker, x, FIELDS(depth_rows), &in, &p);
    if (fields_read_query(&r, http_request(x)->query) < 0 ||
        scope_take(w, r.arena, &in.scope, &reach, &p) < 0)
        problem_answer(x, &p);
    else
        survey_run(w, x, &reach, depth_answer);
}

/* ---- GET library/{library_id} ---- */

static void write_types(const struct survey *t, struct json_writer *w)
{
    write_object(w, "queue_types");
    for (size_t i = 0; i < t->reach.count; i++) {
        write_object(w, t->reach.types[i].config.name);
        counts_members(w, &t->counts[i]);
        json_write_object_end(w);
    }
    json_write_object_end(w);
}

static void library_answer(struct survey *t, struct json_writer *w)
{
    json_write_key(w, "library_id");
    json_write_raw(w, t->reach.group);
    depth_answer(t, w);
    write_types(t, w);
}

void web_library_handle(void *ctx, struct http_exchange *x)
{
    struct webqueue *w = ctx;
    struct web_reach reach;
    if (query_none(w->broker, x) && path_library(w, x, &reach))
        survey_run(w, x, &reach, library_answer);
}

/* ---- GET types ---- */

static void write_type(struct json_writer *w, const struct web_type *t)
{
    json_write_object(w);
    write_text(w, "queue_type", t->config.name);
    write_span(w, "queue", t->queue);
    write_uint(w, "timeout_ms", t->config.timeout_ms);
    json_write_key(w, "keep_completed_ms");
    if (t->config.keep_ms == INT64_MAX)
        json_write_null(w);
    else
        json_write_int(w, t->config.keep_ms);
    write_uint(w, "retries", t->config.retries);
    json_write_object_end(w);
}

void web_types_handle(void *ctx, struct http_exchange *x)
{
    struct webqueue *api = ctx;
    struct json_writer w;
    if (!query_none(api->broker, x))
        return;
    answer_object_begin(x, &w);
    write_array(&w, "types");
    for (size_t i = 0; i < api->type_count; i++)
        write_type(&w, &api->types[i]);
    json_write_array_end(&w);
    answer_object_end(x, &w, 200);
}
