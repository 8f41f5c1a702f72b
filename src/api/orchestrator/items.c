/* SPDX-License-Identifier: Apache-2.0 */
/* /api/queue-items: create by queue id or name, read, soft delete. */
#include "api/json_members.h"
#include "api/orchestrator/orchestrator_impl.h"
#include "api/trace.h"
#include "core/limits.h"

const struct owned_jobs orc_items = {
    .owner = ORC_OWNER,
    .terms = &orc_terms,
    .absent = "there is no item with this id; it may have been removed after its retention",
    .bad_id = "the id of an item must be the UUID that its creation returned",
};

/* ---- looking ---- */

static void show(struct call *c, const struct reply *r)
{
    struct json_writer w;
    if (!owned_job_found(&orc_items, c->x, r))
        return;
    answer_begin(c->x, &w);
    orc_item_write(&w, &r->jobs[0], broker_now(c->broker).wall, false);
    answer_end(c->x, &w, 200);
}

static void show_new(struct call *c, const struct reply *r)
{
    struct json_writer w;
    if (!owned_job_found(&orc_items, c->x, r))
        return;
    answer_object_begin(c->x, &w);
    orc_item_members(&w, &r->jobs[0], broker_now(c->broker).wall, false);
    if (c->spooled)
        write_bool(&w, "spooled", true);
    answer_object_end(c->x, &w, 201);
}

void orc_item_show(struct call *c, struct job_ref job)
{
    c->changed = true;
    call_read_job(c, job, show);
}

void orc_item_get(void *ctx, struct http_exchange *x)
{
    struct job_ref job;
    bool plain = query_none(orc_broker(ctx), x) && owned_job_path(&orc_items, x, &job);
    struct call *c = plain ? orc_call(ctx, x, OP_GET, show) : NULL;
    if (!c)
        return;
    http_alone(x);
    call_read_job(c, job, show);
}

/* ---- creating ---- */

struct item_in {
    int64_t queue_id;
    struct span queue_name, reference, payload;
    int64_t priority;
};

#define AT(member) offsetof(struct item_in, member)
#define ITEM_ROWS                                                                                  \
    {"payload", FIELD_RAW, AT(payload), 0, 0, NULL, FIELD_OPTIONAL},                               \
        {"reference", FIELD_TEXT, AT(reference), 0, LIMIT_KEY_BYTES, NULL, FIELD_OPTIONAL},        \
    {                                                                                              \
        "priority", FIELD_INT, AT(priority), INT64_MIN, INT64_MAX, NULL, FIELD_OPTIONAL            \
    }
static const struct field by_id_rows[] = {
    {"queue_id", FIELD_INT, AT(queue_id), INT64_MIN, INT64_MAX, NULL, FIELD_REQUIRED},
    ITEM_ROWS,
};
static const struct field by_name_rows[] = {
    {"queue_name", FIELD_TEXT, AT(queue_name), 0, LIMIT_QUEUE_NAME_BYTES, NULL, FIELD_REQUIRED},
    ITEM_ROWS,
};

/* Answers a create. A refusal because of an inactive queue has its own detail. */
static void created(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    struct problem p;
    call_note_reply(c, r);
    if (r->outcome == OUT_OK) {
        call_read_job(c, (struct job_ref){.seq = r->seq, .hi = r->id_hi}, show_new);
        return;
    }
    call_problem(c, r, &p);
    if (r->outcome == OUT_REFUSED_NEW)
        p.detail = "the queue is not active (is_active is false); nothing was created";
    if (r->outcome == OUT_DUPLICATE) {
        p.field = "reference";
        p.detail = "another item of this queue has this reference; nothing was created";
    }
    if (r->outcome == OUT_UNAVAILABLE && c->op.enqueue.extra.unique.len &&
        store_is_missing(c->broker))
        p.detail = "the shared store does not answer, and only it knows whether another item of "
                   "this queue has this reference; nothing was created, try again later";
    if (r->outcome == OUT_NO_QUEUE)
        orc_no_queue(c->x, NULL);
    else
        problem_answer(c->x, &p);
}

/* The queue may have been deleted in the meantime; it is not created again. */
static void create_found(struct call *c, const struct queue_view *q)
{
    const struct item_in *in = c->more;
    struct span name = q->name, headers = {NULL, 0};
    if (!arena_keep(c->arena, &name) || trace_copy(http_request(c->x), &headers) < 0) {
        answer_error(c->x, -ERR_NOMEM);
        return;
    }
    if (q->number == 0) {
        orc_refuse_missing(c);
        return;
    }
    c->op = (struct op){.kind = OP_ENQUEUE,
                        .enqueue = {.queue = name,
                                    .no_create = true,
                                    .payload_kind = in->payload.len ? PAYLOAD_JSON : PAYLOAD_NONE,
                                    .payload = in->payload,
                                    .has_priority = true,
                                    .priority = in->priority,
                                    .extra = {.unique = in->reference, .headers = headers}}};
    call_ask(c, created);
}

static void create(void *ctx, struct http_exchange *x, struct fields table, const char *field)
{
    struct problem p;
    struct call *c = query_none(orc_broker(ctx), x) ? orc_call(ctx, x, OP_ENQUEUE, NULL) : NULL;
    struct item_in *in = call_more(c, sizeof *in);
    if (!in)
        return;
    struct field_reader r = reader_of(c->broker, x, table, in, &p);
    if (!body_read(&r, x))
        return;
    orc_queue_find(c, &(struct orc_lookup){.id = in->queue_id,
                                           .name = in->queue_name,
                                           .found = create_found,
                                           .field = field,
                                           .more = in});
}

void orc_item_create(void *ctx, struct http_exchange *x)
{
    create(ctx, x, FIELDS(by_id_rows), "queue_id");
}

void orc_item_add(void *ctx, struct http_exchange *x)
{
    create(ctx, x, FIELDS(by_name_rows), "queue_name");
}

/* ---- soft delete ---- */

static void discarded(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    struct problem p;
    /* A repeated delete succeeds. */
    bool was = r->outcome == OUT_ILLEGAL && r->state == STATE_CANCELLED;
    if (r->outcome == OUT_OK || was) {
        orc_item_show(c, c->op.job.job);
        return;
    }
    call_problem(c, r, &p);
    problem_answer(c->x, &p);
}

static void delete_found(struct call *c, const struct reply *r)
{
    struct job_ref job = c->op.job.job;
    if (!owned_job_found(&orc_items, c->x, r))
        return;
    c->op = (struct op){.kind = OP_CANCEL, .job = {.job = job, .discard = true}};
    call_ask(c, discarded);
}

void orc_item_delete(void *ctx, struct http_exchange *x)
{
    struct job_ref job;
    struct broker *b = orc_broker(ctx);
    bool plain = query_none(b, x) && body_none(b, x) && owned_job_path(&orc_items, x, &job);
    struct call *c = plain ? orc_call(ctx, x, OP_GET, delete_found) : NULL;
    if (!c)
        return;
    c->op.job.job = job;
    call_submit(c);
}
