/* SPDX-License-Identifier: Apache-2.0 */
/* Where an op goes. By mode: to the primary while it is there, else, where that makes sense, to the
 * spool. By id: to the spool when it gave the id, and from there to the primary when the job has
 * flowed back. What the primary answers OUT_UNAVAILABLE was surely not done, so whatever may go to
 * the spool goes there then. */
#include <stddef.h>

#include "backend/failover/impl.h"

static const char note_keyed[] = "the shared store does not answer, and only it can keep a unique "
                                 "or idempotency key: try again, "
                                 "or enqueue without one";
static const char note_held[] =
    "the shared store, which holds this job, does not answer: try again";
static const char note_away[] = "the shared store does not answer: try again";
static const char note_moving[] =
    "the job is on its way back to the shared store just now: try again";

/* The offset of the job that the op names; 0 = none. */
static size_t job_offset(const struct op *op)
{
    if (op->kind == OP_CLAIM && op->claim.one.seq)
        return offsetof(struct op, claim.one);
    return op_info(op->kind)->away == AWAY_BY_JOB ? op_info(op->kind)->id : 0;
}

static bool is_plain(const struct op_enqueue *want)
{
    return want->extra.unique.len == 0 && want->idempotency_key.len == 0 &&
           want->extra.undelivered.len == 0 && !want->past && want->id.seq == 0 &&
           want->instead_of.seq == 0;
}

/* Whether the spool can answer it. Queues have other numbers there. */
static bool spool_may(const struct op *op)
{
    if (op_info(op->kind)->away != AWAY_SPOOLED || job_offset(op))
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
    const struct failover *f = fanout_ctx(&c->base);
    size_t offset = job_offset(c->base.op);
    struct job_ref ref;
    c->base.inner = *c->base.op;
    c->base.store = SOURCE_SPOOL;
    if (offset) {
        memcpy(&ref, (const char *)c->base.op + offset, sizeof ref);
        ref.seq = fo_seq_in(f, ref.seq);
        memcpy((char *)&c->base.inner + offset, &ref, sizeof ref);
    } else if (c->base.op->kind == OP_LIST) {
        list_in(f, &c->base.inner.list);
    }
}

static void for_primary(struct fo_call *c)
{
    c->base.inner = *c->base.op;
    c->base.store = SOURCE_PRIMARY;
}

static unsigned plan(struct fanout_call *base)
{
    struct fo_call *c = (struct fo_call *)base;
    struct failover *f = fanout_ctx(&c->base);
    size_t offset = job_offset(c->base.op);
    struct job_ref ref = {0, 0};
    if (offset)
        memcpy(&ref, (const char *)c->base.op + offset, sizeof ref);
    bool own = fo_own(f, ref.seq);
    enum flow_fate fate = own ? fo_flow_fate(f, fo_seq_in(f, ref.seq)) : FATE_NONE;
    bool there = (own && fate != FATE_MOVED) || op_info(c->base.op->kind)->away == AWAY_BOTH;
    base->store = FANOUT_NO_STORE;
    if (fate != FATE_NONE && fate != FATE_MOVED && c->base.op->kind != OP_GET)
        c->note = note_moving;
    else if (there || (!f->up && spool_may(c->base.op)))
        for_spool(c);
    else if (f->up)
        for_primary(c);
    else
        c->note = offset ? note_held : c->base.op->kind == OP_ENQUEUE ? note_keyed : note_away;
    return base->store;
}

/* --- answering --- */

static void deliver_unavailable(struct fo_call *c, const char *note)
{
    fanout_deliver(&c->base, &(struct reply){.outcome = OUT_UNAVAILABLE, .note = note});
}

static void ask_spool(struct fo_call *c)
{
    for_spool(c);
    if (fanout_ask(&c->base) != 0)
        deliver_unavailable(c, note_away);
}

static void ask_primary(struct fo_call *c)
{
    for_primary(c);
    if (fanout_ask(&c->base) != 0)
        deliver_unavailable(c, note_away);
}

static void primary_answered(struct fo_call *c, const struct reply *reply)
{
    struct failover *f = fanout_ctx(&c->base);
    c->been_at_primary = true;
    if (reply->outcome == OUT_UNAVAILABLE)
        fo_down(f, reply->note ? reply->note : "unavailable");
    if (reply->outcome == OUT_UNAVAILABLE && spool_may(c->base.op))
        ask_spool(c);
    else
        fanout_deliver(&c->base, reply);
}

/* Not in the spool: it has flowed back, or was never there. */
static bool look_further(const struct fo_call *c, const struct reply *reply)
{
    return job_offset(c->base.op) && !c->been_at_primary &&
           (reply->outcome == OUT_NOT_FOUND || reply->outcome == OUT_GONE);
}

static void spool_answered(struct fo_call *c, const struct reply *reply)
{
    struct failover *f = fanout_ctx(&c->base);
    struct reply outside = *reply;
    bool further = look_further(c, reply) || c->base.op->kind == OP_RELEASE_CLAIM;
    if (further && f->up)
        ask_primary(c);
    else if (further && (f->primary || job_offset(c->base.op)))
        deliver_unavailable(c, note_held);
    else if (fo_reply_out(f, &outside, &c->base.arena) != 0)
        fanout_deliver_lost(&c->base);
    else {
        outside.spooled = c->base.op->kind == OP_ENQUEUE && outside.outcome == OUT_OK;
        outside.left_out = c->base.op->kind == OP_QUEUE_LIST || c->base.op->kind == OP_BREAKER_LIST;
        fanout_deliver(&c->base, &outside);
    }
}

static void replied(struct fanout_call *base, const struct reply *reply)
{
    struct fo_call *c = (struct fo_call *)base;
    if (base->store == SOURCE_SPOOL)
        spool_answered(c, reply);
    else
        primary_answered(c, reply);
}

static void not_taken(struct fanout_call *base)
{
    struct fo_call *c = (struct fo_call *)base;
    deliver_unavailable(c, c->note ? c->note : note_away);
}

static struct backend *store_at(const struct fanout *fanout, unsigned index)
{
    const struct failover *f = fanout->ctx;
    return index == SOURCE_SPOOL ? f->spool : f->primary;
}

const struct fanout_owner fo_calls = {.call_bytes = sizeof(struct fo_call),
                                      .store = store_at,
                                      .plan = plan,
                                      .replied = replied,
                                      .not_taken = not_taken,
                                      .iteration = fo_iteration};
