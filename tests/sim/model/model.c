/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/model/model.h"

#include <string.h>

#include "base/check.h"
#include "sim/model/model_impl.h"

void model_init(struct model *m, const struct queue_policy *policy)
{
    memset(m, 0, sizeof(*m));
    m->policy = *policy;
    m->stall_ms = 1000;
    m->jump_ms = 3600 * 1000;
}

/* Leases stand still while the process does; a leap of the wall clock makes it suspect. */
void model_time(struct model *m, struct now now)
{
    if (m->stepped) {
        int64_t mono = now.mono.ms - m->last.mono.ms, wall = now.wall.ms - m->last.wall.ms;
        if (mono > m->stall_ms)
            m->skipped_ms += mono;
        if (wall - mono > m->jump_ms)
            m->suspect = true;
    }
    m->stepped = true;
    m->last = m->now = now;
}

int64_t model_lease_time(const struct model *m)
{
    return m->now.mono.ms - m->skipped_ms;
}

/* ---- finding things -------------------------------------------------------------------------- */

struct model_job *model_find(struct model *m, uint64_t seq)
{
    for (uint32_t i = 0; i < m->job_count; i++)
        if (m->jobs[i].there && m->jobs[i].seq == seq)
            return &m->jobs[i];
    return NULL;
}

bool model_ever(const struct model *m, uint64_t seq)
{
    for (uint32_t i = 0; i < m->job_count; i++)
        if (m->jobs[i].seq == seq)
            return true;
    return false;
}

struct model_queue *model_queue_named(struct model *m, struct span name)
{
    for (int i = 0; i < MODEL_QUEUES; i++)
        if (m->queues[i].there && span_equal(m->queues[i].name, name))
            return &m->queues[i];
    return NULL;
}

struct model_queue *model_queue_make(struct model *m, struct span name)
{
    for (int i = 0; i < MODEL_QUEUES; i++) {
        if (!m->queues[i].there) {
            m->queues[i] = (struct model_queue){.there = true, .name = name, .policy = m->policy};
            model_limits_forget(m, (uint32_t)i);
            return &m->queues[i];
        }
    }
    CHECK(!"queues");
    return NULL;
}

struct model_queue *model_queue_of(struct model *m, const struct model_job *j)
{
    return &m->queues[j->queue];
}

uint32_t model_queue_index(const struct model *m, const struct model_queue *q)
{
    return (uint32_t)(q - m->queues);
}

static bool holds_key(struct model *m, const struct model_job *j)
{
    uint8_t scope = model_queue_of(m, j)->policy.unique_scope;
    unsigned states = scope == UNIQUE_NONE   ? 0
                      : scope == UNIQUE_KEPT ? STATES_ALL & ~STATE_BIT(STATE_CANCELLED)
                                             : STATES_LIVE;
    return j->unique.len && (STATE_BIT(j->state) & states);
}

struct model_job *model_key_holder(struct model *m, const struct model_queue *q, struct span key)
{
    for (uint32_t i = 0; key.len && i < m->job_count; i++) {
        struct model_job *j = &m->jobs[i];
        if (j->there && j->queue == model_queue_index(m, q) && span_equal(j->unique, key) &&
            holds_key(m, j))
            return j;
    }
    return NULL;
}

/* ---- changing a job -------------------------------------------------------------------------- */

void model_enter(struct model *m, struct model_job *j, uint8_t state, uint8_t reason)
{
    if (j->state != state) {
        j->since = m->now.wall.ms;
        j->entered = ++m->entered;
    }
    bool begins = state == STATE_READY && j->state != STATE_READY;
    j->state = state;
    j->reason = reason;
    if (begins)
        model_joins(m, j);
}

/* Ready, or scheduled when its time is still to come. */
void model_wait_until(struct model *m, struct model_job *j, int64_t run_at, uint8_t reason)
{
    bool later = run_at > m->now.wall.ms;
    if (later)
        j->run_at = run_at;
    model_enter(m, j, later ? STATE_SCHEDULED : STATE_READY, reason);
}

struct model_rules model_rules_for(struct model *m, const struct model_job *j)
{
    const struct queue_policy *p = &model_queue_of(m, j)->policy;
    const struct job_options *o = j->options;
    return (struct model_rules){
        o && o->lease_ms ? o->lease_ms : p->lease_ms,
        o && o->timeout_ms ? o->timeout_ms : p->timeout_ms,
        o && o->max_attempts ? o->max_attempts : p->max_attempts,
        o && o->max_crashes ? o->max_crashes : p->max_crashes,
        p->lease_end,
        o && o->has_backoff ? &o->backoff : &p->backoff,
    };
}

static int64_t wait_ms(const struct backoff *b, uint32_t failure)
{
    if (b->kind == BACKOFF_LIST) {
        if (b->step_count == 0)
            return 0;
        uint32_t last = b->step_count;
        return b->step_ms[(failure < last ? failure : last) - 1];
    }
    int64_t wait = b->base_ms;
    for (uint32_t i = 1; i < failure && wait < b->max_ms; i++)
        wait *= 2;
    return wait < b->max_ms ? wait : b->max_ms;
}

void model_die(struct model *m, struct model_job *j, uint8_t reason)
{
    model_enter(m, j, STATE_DEAD, reason);
    model_queue_of(m, j)->counts.died++;
}

void model_back_off(struct model *m, struct model_job *j, uint32_t number, uint8_t reason)
{
    model_wait_until(m, j, m->now.wall.ms + wait_ms(model_rules_for(m, j).backoff, number), reason);
}

void model_failed(struct model *m, struct model_job *j, uint8_t reason)
{
    struct model_rules r = model_rules_for(m, j);
    j->failures++;
    model_queue_of(m, j)->counts.failed++;
    uint32_t used = j->failures + (r.lease_end == LEASE_END_COUNTED ? j->crashes : 0);
    if (used >= r.max_attempts)
        model_die(m, j, reason);
    else
        model_back_off(m, j, used, reason);
}

/* The lease ran out, or its connection is gone. */
void model_lease_end(struct model *m, struct model_job *j, bool lost)
{
    struct model_rules r = model_rules_for(m, j);
    if (j->cancel_at) {
        model_cancel_job(m, j);
        return;
    }
    if (!lost && j->limit <= j->until) {
        model_failed(m, j, REASON_TIMED_OUT);
        return;
    }
    j->crashes++;
    model_queue_of(m, j)->counts.crashed++;
    bool loop = r.max_crashes && j->crashes >= r.max_crashes;
    if (r.lease_end == LEASE_END_FAIL)
        model_die(m, j, REASON_LEASE_EXPIRED);
    else if (loop)
        model_die(m, j, REASON_CRASH_LOOP);
    else if (r.lease_end == LEASE_END_COUNTED && j->failures + j->crashes >= r.max_attempts)
        model_die(m, j, REASON_CRASH_LOOP);
    else if (r.lease_end == LEASE_END_COUNTED)
        model_back_off(m, j, j->failures + j->crashes, REASON_LEASE_EXPIRED);
    else if (lost && j->crashes >= 2)
        model_back_off(m, j, j->crashes - 1, REASON_LEASE_EXPIRED);
    else
        model_enter(m, j, STATE_READY, REASON_LEASE_EXPIRED);
}

void model_drop(struct model *m, struct model_job *j)
{
    j->there = false;
    model_queue_of(m, j)->counts.removed++;
}

void model_say(struct model *m, enum outcome outcome, const struct model_job *j)
{
    m->reply->outcome = outcome;
    if (j) {
        m->reply->seq = j->seq;
        m->reply->state = j->state;
        m->reply->run_at = j->run_at;
    }
}

static model_fn *const ops[OP_KIND_COUNT] = {
    [OP_ENQUEUE] = model_op_enqueue,
    [OP_CLAIM] = model_op_claim,
    [OP_ACK] = model_op_ack,
    [OP_FAIL] = model_op_fail,
    [OP_EXTEND] = model_op_extend,
    [OP_RELEASE] = model_op_release,
    [OP_PROGRESS] = model_op_progress,
    [OP_LOG] = model_op_log,
    [OP_STEP] = model_op_step,
    [OP_CANCEL] = model_op_cancel,
    [OP_RELEASE_CLAIM] = model_op_release_claim,
    [OP_REQUEUE] = model_op_requeue,
    [OP_PATCH] = model_op_patch,
    [OP_REMOVE] = model_op_remove,
    [OP_QUEUE_PUT] = model_op_queue_put,
    [OP_PAUSE] = model_op_pause,
    [OP_QUEUE_DELETE] = model_op_queue_delete,
    [OP_QUEUE_GET] = model_op_queue_get,
    [OP_PURGE] = model_op_purge,
    [OP_BULK] = model_op_bulk,
    [OP_GET] = model_op_get,
    [OP_PEEK] = model_op_peek,
};

bool model_op(struct model *m, const struct op *op, struct model_reply *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->kind = op->kind;
    ret->tag = op->tag;
    m->reply = ret;
    ops[op->kind](m, op);
    return ret->kind != OP_TICK;
}
