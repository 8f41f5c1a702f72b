/* SPDX-License-Identifier: Apache-2.0 */
/* Create, get, list. */
#include <inttypes.h>
#include <stdio.h>

#include "api/json_members.h"
#include "api/tasks/tasks_impl.h"
#include "api/trace.h"
#include "core/limits.h"

#define LIMIT_DEFAULT 100
#define NAME_BYTES_MAX 200

const struct owned_jobs task_jobs = {
    .owner = TASKS_OWNER,
    .absent = "there is no task with this id; it may have been removed after its retention",
    .bad_id = "the id of a task must be the UUID that its creation returned",
};

/* ---- reading ---- */

static void answer_task(struct call *c, const struct reply *r, unsigned status)
{
    struct json_writer w;
    if (!owned_job_found(&task_jobs, c->x, r))
        return;
    answer_object_begin(c->x, &w);
    task_members(&w, &r->jobs[0], broker_now(c->broker).wall, false);
    if (c->spooled)
        write_bool(&w, "spooled", true);
    answer_object_end(c->x, &w, status);
}

static void show(struct call *c, const struct reply *r)
{
    answer_task(c, r, 200);
}

static void show_new(struct call *c, const struct reply *r)
{
    answer_task(c, r, 201);
}

void task_show(struct call *c, struct job_ref job)
{
    c->changed = true;
    call_read_job(c, job, show);
}

void task_get_handle(void *ctx, struct http_exchange *x)
{
    struct job_ref job;
    bool plain = query_none(tasks_broker(ctx), x) && owned_job_path(&task_jobs, x, &job);
    struct call *c = plain ? call_new(tasks_broker(ctx), ctx, x, OP_GET, show) : NULL;
    if (!c)
        return;
    http_alone(x);
    call_read_job(c, job, show);
}

/* ---- creating ---- */

struct task_in {
    struct span name, payload, queue;
    uint8_t rank;
    bool wait_queued;
    struct wall_time scheduled_at;
    int64_t max_retries;
    /* for the operations */
    struct op_enqueue enqueue;
    struct job_options options;
    struct queue_policy policy;
};

#define AT(member) offsetof(struct task_in, member)
static const struct field create_rows[] = {
    {"name", FIELD_TEXT, AT(name), 0, NAME_BYTES_MAX, NULL, FIELD_REQUIRED},
    {"payload", FIELD_RAW, AT(payload), 0, 0, NULL, FIELD_OPTIONAL},
    {"priority", FIELD_ENUM, AT(rank), RANK_HIGH, 0, task_ranks, FIELD_OPTIONAL},
    {"queue", FIELD_TEXT, AT(queue), 0, TASK_QUEUE_BYTES_MAX, NULL, FIELD_OPTIONAL},
    {"wait_queued", FIELD_BOOL, AT(wait_queued), 0, 0, NULL, FIELD_OPTIONAL},
    {"scheduled_at", FIELD_TIME, AT(scheduled_at), 0, 0, NULL, FIELD_OPTIONAL},
    {"max_retries", FIELD_INT, AT(max_retries), 0, LIMIT_ATTEMPTS - 1, NULL, FIELD_OPTIONAL},
};

static void enqueue(struct call *c);

static void queue_created(struct call *c, const struct reply *r)
{
    (void)r;
    enqueue(c);
}

/* The first task creates its queue. */
static void create_queue(struct call *c)
{
    struct task_in *in = c->more;
    const struct tasks *t = c->api;
    task_policy(t->config.policy, &in->policy);
    c->done = queue_created;
    c->op = (struct op){.kind = OP_QUEUE_PUT,
                        .queue = {.name = in->enqueue.queue,
                                  .implied = true,
                                  .policy = &in->policy,
                                  .has_owner = true,
                                  .owner = TASKS_OWNER}};
    call_submit(c);
}

static void created(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    struct tasks *t = c->api;
    struct problem p;
    const struct task_in *in = c->more;
    struct job_ref job = {.seq = r->seq, .hi = r->id_hi};
    call_note_reply(c, r);
    if (r->outcome == OUT_OK) {
        t->queued += r->state == STATE_READY;
        if (in->wait_queued && r->state == STATE_READY)
            task_queued_wait(c, job, (enum task_rank)in->rank);
        else
            call_read_job(c, job, show_new);
    } else if (r->outcome == OUT_NO_QUEUE) {
        create_queue(c);
    } else {
        problem_of_reply(&p, c->arena, r, broker_draining(c->broker));
        problem_answer(c->x, &p);
    }
}

static void enqueue(struct call *c)
{
    const struct task_in *in = c->more;
    tasks_listen(c->api);
    c->op = (struct op){.kind = OP_ENQUEUE, .enqueue = in->enqueue};
    call_ask(c, created);
}

/* Nothing is enqueued before the owner of the queue is known. */
static void queue_read(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    struct problem p = {.code = PROBLEM_EXISTS,
                        .detail = "the queue for tasks of this priority does not belong to this "
                                  "API (its owner is not tasks); nothing was created"};
    if (r->outcome == OUT_NO_QUEUE) {
        create_queue(c);
    } else if (r->outcome != OUT_OK) {
        problem_of_reply(&p, c->arena, r, broker_draining(c->broker));
        problem_answer(c->x, &p);
    } else if (r->queue_count != 1 || !span_equal(r->queues[0].owner, TASKS_OWNER)) {
        problem_answer(c->x, &p);
    } else {
        enqueue(c);
    }
}

/* The number that /v1 has for this label. */
static int64_t rank_priority(const struct broker *b, enum task_rank rank)
{
    int64_t priority = rank == RANK_HIGH ? 10 : -10;
    (void)broker_label_find(b, span_text(task_ranks[rank]), &priority);
    return priority;
}

/* false: the problem was answered. */
static bool take_task(struct call *c, const struct field_reader *r, struct task_in *in)
{
    struct problem p;
    if (!task_queue_valid(c->arena, in->queue, &p)) {
        problem_answer(c->x, &p);
        return false;
    }
    if (in->name.len == 0) {
        problem_set(&p, c->arena, PROBLEM_INVALID_FIELD, "name",
                    "name is empty; it must say what to run");
        problem_answer(c->x, &p);
        return false;
    }
    in->enqueue = (struct op_enqueue){
        .queue = task_queue(c->arena, in->queue, (enum task_rank)in->rank),
        .no_create = true,
        .payload_kind = in->payload.len ? PAYLOAD_JSON : PAYLOAD_NONE,
        .payload = in->payload,
        .has_priority = true,
        .priority = rank_priority(c->broker, (enum task_rank)in->rank),
        .run_at = in->scheduled_at,
        .extra.label = span_text(task_ranks[in->rank]),
    };
    if (fields_has(r, "max_retries")) {
        in->options.max_attempts = (uint16_t)(in->max_retries + 1);
        in->enqueue.options = &in->options;
    }
    if (in->enqueue.queue.len > 0 &&
        trace_copy(http_request(c->x), &in->enqueue.extra.headers) == 0 &&
        task_attributes(c->arena, in->name, &in->enqueue.extra.attributes) == 0)
        return true;
    answer_error(c->x, -ERR_NOMEM);
    return false;
}

void task_create_handle(void *ctx, struct http_exchange *x)
{
    struct problem p;
    struct broker *b = tasks_broker(ctx);
    struct call *c = query_none(b, x) ? call_new(b, ctx, x, OP_QUEUE_GET, NULL) : NULL;
    struct task_in *in = call_more(c, sizeof *in);
    if (!in)
        return;
    in->rank = RANK_LOW;
    in->queue = TASK_QUEUE_DEFAULT;
    struct field_reader r = reader_of(b, x, FIELDS(create_rows), in, &p);
    if (!body_read(&r, x))
        return;
    if (!take_task(c, &r, in))
        return;
    c->op.queue.name = in->enqueue.queue;
    call_ask(c, queue_read);
}

/* ---- listing ---- */

struct list {
    uint8_t status, rank, pending;
    int64_t limit, offset;
    struct span queue;
    struct span queues[RANK_COUNT];
    unsigned states, ranks; /* masks */
    size_t next;            /* rank to ask */
    struct json_writer w;
    uint64_t total;
};

#undef AT
#define AT(member) offsetof(struct list, member)
static const struct field list_rows[] = {
    {"status", FIELD_ENUM, AT(status), TASK_SCHEDULED, 0, task_status_names, 0},
    {"priority", FIELD_ENUM, AT(rank), RANK_HIGH, 0, task_ranks, 0},
    {"queue", FIELD_TEXT, AT(queue), 0, TASK_QUEUE_BYTES_MAX, NULL, 0},
    {"limit", FIELD_INT, AT(limit), 1, LIMIT_BATCH, NULL, 0},
    {"offset", FIELD_INT, AT(offset), 0, INT64_MAX, NULL, 0},
};

static void list_next(struct call *c);

static void list_end(struct call *c)
{
    struct list *l = c->more;
    answer_end_page(c->x, &l->w, l->total);
}

static void list_take(struct call *c, const struct reply *r)
{
    struct list *l = c->more;
    struct wall_time now = broker_now(c->broker).wall;
    for (uint32_t i = 0; i < r->job_count && l->limit > 0; i++, l->limit--)
        task_write(&l->w, &r->jobs[i], now, false);
    l->total += r->job_total;
    l->offset -= (int64_t)(r->job_total < (uint64_t)l->offset ? r->job_total : (uint64_t)l->offset);
    list_next(c);
}

/* A queue that does not exist, or that belongs to another API, has no tasks. */
static void list_read(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    struct problem p;
    call_note_reply(c, r);
    bool none = r->outcome == OUT_NO_QUEUE || r->outcome == OUT_INVALID;
    if (r->outcome == OUT_OK && (r->job_count == 0 || span_equal(r->jobs[0].owner, TASKS_OWNER))) {
        list_take(c, r);
    } else if (r->outcome == OUT_OK || none) {
        list_next(c);
    } else {
        problem_of_reply(&p, c->arena, r, broker_draining(c->broker));
        problem_answer(c->x, &p);
    }
}

/* Lists high tasks, then low ones, each in the order of creation. */
static void list_next(struct call *c)
{
    struct list *l = c->more;
    while (l->next < RANK_COUNT && !(l->ranks >> l->next & 1))
        l->next++;
    if (l->next == RANK_COUNT) {
        list_end(c);
        return;
    }
    c->op = (struct op){.kind = OP_PAGE,
                        .page = {.queue = l->queues[l->next++],
                                 .states = l->states,
                                 .pending = l->pending,
                                 .offset = (uint64_t)l->offset,
                                 .limit = l->limit ? (uint32_t)l->limit : 1,
                                 .want_body = l->limit > 0}};
    call_ask(c, list_read);
}

void task_list_handle(void *ctx, struct http_exchange *x)
{
    struct problem p;
    struct call *c = call_new(tasks_broker(ctx), ctx, x, OP_PAGE, NULL);
    struct list *l = call_more(c, sizeof *l);
    if (!l)
        return;
    l->limit = LIMIT_DEFAULT;
    l->queue = TASK_QUEUE_DEFAULT;
    struct field_reader r = reader_of(c->broker, x, FIELDS(list_rows), l, &p);
    if (fields_read_query(&r, http_request(x)->query) < 0 ||
        !task_queue_valid(c->arena, l->queue, &p)) {
        problem_answer(x, &p);
        return;
    }
    for (unsigned i = 0; i < RANK_COUNT; i++)
        l->queues[i] = task_queue(c->arena, l->queue, (enum task_rank)i);
    if (!l->queues[RANK_HIGH].at || !l->queues[RANK_LOW].at) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    bool all = !fields_has(&r, "status");
    l->states = all ? STATES_ALL : task_states_of((enum task_status)l->status);
    l->pending = all ? PAGE_ALL : l->status == TASK_PENDING ? PAGE_PENDING : PAGE_DISPATCHED;
    l->ranks = fields_has(&r, "priority") ? 1u << l->rank : (1u << RANK_COUNT) - 1;
    http_alone(x);
    answer_begin(x, &l->w);
    json_write_array(&l->w);
    list_next(c);
}
