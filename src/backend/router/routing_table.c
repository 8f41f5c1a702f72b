/* SPDX-License-Identifier: Apache-2.0 */
/* Which way an op goes: by the name of its queue, by the id of its job, to the default backend, or
 * over all of them. And which ops would have to change two backends at once: those are refused. */
#include <stddef.h>

#include "backend/router/impl.h"
#include "core/alerts/alert.h"

/* What an operation needs beyond its descriptor (op_info), which says where its queue or id is. */
struct way {
    const struct gather *gather;
    /* A sentence when it cannot be done across backends. May be NULL, and return NULL. */
    const char *(*refuse)(const struct router *r, const struct op *op);
    void (*plan)(struct router *r, struct router_call *c); /* instead of all the others */
};

struct child *router_child_by_number(const struct router *r, unsigned number)
{
    for (unsigned i = 0; i < r->child_count; i++) {
        if (r->children[i].number == number)
            return &r->children[i];
    }
    return NULL;
}

struct child *router_child_of(const struct router *r, struct span queue)
{
    for (unsigned i = 0; queue.len > 0 && i < r->route_count; i++) {
        if (alert_matches(span_text(r->routes[i].pattern), queue))
            return router_child_by_number(r, r->routes[i].number);
    }
    return &r->children[0];
}

static bool elsewhere(const struct router *r, struct span queue)
{
    return router_child_of(r, queue) != &r->children[0];
}

/* --- what cannot be done --- */

static const char *refuse_enqueue(const struct router *r, const struct op *op)
{
    uint64_t old = op->enqueue.instead_of.seq;
    if (old && router_child_by_number(r, router_slot(old)) != router_child_of(r, op->enqueue.queue))
        return "the dead job and this queue are kept by different backends, which cannot commit "
               "together: requeue the job itself";
    if ((op->enqueue.moved && op->enqueue.moved->seq) || op->enqueue.id.seq)
        return "a job that brings its id can only be given to the backend itself";
    return op->enqueue.extra.undelivered.len > 0 && elsewhere(r, op->enqueue.queue)
               ? "the queue is on its own backend, and keys for undelivered jobs are kept "
                 "by the default backend: leave the keys out, or route the queue to the default "
                 "backend"
               : NULL;
}

static const char *refuse_commit(const struct router *r, const struct op *op)
{
    for (uint32_t i = 0; i < op->kv_commit.enqueue_count; i++) {
        if (elsewhere(r, op->kv_commit.enqueues[i].queue))
            return "keys and this queue are kept by different backends, which cannot commit "
                   "together: enqueue by itself, or into a queue of the default backend";
    }
    return NULL;
}

/* The ack goes to the backend that has the job, and with it everything in its hand-off. */
static const char *refuse_ack(const struct router *r, const struct op *op)
{
    const struct op_kv_commit *c = op->lease.handoff;
    const struct child *child = router_child_by_number(r, router_slot(op->lease.job.seq));
    if (!c || !child)
        return NULL;
    if (child != &r->children[0] && c->check_count + c->set_count + c->delete_count > 0)
        return "keys and this job are kept by different backends, which cannot commit together: "
               "ack the job without sets and deletes, or route its queue to the default backend";
    for (uint32_t i = 0; i < c->enqueue_count; i++) {
        if (router_child_of(r, c->enqueues[i].queue) != child)
            return "this job and a queue of its enqueues are kept by different backends, which "
                   "cannot commit together: route the queues to one backend, or enqueue by itself "
                   "before the ack";
        if (child != &r->children[0] && c->enqueues[i].extra.undelivered.len > 0)
            return "keys for undelivered jobs are kept by the default backend: leave the keys out, "
                   "or route the queue to the default backend";
    }
    return NULL;
}

static const char *refuse_schedule(const struct router *r, const struct op *op)
{
    const struct schedule_spec *spec = op->schedule.spec;
    return spec && (elsewhere(r, spec->queue) || elsewhere(r, spec->source))
               ? "schedules and this queue are kept by different backends, which cannot commit "
                 "together: let the schedule use queues of the default backend"
               : NULL;
}

/* --- plans --- */

static void give_to(struct router_call *c, struct child *child)
{
    c->base.inner = *c->base.op;
    c->child = child;
}

static void gather_by(struct router_call *c, const struct gather *how)
{
    c->gather = how;
    c->answers_end = &c->answers;
    if (!how->next(c, NULL))
        c->child = NULL;
}

/* A number that names no backend names no job: the default backend, which has none of so high a
 * sequence, says so. */
static void by_job(struct router *r, struct router_call *c, size_t offset)
{
    struct job_ref ref;
    memcpy(&ref, (const char *)c->base.op + offset, sizeof ref);
    struct child *child = router_child_by_number(r, router_slot(ref.seq));
    give_to(c, child ? child : &r->children[0]);
    if (child)
        ref.seq = router_seq_in(ref.seq);
    memcpy((char *)&c->base.inner + offset, &ref, sizeof ref);
}

static void plan_claim(struct router *r, struct router_call *c)
{
    const struct op_claim *want = &c->base.op->claim;
    if (want->one.seq) {
        by_job(r, c, offsetof(struct op, claim.one));
        return;
    }
    struct child *only = &r->children[0];
    for (uint32_t i = 0; i < want->queue_count; i++) {
        struct child *child = router_child_of(r, want->queues[i]);
        if (i > 0 && child != only) {
            c->first = r->turn++ % r->child_count;
            gather_by(c, &gather_claim);
            return;
        }
        only = child;
    }
    give_to(c, only);
}

static void plan_queue_get(struct router *r, struct router_call *c)
{
    uint32_t number = c->base.op->queue.number;
    if (c->base.op->queue.name.len > 0) {
        give_to(c, router_child_of(r, c->base.op->queue.name));
        return;
    }
    struct child *child = router_child_by_number(r, number >> QUEUE_SHIFT);
    give_to(c, child ? child : &r->children[0]);
    if (child)
        c->base.inner.queue.number = number & QUEUE_INNER_MAX;
}

static void plan_list(struct router *r, struct router_call *c)
{
    const struct op_list *want = &c->base.op->list;
    if (want->queue.len > 0)
        c->only = router_child_of(r, want->queue);
    else if (want->filter.queue)
        c->only = router_child_by_number(r, want->filter.queue >> QUEUE_SHIFT);
    if (!c->only && want->filter.queue) /* of no known backend: no store has it */
        c->only = &r->children[0];
    gather_by(c, &gather_list);
}

static void plan_exceptions(struct router *r, struct router_call *c)
{
    if (c->base.op->exceptions.queue.len > 0)
        give_to(c, router_child_of(r, c->base.op->exceptions.queue));
    else
        gather_by(c, &gather_exceptions);
}

static void plan_notice_end(struct router *r, struct router_call *c)
{
    struct child *child = router_child_by_number(r, router_slot(c->base.op->notice_end.number));
    give_to(c, child ? child : &r->children[0]);
    if (child)
        c->base.inner.notice_end.number = router_seq_in(c->base.op->notice_end.number);
}

static void plan_notice_list(struct router *r, struct router_call *c)
{
    if (c->base.op->notice.id.seq)
        by_job(r, c, offsetof(struct op, notice.id));
    else
        gather_by(c, &gather_notices);
}

static void plan_tick(struct router *r, struct router_call *c)
{
    (void)r;
    c->note = "a tick is a backend's own";
}

/* A row of zeros: by its id or queue, else to the default backend. */
static const struct way ways[OP_KIND_COUNT] = {
    [OP_ENQUEUE] = {.refuse = refuse_enqueue},
    [OP_CLAIM] = {.plan = plan_claim},
    [OP_ACK] = {.refuse = refuse_ack},
    [OP_RELEASE_CLAIM] = {.gather = &gather_release_claim},
    [OP_QUEUE_GET] = {.plan = plan_queue_get},
    [OP_QUEUE_LIST] = {.gather = &gather_queues},
    [OP_LIST] = {.plan = plan_list},
    [OP_WORKERS] = {.gather = &gather_workers},
    [OP_ACCEPT_CLOCK] = {.gather = &gather_accept_clock},
    [OP_EXCEPTIONS] = {.plan = plan_exceptions},
    [OP_KV_COMMIT] = {.refuse = refuse_commit},
    [OP_ALERT_PUT] = {.gather = &gather_alert_put},
    [OP_ALERT_DELETE] = {.gather = &gather_alert_delete},
    [OP_ALERT_LIST] = {.gather = &gather_alerts},
    [OP_NOTICE_TAKE] = {.gather = &gather_notice_take},
    [OP_NOTICE_END] = {.plan = plan_notice_end},
    [OP_NOTICE_LIST] = {.plan = plan_notice_list},
    [OP_BREAKER_LIST] = {.gather = &gather_breakers},
    [OP_SCHEDULE_PUT] = {.refuse = refuse_schedule},
    [OP_FIRE] = {.gather = &gather_fire},
    [OP_TRIGGER] = {.gather = &gather_fire},
    [OP_TICK] = {.plan = plan_tick},
};

void router_plan(struct router *r, struct router_call *c)
{
    const struct way *way = &ways[c->base.op->kind];
    const struct op_info *info = op_info(c->base.op->kind);
    struct span queue = {NULL, 0};
    c->note = way->refuse ? way->refuse(r, c->base.op) : NULL;
    if (c->note)
        return;
    if (way->plan) {
        way->plan(r, c);
    } else if (way->gather) {
        gather_by(c, way->gather);
    } else if (info->id) {
        by_job(r, c, info->id);
    } else {
        if (info->queue)
            memcpy(&queue, (const char *)c->base.op + info->queue, sizeof queue);
        give_to(c, router_child_of(r, queue));
        if (c->base.op->kind == OP_ENQUEUE && c->base.inner.enqueue.instead_of.seq)
            c->base.inner.enqueue.instead_of.seq =
                router_seq_in(c->base.inner.enqueue.instead_of.seq);
    }
}
