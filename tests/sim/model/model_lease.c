/* SPDX-License-Identifier: Apache-2.0 */
/* The model: claims, and what their holders say. */
#include <string.h>

#include "base/check.h"
#include "sim/model/model_impl.h"

/* ---- claims ---------------------------------------------------------------------------------- */

static bool named(const struct op_claim *op, struct span queue)
{
    for (uint32_t i = 0; i < op->queue_count; i++)
        if (span_equal(op->queues[i], queue))
            return true;
    return false;
}

/* Its time is over, though no tick has said so yet. */
bool model_expired(const struct model *m, const struct model_job *j)
{
    return j->expires_at && j->expires_at <= m->now.wall.ms && !m->suspect;
}

bool model_before(const struct model_job *a, const struct model_job *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->seq < b->seq;
}

static bool ranks_before(const struct model *m, const struct model_job *a,
                         const struct model_job *b)
{
    int64_t x = model_rank(m, a), y = model_rank(m, b);
    return x != y ? x > y : a->seq < b->seq;
}

/* The best of the queues' first jobs. One whose time is over dies instead of coming first. */
static struct model_job *next_ready(struct model *m, const struct op_claim *op)
{
    struct model_job *best = NULL, *j;
    for (uint32_t i = 0; i < MODEL_QUEUES; i++) {
        const struct model_queue *q = &m->queues[i];
        if (!q->there || !named(op, q->name) || q->paused_until > m->now.wall.ms)
            continue;
        while ((j = model_next(m, i)) != NULL && model_expired(m, j))
            model_die(m, j, REASON_EXPIRED);
        if (j && (!best || ranks_before(m, j, best)))
            best = j;
    }
    return best;
}

static void take(struct model *m, struct model_job *j, const struct op_claim *op)
{
    model_started(m, j, op->one.seq == 0);
    model_enter(m, j, STATE_RUNNING, REASON_NONE);
    j->lease_ms = op->lease_ms ? op->lease_ms : model_rules_for(m, j).lease_ms;
    j->timeout_ms = model_rules_for(m, j).timeout_ms;
    j->cancel_at = j->cancel_by = 0;
    j->limit = j->timeout_ms ? model_lease_time(m) + j->timeout_ms : INT64_MAX;
    j->until = model_lease_time(m) + j->lease_ms;
    if (j->until > j->limit)
        j->until = j->limit;
    j->armed = j->until;
    j->nonce = op->nonce;
    j->bound = op->bound;
    model_queue_of(m, j)->counts.claimed++;
    m->reply->jobs[m->reply->job_count++] = (uint32_t)(j - m->jobs);
}

static void seize(struct model *m, const struct op_claim *op)
{
    struct model_job *j = model_find(m, op->one.seq);
    if (!j) {
        model_say(m, OUT_NOT_FOUND, NULL);
        return;
    }
    model_say(m, OUT_OK, j);
    unsigned from = STATES_WAITING | STATE_BIT(STATE_DEAD);
    struct model_job *holder = model_key_holder(m, model_queue_of(m, j), j->unique);
    if (!(STATE_BIT(j->state) & from))
        m->reply->outcome = OUT_ILLEGAL;
    else if (!model_may_start(m, j))
        m->reply->outcome = OUT_ILLEGAL;
    else if (holder && holder != j)
        model_say(m, OUT_DUPLICATE, holder);
    else {
        take(m, j, op);
        m->reply->state = STATE_RUNNING;
    }
}

void model_op_claim(struct model *m, const struct op *o)
{
    const struct op_claim *op = &o->claim;
    struct model_job *j;
    if (op->one.seq) {
        seize(m, op);
        return;
    }
    while (m->reply->job_count < op->count && (j = next_ready(m, op)) != NULL)
        take(m, j, op);
}

/* ---- what a lease's holder says -------------------------------------------------------------- */

static const struct model_word *word_said(const struct model *m, const struct op_lease *op)
{
    for (uint32_t i = m->word_count; !op->any_token && i-- > 0;)
        if (m->words[i].seq == op->job.seq && token_equal(m->words[i].token, op->token))
            return &m->words[i];
    return NULL;
}

/* The job when the op may act on its lease; NULL when the reply says why not. */
static struct model_job *holder_of(struct model *m, const struct op *o)
{
    const struct op_lease *op = &o->lease;
    struct model_job *j = model_find(m, op->job.seq);
    bool runs = j && j->state == STATE_RUNNING;
    if (runs && (op->any_token || token_equal(op->token, j->token))) {
        if (model_lease_time(m) < j->limit)
            return j;
        model_say(m, j->cancel_at ? OUT_CANCELLED : OUT_LEASE_LOST, j);
        m->reply->or_else = m->reply->outcome;
        return NULL;
    }
    const struct model_word *w = word_said(m, op);
    enum outcome forgotten = !j              ? model_ever(m, op->job.seq) ? OUT_GONE : OUT_NOT_FOUND
                             : op->any_token ? OUT_ILLEGAL
                             : j->state == STATE_CANCELLED ? OUT_CANCELLED
                                                           : OUT_LEASE_LOST;
    bool done = forgotten == OUT_LEASE_LOST && j->state == STATE_DONE;
    model_say(m, forgotten, j);
    /* A restart leaves out sequences, which then count as given; and it forgets some of the words.
     */
    m->reply->or_else = (forgotten == OUT_NOT_FOUND || done) && m->epoch > 1 ? OUT_GONE : forgotten;
    if (!w)
        return NULL;
    if (m->epoch == 1)
        m->reply->or_else = OUT_OK;
    if (w->kind == o->kind) {
        m->reply->outcome = OUT_OK;
        m->reply->repeat = true;
        m->reply->seq = w->seq;
        m->reply->state = w->state;
        m->reply->run_at = w->run_at;
    } else if (j && j->state != STATE_CANCELLED) {
        m->reply->outcome = OUT_LEASE_LOST;
    }
    return NULL;
}

void model_remember(struct model *m, const struct model_job *j, enum op_kind kind)
{
    CHECK(m->word_count < MODEL_WORDS);
    m->words[m->word_count++] = (struct model_word){j->seq, j->token, kind, j->state, j->run_at};
}

void model_op_ack(struct model *m, const struct op *o)
{
    struct model_job *j = holder_of(m, o);
    if (!j)
        return;
    model_enter(m, j, STATE_DONE, REASON_NONE);
    model_queue_of(m, j)->counts.acked++;
    model_remember(m, j, OP_ACK);
    model_say(m, OUT_OK, j);
}

static int64_t asked_for(const struct model *m, const struct op_lease *op)
{
    return op->run_at.ms ? op->run_at.ms : m->now.wall.ms + op->delay_ms;
}

void model_op_fail(struct model *m, const struct op *o)
{
    struct model_job *j = holder_of(m, o);
    if (!j)
        return;
    struct model_rules r = model_rules_for(m, j);
    uint32_t used = j->failures + 1 + (r.lease_end == LEASE_END_COUNTED ? j->crashes : 0);
    bool own = o->lease.no_retry || (o->lease.has_delay && used < r.max_attempts);
    if (j->cancel_at)
        model_cancel_job(m, j);
    else if (!own)
        model_failed(m, j, REASON_FAILED);
    else {
        j->failures++;
        model_queue_of(m, j)->counts.failed++;
        if (o->lease.no_retry)
            model_die(m, j, REASON_REJECTED);
        else
            model_wait_until(m, j, asked_for(m, &o->lease), REASON_FAILED);
    }
    model_remember(m, j, OP_FAIL);
    model_say(m, OUT_OK, j);
}

static void extend(struct model *m, struct model_job *j, uint32_t lease_ms)
{
    if (lease_ms)
        j->lease_ms = lease_ms;
    j->until = model_lease_time(m) + j->lease_ms;
    if (j->until > j->limit)
        j->until = j->limit;
    if (j->armed > j->until)
        j->armed = j->until;
    m->reply->left_ms = j->until - model_lease_time(m);
}

void model_op_extend(struct model *m, const struct op *o)
{
    struct model_job *j = holder_of(m, o);
    if (!j)
        return;
    extend(m, j, o->lease.lease_ms);
    m->reply->cancel_by = j->cancel_by;
    model_say(m, OUT_OK, j);
}

void model_op_progress(struct model *m, const struct op *o)
{
    struct model_job *j = holder_of(m, o);
    if (!j)
        return;
    if (o->lease.lease_ms)
        extend(m, j, o->lease.lease_ms);
    m->reply->cancel_by = j->cancel_by;
    model_say(m, OUT_OK, j);
}

void model_op_step(struct model *m, const struct op *o)
{
    struct model_job *j = holder_of(m, o);
    if (!j)
        return;
    m->reply->cancel_by = j->cancel_by;
    model_say(m, OUT_OK, j);
}

void model_op_log(struct model *m, const struct op *o)
{
    struct model_job *j = holder_of(m, o);
    if (j)
        model_say(m, OUT_OK, j);
}

void model_op_release(struct model *m, const struct op *o)
{
    struct model_job *j = holder_of(m, o);
    if (!j)
        return;
    if (o->lease.lost || j->cancel_at)
        model_lease_end(m, j, true);
    else {
        model_wait_until(m, j, o->lease.has_delay ? asked_for(m, &o->lease) : 0, REASON_RELEASED);
        model_queue_of(m, j)->counts.released++;
    }
    model_remember(m, j, OP_RELEASE);
    model_say(m, OUT_OK, j);
}

void model_op_release_claim(struct model *m, const struct op *o)
{
    for (uint32_t i = 0; o->release_claim.nonce && i < m->job_count; i++) {
        struct model_job *j = &m->jobs[i];
        if (!j->there || j->state != STATE_RUNNING || j->nonce != o->release_claim.nonce)
            continue;
        m->reply->changed++;
        if (j->cancel_at) { /* which no one reported */
            model_cancel_job(m, j);
            continue;
        }
        model_wait_until(m, j, 0, REASON_RELEASED);
        model_queue_of(m, j)->counts.released++;
        model_remember(m, j, OP_RELEASE);
    }
}
