/* SPDX-License-Identifier: Apache-2.0 */
/* Which store an operation goes to. The mode decides: it goes to the primary while that is
 * available, otherwise, where the spool can do it, to the spool. An id decides, too: a job of the
 * spool is looked for there, and in the primary if it has been moved. An operation that the primary
 * answers with OUT_UNAVAILABLE was not done, so it goes to the spool if the spool can do it.
 *
 * The spool takes an enqueue with a unique key only into a queue whose policy lets no job hold its
 * key (UNIQUE_NONE), because then no other job matters. So the spool is asked for the queue first
 * (fo_call.checks_queue). An ack whose hand-off only the primary can take is possible only if the
 * job is there: the spool is asked for the job first (fo_call.checks_job). */
#include <stddef.h>

#include "backend/failover/impl.h"

#define AWAY "the shared store does not answer"

static const char note_idempotency[] =
    AWAY ", and only it knows whether this idempotency key was used before: try again later, or "
         "enqueue without the key";
static const char note_unique[] =
    AWAY ", and only it knows whether another job has this unique key: try again later, or "
         "enqueue without a unique key";
static const char note_undelivered[] =
    AWAY ", and only it has the key-value store, in which the keys for an undelivered job are to "
         "be set: try again later";
static const char note_replaces[] = AWAY ", and only it can replace the dead job: try again later";
static const char note_import[] = AWAY ", and only it takes imported jobs: try again later";
static const char note_queue[] =
    AWAY ", and only it can create, change or delete a queue: try again later";
static const char note_number[] = AWAY ", and this node does not know the queue with this number: "
                                       "try again later";
static const char note_held[] =
    "the shared store, which holds this job, does not answer: try again "
    "later";
static const char note_away[] = AWAY ": try again later";
static const char note_handoff_keys[] =
    "the job is in the spool of this node, and only the shared store has the key-value store: ack "
    "it without sets and deletes";
static const char note_handoff_unique[] =
    "the job is in the spool of this node, and only the shared store knows whether an idempotency "
    "key or a unique key of the enqueues is taken: leave the keys out, or enqueue by itself";
static const char note_moving[] = "the job is being moved to the shared store: try again";

/* The offset of the job that the operation names; 0 = none. */
static size_t job_offset(const struct op *op)
{
    if (op->kind == OP_CLAIM && op->claim.one.seq)
        return offsetof(struct op, claim.one);
    return op_info(op->kind)->away == AWAY_BY_JOB ? op_info(op->kind)->id : 0;
}

/* Why the spool cannot take this enqueue, whatever its queue is; NULL = it can. */
static const char *enqueue_refusal(const struct op_enqueue *want)
{
    return want->past || want->id.seq != 0 ? note_import
           : want->instead_of.seq          ? note_replaces
           : want->idempotency_key.len     ? note_idempotency
           : want->extra.undelivered.len   ? note_undelivered
                                           : NULL;
}

/* Why a job of the spool cannot be acked with this hand-off, also while the shared store answers:
 * one commit would have to change both. NULL = it can. */
static const char *handoff_refusal(const struct op *op)
{
    const struct op_kv_commit *c = op->kind == OP_ACK ? op->lease.handoff : NULL;
    if (!c)
        return NULL;
    if (c->check_count + c->set_count + c->delete_count > 0)
        return note_handoff_keys;
    for (uint32_t i = 0; i < c->enqueue_count; i++) {
        const struct op_enqueue *want = &c->enqueues[i];
        if (want->idempotency_key.len || want->extra.unique.len)
            return note_handoff_unique;
        if (enqueue_refusal(want))
            return enqueue_refusal(want);
    }
    return NULL;
}

/* Why the spool cannot do it; NULL = it can. Numbers of queues are known for copied queues only. */
static const char *spool_refusal(const struct failover *f, const struct op *op)
{
    if (job_offset(op))
        return note_held;
    if (op->kind == OP_ENQUEUE)
        return enqueue_refusal(&op->enqueue);
    if (op->kind == OP_QUEUE_PUT) /* only what an enqueue brings along */
        return op->queue.implied ? NULL : note_queue;
    uint32_t number = op->kind == OP_LIST        ? op->list.filter.queue
                      : op->kind == OP_QUEUE_GET ? op->queue.number
                                                 : 0;
    if (number && !fo_queue_in(f, number))
        return note_number;
    return op_info(op->kind)->away == AWAY_SPOOLED ? NULL : note_away;
}

/* --- the operation as the spool gets it --- */

/* A bound of a list in the spool's sequences. All of them are above those of the primary. */
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
    filter->queue = filter->queue ? fo_queue_in(f, filter->queue) : 0;
}

static void fill_inner(struct fo_call *c)
{
    const struct failover *f = fanout_ctx(&c->base);
    const struct op *op = c->base.op;
    size_t offset = job_offset(op);
    struct job_ref ref;
    c->base.inner = *op;
    if (offset) {
        memcpy(&ref, (const char *)op + offset, sizeof ref);
        ref.seq = fo_seq_in(f, ref.seq);
        memcpy((char *)&c->base.inner + offset, &ref, sizeof ref);
    } else if (op->kind == OP_LIST) {
        list_in(f, &c->base.inner.list);
    } else if (op->kind == OP_QUEUE_GET && op->queue.name.len == 0) {
        c->base.inner.queue.number = fo_queue_in(f, op->queue.number);
    }
}

static void for_spool(struct fo_call *c)
{
    const struct op *op = c->base.op;
    c->base.store = SOURCE_SPOOL;
    c->checks_queue = op->kind == OP_ENQUEUE && op->enqueue.extra.unique.len > 0;
    c->checks_job = handoff_refusal(op) != NULL;
    if (c->checks_queue)
        c->base.inner = (struct op){.kind = OP_QUEUE_GET, .queue = {.name = op->enqueue.queue}};
    else if (c->checks_job)
        c->base.inner = (struct op){
            .kind = OP_GET,
            .job = {.job = {fo_seq_in(fanout_ctx(&c->base), op->lease.job.seq), op->lease.job.hi}}};
    else
        fill_inner(c);
}

static void for_primary(struct fo_call *c)
{
    c->base.inner = *c->base.op;
    c->base.store = SOURCE_PRIMARY;
}

static void plan_job_or_queue(struct fo_call *c)
{
    struct failover *f = fanout_ctx(&c->base);
    const struct op *op = c->base.op;
    size_t offset = job_offset(op);
    struct job_ref ref = {0, 0};
    if (offset)
        memcpy(&ref, (const char *)op + offset, sizeof ref);
    bool own = fo_own(f, ref.seq);
    enum drain_outcome drained = own ? fo_drain_outcome(f, fo_seq_in(f, ref.seq)) : DRAIN_NONE;
    bool there = (own && drained != DRAIN_MOVED) || op_info(op->kind)->away == AWAY_BOTH;
    if (drained != DRAIN_NONE && drained != DRAIN_MOVED && op->kind != OP_GET)
        c->note = note_moving;
    else if (!there && f->up)
        for_primary(c);
    else if (there || !(c->note = spool_refusal(f, op)))
        for_spool(c);
}

static unsigned plan(struct fanout_call *base)
{
    struct fo_call *c = (struct fo_call *)base;
    base->store = FANOUT_NO_STORE;
    if (op_info(base->op->kind)->away == AWAY_NOTICE)
        fo_notice_plan(c);
    else
        plan_job_or_queue(c);
    return base->store;
}

/* --- replies --- */

static void deliver_unavailable(struct fo_call *c, const char *note)
{
    fanout_deliver(&c->base, &(struct reply){.outcome = OUT_UNAVAILABLE, .note = note});
}

static void ask(struct fo_call *c)
{
    if (fanout_ask(&c->base) != 0)
        deliver_unavailable(c, note_away);
}

void fo_ask_primary(struct fo_call *c)
{
    for_primary(c);
    ask(c);
}

/* A change that the spool should have soon. Queues that producers bring along can be many, and are
 * created again when they are needed. */
static void copy_change(struct failover *f, const struct op *op)
{
    if (op->kind == OP_ALERT_PUT || op->kind == OP_ALERT_DELETE)
        fo_rules_copy(f);
    else if ((op->kind == OP_QUEUE_PUT && !op->queue.implied) || op->kind == OP_PAUSE ||
             op->kind == OP_QUEUE_DELETE)
        fo_mirror_changed(f);
}

static void primary_replied(struct fo_call *c, const struct reply *reply)
{
    struct failover *f = fanout_ctx(&c->base);
    const struct op *op = c->base.op;
    c->asked_primary = true;
    if (reply->outcome == OUT_UNAVAILABLE)
        fo_down(f, reply->note ? reply->note : "unavailable");
    if (reply->outcome == OUT_OK)
        copy_change(f, op);
    if (op_info(op->kind)->away == AWAY_NOTICE) {
        fo_notice_primary_replied(c, reply);
    } else if (reply->outcome == OUT_UNAVAILABLE && !spool_refusal(f, op)) {
        for_spool(c);
        ask(c);
    } else {
        fanout_deliver(&c->base, reply);
    }
}

/* The job is not in the spool: it has been moved, or never was there. */
static bool look_further(const struct fo_call *c, const struct reply *reply)
{
    return job_offset(c->base.op) && !c->asked_primary &&
           (reply->outcome == OUT_NOT_FOUND || reply->outcome == OUT_GONE);
}

static void queue_checked(struct fo_call *c, const struct reply *reply)
{
    bool free = reply->outcome == OUT_OK && reply->queue_count == 1 &&
                reply->queues[0].policy->unique_scope == UNIQUE_NONE;
    c->checks_queue = false;
    if (!free) {
        deliver_unavailable(c, note_unique);
        return;
    }
    fill_inner(c);
    ask(c);
}

/* The hand-off is one that the spool cannot take. A job that has been moved is acked in the
 * primary.
 */
static void job_checked(struct fo_call *c, const struct reply *reply)
{
    struct failover *f = fanout_ctx(&c->base);
    bool moved = look_further(c, reply);
    c->checks_job = false;
    if (moved && f->up)
        fo_ask_primary(c);
    else
        deliver_unavailable(c, moved ? note_held : handoff_refusal(c->base.op));
}

/* What a query finds, or does not find, in the spool is this node's part only. */
static void mark(const struct op *op, struct reply *r)
{
    r->left_out = op_info(op->kind)->away == AWAY_SPOOLED && op_info(op->kind)->query;
    bool tells = op->kind == OP_ENQUEUE || (op->kind == OP_GET && op->job.want_wait);
    r->spooled = tells && r->outcome == OUT_OK;
}

static void spool_replied(struct fo_call *c, const struct reply *reply)
{
    struct failover *f = fanout_ctx(&c->base);
    const struct op *op = c->base.op;
    struct reply outside = *reply;
    bool further = look_further(c, reply) || op->kind == OP_RELEASE_CLAIM;
    /* The spool has the rules on failover only. */
    bool other_rule = op->kind == OP_ALERT_LIST && reply->outcome == OUT_NOT_FOUND;
    if (further && f->up)
        fo_ask_primary(c);
    else if (further && (f->primary || job_offset(op)))
        deliver_unavailable(c, note_held);
    else if (other_rule)
        deliver_unavailable(c, note_away);
    else if (fo_reply_out(f, &outside, &c->base.arena) != 0)
        fanout_deliver_lost(&c->base);
    else if (op_info(op->kind)->away == AWAY_NOTICE)
        fo_notice_spool_replied(c, &outside);
    else {
        mark(op, &outside);
        fanout_deliver(&c->base, &outside);
    }
}

static void replied(struct fanout_call *base, const struct reply *reply)
{
    struct fo_call *c = (struct fo_call *)base;
    if (base->store == SOURCE_PRIMARY)
        primary_replied(c, reply);
    else if (c->checks_queue)
        queue_checked(c, reply);
    else if (c->checks_job)
        job_checked(c, reply);
    else
        spool_replied(c, reply);
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
