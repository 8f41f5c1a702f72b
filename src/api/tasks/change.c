/* SPDX-License-Identifier: Apache-2.0 */
/* heartbeat, complete and fail: with the lease token of the claim or, if none is given, for the
 * current lease. The task is read first, and the operation uses the token that was read. */
#include "api/json_members.h"
#include "api/tasks/tasks_impl.h"
#include "core/limits.h"

struct change {
    enum op_kind kind;
    struct job_ref job;
    struct job_token token;
    struct span worker, result, error;
    bool has_token, has_worker, retry;
};

#define AT(member) offsetof(struct change, member)
#define HOLDER_ROWS                                                                                \
    {"token", FIELD_TOKEN, AT(token), 0, 0, NULL, FIELD_OPTIONAL},                                 \
    {                                                                                              \
        "worker", FIELD_TEXT, AT(worker), 0, LIMIT_WORKER_BYTES, NULL, FIELD_OPTIONAL              \
    }
static const struct field heartbeat_rows[] = {HOLDER_ROWS};
static const struct field complete_rows[] = {
    HOLDER_ROWS,
    {"result", FIELD_RAW, AT(result), 0, 0, NULL, FIELD_OPTIONAL},
};
static const struct field fail_rows[] = {
    HOLDER_ROWS,
    {"error", FIELD_CUT, AT(error), 0, LIMIT_ERROR_BYTES, NULL, FIELD_OPTIONAL},
    {"retry", FIELD_BOOL, AT(retry), 0, 0, NULL, FIELD_OPTIONAL},
};

static void changed(struct call *c, const struct reply *r)
{
    const struct change *ch = c->more;
    (void)r;
    task_show(c, ch->job);
}

static void refuse(struct call *c, enum problem_code code, const char *detail)
{
    struct problem p = {.code = code, .detail = detail};
    problem_answer(c->x, &p);
}

static void refuse_state(struct call *c, const struct job_view *v)
{
    struct problem p;
    problem_illegal_task(&p, c->arena, task_status_of(&v->job, broker_now(c->broker).wall));
    problem_answer(c->x, &p);
}

static void submit(struct call *c, struct job_token token)
{
    const struct change *ch = c->more;
    c->done = changed;
    c->refused = task_refuse;
    c->op = (struct op){.kind = ch->kind,
                        .lease = {.job = ch->job,
                                  .token = token,
                                  .result_kind = ch->result.len ? PAYLOAD_JSON : PAYLOAD_NONE,
                                  .result = ch->result,
                                  .error = ch->error,
                                  .no_retry = !ch->retry}};
    call_submit(c);
}

/* A token of an earlier lease may belong to a repeated call, which the engine recognizes. */
static void task_read(struct call *c, const struct reply *r)
{
    struct change *ch = c->more;
    if (!owned_job_found(&task_jobs, c->x, r))
        return;
    const struct job_view *v = &r->jobs[0];
    ch->job = (struct job_ref){.seq = v->job.seq, .hi = v->job.id_hi};
    if (ch->has_token)
        submit(c, ch->token);
    else if (v->job.state != STATE_RUNNING)
        refuse_state(c, v);
    else if (v->require_token)
        refuse(c, PROBLEM_LEASE_LOST,
               "this queue requires the lease token of the claim (require_token)");
    else if (ch->has_worker && v->worker.len && !span_equal(v->worker, ch->worker))
        refuse(c, PROBLEM_LEASE_LOST, "another worker has the task");
    else
        submit(c, v->token);
}

static void change_run(void *ctx, struct http_exchange *x, struct fields table, enum op_kind kind)
{
    struct job_ref job;
    struct problem p;
    struct broker *b = tasks_broker(ctx);
    bool plain = query_none(b, x) && owned_job_path(&task_jobs, x, &job);
    struct call *c = plain ? call_new(b, ctx, x, OP_GET, task_read) : NULL;
    struct change *ch = call_more(c, sizeof *ch);
    if (!ch)
        return;
    *ch = (struct change){.kind = kind, .retry = true};
    struct field_reader r = reader_of(b, x, table, ch, &p);
    if (!body_read_optional(&r, x))
        return;
    ch->has_token = fields_has(&r, "token");
    ch->has_worker = fields_has(&r, "worker");
    c->op.job.job = job;
    call_submit(c);
}

void task_heartbeat_handle(void *ctx, struct http_exchange *x)
{
    change_run(ctx, x, FIELDS(heartbeat_rows), OP_EXTEND);
}

void task_complete_handle(void *ctx, struct http_exchange *x)
{
    change_run(ctx, x, FIELDS(complete_rows), OP_ACK);
}

void task_fail_handle(void *ctx, struct http_exchange *x)
{
    change_run(ctx, x, FIELDS(fail_rows), OP_FAIL);
}
