/* SPDX-License-Identifier: Apache-2.0 */
/* A create with `wait_queued` is answered when Redis has confirmed the id of the task. The store
 * knows that from the mark that dispatch removes. There is no event for it, so the task is read
 * every few milliseconds while a create waits. Without dispatch, a task that is due is QUEUED at
 * once. */
#include "api/json_members.h"
#include "api/tasks/tasks_impl.h"
#include "base/check.h"

#define LOOK_MS 10

struct queued_wait {
    struct queued_wait *next;
    struct tasks *t;
    struct call *c;
    struct job_ref job;
    enum task_rank rank;
    uint64_t until_ms;  /* of the loop */
    bool asking;        /* a read is under way */
    bool client_closed; /* the client has closed the connection */
};

static void wait_end(struct queued_wait *one)
{
    struct queued_wait **at = &one->t->waits;
    while (*at != one)
        at = &(*at)->next;
    *at = one->next;
    if (!one->t->waits)
        CHECK(uv_timer_stop(&one->t->timer) == 0);
}

/* The reason not to wait longer; NULL = wait. */
static const char *reason_to_stop(const struct queued_wait *one)
{
    struct backend_figures store;
    broker_backend_figures(one->t->broker, &store);
    if (store.dispatches && !store.dispatch_up[one->rank])
        return "the Redis server for tasks of this priority does not answer; the task is pushed "
               "when it does";
    if (uv_now(one->t->config.loop) >= one->until_ms)
        return "Redis has not confirmed within tasks.queued_wait_ms; the task is pushed again "
               "until it does";
    return NULL;
}

static void task_read(void *ctx, const struct reply *r)
{
    struct queued_wait *one = ctx;
    struct call *c = one->c;
    struct wall_time now = broker_now(c->broker).wall;
    struct json_writer w;
    one->asking = false;
    if (one->client_closed || r->outcome != OUT_OK || r->job_count != 1) {
        wait_end(one);
        if (one->client_closed)
            http_answer(c->x, 204, NULL);
        else
            call_refuse(c, r);
        return;
    }
    bool pending = task_status_of(&r->jobs[0].job, now) == TASK_PENDING;
    const char *why = pending ? reason_to_stop(one) : NULL;
    if (pending && !why)
        return; /* the timer reads again */
    wait_end(one);
    answer_object_begin(c->x, &w);
    task_members(&w, &r->jobs[0], now, false);
    if (why)
        write_text(&w, "pending_reason", why);
    if (c->spooled)
        write_bool(&w, "spooled", true);
    answer_object_end(c->x, &w, 201);
}

static void ask(struct queued_wait *one)
{
    struct call *c = one->c;
    c->op = (struct op){.kind = OP_GET, .job = {.job = one->job, .want_body = true}};
    one->asking = broker_submit(c->broker, &c->op, 1, task_read, one) == 0;
}

static void timer_cb(uv_timer_t *timer)
{
    const struct tasks *t = timer->data;
    for (struct queued_wait *one = t->waits; one; one = one->next)
        if (!one->asking)
            ask(one);
}

/* The next read ends the wait. */
static void client_closed(void *ctx)
{
    struct queued_wait *one = ctx;
    one->client_closed = true;
}

void task_queued_wait(struct call *c, struct job_ref job, enum task_rank rank)
{
    struct tasks *t = c->api;
    struct queued_wait *one = arena_array(c->arena, 1, sizeof *one);
    c->changed = true;
    if (!one) {
        call_error(c, -ERR_NOMEM);
        return;
    }
    *one =
        (struct queued_wait){.next = t->waits,
                             .t = t,
                             .c = c,
                             .job = job,
                             .rank = rank,
                             .until_ms = uv_now(t->config.loop) + t->config.tasks_queued_wait_ms};
    if (!t->waits)
        CHECK(uv_timer_start(&t->timer, timer_cb, LOOK_MS, LOOK_MS) == 0);
    t->waits = one;
    http_watch(c->x, client_closed, NULL, one);
    ask(one);
}
