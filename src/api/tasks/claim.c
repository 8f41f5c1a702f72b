/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/tasks/claim: high before low, with a minimum share for low.
 *
 * Of every hundred tasks that are claimed while both kinds wait, at least tasks.low_share are
 * low ones. The share that they are owed is counted in hundredths of a task. A claim takes the
 * low tasks that are owed first, then high ones, then low ones. Only if there are no tasks at
 * all does it wait, for either kind. The owner of the queues is checked first: a queue with a
 * matching name that belongs to another API is left alone. */
#include "api/claim_hold.h"
#include "api/json_members.h"
#include "api/tasks/tasks_impl.h"
#include "core/limits.h"

#define COUNT_MAX 100
#define WAIT_MS_MAX 60000
#define WHOLE 100u

struct claim {
    struct tasks *t;
    struct http_exchange *x;
    struct json_writer w;
    struct broker_claim *parked; /* NULL after it was answered or cancelled */
    struct broker_held held[COUNT_MAX];
    size_t held_count;
    size_t handed[RANK_COUNT];
    size_t step;
    /* the request */
    struct span worker, queue;
    int64_t count, wait_ms;
    uint8_t rank;
    bool one_rank;
    size_t low_first; /* low tasks that are owed */
    /* the queues */
    struct span queues[RANK_COUNT];
    size_t reading;
    bool foreign[RANK_COUNT];
    struct span open[RANK_COUNT]; /* the queues to wait for */
    struct problem problem;       /* code NONE = the queues could be read */
    bool left;                    /* the client has closed the connection */
};

#define AT(member) offsetof(struct claim, member)
static const struct field rows[] = {
    {"worker", FIELD_TEXT, AT(worker), 0, LIMIT_WORKER_BYTES, NULL, FIELD_OPTIONAL},
    {"count", FIELD_INT, AT(count), 1, COUNT_MAX, NULL, FIELD_OPTIONAL},
    {"wait_ms", FIELD_INT, AT(wait_ms), 0, WAIT_MS_MAX, NULL, FIELD_OPTIONAL},
    {"priority", FIELD_ENUM, AT(rank), RANK_HIGH, 0, task_ranks, FIELD_OPTIONAL},
    {"queue", FIELD_TEXT, AT(queue), 0, TASK_QUEUE_BYTES_MAX, NULL, FIELD_OPTIONAL},
};

static void claim_next(struct claim *c);

/* ---- the answer ---- */

static void give_back(struct claim *c)
{
    if (c->held_count > 0)
        broker_give_back(c->t->broker, c->held, c->held_count);
    c->held_count = 0;
}

/* Computes what low tasks are owed after this claim: at most one task, so that a period without
 * low tasks does not lead to a burst. */
static void settle_share(struct claim *c)
{
    struct tasks *t = c->t;
    size_t all = c->handed[RANK_HIGH] + c->handed[RANK_LOW];
    size_t owed = t->credit + t->config.tasks_low_share * all;
    size_t paid = WHOLE * c->handed[RANK_LOW];
    owed = owed > paid ? owed - paid : 0;
    t->credit = owed < WHOLE ? (unsigned)owed : WHOLE;
}

static void claim_end(struct claim *c)
{
    settle_share(c);
    json_write_array_end(&c->w);
    json_write_object_end(&c->w);
    int err = answer_close(c->x, &c->w);
    if (err < 0) {
        give_back(c);
        answer_error(c->x, err);
        return;
    }
    http_answer(c->x, 200, JSON_TYPE);
}

static void take_tasks(struct claim *c, const struct reply *r)
{
    struct wall_time now = broker_now(c->t->broker).wall;
    for (uint32_t i = 0; i < r->job_count; i++) {
        const struct job_view *v = &r->jobs[i];
        c->held[c->held_count++] = (struct broker_held){v->job.seq, v->token};
        c->handed[task_rank_of(v->queue)]++;
        task_write(&c->w, v, now, true);
    }
}

static void claimed(void *ctx, const struct reply *r)
{
    struct claim *c = ctx;
    struct problem p;
    c->parked = NULL;
    if (r->outcome != OUT_OK && c->held_count == 0) {
        problem_of_reply(&p, http_request(c->x)->arena, r, broker_draining(c->t->broker));
        problem_answer(c->x, &p);
        return;
    }
    take_tasks(c, r);
    claim_next(c);
}

static void client_closed(void *ctx)
{
    struct claim *c = ctx;
    c->left = true;
    if (!c->parked)
        return;
    broker_claim_cancel(c->t->broker, c->parked);
    c->parked = NULL;
    give_back(c);
    http_answer(c->x, 204, NULL);
}

static void sent(void *ctx, bool whole)
{
    if (!whole)
        give_back(ctx);
}

/* ---- the steps ---- */

static void ask(struct claim *c, const struct span *queues, uint32_t queue_count, size_t count,
                uint32_t wait_ms)
{
    struct op_claim want = {.queues = queues,
                            .queue_count = queue_count,
                            .count = (uint32_t)count,
                            .worker = c->worker,
                            .want_body = true};
    int err = broker_claim(c->t->broker, &want, wait_ms, claimed, c, &c->parked);
    if (err < 0) {
        give_back(c);
        answer_error(c->x, err);
    } else if (wait_ms > 0) {
        http_park(c->x);
    }
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool skipped(const struct claim *c, enum task_rank rank)
{
    return c->foreign[rank] || (c->one_rank && rank != c->rank);
}

/* No wait is begun for a client that has closed the connection. */
static bool wait_for_any(struct claim *c)
{
    uint32_t count = 0;
    for (size_t i = 0; i < RANK_COUNT; i++)
        if (!skipped(c, (enum task_rank)i))
            c->open[count++] = c->queues[i];
    if (c->held_count > 0 || c->wait_ms == 0 || count == 0 || c->left)
        return false;
    ask(c, c->open, count, 1, (uint32_t)c->wait_ms);
    return true;
}

/* Takes low tasks that are owed, then high ones, then low ones; if no task is ready, waits for
 * either kind. */
static void claim_next(struct claim *c)
{
    size_t left = (size_t)c->count - c->held_count;
    while (c->step < 3 && left > 0) {
        size_t step = c->step++;
        enum task_rank rank = step == 1 ? RANK_HIGH : RANK_LOW;
        size_t count = step == 0 ? smaller(c->low_first, left) : left;
        if (count > 0 && !skipped(c, rank)) {
            ask(c, &c->queues[rank], 1, count, 0);
            return;
        }
    }
    if (c->step++ > 3 || !wait_for_any(c))
        claim_end(c);
}

static void queues_read(void *ctx, const struct reply *r)
{
    struct claim *c = ctx;
    if (r->outcome == OUT_OK)
        c->foreign[r->tag] = r->queue_count != 1 || !span_equal(r->queues[0].owner, TASKS_OWNER);
    else if (r->outcome != OUT_NO_QUEUE)
        problem_of_reply(&c->problem, http_request(c->x)->arena, r, broker_draining(c->t->broker));
    if (--c->reading > 0)
        return;
    if (c->problem.code != PROBLEM_NONE)
        problem_answer(c->x, &c->problem);
    else
        claim_next(c);
}

static void read_queues(struct claim *c)
{
    struct op *ops = arena_array(http_request(c->x)->arena, RANK_COUNT, sizeof *ops);
    for (size_t i = 0; i < RANK_COUNT; i++) {
        c->queues[i] = task_queue(http_request(c->x)->arena, c->queue, (enum task_rank)i);
        if (!c->queues[i].at)
            ops = NULL;
    }
    for (size_t i = 0; ops && i < RANK_COUNT; i++)
        ops[i] = (struct op){.kind = OP_QUEUE_GET, .tag = i, .queue = {.name = c->queues[i]}};
    c->reading = RANK_COUNT;
    int err = ops ? broker_submit(c->t->broker, ops, RANK_COUNT, queues_read, c) : -ERR_NOMEM;
    if (err < 0)
        answer_error(c->x, err);
}

void task_claim_handle(void *ctx, struct http_exchange *x)
{
    struct tasks *t = ctx;
    struct problem p;
    struct arena *arena = http_request(x)->arena;
    if (!query_none(t->broker, x))
        return;
    struct claim *c = arena_array(arena, 1, sizeof *c);
    if (!c) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    *c = (struct claim){.t = t, .x = x, .count = 1, .queue = TASK_QUEUE_DEFAULT};
    struct field_reader r = reader_of(t->broker, x, FIELDS(rows), c, &p);
    if (fields_read_optional(&r, http_request(x)->body) < 0 ||
        !task_queue_valid(arena, c->queue, &p)) {
        problem_answer(x, &p);
        return;
    }
    c->one_rank = fields_has(&r, "priority");
    c->low_first = (t->credit + t->config.tasks_low_share * (size_t)c->count) / WHOLE;
    if (c->count > 1)
        http_alone(x);
    answer_object_begin(x, &c->w);
    write_array(&c->w, "tasks");
    http_watch(x, client_closed, sent, c);
    read_queues(c);
}

/* ---- one task, by its id ---- */

struct claim_one {
    struct call *c;
    struct claim_hold hold;
    struct span worker;
    struct job_ref job;
};

#undef AT
#define AT(member) offsetof(struct claim_one, member)
static const struct field one_rows[] = {
    {"worker", FIELD_TEXT, AT(worker), 0, LIMIT_WORKER_BYTES, NULL, FIELD_OPTIONAL},
};

static void one_claimed(void *ctx, const struct reply *r)
{
    struct claim_one *one = ctx;
    struct json_writer w;
    one->hold.parked = NULL;
    if (r->outcome != OUT_OK || r->job_count == 0) {
        task_refuse(one->c, r);
        return;
    }
    claim_hold_job(&one->hold, &r->jobs[0]);
    answer_begin(one->c->x, &w);
    task_write(&w, &r->jobs[0], broker_now(one->c->broker).wall, true);
    claim_hold_answer(&one->hold, &w);
}

static void one_read(struct call *c, const struct reply *r)
{
    struct claim_one *one = c->more;
    if (!owned_job_found(&task_jobs, c->x, r))
        return;
    struct op_claim want = {
        .one = one->job, .only_ready = true, .worker = one->worker, .want_body = true};
    one->hold = (struct claim_hold){.broker = c->broker, .x = c->x};
    claim_hold_begin(&one->hold, &want, one_claimed, one);
}

void task_claim_one_handle(void *ctx, struct http_exchange *x)
{
    struct problem p;
    struct job_ref job;
    struct broker *b = tasks_broker(ctx);
    bool plain = query_none(b, x) && owned_job_path(&task_jobs, x, &job);
    struct call *c = plain ? call_new(b, ctx, x, OP_GET, one_read) : NULL;
    struct claim_one *one = call_more(c, sizeof *one);
    if (!one)
        return;
    one->c = c;
    one->job = job;
    struct field_reader r = reader_of(b, x, FIELDS(one_rows), one, &p);
    if (!body_read_optional(&r, x))
        return;
    c->op.job.job = job;
    call_submit(c);
}
