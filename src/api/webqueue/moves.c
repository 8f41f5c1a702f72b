/* SPDX-License-Identifier: Apache-2.0 */
/* complete, fail, renew and requeue: for one job by its id.
 *
 * The job is read first: a job that is not in a queue of this API is not found. A job never
 * changes its queue, so this still holds when the operation is submitted. Without a token, the
 * current lease is meant. */
#include "api/json_members.h"
#include "api/webqueue/webqueue_impl.h"
#include "core/limits.h"

struct move_in {
    struct job_ref job;
    struct job_token token;
    struct span results, error;
};

#define AT(member) offsetof(struct move_in, member)
#define JOB_ROW                                                                                    \
    {                                                                                              \
        "job_id", FIELD_JOB, AT(job), 0, 0, NULL, FIELD_REQUIRED                                   \
    }
#define TOKEN_ROW                                                                                  \
    {                                                                                              \
        "token", FIELD_TOKEN, AT(token), 0, 0, NULL, 0                                             \
    }
static const struct field complete_rows[] = {
    JOB_ROW,
    TOKEN_ROW,
    {"results", FIELD_RAW, AT(results), 0, 0, NULL, 0},
};
static const struct field fail_rows[] = {
    JOB_ROW,
    TOKEN_ROW,
    {"error", FIELD_CUT, AT(error), 0, LIMIT_ERROR_BYTES, NULL, FIELD_REQUIRED},
};
static const struct field renew_rows[] = {JOB_ROW, TOKEN_ROW};
static const struct field requeue_rows[] = {JOB_ROW};

static void moved(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_object_begin(c->x, &w);
    write_uint(&w, "job_id", r->seq);
    write_text(&w, "status", web_status_of((uint8_t)r->state));
    answer_object_end(c->x, &w, 200);
}

static void take_lease(struct op *op, const struct move_in *in)
{
    op->lease = (struct op_lease){.job = in->job,
                                  .token = in->token,
                                  .any_token = in->token.counter == 0,
                                  .error = in->error};
    if (in->results.len > 0) {
        op->lease.result_kind = PAYLOAD_JSON;
        op->lease.result = in->results;
    }
}

/* Only a job with an error may be requeued; the engine would also make a scheduled job ready. */
static bool requeue_refused(struct call *c, const struct job_view *v)
{
    struct problem p;
    if (v->job.state == STATE_DEAD)
        return false;
    struct reply illegal = {.kind = OP_REQUEUE,
                            .outcome = OUT_ILLEGAL,
                            .seq = v->job.seq,
                            .state = (enum job_state)v->job.state};
    web_problem(&p, c->arena, &illegal, false);
    problem_answer(c->x, &p);
    return true;
}

static void seen(struct call *c, const struct reply *r)
{
    const struct move_in *in = c->more;
    enum op_kind kind = (enum op_kind)c->op.tag;
    struct problem p = {.code = PROBLEM_NOT_FOUND};
    if (r->job_count == 0 || !type_of_queue(c->api, r->jobs[0].queue) ||
        r->jobs[0].job.state == STATE_CANCELLED) {
        problem_answer(c->x, &p);
        return;
    }
    if (kind == OP_REQUEUE && requeue_refused(c, &r->jobs[0]))
        return;
    c->op = (struct op){.kind = kind};
    c->done = moved;
    if (kind == OP_REQUEUE)
        c->op.job.job = in->job;
    else
        take_lease(&c->op, in);
    web_submit(c);
}

static void move_run(struct webqueue *w, struct http_exchange *x, enum op_kind kind,
                     struct fields table)
{
    struct problem p;
    struct call *c = query_none(w->broker, x) ? call_new(w->broker, w, x, OP_GET, seen) : NULL;
    struct move_in *in = call_more(c, sizeof *in);
    if (!in)
        return;
    struct field_reader r = reader_of(w->broker, x, table, in, &p);
    if (!body_read(&r, x))
        return;
    c->op.tag = kind;
    c->op.job.job = in->job;
    web_submit(c);
}

void web_complete_handle(void *ctx, struct http_exchange *x)
{
    move_run(ctx, x, OP_ACK, FIELDS(complete_rows));
}

void web_fail_handle(void *ctx, struct http_exchange *x)
{
    move_run(ctx, x, OP_FAIL, FIELDS(fail_rows));
}

void web_renew_handle(void *ctx, struct http_exchange *x)
{
    move_run(ctx, x, OP_EXTEND, FIELDS(renew_rows));
}

void web_requeue_handle(void *ctx, struct http_exchange *x)
{
    move_run(ctx, x, OP_REQUEUE, FIELDS(requeue_rows));
}
