/* SPDX-License-Identifier: Apache-2.0 */
/* retry-errors, clear-completed, clear-errors, and the end of a library.
 *
 * Each is one bulk action a type, done to the end however many jobs it concerns; what conflicts is
 * left as it is and counted. A library's end is three rounds: what waits is cancelled, so that no
 * more of it begins to run; then what runs, which its workers see at their next word; then all of
 * it is removed. */
#include "api/webqueue/webqueue_impl.h"
#include "api/words.h"
#include "core/limits.h"

#define ROUNDS_MAX 3

struct round {
    enum bulk_action action;
    unsigned states;
};

struct bulk_word {
    const char *done, *refused; /* members of the answer; refused may be NULL */
    size_t round_count;
    struct round rounds[ROUNDS_MAX];
};

static const struct bulk_word word_retry = {
    "retried", "conflicts", 1, {{BULK_REQUEUE, STATE_BIT(STATE_DEAD)}}};
static const struct bulk_word word_clear_completed = {
    "cleared", NULL, 1, {{BULK_REMOVE, STATE_BIT(STATE_DONE)}}};
static const struct bulk_word word_clear_errors = {
    "cleared", NULL, 1, {{BULK_REMOVE, STATE_BIT(STATE_DEAD)}}};
static const struct bulk_word word_library = {"removed",
                                              NULL,
                                              3,
                                              {{BULK_CANCEL, STATES_WAITING},
                                               {BULK_CANCEL_NOW, STATE_BIT(STATE_RUNNING)},
                                               {BULK_REMOVE, STATES_ALL}}};

struct bulk_run {
    struct webqueue *w;
    struct http_exchange *x;
    const struct bulk_word *word;
    struct web_reach reach;
    struct op *ops;
    size_t waiting, round;
    uint64_t changed[ROUNDS_MAX], refused;
    struct problem problem; /* code NONE = all went well */
};

static void bulk_answer(struct bulk_run *b)
{
    struct json_writer w;
    if (b->problem.code != PROBLEM_NONE) {
        problem_answer(b->x, &b->problem);
        return;
    }
    answer_begin(b->x, &w);
    json_write_object(&w);
    write_uint(&w, b->word->done, b->changed[b->round]);
    if (b->word->refused)
        write_uint(&w, b->word->refused, b->refused);
    if (b->word == &word_library)
        write_uint(&w, "cancelled", b->changed[1]);
    json_write_object_end(&w);
    answer_end(b->x, &w, 200);
}

static void bulk_reply(void *ctx, const struct reply *r);

static void round_submit(struct bulk_run *b)
{
    const struct round *round = &b->word->rounds[b->round];
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
        b->changed[b->round] += r->count;
        b->refused += r->refused;
    } else if (r->outcome != OUT_NO_QUEUE) {
        web_problem(&b->problem, http_request(b->x)->arena, r, broker_draining(b->w->broker));
    }
    if (--b->waiting > 0)
        return;
    if (b->problem.code == PROBLEM_NONE && b->round + 1 < b->word->round_count) {
        b->round++;
        round_submit(b);
    } else {
        bulk_answer(b);
    }
}

static void bulk_start(struct webqueue *w, struct http_exchange *x, const struct bulk_word *word,
                       const struct web_reach *reach)
{
    struct arena *arena = http_request(x)->arena;
    struct bulk_run *b = arena_array(arena, 1, sizeof *b);
    struct op *ops = b ? arena_array(arena, reach->count, sizeof *ops) : NULL;
    if (!ops) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    *b = (struct bulk_run){.w = w, .x = x, .word = word, .reach = *reach, .ops = ops};
    round_submit(b);
}

struct bulk_in {
    struct web_scope scope;
};
static const struct field bulk_rows[] = {SCOPE_ROWS(struct bulk_in)};

static void bulk_handle(struct webqueue *w, struct http_exchange *x, const struct bulk_word *word)
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
        bulk_start(w, x, word, &reach);
}

void web_retry_errors_handle(void *ctx, struct http_exchange *x)
{
    bulk_handle(ctx, x, &word_retry);
}

void web_clear_completed_handle(void *ctx, struct http_exchange *x)
{
    bulk_handle(ctx, x, &word_clear_completed);
}

void web_clear_errors_handle(void *ctx, struct http_exchange *x)
{
    bulk_handle(ctx, x, &word_clear_errors);
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
        bulk_start(w, x, &word_library, &reach);
}
