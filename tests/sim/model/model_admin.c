/* SPDX-License-Identifier: Apache-2.0 */
/* The model: what operators do to jobs and queues. */
#include <string.h>

#include "base/check.h"
#include "sim/model/model_impl.h"

/* ---- operators ------------------------------------------------------------------------------- */

/* The job named, when the move may start from its state. */
static struct model_job *subject(struct model *m, uint64_t seq, unsigned from)
{
    struct model_job *j = model_find(m, seq);
    model_say(m, j ? OUT_OK : OUT_NOT_FOUND, j);
    if (j && !(STATE_BIT(j->state) & from))
        m->reply->outcome = OUT_ILLEGAL;
    return m->reply->outcome == OUT_OK ? j : NULL;
}

void model_cancel_job(struct model *m, struct model_job *j)
{
    model_enter(m, j, STATE_CANCELLED, REASON_CANCELLED);
    model_queue_of(m, j)->counts.cancelled++;
}

bool model_request_cancel(struct model *m, struct model_job *j)
{
    uint32_t grace_ms = model_queue_of(m, j)->policy.cancel_grace_ms;
    if (j->state != STATE_RUNNING || grace_ms == 0) {
        model_cancel_job(m, j);
        return false;
    }
    if (j->cancel_at)
        return true;
    j->grace_ms = grace_ms;
    j->cancel_at = m->now.wall.ms;
    j->cancel_by = j->cancel_at + grace_ms;
    if (j->limit > model_lease_time(m) + grace_ms)
        j->limit = model_lease_time(m) + grace_ms;
    if (j->until > j->limit)
        j->until = j->limit;
    j->armed = j->until;
    return true;
}

void model_op_cancel(struct model *m, const struct op *o)
{
    struct model_job *j = subject(m, o->job.job.seq, STATES_LIVE);
    if (!j)
        return;
    if (o->job.force)
        model_cancel_job(m, j);
    else if (model_request_cancel(m, j))
        m->reply->cancel_by = j->cancel_by;
    model_say(m, OUT_OK, j);
}

/* False when another job holds its key. */
bool model_requeue_job(struct model *m, struct model_job *j, int64_t delay_ms)
{
    struct model_job *holder = model_key_holder(m, model_queue_of(m, j), j->unique);
    if (holder && holder != j) {
        model_say(m, OUT_DUPLICATE, holder);
        return false;
    }
    j->failures = j->crashes = 0;
    j->run_at = delay_ms > 0 ? m->now.wall.ms + delay_ms : 0;
    j->state = STATE_NONE; /* it begins to wait again, even if it was scheduled before */
    model_enter(m, j, delay_ms > 0 ? STATE_SCHEDULED : STATE_READY, REASON_NONE);
    return true;
}

void model_op_requeue(struct model *m, const struct op *o)
{
    struct model_job *j = subject(m, o->job.job.seq, MODEL_REQUEUE_FROM);
    if (j && model_requeue_job(m, j, o->job.delay_ms))
        model_say(m, OUT_OK, j);
}

void model_op_patch(struct model *m, const struct op *o)
{
    const struct op_patch *op = &o->patch;
    struct model_job *j = subject(m, op->job.seq, STATES_WAITING);
    if (!j)
        return;
    if (op->has_payload && op->payload.len > model_queue_of(m, j)->policy.payload_max) {
        model_say(m, OUT_TOO_BIG, j);
        return;
    }
    if (op->has_priority)
        j->priority = op->priority;
    if (op->has_run_at) {
        j->run_at = op->run_at.ms;
        model_enter(m, j, op->run_at.ms > m->now.wall.ms ? STATE_SCHEDULED : STATE_READY,
                    j->reason);
    }
    model_say(m, OUT_OK, j);
}

void model_op_remove(struct model *m, const struct op *o)
{
    struct model_job *j =
        subject(m, o->job.job.seq, STATES_ALL & ~(unsigned)STATE_BIT(STATE_RUNNING));
    if (!j)
        return;
    model_drop(m, j);
    m->reply->state = STATE_NONE;
}

void model_op_get(struct model *m, const struct op *o)
{
    struct model_job *j = subject(m, o->job.job.seq, STATES_ALL);
    if (j)
        m->reply->jobs[m->reply->job_count++] = (uint32_t)(j - m->jobs);
}

/* ---- queues ---------------------------------------------------------------------------------- */

/* Two jobs that would hold one key if the scope were "kept". */
static bool scope_conflict(const struct model *m, uint32_t queue)
{
    for (uint32_t i = 0; i < m->job_count; i++)
        for (uint32_t k = 0; k < i; k++) {
            const struct model_job *a = &m->jobs[i], *b = &m->jobs[k];
            if (a->there && b->there && a->queue == queue && b->queue == queue && a->unique.len &&
                span_equal(a->unique, b->unique) && a->state != STATE_CANCELLED &&
                b->state != STATE_CANCELLED)
                return true;
        }
    return false;
}

void model_op_queue_put(struct model *m, const struct op *o)
{
    const struct op_queue *op = &o->queue;
    struct model_queue *q = model_queue_named(m, op->name);
    uint8_t from = q ? q->policy.unique_scope : 0,
            to = op->policy ? op->policy->unique_scope : from;
    bool rescopes = q && from != to, loose = from == UNIQUE_NONE || to == UNIQUE_NONE;
    bool widens = rescopes && to != UNIQUE_NONE && (from == UNIQUE_NONE || to == UNIQUE_KEPT);
    if (q && op->must_create)
        model_say(m, OUT_EXISTS, NULL);
    else if (!q && op->must_exist)
        model_say(m, OUT_NO_QUEUE, NULL);
    else if (rescopes && loose && q->purged)
        model_say(m, OUT_UNAVAILABLE, NULL);
    else if (widens && scope_conflict(m, model_queue_index(m, q)))
        model_say(m, OUT_DUPLICATE, NULL);
    else {
        m->reply->created = !q;
        if (!q)
            q = model_queue_make(m, op->name);
        if (op->policy) {
            struct queue_policy before = q->policy;
            q->policy = *op->policy;
            model_limits_change(m, model_queue_index(m, q), &before);
        }
    }
}

static struct model_queue *queue_asked(struct model *m, struct span name)
{
    struct model_queue *q = model_queue_named(m, name);
    if (!q)
        model_say(m, OUT_NO_QUEUE, NULL);
    return q;
}

static void empty_queue(struct model *m, const struct model_queue *q, unsigned states)
{
    for (uint32_t i = 0; i < m->job_count; i++) {
        struct model_job *j = &m->jobs[i];
        if (j->there && j->queue == model_queue_index(m, q) && (STATE_BIT(j->state) & states)) {
            j->there = false;
            model_queue_of(m, j)->purged++;
            m->reply->changed++;
        }
    }
}

void model_op_queue_delete(struct model *m, const struct op *o)
{
    struct model_queue *q = queue_asked(m, o->queue.name);
    if (!q)
        return;
    empty_queue(m, q, STATES_ALL);
    q->there = false;
}

void model_op_purge(struct model *m, const struct op *o)
{
    struct model_queue *q = queue_asked(m, o->queue.name);
    if (q)
        empty_queue(m, q, STATES_WAITING);
}

void model_op_pause(struct model *m, const struct op *o)
{
    struct model_queue *q = queue_asked(m, o->queue.name);
    if (q)
        q->paused_until = o->queue.until.ms;
}

void model_op_queue_get(struct model *m, const struct op *o)
{
    struct model_queue *q = queue_asked(m, o->queue.name);
    if (!q)
        return;
    struct queue_counts *c = &m->reply->counts;
    *c = q->counts;
    c->oldest_ready_ms = -1;
    for (uint32_t i = 0; i < m->job_count; i++) {
        const struct model_job *j = &m->jobs[i];
        if (!j->there || j->queue != model_queue_index(m, q))
            continue;
        c->by_state[j->state]++;
        int64_t age = m->now.wall.ms - j->since;
        if (j->state == STATE_READY && age > c->oldest_ready_ms)
            c->oldest_ready_ms = age;
        if (j->state == STATE_SCHEDULED && (!c->next_due.ms || j->run_at < c->next_due.ms))
            c->next_due.ms = j->run_at;
    }
    model_limits_count(m, model_queue_index(m, q), c);
}

/* The first of the jobs not yet shown, in the order that the state asks for. */
static bool shown_before(const struct model_job *a, const struct model_job *b)
{
    if (a->state == STATE_READY)
        return model_before(a, b);
    if (a->state == STATE_SCHEDULED)
        return a->run_at != b->run_at ? a->run_at < b->run_at : a->seq < b->seq;
    return a->since != b->since ? a->since < b->since : a->entered < b->entered;
}

void model_op_peek(struct model *m, const struct op *o)
{
    struct model_queue *q = queue_asked(m, o->peek.queue);
    struct model_reply *r = m->reply;
    r->any_order = q && o->peek.state == STATE_READY && model_limited(&q->policy);
    while (q && r->job_count < o->peek.limit) {
        const struct model_job *best = NULL;
        for (uint32_t i = 0; i < m->job_count; i++) {
            const struct model_job *j = &m->jobs[i];
            bool shown = false;
            for (uint32_t k = 0; k < r->job_count; k++)
                shown = shown || r->jobs[k] == i;
            if (!shown && j->there && j->queue == model_queue_index(m, q) &&
                j->state == o->peek.state && (!best || shown_before(j, best)))
                best = j;
        }
        if (!best)
            break;
        r->jobs[r->job_count++] = (uint32_t)(best - m->jobs);
    }
}

void model_op_bulk(struct model *m, const struct op *o)
{
    if (o->bulk.states == 0 && o->bulk.action != BULK_REQUEUE) {
        model_say(m, OUT_INVALID, NULL);
        return;
    }
    struct model_queue *q = queue_asked(m, o->bulk.queue);
    if (!q)
        return;
    CHECK(m->bulk_count < MODEL_BULKS);
    m->bulks[m->bulk_count++] =
        (struct model_bulk){&o->bulk, o->tag, m->entered, model_queue_index(m, q)};
    m->reply->kind = OP_TICK; /* not yet */
}
