/* SPDX-License-Identifier: Apache-2.0 */
/* The steps that most handlers take: begin and end an answer, ask the broker one thing. */
#include "api/call.h"

#include "api/words.h"
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

/* By now it has been done; only the words for it are missing. */
void answer_end(struct http_exchange *x, struct json_writer *w, unsigned status)
{
    static const struct problem unsaid = {
        .code = PROBLEM_UNKNOWN,
        .detail = "there was no memory left for the answer; repeat the request with the same "
                  "Idempotency-Key or lease token"};
    if (answer_close(x, w) < 0)
        problem_answer(x, &unsaid);
    else
        http_answer(x, status, JSON_TYPE);
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

/* "Unavailable" says that nothing was done. */
static void refuse(struct call *c, const struct problem *p)
{
    static const struct problem unseen = {
        .code = PROBLEM_UNKNOWN,
        .detail = "it was done, all or in part, but the store did not answer what was asked then; "
                  "look again, or repeat it"};
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

void call_error(struct call *c, int error)
{
    struct problem p;
    problem_of_error(&p, error);
    refuse(c, &p);
}

void call_heard(struct call *c, const struct reply *reply)
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
    call_heard(c, reply);
    if (reply->outcome == OUT_OK)
        c->done(c, reply);
    else if (c->refused)
        c->refused(c, reply);
    else
        call_refuse(c, reply);
}

void call_submit(struct call *c)
{
    int err = broker_submit(c->broker, &c->op, 1, call_reply, c);
    if (err < 0)
        call_error(c, err);
}

static void line_reply(void *ctx, const struct reply *reply);

/* Begins what stands first; whatever cannot even begin is answered. */
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
    struct call *next = c->next; /* the call is gone once it has been answered */
    call_heard(c, reply);
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

bool query_none(const struct broker *b, struct http_exchange *x)
{
    struct problem p;
    struct field_reader r = reader_of(b, x, (struct fields){0}, NULL, &p);
    if (fields_read_query(&r, http_request(x)->query) == 0)
        return true;
    problem_answer(x, &p);
    return false;
}

bool body_none(const struct broker *b, struct http_exchange *x)
{
    struct problem p;
    struct field_reader r = reader_of(b, x, (struct fields){0}, NULL, &p);
    if (fields_read_optional(&r, http_request(x)->body) == 0)
        return true;
    problem_answer(x, &p);
    return false;
}

bool path_queue(struct http_exchange *x, struct span *ret)
{
    const struct http_request *r = http_request(x);
    struct err_note note;
    struct problem p;
    *ret = r->params[0];
    if (validate_queue_name(*ret, &note) == 0)
        return true;
    problem_set(&p, r->arena, PROBLEM_INVALID_FIELD, "queue", "%s", note.text);
    problem_answer(x, &p);
    return false;
}

bool path_job(struct http_exchange *x, struct job_ref *ret)
{
    struct problem p = {.code = PROBLEM_INVALID_ID, .field = "id"};
    if (id_parse(http_request(x)->params[0], ret) == 0)
        return true;
    problem_answer(x, &p);
    return false;
}
