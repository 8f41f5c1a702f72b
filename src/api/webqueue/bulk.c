/* SPDX-License-Identifier: Apache-2.0 */
/* retry-errors, clear-completed, clear-errors, and the removal of a library.
 *
 * Each is one bulk action per type, which runs to its end however many jobs it concerns; jobs
 * that conflict stay unchanged and are counted. The removal of a library has three rounds:
 * waiting jobs are cancelled, so that none of them begins to run; then running jobs are
 * cancelled, which their workers see at their next call; then all jobs are removed. */
#include "api/json_members.h"
#include "api/webqueue/webqueue_impl.h"
#include "core/limits.h"

#define ROUNDS_MAX 3

struct round {
    enum bulk_action action;
    unsigned states;
};

struct bulk_call {
    const char *done, *refused; /* members of the answer; refused may be NULL */
    size_t round_count;
    struct round rounds[ROUNDS_MAX];
};

static const struct bulk_call call_retry = {
    "retried", "conflicts", 1, {{BULK_REQUEUE, STATE_BIT(STATE_DEAD)}}};
static const struct bulk_call call_clear_completed = {
    "cleared", NULL, 1, {{BULK_REMOVE, STATE_BIT(STATE_DONE)}}};
static const struct bulk_call call_clear_errors = {
    "cleared", NULL, 1, {{BULK_REMOVE, STATE_BIT(STATE_DEAD)}}};
static const struct bulk_call call_library = {"removed",
                                              NULL,
                                              3,
                                              {{BULK_CANCEL, STATES_WAITING},
                                               {BULK_CANCEL_NOW, STATE_BIT(STATE_RUNNING)},
                                               {BULK_REMOVE, STATES_ALL}}};

struct bulk_run {
    struct webqueue *w;
    struct http_exchange *x;
    const struct bulk_call *call;
    struct web_reach reach;
    struct op *ops;
    size_t waiting, round;
    uint64_t changed[ROUNDS_MAX], refused;
    struct problem problem; /* code NONE = success */
};

static void bulk_answer(struct bulk_run *b)
{
    struct json_writer w;
    if (b->problem.code != PROBLEM_NONE) {
        problem_answer(b->x, &b->problem);
        return;
    }
    answer_object_begin(b->x, &w);
    write_uint(&w, b->call->done, b->changed[b->round]);
    if (b->call->refused)
        write_uint(&w, b->call->refused, b->refused);
    if (b->call == &call_library)
        write_uint(&w, "cancelled", b->changed[1]);
    answer_object_end(b->x, &w, 200);
}

static void bulk_reply(void *ctx, const struct reply *r);

static void round_submit(struct bulk_run *b)
{
    const struct round *round = &b->call->rounds[b->round];
    b->waiting = b->reach.count;
    for (size_t i = 0; i < b->reach.count; i++)
        b->ops[i] = (struct op){.kind = OP_BULK,
                                .bulk = {.action = (uint8_t)round->action,
                                         .queue = b->reach.types[i].queue,
                                         .states = round->states,
                                         .group = b->reach.group}};
    int err = broker_submit(b->w->broker, b->ops, b->reach.count, bulk_reply, b);
    if (err < 0)
        answer_error(b->x, err);
}

static void bulk_reply(void *ctx, const struct reply *r)
{
    struct bulk_run *b = ctx;
    if (r->outcome == OUT_OK) {
        b->changed[b->round] += r->changed;
        b->refused += r->refused;
    } else if (r->outcome != OUT_NO_QUEUE) {
        web_problem(&b->problem, http_request(b->x)->arena, r, broker_draining(b->w->broker));
    }
    if (--b->waiting > 0)
        return;
    if (b->problem.code == PROBLEM_NONE && b->round + 1 < b->call->round_count) {
        b->round++;
        round_submit(b);
    } else {
        bulk_answer(b);
    }
}

static void bulk_start(struct webqueue *w, struct http_exchange *x, const struct bulk_call *call,
                       const struct web_reach *reach)
{
    struct arena *arena = http_request(x)->arena;
    struct bulk_run *b = arena_array(arena, 1, sizeof *b);
    struct op *ops = b ? arena_array(arena, reach->count, sizeof *ops) : NULL;
    if (!ops) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    *b = (struct bulk_run){.w = w, .x = x, .call = call, .reach = *reach, .ops = ops};
    round_submit(b);
}

struct bulk_in {
    struct web_scope scope;
};
static const struct field bulk_rows[] = {SCOPE_ROWS(struct bulk_in)};

static void bulk_handle(struct webqueue *w, struct http_exchange *x, const struct bulk_call *call)
{
    struct bulk_in in = {.scope.library_id = NO_LIBRARY};
    struct web_reach reach;
    struct problem p;
    struct field_reader r = reader_of(w->broker, x, FIELDS(bulk_rows), &in, &p);
    if (!query_none(w->broker, x))
        return;
    if (fields_read_optional(&r, http_request(x)->body) < 0 ||
        scope_take(w, r.arena, &in.scope, &reach, &p) < 0)
        problem_answer(x, &p);
    else
        bulk_start(w, x, call, &reach);
}

void web_retry_errors_handle(void *ctx, struct http_exchange *x)
{
    bulk_handle(ctx, x, &call_retry);
}

void web_clear_completed_handle(void *ctx, struct http_exchange *x)
{
    bulk_handle(ctx, x, &call_clear_completed);
}

void web_clear_errors_handle(void *ctx, struct http_exchange *x)
{
    bulk_handle(ctx, x, &call_clear_errors);
}

/* ---- libraries ---- */

static const struct field library_rows[] = {
    {"library_id", FIELD_INT, offsetof(struct web_scope, library_id), 0, INT64_MAX, NULL, 0},
};

bool path_library(struct webqueue *w, struct http_exchange *x, struct web_reach *ret)
{
    struct web_scope scope = {0};
    struct problem p;
    struct field_reader r = reader_of(w->broker, x, FIELDS(library_rows), &scope, &p);
    if (fields_read_one(&r, 0, http_request(x)->params[0]) == 0 &&
        scope_take(w, r.arena, &scope, ret, &p) == 0)
        return true;
    problem_answer(x, &p);
    return false;
}

void web_library_delete_handle(void *ctx, struct http_exchange *x)
{
    struct webqueue *w = ctx;
    struct web_reach reach;
    if (query_none(w->broker, x) && body_none(w->broker, x) && path_library(w, x, &reach))
        bulk_start(w, x, &call_library, &reach);
}
