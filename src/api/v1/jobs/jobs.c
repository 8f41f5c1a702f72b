/* SPDX-License-Identifier: Apache-2.0 */
/* One job by its id: read, change, cancel, requeue, remove. */
#include "api/json_members.h"
#include "api/v1/jobs/batch.h"
#include "api/v1/jobs/job_view.h"
#include "core/limits.h"

/* ---- look ---- */

struct get_in {
    bool payload, dependencies;
};

static const struct field get_rows[] = {
    {"payload", FIELD_BOOL, offsetof(struct get_in, payload), 0, 0, NULL, 0},
    {"dependencies", FIELD_BOOL, offsetof(struct get_in, dependencies), 0, 0, NULL, 0},
};

static void job_got(struct call *c, const struct reply *r)
{
    const struct get_in *in = c->more;
    struct json_writer w;
    if (!call_has_job(c, r))
        return;
    answer_begin(c->x, &w);
    job_view_write(&w, &r->jobs[0], broker_now(c->broker).wall,
                   VIEW_HISTORY | (in->payload ? VIEW_PAYLOAD : 0));
    answer_end(c->x, &w, 200);
}

void job_get_handle(void *ctx, struct http_exchange *x)
{
    struct job_ref job;
    struct problem p;
    struct call *c = path_job(x, &job) ? call_new(broker_of(ctx), ctx, x, OP_GET, job_got) : NULL;
    if (!c)
        return;
    struct get_in *in = call_more(c, sizeof *in);
    if (!in)
        return;
    in->payload = true;
    struct field_reader r = reader_of(broker_of(ctx), x, FIELDS(get_rows), in, &p);
    if (!query_read(&r, x))
        return;
    http_alone(x);
    c->op.job = (struct op_job){.job = job,
                                .want_body = true,
                                .want_attempts = true,
                                .want_steps = true,
                                .want_parents = in->dependencies};
    call_submit(c);
}

/* ---- moves ---- */

static void write_moved(const struct batch *b, struct json_writer *w, const struct batch_item *item)
{
    (void)b;
    write_job_name(w, item->id_hi, item->seq);
    write_text(w, "state", state_name(item->state));
    if (item->state == STATE_SCHEDULED)
        write_time(w, "run_at", item->run_at);
    if (item->lease.cancel_by.ms != 0) {
        write_bool(w, "cancel_requested", true);
        write_time(w, "cancel_deadline", item->lease.cancel_by);
    }
}

/* The operation of a batch of one; NULL after a problem was answered. */
static struct op *move_begin(struct native *n, struct http_exchange *x, enum op_kind kind,
                             struct job_ref *ret, struct batch **ret_batch)
{
    if (!query_none(n->broker, x) || !path_job(x, ret))
        return NULL;
    *ret_batch = batch_new(n, x, 1, false, write_moved);
    return *ret_batch ? batch_op(*ret_batch, 0, kind) : NULL;
}

static int read_body(struct batch *b, struct fields table, void *into, struct field_reader *ret,
                     struct problem *p)
{
    *ret = reader_of(b->n->broker, b->x, table, into, p);
    return fields_read_optional(ret, http_request(b->x)->body);
}

static const struct field cancel_rows[] = {
    {"force", FIELD_BOOL, 0, 0, 0, NULL, 0},
};

void job_cancel_handle(void *ctx, struct http_exchange *x)
{
    struct job_ref job;
    struct batch *b;
    struct field_reader r;
    struct problem p;
    bool force = false;
    struct op *op = move_begin(ctx, x, OP_CANCEL, &job, &b);
    if (!op)
        return;
    if (read_body(b, FIELDS(cancel_rows), &force, &r, &p) < 0)
        batch_refuse(b, 0, &p);
    else
        op->job = (struct op_job){.job = job, .force = force};
    batch_submit(b);
}

void job_discard_handle(void *ctx, struct http_exchange *x)
{
    struct job_ref job;
    struct batch *b;
    struct field_reader r;
    struct problem p;
    struct op *op = move_begin(ctx, x, OP_CANCEL, &job, &b);
    if (!op)
        return;
    op->job = (struct op_job){.job = job, .discard = true};
    if (read_body(b, (struct fields){0}, NULL, &r, &p) < 0)
        batch_refuse(b, 0, &p);
    batch_submit(b);
}

static const struct field requeue_rows[] = {
    {"delay_ms", FIELD_INT, 0, 0, LIMIT_WALL_MS, NULL, 0},
};

void job_requeue_handle(void *ctx, struct http_exchange *x)
{
    struct job_ref job;
    struct batch *b;
    struct field_reader r;
    struct problem p;
    int64_t delay_ms = 0;
    struct op *op = move_begin(ctx, x, OP_REQUEUE, &job, &b);
    if (!op)
        return;
    if (read_body(b, FIELDS(requeue_rows), &delay_ms, &r, &p) < 0)
        batch_refuse(b, 0, &p);
    else
        op->job = (struct op_job){.job = job, .delay_ms = delay_ms};
    batch_submit(b);
}

/* ---- change ---- */

struct patch_in {
    struct priority_in priority;
    struct wall_time run_at;
    int64_t delay_ms;
    struct span payload, label, attributes;
};

#define AT(member) offsetof(struct patch_in, member)
static const struct field patch_rows[] = {
    {"priority", FIELD_PRIORITY, AT(priority), 0, 0, NULL, 0},
    {"run_at", FIELD_TIME, AT(run_at), 0, 0, NULL, 0},
    {"delay_ms", FIELD_INT, AT(delay_ms), 0, LIMIT_WALL_MS, NULL, 0},
    {"payload", FIELD_RAW, AT(payload), 0, 0, NULL, 0},
    {"priority_label", FIELD_TEXT, AT(label), 0, LIMIT_LABEL_BYTES, NULL, 0},
    {"attributes", FIELD_RAW, AT(attributes), 0, 0, NULL, 0},
};

static struct wall_time patch_time(const struct native *n, const struct patch_in *in)
{
    struct wall_time now = broker_now(n->broker).wall;
    int64_t left = LIMIT_WALL_MS - 1 - now.ms;
    if (in->run_at.ms != 0 || in->delay_ms == 0)
        return in->run_at;
    return (struct wall_time){now.ms + (in->delay_ms < left ? in->delay_ms : left)};
}

static int take_patch(const struct native *n, const struct field_reader *r,
                      const struct patch_in *in, struct op_patch *op)
{
    if (r->seen == 0) {
        problem_set(r->problem, r->arena, PROBLEM_MISSING_FIELD, NULL,
                    "nothing to change: give priority, run_at, delay_ms or payload, or "
                    "priority_label or attributes");
        return -ERR_INVALID;
    }
    op->has_priority = fields_has(r, "priority");
    op->priority = in->priority.value;
    op->has_run_at = fields_has(r, "run_at") || fields_has(r, "delay_ms");
    op->run_at = patch_time(n, in);
    op->has_payload = fields_has(r, "payload");
    op->payload_kind = PAYLOAD_JSON;
    op->payload = in->payload;
    return fields_exclude(r, "run_at", "delay_ms");
}

/* Label and attributes are annotations, which a job can get in any state; the other members can
 * be changed only while the job waits. One request changes either the former or the latter, so
 * that no request succeeds in part. */
static bool annotates(const struct field_reader *r)
{
    return fields_has(r, "priority_label") || fields_has(r, "attributes");
}

static int take_annotation(const struct field_reader *r, const struct patch_in *in, struct op *op)
{
    static const char *const others[] = {"priority", "run_at", "delay_ms", "payload"};
    struct job_ref job = op->patch.job;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (!fields_has(r, others[i]))
            continue;
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, others[i],
                    "%s cannot be changed together with priority_label or attributes; send two "
                    "requests",
                    others[i]);
        return -ERR_INVALID;
    }
    if (fields_has(r, "attributes") && in->attributes.at[0] != '{' &&
        !span_equal(in->attributes, SPAN_LITERAL("null"))) {
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "attributes",
                    "attributes must be an object, or null");
        return -ERR_INVALID;
    }
    *op = (struct op){.kind = OP_NOTE, .tag = op->tag};
    op->note = (struct op_note){.job = job,
                                .has_label = fields_has(r, "priority_label"),
                                .has_attributes = fields_has(r, "attributes"),
                                .label = in->label,
                                .attributes = in->attributes};
    if (span_equal(in->attributes, SPAN_LITERAL("null")))
        op->note.attributes = (struct span){NULL, 0};
    return 0;
}

void job_patch_handle(void *ctx, struct http_exchange *x)
{
    struct job_ref job;
    struct batch *b;
    struct field_reader r;
    struct problem p;
    struct patch_in in = {0};
    struct op *op = move_begin(ctx, x, OP_PATCH, &job, &b);
    if (!op)
        return;
    op->patch.job = job;
    int err = read_body(b, FIELDS(patch_rows), &in, &r, &p);
    if (err == 0)
        err = annotates(&r) ? take_annotation(&r, &in, op) : take_patch(ctx, &r, &in, &op->patch);
    if (err < 0)
        batch_refuse(b, 0, &p);
    batch_submit(b);
}

/* ---- remove ---- */

static void job_removed(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_begin(c->x, &w);
    json_write_object(&w);
    write_job_name(&w, r->id_hi, r->seq);
    write_bool(&w, "removed", true);
    if (r->relaxed)
        write_text(&w, "durability", "relaxed");
    json_write_object_end(&w);
    answer_end(c->x, &w, 200);
}

void job_delete_handle(void *ctx, struct http_exchange *x)
{
    struct job_ref job;
    bool plain = query_none(broker_of(ctx), x) && body_none(broker_of(ctx), x);
    struct call *c = plain && path_job(x, &job)
                         ? call_new(broker_of(ctx), ctx, x, OP_REMOVE, job_removed)
                         : NULL;
    if (!c)
        return;
    c->op.job.job = job;
    call_submit(c);
}
