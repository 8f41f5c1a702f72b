/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: jobs that are enqueued together, with a final job that depends on all of them.
 *
 * A batch has no record: its id is that of the final job (`then`), which keeps the counts as long
 * as it exists. All jobs of a request, and `then`, are one commit. A batch that is created `open`
 * can get more jobs in further requests, until it is closed. */
#include "api/v1/jobs/batches.h"

#include <inttypes.h>
#include <stdio.h>

#include "api/json_members.h"
#include "api/v1/jobs/depends.h"
#include "api/v1/jobs/job_view.h"
#include "core/limits.h"

/* ---- several enqueues in one commit ---- */

struct jobs_commit {
    struct native *n;
    struct http_exchange *x;
    struct arena *arena;
    struct problem problem;
    struct op_enqueue *jobs;
    uint32_t count;
    bool has_then;   /* the last of them */
    struct span key; /* Idempotency-Key of the request; empty = none */
    struct span body;
};

static void write_jobs(struct json_writer *w, const struct enqueued_view *list, uint32_t count)
{
    json_write_key(w, "jobs");
    json_write_array(w);
    for (uint32_t i = 0; i < count; i++)
        enqueued_write(w, &list[i]);
    json_write_array_end(w);
}

static void jobs_committed(struct call *c, const struct reply *r)
{
    const struct jobs_commit *in = c->more;
    struct json_writer w;
    uint32_t count = r->enqueued_count - in->has_then;
    answer_begin(c->x, &w);
    json_write_object(&w);
    if (in->has_then)
        write_id(&w, "batch", r->enqueued[count].id_hi, r->enqueued[count].seq);
    write_jobs(&w, r->enqueued, count);
    if (in->has_then) {
        json_write_key(&w, "then");
        enqueued_write(&w, &r->enqueued[count]);
    }
    json_write_object_end(&w);
    answer_end(c->x, &w,
               in->has_then && r->enqueued[count].created && !r->enqueued[count].repeat ? 201
                                                                                        : 200);
}

/* Says which job was refused. */
static void jobs_refused(struct call *c, const struct reply *r)
{
    const struct jobs_commit *in = c->more;
    struct problem p, named = {0};
    problem_of_reply(&p, c->arena, r, broker_draining(c->broker));
    if (r->failed_enqueue && in->has_then && r->failed == in->count - 1)
        problem_set(&named, c->arena, p.code, "then", "then: %s; nothing was enqueued",
                    problem_sentence(&p));
    else if (r->failed_enqueue)
        problem_set(&named, c->arena, p.code, "jobs", "jobs[%u]: %s; nothing was enqueued",
                    r->failed, problem_sentence(&p));
    if (named.field) {
        p.field = named.field;
        p.detail = named.detail;
    }
    problem_answer(c->x, &p);
}

static void jobs_submit(const struct jobs_commit *in)
{
    struct call *c = call_new(in->n->broker, in->n, in->x, OP_KV_COMMIT, jobs_committed);
    struct jobs_commit *more = call_more(c, sizeof *more);
    if (!more)
        return;
    *more = *in;
    c->refused = jobs_refused;
    c->op.kv_commit =
        (struct op_kv_commit){.enqueues = in->jobs, .enqueue_count = in->count, .jobs_alone = true};
    call_submit(c);
}

void batch_commit(struct batch *b)
{
    struct jobs_commit in = {.n = b->n, .x = b->x, .arena = b->arena};
    struct problem named = {0};
    in.jobs = arena_array(b->arena, b->count, sizeof *in.jobs);
    if (!in.jobs) {
        answer_error(b->x, -ERR_NOMEM);
        return;
    }
    for (size_t i = 0; i < b->count; i++) {
        const struct problem *p = &b->items[i].problem;
        if (p->code == PROBLEM_NONE)
            continue;
        problem_set(&named, b->arena, p->code, p->field,
                    "jobs[%zu]: %s; nothing was enqueued, because jobs of the request depend on "
                    "each other",
                    i, problem_sentence(p));
        problem_answer(b->x, &named);
        return;
    }
    for (size_t i = 0; i < b->op_count; i++)
        in.jobs[in.count++] = b->ops[i].enqueue;
    jobs_submit(&in);
}

/* ---- POST /v1/batches ---- */

struct batch_in {
    struct texts_in jobs;
    struct span then;
    uint8_t on_failure;
    bool open;
};

#define AT(member) offsetof(struct batch_in, member)
static const struct field batch_rows[] = {
    {"jobs", FIELD_OBJECTS, AT(jobs), 0, LIMIT_BATCH, NULL, FIELD_REQUIRED | FIELD_EMPTY},
    {"then", FIELD_RAW, AT(then), 0, 0, NULL, FIELD_REQUIRED},
    {"on_failure", FIELD_ENUM, AT(on_failure), 0, 0, dependency_rules, 0},
    {"open", FIELD_BOOL, AT(open), 0, 0, NULL, 0},
};
static const struct field more_rows[] = {
    {"jobs", FIELD_OBJECTS, AT(jobs), 0, LIMIT_BATCH, NULL, FIELD_REQUIRED},
};

/* Each job that has no key gets that of the request with its index; `then` gets it unchanged, for
 * the whole request: another one with this key is refused. */
static int take_key(struct jobs_commit *in, uint32_t index, struct span text)
{
    char suffix[16];
    struct op_enqueue *op = &in->jobs[index];
    if (in->key.len == 0 || op->idempotency_key.len > 0)
        return 0;
    bool then = in->has_then && index == in->count - 1;
    int len = then ? 0 : snprintf(suffix, sizeof suffix, "/%" PRIu32, index);
    char *key = arena_alloc(in->arena, in->key.len + (size_t)len + 1);
    if (!key)
        return -ERR_NOMEM;
    memcpy(key, in->key.at, in->key.len);
    memcpy(key + in->key.len, suffix, (size_t)len);
    enqueue_set_key(op, span_of(key, in->key.len + (size_t)len), then ? in->body : text);
    return 0;
}

static int take_one(struct jobs_commit *in, uint32_t index, struct span text, const char *name)
{
    struct problem named;
    int err = enqueue_read(in->n, in->x, text, &in->jobs[index], &in->problem);
    if (err == 0 && take_key(in, index, text) < 0) {
        problem_of_error(&in->problem, -ERR_NOMEM);
        return -ERR_INVALID;
    }
    if (err == 0)
        return 0;
    named = in->problem;
    if (name)
        problem_set(&named, in->arena, in->problem.code, in->problem.field, "%s: %s", name,
                    problem_sentence(&in->problem));
    else
        problem_set(&named, in->arena, in->problem.code, in->problem.field, "jobs[%" PRIu32 "]: %s",
                    index, problem_sentence(&in->problem));
    in->problem.detail = named.detail;
    return err;
}

static int take_jobs(struct jobs_commit *in, struct texts_in jobs)
{
    int err = 0;
    for (size_t i = 0; err == 0 && i < jobs.count; i++)
        err = take_one(in, (uint32_t)i, jobs.list[i], NULL);
    return err;
}

/* The final job depends on all others, and on those that it names itself. */
static int take_then(struct jobs_commit *in, const struct batch_in *body, bool has_rule)
{
    struct op_enqueue *then = &in->jobs[in->count - 1];
    int err = take_one(in, in->count - 1, body->then, "then");
    if (err < 0)
        return err;
    uint32_t own = then->depends ? then->depends->count : 0, jobs = in->count - 1;
    struct op_depends *d = arena_array(in->arena, 1, sizeof *d);
    struct dependency_ref *refs = arena_array(in->arena, own + in->count, sizeof *refs);
    if (!d || !refs) {
        problem_of_error(&in->problem, -ERR_NOMEM);
        return -ERR_INVALID;
    }
    if (own)
        memcpy(refs, then->depends->parents, own * sizeof *refs);
    for (uint32_t i = 0; i < jobs; i++)
        refs[own + i].index = i;
    *d = (struct op_depends){.parents = refs,
                             .count = own + jobs,
                             .rule = has_rule || !then->depends ? body->on_failure
                                                                : then->depends->rule,
                             .open = body->open};
    then->depends = d;
    return 0;
}

static int jobs_begin(struct jobs_commit *in, size_t jobs)
{
    struct err_note note;
    in->key = http_request_header(http_request(in->x), "idempotency-key");
    in->body = http_request(in->x)->body;
    in->count = (uint32_t)jobs + in->has_then;
    in->jobs = arena_array(in->arena, in->count, sizeof *in->jobs);
    if (!in->jobs) {
        problem_of_error(&in->problem, -ERR_NOMEM);
        return -ERR_INVALID;
    }
    int err = in->key.at ? enqueue_check_key(in->key, &note) : 0;
    if (err < 0)
        problem_set(&in->problem, in->arena, PROBLEM_INVALID_FIELD, "Idempotency-Key", "%s",
                    note.text);
    return err < 0 ? -ERR_INVALID : depends_supported(in->n->broker, &in->problem, NULL);
}

void batch_create_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct batch_in body = {0};
    struct jobs_commit in = {.n = n, .x = x, .arena = http_request(x)->arena, .has_then = true};
    struct field_reader r = reader_of(n->broker, x, FIELDS(batch_rows), &body, &in.problem);
    if (!query_none(n->broker, x) || !body_read(&r, x))
        return;
    if (jobs_begin(&in, body.jobs.count) < 0 || take_jobs(&in, body.jobs) < 0 ||
        take_then(&in, &body, fields_has(&r, "on_failure")) < 0)
        problem_answer(x, &in.problem);
    else
        jobs_submit(&in);
}

/* ---- POST /v1/batches/{id}/jobs ---- */

void batch_add_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct batch_in body = {0};
    struct job_ref batch;
    struct jobs_commit in = {.n = n, .x = x, .arena = http_request(x)->arena};
    struct field_reader r = reader_of(n->broker, x, FIELDS(more_rows), &body, &in.problem);
    if (!query_none(n->broker, x) || !path_job(x, &batch) || !body_read(&r, x))
        return;
    if (jobs_begin(&in, body.jobs.count) < 0 || take_jobs(&in, body.jobs) < 0) {
        problem_answer(x, &in.problem);
        return;
    }
    for (uint32_t i = 0; i < in.count; i++) {
        in.jobs[i].member_of = batch;
        enqueue_scope_key(&in.jobs[i], batch.seq);
    }
    jobs_submit(&in);
}

/* ---- GET /v1/batches/{id}, and after a change ---- */

static void write_batch(struct json_writer *w, const struct job_view *v)
{
    json_write_object(w);
    write_id(w, "batch", v->job.id_hi, v->job.seq);
    write_bool(w, "open", depends_open(v));
    write_text(w, "on_failure", dependency_rule_name((enum dependency_rule)v->dependent.rule));
    json_write_key(w, "counts");
    depends_write_counts(w, v);
    json_write_key(w, "then");
    json_write_object(w);
    write_job_name(w, v->job.id_hi, v->job.seq);
    write_span(w, "queue", v->queue);
    write_text(w, "state", state_name((enum job_state)v->job.state));
    if (v->job.reason != REASON_NONE)
        write_text(w, "reason", reason_name((enum job_reason)v->job.reason));
    json_write_object_end(w);
    json_write_object_end(w);
}

static void batch_got(struct call *c, const struct reply *r)
{
    struct json_writer w;
    struct problem p;
    if (!call_has_job(c, r))
        return;
    if (!r->jobs[0].is_dependent) {
        problem_set(&p, c->arena, PROBLEM_NOT_FOUND, NULL,
                    "the job exists, but it is not the final job of a batch");
        problem_answer(c->x, &p);
        return;
    }
    answer_begin(c->x, &w);
    write_batch(&w, &r->jobs[0]);
    answer_end(c->x, &w, 200);
}

void batch_get_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct job_ref batch;
    if (!query_none(n->broker, x) || !path_job(x, &batch))
        return;
    struct call *c = call_new(n->broker, n, x, OP_GET, batch_got);
    if (!c)
        return;
    c->op.job.job = batch;
    call_submit(c);
}

/* The change is done; now the batch is read. */
static void batch_changed(struct call *c, const struct reply *r)
{
    struct job_ref batch = {r->seq, r->id_hi};
    c->op = (struct op){.kind = OP_GET, .job = {.job = batch}};
    c->done = batch_got;
    call_submit(c);
}

void batch_close_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct job_ref batch;
    if (!query_none(n->broker, x) || !body_none(n->broker, x) || !path_job(x, &batch))
        return;
    struct problem p;
    if (depends_supported(n->broker, &p, NULL) < 0) {
        problem_answer(x, &p);
        return;
    }
    struct call *c = call_new(n->broker, n, x, OP_DEPENDENCIES, batch_changed);
    if (!c)
        return;
    c->op.dependencies = (struct op_dependencies){.job = batch, .close = true};
    call_submit(c);
}

/* ---- POST /v1/jobs/{id}/dependencies ---- */

struct add_in {
    struct texts_in parents;
    bool close;
};
static const struct field add_rows[] = {
    {"depends_on", FIELD_TEXTS, offsetof(struct add_in, parents), 0, LIMIT_DEPENDENCIES, NULL,
     FIELD_REQUIRED | FIELD_EMPTY},
    {"close", FIELD_BOOL, offsetof(struct add_in, close), 0, 0, NULL, 0},
};

static int take_refs(struct arena *arena, struct texts_in from, struct op_dependencies *op,
                     struct problem *p)
{
    struct job_ref *refs = arena_array(arena, from.count + 1, sizeof *refs);
    if (!refs) {
        problem_of_error(p, -ERR_NOMEM);
        return -ERR_INVALID;
    }
    for (size_t i = 0; i < from.count; i++)
        if (id_parse(from.list[i], &refs[i]) < 0 || refs[i].seq == 0) {
            problem_set(p, arena, PROBLEM_INVALID_FIELD, "depends_on",
                        "depends_on[%zu] is not the id of a job", i);
            return -ERR_INVALID;
        }
    op->parents = refs;
    op->count = (uint32_t)from.count;
    return 0;
}

void job_depends_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct add_in body = {0};
    struct job_ref job;
    struct problem p;
    struct field_reader r = reader_of(n->broker, x, FIELDS(add_rows), &body, &p);
    if (!query_none(n->broker, x) || !path_job(x, &job) || !body_read(&r, x))
        return;
    struct call *c = call_new(n->broker, n, x, OP_DEPENDENCIES, batch_changed);
    if (!c)
        return;
    c->op.dependencies = (struct op_dependencies){.job = job, .close = body.close};
    if (depends_supported(n->broker, &p, NULL) < 0 ||
        take_refs(c->arena, body.parents, &c->op.dependencies, &p) < 0)
        problem_answer(x, &p);
    else
        call_submit(c);
}
