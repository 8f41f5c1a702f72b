/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that most handlers have in common: begin and end an answer, submit one operation. */
#include "api/call.h"

#include <inttypes.h>
#include <stdio.h>

#include "api/json_members.h"
#include "core/validate.h"

void answer_begin(struct http_exchange *x, struct json_writer *w)
{
    json_writer_init(w, http_answer_body(x));
}

void answer_error(struct http_exchange *x, int error)
{
    struct problem p;
    problem_of_error(&p, error);
    problem_answer(x, &p);
}

int answer_close(struct http_exchange *x, struct json_writer *w)
{
    int err = json_writer_finish(w);
    return err < 0 ? err : buf_append(http_answer_body(x), "\n", 1);
}

/* The operation has taken effect; only its answer could not be built. */
void answer_end(struct http_exchange *x, struct json_writer *w, unsigned status)
{
    static const struct problem unsaid = {
        .code = PROBLEM_UNKNOWN,
        .detail = "there was no memory left for the reply; repeat the request with the same "
                  "Idempotency-Key or lease token"};
    if (answer_close(x, w) < 0)
        problem_answer(x, &unsaid);
    else
        http_answer(x, status, JSON_TYPE);
}

void answer_object_begin(struct http_exchange *x, struct json_writer *w)
{
    answer_begin(x, w);
    json_write_object(w);
}

void answer_object_end(struct http_exchange *x, struct json_writer *w, unsigned status)
{
    json_write_object_end(w);
    answer_end(x, w, status);
}

void answer_end_page(struct http_exchange *x, struct json_writer *w, uint64_t total)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%" PRIu64, total);
    json_write_array_end(w);
    http_answer_header(x, "X-Total-Count", span_of(text, (size_t)len));
    answer_end(x, w, 200);
}

void answer_mark_spooled(struct http_exchange *x)
{
    http_answer_header(x, "Holdfast-Spooled", SPAN_LITERAL("true"));
}

void answer_mark_partial(struct http_exchange *x)
{
    http_answer_header(x, "Holdfast-Partial", SPAN_LITERAL("true"));
}

struct field_reader reader_of(const struct broker *b, struct http_exchange *x, struct fields table,
                              void *into, struct problem *problem)
{
    *problem = (struct problem){0};
    return (struct field_reader){.table = table,
                                 .broker = b,
                                 .arena = http_request(x)->arena,
                                 .problem = problem,
                                 .into = into};
}

struct call *call_new(struct broker *b, void *api, struct http_exchange *x, enum op_kind kind,
                      call_fn done)
{
    struct arena *arena = http_request(x)->arena;
    struct call *c = arena_array(arena, 1, sizeof *c);
    if (!c) {
        answer_error(x, -ERR_NOMEM);
        return NULL;
    }
    *c = (struct call){
        .broker = b, .api = api, .x = x, .arena = arena, .op = {.kind = kind}, .done = done};
    return c;
}

void *call_more_new(struct call *c, size_t size)
{
    c->more = arena_array(c->arena, 1, size);
    if (!c->more)
        answer_error(c->x, -ERR_NOMEM);
    return c->more;
}

/* `unavailable` means that nothing was done, so it must not be sent after a change. */
static void refuse(struct call *c, const struct problem *p)
{
    static const struct problem unseen = {
        .code = PROBLEM_UNKNOWN,
        .detail = "the change took effect, completely or in part, but the store did not answer "
                  "afterwards; read the result again, or repeat the request"};
    bool undone = p->code == PROBLEM_UNAVAILABLE || p->code == PROBLEM_DRAINING;
    problem_answer(c->x, c->changed && undone ? &unseen : p);
}

void call_problem(const struct call *c, const struct reply *reply, struct problem *ret)
{
    problem_of_reply(ret, c->arena, reply, broker_draining(c->broker));
    ret->terms = c->terms;
}

void call_refuse(struct call *c, const struct reply *reply)
{
    struct problem p;
    call_problem(c, reply, &p);
    refuse(c, &p);
}

bool call_has_job(struct call *c, const struct reply *reply)
{
    static const struct problem absent = {.code = PROBLEM_NOT_FOUND};
    if (reply->job_count == 0)
        problem_answer(c->x, &absent);
    return reply->job_count > 0;
}

void call_error(struct call *c, int error)
{
    struct problem p;
    problem_of_error(&p, error);
    refuse(c, &p);
}

void call_note_reply(struct call *c, const struct reply *reply)
{
    if (reply->outcome == OUT_OK && !op_is_query(reply->kind))
        c->changed = true;
    if (reply->spooled && !c->spooled)
        answer_mark_spooled(c->x);
    if (reply->left_out && !c->partial)
        answer_mark_partial(c->x);
    c->spooled = c->spooled || reply->spooled;
    c->partial = c->partial || reply->left_out != 0;
}

bool store_is_missing(const struct broker *b)
{
    struct backend_figures f;
    broker_backend_figures(b, &f);
    return f.has_spool && !f.primary_up;
}

void call_write_partial(const struct call *c, struct json_writer *w)
{
    if (c->partial)
        write_bool(w, "partial", true);
}

static void call_reply(void *ctx, const struct reply *reply)
{
    struct call *c = ctx;
    call_note_reply(c, reply);
    if (reply->outcome == OUT_OK)
        c->done(c, reply);
    else if (c->refused)
        c->refused(c, reply);
    else
        call_refuse(c, reply);
}

void call_submit(struct call *c)
{
    int err = c ? broker_submit(c->broker, &c->op, 1, call_reply, c) : 0;
    if (err < 0)
        call_error(c, err);
}

void call_read_job(struct call *c, struct job_ref job, call_fn done)
{
    c->done = done;
    c->op = (struct op){.kind = OP_GET, .job = {.job = job, .want_body = true}};
    call_submit(c);
}

void call_ask(struct call *c, broker_reply_fn fn)
{
    int err = broker_submit(c->broker, &c->op, 1, fn, c);
    if (err < 0)
        answer_error(c->x, err);
}

static void line_reply(void *ctx, const struct reply *reply);

/* Submits the first call; a call that cannot be submitted is answered. */
static void line_go(struct call_line *l)
{
    while (l->first) {
        struct call *c = l->first;
        int err = broker_submit(c->broker, &c->op, 1, line_reply, c);
        if (err == 0)
            return;
        l->first = c->next;
        call_error(c, err);
    }
}

static void line_reply(void *ctx, const struct reply *reply)
{
    struct call *c = ctx;
    struct call_line *l = c->line;
    struct call *next = c->next; /* the call is freed when it has been answered */
    call_note_reply(c, reply);
    l->first = l->step(c, reply) ? c : next;
    line_go(l);
}

void call_line_add(struct call_line *l, struct call *c, call_step_fn step)
{
    bool idle = !l->first;
    c->line = l;
    l->step = step;
    if (idle)
        l->first = c;
    else
        l->last->next = c;
    l->last = c;
    if (idle)
        line_go(l);
}

static bool read_ok(const struct field_reader *r, struct http_exchange *x, int err)
{
    if (err < 0)
        problem_answer(x, r->problem);
    return err == 0;
}

bool body_read(struct field_reader *r, struct http_exchange *x)
{
    return read_ok(r, x, fields_read(r, http_request(x)->body));
}

bool body_read_optional(struct field_reader *r, struct http_exchange *x)
{
    return read_ok(r, x, fields_read_optional(r, http_request(x)->body));
}

bool query_read(struct field_reader *r, struct http_exchange *x)
{
    return read_ok(r, x, fields_read_query(r, http_request(x)->query));
}

bool query_none(const struct broker *b, struct http_exchange *x)
{
    struct problem p;
    struct field_reader r = reader_of(b, x, (struct fields){0}, NULL, &p);
    return query_read(&r, x);
}

bool body_none(const struct broker *b, struct http_exchange *x)
{
    struct problem p;
    struct field_reader r = reader_of(b, x, (struct fields){0}, NULL, &p);
    return body_read_optional(&r, x);
}

static bool path_text(struct http_exchange *x, const char *field,
                      int (*check)(struct span text, struct err_note *note), struct span *ret)
{
    const struct http_request *r = http_request(x);
    struct err_note note;
    struct problem p;
    *ret = r->params[0];
    if (check(*ret, &note) == 0)
        return true;
    problem_set(&p, r->arena, PROBLEM_INVALID_FIELD, field, "%s", note.text);
    problem_answer(x, &p);
    return false;
}

bool path_queue(struct http_exchange *x, struct span *ret)
{
    return path_text(x, "queue", validate_queue_name, ret);
}

bool path_name(struct http_exchange *x, int (*check)(struct span name, struct err_note *note),
               struct span *ret)
{
    return path_text(x, "name", check, ret);
}

bool path_job(struct http_exchange *x, struct job_ref *ret)
{
    struct problem p = {.code = PROBLEM_INVALID_ID, .field = "id"};
    if (id_parse(http_request(x)->params[0], ret) == 0)
        return true;
    problem_answer(x, &p);
    return false;
}
