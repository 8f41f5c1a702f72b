/* SPDX-License-Identifier: Apache-2.0 */
/* Where an op goes. By mode: to the primary while it is there, else, where that makes sense, to the
 * spool. By id: to the spool when it gave the id, and from there to the primary when the job has
 * flowed back. What the primary answers OUT_UNAVAILABLE was surely not done, so whatever may go to
 * the spool goes there then. */
#include <stddef.h>

#include "backend/failover/impl.h"
#include "base/check.h"
#include "base/mem.h"

static void primary_reply_cb(void *ctx, const struct reply *reply);
static void spool_reply_cb(void *ctx, const struct reply *reply);

static const char note_keyed[] = "the shared store does not answer, and only it can keep a unique "
                                 "or idempotency key: try again, "
                                 "or enqueue without one";
static const char note_held[] =
    "the shared store, which holds this job, does not answer: try again";
static const char note_away[] = "the shared store does not answer: try again";
static const char note_moving[] =
    "the job is on its way back to the shared store just now: try again";

enum way {
    WAY_PRIMARY, /* only there */
    WAY_EITHER,  /* to whoever works */
    WAY_JOB,     /* by the id of the job */
    WAY_BOTH,    /* to the spool, then to the primary */
};

static const struct {
    enum way way;
    size_t job; /* WAY_JOB: offset of the job_ref */
} ways[OP_KIND_COUNT] = {
    [OP_ENQUEUE] = {WAY_EITHER, 0},
    [OP_CLAIM] = {WAY_EITHER, 0},
    [OP_ACK] = {WAY_JOB, offsetof(struct op, lease.job)},
    [OP_FAIL] = {WAY_JOB, offsetof(struct op, lease.job)},
    [OP_EXTEND] = {WAY_JOB, offsetof(struct op, lease.job)},
    [OP_RELEASE] = {WAY_JOB, offsetof(struct op, lease.job)},
    [OP_RELEASE_CLAIM] = {WAY_BOTH, 0},
    [OP_CANCEL] = {WAY_JOB, offsetof(struct op, job.job)},
    [OP_REQUEUE] = {WAY_JOB, offsetof(struct op, job.job)},
    [OP_PATCH] = {WAY_JOB, offsetof(struct op, patch.job)},
    [OP_REMOVE] = {WAY_JOB, offsetof(struct op, job.job)},
    [OP_GET] = {WAY_JOB, offsetof(struct op, job.job)},
    [OP_NOTE] = {WAY_JOB, offsetof(struct op, note.job)},
    [OP_QUEUE_GET] = {WAY_EITHER, 0},
    [OP_QUEUE_LIST] = {WAY_EITHER, 0},
    [OP_PEEK] = {WAY_EITHER, 0},
    [OP_LIST] = {WAY_EITHER, 0},
    [OP_WORKERS] = {WAY_EITHER, 0},
    [OP_EXCEPTIONS] = {WAY_EITHER, 0},
    [OP_PAGE] = {WAY_EITHER, 0},
    [OP_HISTORY] = {WAY_EITHER, 0},
    [OP_BREAKER_LIST] = {WAY_EITHER, 0}, /* the spool has none, and metrics are wanted most now */
};

/* The offset of the job that the op names; 0 = none. */
static size_t job_offset(const struct op *op)
{
    if (op->kind == OP_CLAIM && op->claim.one.seq)
        return offsetof(struct op, claim.one);
    return ways[op->kind].way == WAY_JOB ? ways[op->kind].job : 0;
}

static bool is_plain(const struct op_enqueue *want)
{
    return want->extra.unique.len == 0 && want->idempotency_key.len == 0 &&
           want->extra.undelivered.len == 0 && !want->past && want->id.seq == 0;
}

/* Whether the spool can answer it. Queues have other numbers there. */
static bool spool_may(const struct op *op)
{
    if (ways[op->kind].way != WAY_EITHER || job_offset(op))
        return false;
    if (op->kind == OP_ENQUEUE)
        return is_plain(&op->enqueue);
    if (op->kind == OP_QUEUE_GET)
        return op->queue.name.len > 0;
    return op->kind != OP_LIST || op->list.filter.queue == 0;
}

/* A bound of a list as the spool counts. One that the primary counted lies before all of its. */
static uint64_t bound_in(const struct failover *f, uint64_t seq)
{
    return fo_own(f, seq) ? fo_seq_in(f, seq) : 0;
}

static void list_in(const struct failover *f, struct op_list *list)
{
    struct job_filter *filter = &list->filter;
    bool none = (filter->seq_max && !fo_own(f, filter->seq_max)) ||
                (list->newest_first && list->after && !fo_own(f, list->after));
    list->after = bound_in(f, list->after);
    filter->seq_min = none ? 2 : bound_in(f, filter->seq_min);
    filter->seq_max = none ? 1 : bound_in(f, filter->seq_max);
}

static void for_spool(struct fo_call *c)
{
    const struct failover *f = c->batch->f;
    size_t offset = job_offset(c->op);
    struct job_ref ref;
    c->inner = *c->op;
    c->at_spool = true;
    if (offset) {
        memcpy(&ref, (const char *)c->op + offset, sizeof ref);
        ref.seq = fo_seq_in(f, ref.seq);
        memcpy((char *)&c->inner + offset, &ref, sizeof ref);
    } else if (c->op->kind == OP_LIST) {
        list_in(f, &c->inner.list);
    }
}

/* Fills inner and at_spool, or note. */
static void plan(struct fo_call *c)
{
    struct failover *f = c->batch->f;
    size_t offset = job_offset(c->op);
    struct job_ref ref = {0, 0};
    if (offset)
        memcpy(&ref, (const char *)c->op + offset, sizeof ref);
    bool own = fo_own(f, ref.seq);
    enum flow_fate fate = own ? fo_flow_fate(f, fo_seq_in(f, ref.seq)) : FATE_NONE;
    bool there = (own && fate != FATE_MOVED) || ways[c->op->kind].way == WAY_BOTH;
    if (fate != FATE_NONE && fate != FATE_MOVED && c->op->kind != OP_GET)
        c->note = note_moving;
    else if (there || (!f->up && spool_may(c->op)))
        for_spool(c);
    else if (f->up)
        c->inner = *c->op;
    else
        c->note = offset ? note_held : c->op->kind == OP_ENQUEUE ? note_keyed : note_away;
}

/* --- answering --- */

static void deliver(struct fo_call *c, const struct reply *answer)
{
    struct fo_batch *batch = c->batch;
    struct reply reply = *answer;
    reply.kind = c->op->kind;
    reply.tag = c->op->tag;
    batch->fn(batch->ctx, &reply);
    arena_done(&c->arena);
    if (--batch->unanswered == 0) {
        mem_free(batch->ops);
        mem_free(batch);
    }
}

static void deliver_unavailable(struct fo_call *c, const char *note)
{
    deliver(c, &(struct reply){.outcome = OUT_UNAVAILABLE, .note = note});
}

static void ask_again(struct fo_call *c, struct backend *whom, backend_reply_fn fn)
{
    c->inner.tag = (uint64_t)(c - c->batch->calls);
    if (!whom || c->batch->f->closing || backend_submit(whom, &c->inner, 1, fn, c->batch) != 0)
        deliver_unavailable(c, note_away);
}

static void ask_spool(struct fo_call *c)
{
    for_spool(c);
    ask_again(c, c->batch->f->spool, spool_reply_cb);
}

static void ask_primary(struct fo_call *c)
{
    c->inner = *c->op;
    c->at_spool = false;
    ask_again(c, c->batch->f->primary, primary_reply_cb);
}

static void primary_answered(struct fo_call *c, const struct reply *reply)
{
    struct failover *f = c->batch->f;
    c->been_at_primary = true;
    if (reply->outcome == OUT_UNAVAILABLE)
        fo_down(f, reply->note ? reply->note : "unavailable");
    if (reply->outcome == OUT_UNAVAILABLE && spool_may(c->op))
        ask_spool(c);
    else
        deliver(c, reply);
}

static void primary_reply_cb(void *ctx, const struct reply *reply)
{
    struct fo_batch *batch = ctx;
    primary_answered(&batch->calls[reply->tag], reply);
}

/* Not in the spool: it has flowed back, or was never there. */
static bool look_further(const struct fo_call *c, const struct reply *reply)
{
    return job_offset(c->op) && !c->been_at_primary &&
           (reply->outcome == OUT_NOT_FOUND || reply->outcome == OUT_GONE);
}

static void spool_answered(struct fo_call *c, const struct reply *reply)
{
    struct failover *f = c->batch->f;
    struct reply outside = *reply;
    bool further = look_further(c, reply) || c->op->kind == OP_RELEASE_CLAIM;
    if (further && f->up)
        ask_primary(c);
    else if (further && (f->primary || job_offset(c->op)))
        deliver_unavailable(c, note_held);
    else if (fo_reply_out(f, &outside, &c->arena) != 0)
        deliver(c, &(struct reply){.outcome =
                                       op_is_query(c->op->kind) ? OUT_UNAVAILABLE : OUT_UNKNOWN});
    else {
        outside.spooled = c->op->kind == OP_ENQUEUE && outside.outcome == OUT_OK;
        outside.left_out = c->op->kind == OP_QUEUE_LIST || c->op->kind == OP_BREAKER_LIST;
        deliver(c, &outside);
    }
}

static void spool_reply_cb(void *ctx, const struct reply *reply)
{
    struct fo_batch *batch = ctx;
    spool_answered(&batch->calls[reply->tag], reply);
}

/* --- taking a batch --- */

static void answer_later(struct fo_call *c)
{
    struct failover *f = c->batch->f;
    c->next = NULL;
    *f->later_end = c;
    f->later_end = &c->next;
    fo_turn_wanted(f);
}

void fo_answer_later(struct failover *f)
{
    struct fo_call *going = f->later;
    f->later = NULL;
    f->later_end = &f->later;
    while (going) {
        struct fo_call *c = going;
        going = c->next;
        deliver_unavailable(c, c->note ? c->note : note_away);
    }
}

static struct fo_batch *batch_new(struct failover *f, size_t count, backend_reply_fn fn, void *ctx)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, sizeof(struct fo_call), &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct fo_batch), &bytes))
        return NULL;
    struct fo_batch *batch = mem_zalloc(bytes);
    struct op *ops = mem_array(count, sizeof *ops);
    if (!batch || !ops) {
        mem_free(batch);
        mem_free(ops);
        return NULL;
    }
    batch->f = f;
    batch->fn = fn;
    batch->ctx = ctx;
    batch->unanswered = count;
    batch->ops = ops;
    return batch;
}

/* The ops for one of the two, in order, from `to` on. */
static size_t fill_for(struct fo_batch *batch, size_t count, bool spool, struct op *to)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        struct fo_call *c = &batch->calls[i];
        if (c->note || c->at_spool != spool)
            continue;
        to[n] = c->inner;
        to[n++].tag = i;
    }
    return n;
}

static void hand_over(struct fo_batch *batch, struct backend *whom, backend_reply_fn fn,
                      struct op *ops, size_t count)
{
    if (backend_submit(whom, ops, count, fn, batch) == 0)
        return;
    for (size_t i = 0; i < count; i++)
        answer_later(&batch->calls[ops[i].tag]);
}

int fo_submit(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn, void *ctx)
{
    struct failover *f = (struct failover *)b;
    if (f->closing)
        return -ERR_CLOSED;
    struct fo_batch *batch = batch_new(f, count, fn, ctx);
    if (!batch)
        return -ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        batch->calls[i].batch = batch;
        batch->calls[i].op = &ops[i];
        arena_init(&batch->calls[i].arena);
        plan(&batch->calls[i]);
        if (batch->calls[i].note)
            answer_later(&batch->calls[i]);
    }
    struct op *to = batch->ops;
    size_t n = fill_for(batch, count, true, to);
    if (n > 0)
        hand_over(batch, f->spool, spool_reply_cb, to, n);
    to += n;
    n = fill_for(batch, count, false, to);
    if (n > 0)
        hand_over(batch, f->primary, primary_reply_cb, to, n);
    return 0;
}
