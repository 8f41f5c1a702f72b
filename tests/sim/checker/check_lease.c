/* SPDX-License-Identifier: Apache-2.0 */
/* The checker on claims and on what their holders say: C3, C4, C5, C6, C7, C9. */
#include <string.h>

#include "sim/checker/know.h"

/* ---- claims ---------------------------------------------------------------------------------- */

/* Which promise it breaks to hand out a job that cannot be ready. */
static enum check blame_for(unsigned can)
{
    if (can == CAN(STATE_RUNNING))
        return CHECK_C4;
    if (can == CAN(STATE_SCHEDULED))
        return CHECK_C9;
    if (can & CAN(STATE_DEAD))
        return CHECK_C6;
    return can & (CAN(STATE_RUNNING) | CAN(STATE_SCHEDULED)) ? CHECK_C4 : CHECK_C3;
}

static void check_counts(struct checker *c, struct know *k, const struct job *j)
{
    bool ok = j->failures >= k->fail_min && j->failures <= k->fail_max &&
              j->crashes >= k->crash_min && j->crashes <= k->crash_max;
    if (!ok)
        blame(c, CHECK_C6, k->seq, "job %llu: failures %u, crashes %u, expected %u…%u and %u…%u",
              (unsigned long long)k->seq, j->failures, j->crashes, k->fail_min, k->fail_max,
              k->crash_min, k->crash_max);
    k->fail_min = k->fail_max = j->failures;
    k->crash_min = k->crash_max = j->crashes;
}

static void check_token(struct checker *c, struct know *k, struct job_token token)
{
    if (c->second_pass)
        return;
    if (!token_older(c->token_newest, token))
        blame(c, CHECK_C5, k->seq, "job %llu: token %u-%llu after %u-%llu",
              (unsigned long long)k->seq, token.epoch, (unsigned long long)token.counter,
              c->token_newest.epoch, (unsigned long long)c->token_newest.counter);
    c->token_newest = token;
}

static void take_lease(struct checker *c, struct know *k, const struct hist_job *j)
{
    narrow(c, k, CAN(STATE_RUNNING));
    k->hidden = false;
    k->lease = (struct know_lease){
        .token = j->token,
        .lease_ms = j->lease_ms,
        .end_min = c->e->replied_mono + j->lease_ms,
        .nonce = c->e->op.claim.nonce,
        .bound = c->e->op.claim.bound,
        .timed = j->limits.timeout_ms != 0,
        .limit_min = INT64_MAX,
    };
    struct know_lease *l = &k->lease;
    if (l->timed)
        l->limit_min = c->e->replied_mono + j->limits.timeout_ms;
    l->limit_max = l->limit_min;
    if (l->end_min > l->limit_min)
        l->end_min = l->limit_min;
}

static void check_taken(struct checker *c, const struct hist_job *j)
{
    struct know *k = check_known(c, j);
    if (!k)
        return;
    bool seized = c->e->op.claim.one.seq != 0;
    unsigned from = CAN(STATE_READY) | (seized ? CAN(STATE_SCHEDULED) | CAN(STATE_DEAD) : 0);
    drift(c, k);
    if (!(k->can & from))
        blame(c, blame_for(k->can), k->seq, "job %llu handed out, though it can only be %s",
              (unsigned long long)k->seq, states_text(k->can));
    if (j->job.state != STATE_RUNNING)
        blame(c, CHECK_C4, k->seq, "job %llu handed out in state %u", (unsigned long long)k->seq,
              j->job.state);
    const struct know_queue *q = &c->facts.queues[k->queue];
    if (!seized && q->pause_sure && q->paused_until > wall_peak(c, c->e->mono, c->e->mono))
        blame(c, CHECK_C9, k->seq, "job %llu handed out by a paused queue",
              (unsigned long long)k->seq);
    check_token(c, k, j->token);
    check_counts(c, k, &j->job);
    check_steps(c, k, j);
    take_lease(c, k, j);
}

static bool claim_names(const struct op_claim *op, struct span queue)
{
    for (uint32_t i = 0; i < op->queue_count; i++)
        if (span_equal(op->queues[i], queue))
            return true;
    return false;
}

static bool better(const struct know *k, const struct job *j)
{
    return k->priority != j->priority ? k->priority > j->priority : k->seq < j->seq;
}

/* Nothing that is surely ready may come after the last job taken, or be left when there was room.
 */
static void check_order(struct checker *c)
{
    const struct op_claim *op = &c->e->op.claim;
    const struct reply *r = &c->e->reply;
    for (uint32_t i = 1; i < r->job_count; i++) {
        const struct job *a = &c->e->jobs[i - 1].job, *b = &c->e->jobs[i].job;
        if (a->priority < b->priority || (a->priority == b->priority && a->seq > b->seq))
            blame(c, CHECK_C7, b->seq, "job %llu given after job %llu", (unsigned long long)b->seq,
                  (unsigned long long)a->seq);
    }
    bool room = r->job_count < op->count && (!c->e->strained || r->job_count == 0);
    if (r->job_count == 0 && !room)
        return;
    const struct job *last = r->job_count ? &c->e->jobs[r->job_count - 1].job : NULL;
    for (size_t i = 0; i < c->facts.job_count; i++) {
        struct know *k = &c->facts.jobs[i];
        const struct know_queue *q = &c->facts.queues[k->queue];
        if (k->can != CAN(STATE_READY) || !claim_names(op, q->name))
            continue;
        drift(c, k);
        if (k->can != CAN(STATE_READY) || !q->pause_sure || q->paused_until != 0)
            continue;
        if (room || (k->priority_sure && better(k, last)))
            blame(c, CHECK_C7, k->seq, "ready job %llu (priority %lld) passed over",
                  (unsigned long long)k->seq, (long long)k->priority);
    }
}

/* A claim without a reply may have taken whatever may have been ready. */
static void claim_silently(struct checker *c)
{
    const struct op_claim *op = &c->e->op.claim;
    for (size_t i = 0; i < c->facts.job_count; i++) {
        struct know *k = &c->facts.jobs[i];
        if (op->one.seq ? k->seq != op->one.seq : !claim_names(op, c->facts.queues[k->queue].name))
            continue;
        drift(c, k);
        unsigned from =
            CAN(STATE_READY) | (op->one.seq ? CAN(STATE_SCHEDULED) | CAN(STATE_DEAD) : 0);
        if (!(k->can & from))
            continue;
        if (!(k->can & CAN(STATE_RUNNING)))
            k->lease.cancel = CANCEL_NONE;
        else if (k->lease.cancel == CANCEL_SURE)
            k->lease.cancel = CANCEL_MAYBE;
        k->can |= CAN(STATE_RUNNING);
        k->hidden = k->lease.followed = true;
        k->lease.counted = false;
    }
}

void check_claim(struct checker *c)
{
    const struct reply *r = &c->e->reply;
    if (maybe(c)) {
        claim_silently(c);
        return;
    }
    if (r->outcome != OUT_OK)
        return;
    if (r->job_count > (c->e->op.claim.one.seq ? 1 : c->e->op.claim.count))
        blame(c, CHECK_C4, 0, "a claim of %u got %u jobs", c->e->op.claim.count, r->job_count);
    for (uint32_t i = 0; i < r->job_count; i++)
        check_taken(c, &c->e->jobs[i]);
    if (c->e->op.claim.one.seq == 0)
        check_order(c);
}

/* ---- ack, fail, extend, release, progress, log
 * -------------------------------------------------------------- */

static void count_failure(struct know *k, bool sure)
{
    k->fail_min += sure;
    if (k->fail_max != COUNT_UNKNOWN)
        k->fail_max++;
}

static void count_crash(struct know *k, bool sure)
{
    k->crash_min += sure;
    if (k->crash_max != COUNT_UNKNOWN && !k->lease.counted)
        k->crash_max++;
    k->lease.counted = true;
}

/* The states a fail may lead to, from the bounds after it was counted. */
static unsigned fail_states(struct checker *c, const struct know *k)
{
    const struct op_lease *op = &c->e->op.lease;
    struct know_rules r = rules_for(c, k);
    if (op->no_retry)
        return CAN(STATE_DEAD);
    if (!r.sure)
        return STATES_WAITING | CAN(STATE_DEAD);
    bool shared = r.lease_end == LEASE_END_COUNTED;
    uint64_t low = k->fail_min + (shared ? (uint64_t)k->crash_min : 0);
    uint64_t high = k->fail_max + (shared ? (uint64_t)k->crash_max : 0);
    if (low >= r.max_attempts)
        return CAN(STATE_DEAD);
    return STATES_WAITING | (high >= r.max_attempts ? CAN(STATE_DEAD) : 0);
}

/* What the op leads to, with the counting done in k. */
static unsigned effect(struct checker *c, struct know *k, bool sure)
{
    const struct op *op = &c->e->op;
    if (op->kind == OP_ACK)
        return CAN(STATE_DONE);
    if (op->kind == OP_EXTEND || op->kind == OP_PROGRESS || op->kind == OP_LOG ||
        op->kind == OP_STEP)
        return CAN(STATE_RUNNING);
    bool counts = sure && k->lease.cancel == CANCEL_NONE;
    if (op->kind == OP_FAIL) {
        count_failure(k, counts);
        return cancel_states(k, fail_states(c, k));
    }
    if (!op->lease.lost)
        return cancel_states(k, STATES_WAITING);
    unsigned can = lease_end_states(c, k);
    count_crash(k, counts);
    return can;
}

/* Without lease_ms a report of progress leaves the lease as it is. */
static bool extends(const struct op *op)
{
    return op->kind == OP_EXTEND || (op->kind == OP_PROGRESS && op->lease.lease_ms);
}

static void set_extended(struct checker *c, struct know *k, bool sure)
{
    uint32_t lease_ms = c->e->op.lease.lease_ms ? c->e->op.lease.lease_ms : k->lease.lease_ms;
    int64_t end = c->e->mono + lease_ms;
    if (end > k->lease.limit_min)
        end = k->lease.limit_min;
    if (sure || end < k->lease.end_min)
        k->lease.end_min = end;
    if (sure || lease_ms < k->lease.lease_ms)
        k->lease.lease_ms = lease_ms;
}

/* It is not known whether the op happened. */
static void lease_op_maybe(struct checker *c, struct know *k)
{
    const struct op_lease *op = &c->e->op.lease;
    bool holds = op->any_token || token_equal(op->token, k->lease.token);
    if (!(k->can & CAN(STATE_RUNNING)) || !holds)
        return;
    k->can |= effect(c, k, false);
    k->run_at = RUN_AT_UNKNOWN;
    if (extends(&c->e->op))
        set_extended(c, k, false);
}

static void lease_op_done(struct checker *c, struct know *k)
{
    const struct op_lease *op = &c->e->op.lease;
    const struct reply *r = &c->e->reply;
    bool holds = op->any_token || token_equal(op->token, k->lease.token);
    if (!holds)
        blame(c, CHECK_C5, k->seq, "job %llu: %s with token %u-%llu succeeded, newest is %u-%llu",
              (unsigned long long)k->seq, op_kind_name(c->e->op.kind), op->token.epoch,
              (unsigned long long)op->token.counter, k->lease.token.epoch,
              (unsigned long long)k->lease.token.counter);
    if (!(k->can & CAN(STATE_RUNNING)))
        blame(c, CHECK_C5, k->seq, "job %llu: %s succeeded, though it can only be %s",
              (unsigned long long)k->seq, op_kind_name(c->e->op.kind), states_text(k->can));
    if (c->e->mono >= k->lease.limit_max)
        blame(c, CHECK_C5, k->seq, "job %llu: %s succeeded at %lld, but its lease ended by %lld",
              (unsigned long long)k->seq, op_kind_name(c->e->op.kind), (long long)c->e->mono,
              (long long)k->lease.limit_max);
    unsigned can = effect(c, k, true);
    if (!(can & STATE_BIT(r->state)))
        blame(c, CHECK_C6, k->seq, "job %llu: %s led to %s, expected %s",
              (unsigned long long)k->seq, op_kind_name(c->e->op.kind), state_name(r->state),
              states_text(can));
    narrow(c, k, STATE_BIT(r->state));
    if (extends(&c->e->op))
        set_extended(c, k, true);
    if (r->state == STATE_SCHEDULED || r->state == STATE_READY) {
        k->run_at = r->state == STATE_SCHEDULED ? r->run_at.ms : 0;
        k->run_set = c->e->mono;
    }
}

/* "Done before" is right only if the same thing may have been done before. */
static void check_repeat(struct checker *c, uint64_t seq)
{
    const struct op_lease *op = &c->e->op.lease;
    bool release = c->e->op.kind == OP_RELEASE;
    for (size_t i = 0; i < c->at; i++) {
        const struct hist_entry *e = &c->h->entries[i];
        /* A boot and a claim given back by its nonce release, too. */
        if (release && (e->kind == HIST_BOOT || e->op.kind == OP_RELEASE_CLAIM) && i > 0)
            return;
        if (e->kind != HIST_OP || e->op.kind != c->e->op.kind || e->op.lease.job.seq != seq)
            continue;
        bool possible = !e->replied || e->reply.outcome == OUT_OK;
        if (possible && (e->op.lease.any_token || token_equal(e->op.lease.token, op->token)))
            return;
    }
    blame(c, CHECK_C5, seq, "job %llu: %s answered as a repeat of nothing", (unsigned long long)seq,
          op_kind_name(c->e->op.kind));
}

static void lease_op_refused(struct checker *c, struct know *k)
{
    const struct op_lease *op = &c->e->op.lease;
    const struct reply *r = &c->e->reply;
    bool holds = !op->any_token && token_equal(op->token, k->lease.token);
    bool alive = k->can == CAN(STATE_RUNNING) && !k->hidden;
    if (r->outcome == OUT_NOT_FOUND) {
        if (state_possible(c, k, CAN_GONE, CHECK_C1, "not found"))
            narrow(c, k, CAN_GONE);
    } else if (r->outcome == OUT_ILLEGAL) {
        if (state_possible(c, k, STATE_BIT(r->state), CHECK_C4, "refused as illegal"))
            narrow(c, k, STATE_BIT(r->state));
    } else if (r->outcome == OUT_GONE) {
        (void)state_possible(c, k, CAN_ANY & ~STATES_LIVE, CHECK_C1, "answered as gone");
    } else if (r->outcome == OUT_CANCELLED && !(k->can & CAN(STATE_CANCELLED))) {
        blame(c, CHECK_C4, k->seq, "job %llu: refused as cancelled, though it can only be %s",
              (unsigned long long)k->seq, states_text(k->can));
    } else if (r->outcome == OUT_LEASE_LOST && holds && alive) {
        blame(c, CHECK_C4, k->seq, "job %llu: the newest token is refused while its lease lives",
              (unsigned long long)k->seq);
    } else if (r->outcome == OUT_LEASE_LOST && holds && !k->hidden && !k->lease.timed) {
        k->can &= ~CAN(STATE_RUNNING);
        k->touched = c->e->mono;
    }
}

void check_lease_op(struct checker *c)
{
    const struct reply *r = &c->e->reply;
    uint64_t seq = c->e->op.lease.job.seq;
    struct know *k = facts_job(c, seq);
    if (!k) {
        if (!maybe(c) && r->outcome == OUT_OK)
            blame(c, CHECK_C5, seq, "job %llu: %s succeeded, but no such job is known",
                  (unsigned long long)seq, op_kind_name(c->e->op.kind));
        return;
    }
    drift(c, k);
    if (maybe(c))
        lease_op_maybe(c, k);
    else if (r->outcome == OUT_OK && r->repeat)
        check_repeat(c, seq);
    else if (r->outcome == OUT_OK)
        lease_op_done(c, k);
    else
        lease_op_refused(c, k);
}

/* Gives back, uncounted, what the claim with this nonce still holds. */
void check_release_claim(struct checker *c)
{
    if (!maybe(c) && c->e->reply.outcome != OUT_OK)
        return;
    for (size_t i = 0; i < c->facts.job_count; i++) {
        struct know *k = &c->facts.jobs[i];
        bool holds = k->hidden || k->lease.nonce == c->e->op.release_claim.nonce;
        if (k->lease.token.counter == 0 && !k->hidden)
            continue;
        drift(c, k);
        if ((k->can & CAN(STATE_RUNNING)) && holds)
            k->can |= cancel_states(k, CAN(STATE_READY));
    }
}
