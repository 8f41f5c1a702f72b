/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/fanout.h"

#include <stddef.h>

#include "base/mem.h"

struct fanout_batch {
    struct fanout *fanout;
    backend_reply_fn fn;
    void *ctx;
    size_t count, unanswered;
    struct op *ops;                     /* operations as the stores get them, grouped by store */
    _Alignas(max_align_t) char calls[]; /* each has owner->call_bytes */
};

static struct fanout_call *call_at(struct fanout_batch *batch, size_t i)
{
    return (struct fanout_call *)(void *)(batch->calls + i * batch->fanout->owner->call_bytes);
}

void *fanout_ctx(const struct fanout_call *c)
{
    return c->batch->fanout->ctx;
}

/* --- the next iteration --- */

static void idle_cb(uv_idle_t *idle)
{
    struct fanout *f = idle->data;
    struct fanout_call *going = f->later;
    f->later = NULL;
    f->later_end = &f->later;
    uv_idle_stop(idle);
    while (going) {
        struct fanout_call *c = going;
        going = c->next;
        f->owner->not_taken(c);
    }
    f->owner->iteration(f);
}

void fanout_wake(struct fanout *f)
{
    if (!uv_is_closing((uv_handle_t *)&f->idle))
        uv_idle_start(&f->idle, idle_cb);
}

static void answer_later(struct fanout_call *c)
{
    struct fanout *f = c->batch->fanout;
    c->next = NULL;
    *f->later_end = c;
    f->later_end = &c->next;
    fanout_wake(f);
}

void fanout_init(struct fanout *f, const struct fanout_owner *owner, void *ctx,
                 unsigned store_count, uv_loop_t *loop)
{
    f->owner = owner;
    f->ctx = ctx;
    f->store_count = store_count;
    f->later_end = &f->later;
    uv_idle_init(loop, &f->idle);
    f->idle.data = f;
}

bool fanout_is_done(const struct fanout *f)
{
    return f->closing && f->open == 0 && !f->later;
}

/* --- replies --- */

void fanout_deliver(struct fanout_call *c, const struct reply *reply)
{
    struct fanout_batch *batch = c->batch;
    const struct fanout_owner *owner = batch->fanout->owner;
    struct reply own = *reply;
    own.kind = c->op->kind;
    own.tag = c->op->tag;
    batch->fn(batch->ctx, &own);
    if (owner->call_done)
        owner->call_done(c);
    arena_done(&c->arena);
    if (--batch->unanswered == 0) {
        mem_free(batch->ops);
        mem_free(batch);
    }
}

void fanout_deliver_lost(struct fanout_call *c)
{
    struct reply lost = {.outcome = OUT_UNKNOWN};
    if (op_is_query(c->op->kind)) {
        lost.outcome = OUT_UNAVAILABLE;
        lost.note = "out of memory for the reply";
    }
    fanout_deliver(c, &lost);
}

static void inner_reply_cb(void *ctx, const struct reply *reply)
{
    struct fanout_batch *batch = ctx;
    batch->fanout->owner->replied(call_at(batch, reply->tag), reply);
}

static int store_submit(struct fanout_batch *batch, unsigned index, const struct op *ops,
                        size_t count)
{
    struct fanout *f = batch->fanout;
    struct backend *store = f->owner->store(f, index);
    if (f->closing || !store)
        return -ERR_CLOSED;
    return backend_submit(store, ops, count, inner_reply_cb, batch);
}

int fanout_ask(struct fanout_call *c)
{
    struct fanout_batch *batch = c->batch;
    size_t offset = (size_t)((char *)c - batch->calls);
    c->inner.tag = offset / batch->fanout->owner->call_bytes;
    return store_submit(batch, c->store, &c->inner, 1);
}

/* --- taking a batch --- */

static struct fanout_batch *batch_new(struct fanout *f, size_t count)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, f->owner->call_bytes, &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct fanout_batch), &bytes))
        return NULL;
    struct fanout_batch *batch = mem_zalloc(bytes);
    struct op *ops = mem_array(count, sizeof *ops);
    if (!batch || !ops) {
        mem_free(batch);
        mem_free(ops);
        return NULL;
    }
    batch->fanout = f;
    batch->count = batch->unanswered = count;
    batch->ops = ops;
    return batch;
}

static void plan_calls(struct fanout_batch *batch, const struct op *ops)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct fanout_call *c = call_at(batch, i);
        c->batch = batch;
        c->op = &ops[i];
        arena_init(&c->arena);
        c->store = batch->fanout->owner->plan(c);
        if (c->store == FANOUT_NO_STORE)
            answer_later(c);
    }
}

/* Passes the store its operations, in order; `to` has room for them. Returns their number. */
static size_t submit_part(struct fanout_batch *batch, unsigned index, struct op *to)
{
    size_t n = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const struct fanout_call *c = call_at(batch, i);
        if (c->store != index)
            continue;
        to[n] = c->inner;
        to[n++].tag = i;
    }
    if (n > 0 && store_submit(batch, index, to, n) != 0) {
        for (size_t i = 0; i < n; i++)
            answer_later(call_at(batch, to[i].tag));
    }
    return n;
}

int fanout_submit(struct fanout *f, const struct op *ops, size_t count, backend_reply_fn fn,
                  void *ctx)
{
    if (f->closing)
        return -ERR_CLOSED;
    struct fanout_batch *batch = batch_new(f, count);
    if (!batch)
        return -ERR_NOMEM;
    batch->fn = fn;
    batch->ctx = ctx;
    plan_calls(batch, ops);
    struct op *to = batch->ops;
    for (unsigned i = 0; i < f->store_count; i++)
        to += submit_part(batch, i, to);
    return 0;
}

/* --- settling --- */

struct settle_all {
    backend_closed_fn fn;
    void *ctx;
    unsigned left;
};

static void settled_cb(void *ctx)
{
    struct settle_all *s = ctx;
    if (--s->left > 0)
        return;
    s->fn(s->ctx);
    mem_free(s);
}

int fanout_settle(struct fanout *f, uint64_t stores, backend_closed_fn fn, void *ctx)
{
    int err = 0, failed = 0;
    if (f->closing)
        return -ERR_CLOSED;
    struct settle_all *s = mem_zalloc(sizeof *s);
    if (!s)
        return -ERR_NOMEM;
    *s = (struct settle_all){.fn = fn, .ctx = ctx};
    for (unsigned i = 0; i < f->store_count; i++) {
        if (!(stores & UINT64_C(1) << i))
            continue;
        err = backend_settle(f->owner->store(f, i), settled_cb, s);
        failed = err ? err : failed;
        s->left += !err;
    }
    if (s->left > 0)
        return 0;
    mem_free(s);
    return failed;
}

void fanout_ignore_closed_cb(void *ctx)
{
    (void)ctx;
}

/* --- numbers --- */

static int attempts_out(const struct attempt_view **attempts, uint32_t count,
                        const struct fanout_numbers *n, struct arena *a)
{
    if (count == 0)
        return 0;
    struct attempt_view *to = arena_copy(a, *attempts, count * sizeof *to);
    if (!to)
        return -ERR_NOMEM;
    for (uint32_t i = 0; i < count; i++)
        to[i].seq = n->seq(n->store, to[i].seq);
    *attempts = to;
    return 0;
}

static int parents_out(const struct job_ref **parents, uint32_t count,
                       const struct fanout_numbers *n, struct arena *a)
{
    if (count == 0)
        return 0;
    struct job_ref *to = arena_copy(a, *parents, count * sizeof *to);
    if (!to)
        return -ERR_NOMEM;
    for (uint32_t i = 0; i < count; i++)
        to[i].seq = n->seq(n->store, to[i].seq);
    *parents = to;
    return 0;
}

static int jobs_out(struct reply *r, const struct fanout_numbers *n, struct arena *a)
{
    r->cursor = n->seq(n->store, r->cursor);
    if (r->job_count == 0)
        return 0;
    struct job_view *to = arena_copy(a, r->jobs, r->job_count * sizeof *to);
    if (!to)
        return -ERR_NOMEM;
    for (uint32_t i = 0; i < r->job_count; i++) {
        to[i].job.seq = n->seq(n->store, to[i].job.seq);
        to[i].holder.seq = n->seq(n->store, to[i].holder.seq);
        if (n->queue)
            to[i].job.queue = n->queue(n->store, to[i].job.queue);
        if (attempts_out(&to[i].attempts, to[i].attempt_count, n, a) != 0 ||
            parents_out(&to[i].parents, to[i].parent_count, n, a) != 0)
            return -ERR_NOMEM;
    }
    r->jobs = to;
    return 0;
}

static int queues_out(struct reply *r, const struct fanout_numbers *n, struct arena *a)
{
    if (r->queue_count == 0)
        return 0;
    struct queue_view *to = arena_copy(a, r->queues, r->queue_count * sizeof *to);
    if (!to)
        return -ERR_NOMEM;
    for (uint32_t i = 0; i < r->queue_count; i++)
        to[i].number = n->queue(n->store, to[i].number);
    r->queues = to;
    return 0;
}

static int notices_out(struct reply *r, const struct fanout_numbers *n, struct arena *a)
{
    r->notice_cursor = n->seq(n->store, r->notice_cursor);
    if (r->notice_count == 0)
        return 0;
    struct notice_view *to = arena_copy(a, r->notices, r->notice_count * sizeof *to);
    if (!to)
        return -ERR_NOMEM;
    for (uint32_t i = 0; i < r->notice_count; i++) {
        to[i].notice.number = n->seq(n->store, to[i].notice.number);
        to[i].notice.job_seq = n->seq(n->store, to[i].notice.job_seq);
        to[i].tried.number = n->seq(n->store, to[i].tried.number);
    }
    r->notices = to;
    return 0;
}

static int workers_out(struct reply *r, const struct fanout_numbers *n, struct arena *a)
{
    struct worker_view *to = arena_copy(a, r->workers, r->worker_count * sizeof *to);
    if (!to)
        return -ERR_NOMEM;
    for (uint32_t i = 0; i < r->worker_count; i++)
        for (uint32_t k = 0; k < to[i].held_count; k++)
            to[i].held[k].seq = n->seq(n->store, to[i].held[k].seq);
    r->workers = to;
    return 0;
}

/* Of a commit outside an ack the numbers stay: keys are in the store whose numbers are outside. */
static int handoff_out(struct reply *r, const struct fanout_numbers *n, struct arena *a)
{
    if (r->kind != OP_ACK || !r->handoff)
        return 0;
    struct kv_commit_reply *to = arena_copy(a, r->handoff, sizeof *to);
    struct enqueued_view *views = to ? arena_array(a, to->enqueued_count + 1, sizeof *views) : NULL;
    if (!views)
        return -ERR_NOMEM;
    for (uint32_t i = 0; i < to->enqueued_count; i++) {
        views[i] = to->enqueued[i];
        views[i].seq = n->seq(n->store, views[i].seq);
        views[i].replaced_seq = n->seq(n->store, views[i].replaced_seq);
    }
    to->enqueued = views;
    r->handoff = to;
    return 0;
}

int fanout_renumber(struct reply *r, const struct fanout_numbers *n, struct arena *a)
{
    enum reply_family family = reply_family(r);
    r->seq = n->seq(n->store, r->seq);
    if (family == REPLY_ENQUEUE)
        r->replaced_seq = n->seq(n->store, r->replaced_seq);
    else if (family == REPLY_CHANGE)
        return handoff_out(r, n, a);
    else if (family == REPLY_JOBS)
        return jobs_out(r, n, a);
    else if (family == REPLY_QUEUES && n->queue)
        return queues_out(r, n, a);
    else if (family == REPLY_NOTICES)
        return notices_out(r, n, a);
    else if (family == REPLY_WORKERS)
        return workers_out(r, n, a);
    else if (family == REPLY_ATTEMPTS)
        return attempts_out(&r->attempts, r->attempt_count, n, a);
    return 0;
}
