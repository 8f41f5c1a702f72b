/* SPDX-License-Identifier: Apache-2.0 */
/* The checker on enqueues, on operators' moves and on reads of jobs: C1, C2, C6, C8, C9, C10. */
#include <string.h>

#include "sim/checker/know.h"

/* ---- what a view shows ----------------------------------------------------------------------- */

/* One of these entries gave the job this payload, or tried to. */
static bool patched_between(const struct checker *c, size_t from, size_t end,
                            const struct hist_job *j)
{
    for (size_t i = from; j->has_body && i < end; i++) {
        const struct hist_entry *e = &c->h->entries[i];
        if (e->kind == HIST_OP && e->op.kind == OP_PATCH && e->op.patch.job.seq == j->job.seq &&
            e->op.patch.has_payload && span_equal(e->op.patch.payload, j->payload))
            return true;
    }
    return false;
}

struct know *check_known(struct checker *c, const struct hist_job *j)
{
    struct know *k = facts_job(c, j->job.seq);
    if (!k) {
        struct op_enqueue like = {.queue = j->queue, .payload = j->payload};
        k = facts_bind(c, j->job.seq, &like);
        like.payload = (struct span){NULL, 0};
        if (!k && patched_between(c, 0, c->at, j))
            k = facts_bind(c, j->job.seq, &like);
    }
    if (!k) {
        blame(c, CHECK_C2, j->job.seq, "job %llu was never enqueued",
              (unsigned long long)j->job.seq);
        return NULL;
    }
    if (!span_equal(k->born->queue, j->queue))
        blame(c, CHECK_C2, k->seq, "job %llu shows up in another queue",
              (unsigned long long)k->seq);
    if (k->priority_sure && k->priority != j->job.priority)
        blame(c, CHECK_C7, k->seq, "job %llu has priority %lld, not %lld",
              (unsigned long long)k->seq, (long long)j->job.priority, (long long)k->priority);
    k->priority = j->job.priority;
    k->priority_sure = true;
    check_payload(c, k, j);
    return k;
}

/* Bodies are read when the reply leaves. By then the job may have been given back and patched. */
static bool patched_later(const struct checker *c, const struct hist_job *j)
{
    size_t end = c->at + 1;
    while (end < c->h->count && c->h->entries[end].mono <= c->e->replied_mono)
        end++;
    return patched_between(c, c->at + 1, end, j);
}

void check_payload(struct checker *c, struct know *k, const struct hist_job *j)
{
    if (!j->has_body || k->payload_count == 0)
        return;
    for (unsigned i = 0; i < k->payload_count; i++) {
        if (span_equal(k->payload[i], j->payload)) {
            k->payload[0] = k->payload[i];
            k->payload_count = 1;
            return;
        }
    }
    if (patched_later(c, j))
        return;
    blame(c, CHECK_C2, k->seq, "job %llu: payload of %zu bytes differs from the %zu bytes sent",
          (unsigned long long)k->seq, j->payload.len, k->payload[0].len);
}

/* ---- enqueue --------------------------------------------------------------------------------- */

/* The states in which a job holds its unique key; false when that is not known. A cancelled job
 * never does, or "replace" could not be. */
static bool holding_states(const struct checker *c, const struct know *k, unsigned *ret)
{
    const struct know_queue *q = &c->facts.queues[k->queue];
    uint8_t scope = q->policy.unique_scope;
    *ret = scope == UNIQUE_NONE   ? 0
           : scope == UNIQUE_KEPT ? STATES_ALL & ~CAN(STATE_CANCELLED)
                                  : STATES_LIVE;
    return q->policy_sure;
}

/* C8: no other job may surely hold the key that k now holds. */
static void check_unique(struct checker *c, const struct know *k, uint64_t replaced)
{
    struct span key = k->born->extra.unique;
    unsigned holding;
    if (key.len == 0 || !holding_states(c, k, &holding))
        return;
    for (size_t i = 0; i < c->facts.job_count; i++) {
        struct know *other = &c->facts.jobs[i];
        if (other->seq == k->seq || other->seq == replaced || other->queue != k->queue ||
            !span_equal(other->born->extra.unique, key))
            continue;
        drift(c, other);
        if ((other->can & ~holding) == 0)
            blame(c, CHECK_C8, k->seq, "jobs %llu and %llu hold one unique key",
                  (unsigned long long)other->seq, (unsigned long long)k->seq);
    }
}

/* C2: one job under one idempotency key, while the key holds. */
static void check_key(struct checker *c, const struct know *k)
{
    struct span key = k->born->idempotency_key;
    for (size_t i = 0; key.len && i < c->facts.job_count; i++) {
        const struct know *other = &c->facts.jobs[i];
        if (other->seq == k->seq || !span_equal(other->born->idempotency_key, key))
            continue;
        int64_t made = c->h->entries[other->made].mono;
        if (wall_peak(c, made, c->e->mono) - wall_low(c, made, made) < (int64_t)c->h->key_ttl_ms)
            blame(c, CHECK_C2, k->seq, "jobs %llu and %llu under one idempotency key",
                  (unsigned long long)other->seq, (unsigned long long)k->seq);
    }
}

static void check_capacity(struct checker *c, uint32_t queue, bool refused)
{
    const struct know_queue *q = &c->facts.queues[queue];
    uint64_t surely = 0, perhaps = 0;
    for (size_t i = 0; i < c->facts.job_count; i++) {
        struct know *k = &c->facts.jobs[i];
        if (k->queue != queue)
            continue;
        drift(c, k);
        perhaps += (k->can & STATES_LIVE) != 0;
        surely += (k->can & ~STATES_LIVE) == 0;
    }
    for (size_t i = 0; refused && i < c->at; i++) { /* jobs that no reply named */
        const struct hist_entry *e = &c->h->entries[i];
        perhaps += e->kind == HIST_OP && e->op.kind == OP_ENQUEUE && !e->replied;
    }
    if (!q->policy_sure)
        return;
    if (refused && perhaps < q->policy.capacity)
        blame(c, CHECK_C10, 0, "queue full at no more than %llu of %llu jobs",
              (unsigned long long)perhaps, (unsigned long long)q->policy.capacity);
    if (!refused && surely > q->policy.capacity)
        blame(c, CHECK_C10, 0, "%llu live jobs in a queue with room for %llu",
              (unsigned long long)surely, (unsigned long long)q->policy.capacity);
}

/* The job that the reply to an enqueue names; NULL after blame. */
static struct know *named(struct checker *c, uint64_t seq, const struct op_enqueue *like,
                          enum check check)
{
    struct know *k = facts_job(c, seq);
    if (!k)
        k = facts_bind(c, seq, like);
    if (!k)
        blame(c, check, seq, "answered with job %llu, which was never enqueued (or is lost)",
              (unsigned long long)seq);
    return k;
}

static void enqueue_replaces(struct checker *c, uint64_t seq)
{
    const struct op_enqueue *op = &c->e->op.enqueue;
    struct op_enqueue like = {.queue = op->queue, .extra.unique = op->extra.unique};
    struct know *old = named(c, seq, &like, CHECK_C8);
    if (!old)
        return;
    if (!old->vague && !span_equal(old->born->extra.unique, op->extra.unique))
        blame(c, CHECK_C8, seq, "replaced job %llu has another key", (unsigned long long)seq);
    if (state_possible(c, old, STATES_LIVE, CHECK_C8, "replaced"))
        narrow(c, old, CAN(STATE_CANCELLED));
}

static void enqueue_made(struct checker *c)
{
    const struct op_enqueue *op = &c->e->op.enqueue;
    const struct reply *r = &c->e->reply;
    if (facts_job(c, r->seq))
        blame(c, CHECK_C2, r->seq, "sequence %llu given twice", (unsigned long long)r->seq);
    struct know *k = facts_new(c, r->seq, c->at);
    k->run_at = op->run_at.ms ? op->run_at.ms : op->delay_ms ? c->e->wall + op->delay_ms : 0;
    unsigned state = k->run_at > c->e->wall ? CAN(STATE_SCHEDULED) : CAN(STATE_READY);
    if (STATE_BIT(r->state) != state)
        blame(c, CHECK_C9, k->seq, "job %llu is %s right after its enqueue",
              (unsigned long long)k->seq, state_name(r->state));
    narrow(c, k, STATE_BIT(r->state));
    uint32_t queue = k->queue;
    check_key(c, k);
    if (r->replaced_seq) {
        enqueue_replaces(c, r->replaced_seq);
        k = facts_job(c, r->seq);
    }
    check_unique(c, k, r->replaced_seq);
    if (!r->replaced_seq) /* which a full queue, too, may do */
        check_capacity(c, queue, false);
}

/* The reply names a job that was there before. */
static void enqueue_names(struct checker *c, bool by_key)
{
    const struct op_enqueue *op = &c->e->op.enqueue;
    uint64_t seq = c->e->reply.seq;
    struct op_enqueue like = {.queue = op->queue};
    if (by_key) {
        like.idempotency_key = op->idempotency_key;
        like.fingerprint = op->fingerprint;
    } else {
        like.extra.unique = op->extra.unique;
    }
    struct know *k = named(c, seq, &like, by_key ? CHECK_C2 : CHECK_C8);
    if (!k)
        return;
    if (by_key) {
        if (!k->vague && !span_equal(k->born->idempotency_key, op->idempotency_key))
            blame(c, CHECK_C2, seq, "key answered with job %llu of another key",
                  (unsigned long long)seq);
        return;
    }
    unsigned holding;
    if (!k->vague && !span_equal(k->born->extra.unique, op->extra.unique))
        blame(c, CHECK_C8, seq, "duplicate of job %llu, which has another key",
              (unsigned long long)seq);
    else if (holding_states(c, k, &holding))
        (void)state_possible(c, k, holding, CHECK_C8, "holds a unique key");
}

/* Without a reply it may still have made a job, which retention counts, and have replaced the
 * holder of its key. */
static void enqueue_silently(struct checker *c)
{
    const struct op_enqueue *op = &c->e->op.enqueue;
    uint32_t queue;
    (void)facts_queue(c, op->queue, &queue);
    c->facts.silent++;
    for (size_t i = 0; op->extra.unique.len && i < c->facts.job_count; i++) {
        struct know *k = &c->facts.jobs[i];
        bool other = !k->vague && !span_equal(k->born->extra.unique, op->extra.unique);
        if (k->queue != queue || other)
            continue;
        drift(c, k);
        if (k->can & STATES_LIVE)
            k->can |= CAN(STATE_CANCELLED);
    }
}

void check_enqueue(struct checker *c)
{
    const struct reply *r = &c->e->reply;
    if (maybe(c)) {
        enqueue_silently(c); /* facts_bind finds it when its job shows up */
        return;
    }
    if (r->outcome == OUT_OK && r->repeat)
        enqueue_names(c, true);
    else if (r->outcome == OUT_OK && r->created)
        enqueue_made(c);
    else if (r->outcome == OUT_OK || r->outcome == OUT_DUPLICATE)
        enqueue_names(c, false);
    else if (r->outcome == OUT_QUEUE_FULL) {
        uint32_t queue;
        (void)facts_queue(c, c->e->op.enqueue.queue, &queue);
        check_capacity(c, queue, true);
    }
}

/* ---- operators' moves ------------------------------------------------------------------------ */

/* The job an op names, drifted, or NULL when there is nothing to be said. */
static struct know *subject(struct checker *c, uint64_t seq)
{
    struct know *k = facts_job(c, seq);
    if (k)
        drift(c, k);
    return k;
}

/* Refusals that any of these ops may get; true when it was one. */
static bool refused(struct checker *c, struct know *k)
{
    const struct reply *r = &c->e->reply;
    if (r->outcome == OUT_NOT_FOUND) {
        if (state_possible(c, k, CAN_GONE, CHECK_C1, "not found"))
            narrow(c, k, CAN_GONE);
    } else if (r->outcome == OUT_GONE) {
        (void)state_possible(c, k, CAN_ANY & ~STATES_LIVE, CHECK_C1, "answered as gone");
    } else if (r->outcome == OUT_ILLEGAL) {
        if (state_possible(c, k, STATE_BIT(r->state), CHECK_C4, "refused as illegal"))
            narrow(c, k, STATE_BIT(r->state));
    }
    return r->outcome != OUT_OK;
}

/* The worker has the grace time of the first request. */
static void cancel_sure(struct checker *c, struct know *k)
{
    const struct know_queue *q = &c->facts.queues[k->queue];
    struct know_lease *l = &k->lease;
    bool first = l->cancel == CANCEL_NONE && q->policy_sure && !k->hidden;
    int64_t grace_ms = first ? q->policy.cancel_grace_ms : 0;
    narrow(c, k, CAN(STATE_RUNNING));
    if (l->limit_min > c->e->mono + grace_ms && l->cancel != CANCEL_SURE)
        l->limit_min = c->e->mono + grace_ms;
    if (first && l->limit_max > c->e->replied_mono + grace_ms)
        l->limit_max = c->e->replied_mono + grace_ms;
    if (l->end_min > l->limit_min)
        l->end_min = l->limit_min;
    l->cancel = CANCEL_SURE;
}

void check_cancel(struct checker *c)
{
    struct know *k = subject(c, c->e->op.job.job.seq);
    if (!k)
        return;
    if (maybe(c)) {
        if (k->can & STATES_LIVE)
            k->can |= CAN(STATE_CANCELLED);
        if (!c->e->op.job.force)
            cancel_maybe(c, k);
    } else if (!refused(c, k) && c->e->reply.lease.cancel_by.ms) {
        if (state_possible(c, k, CAN(STATE_RUNNING), CHECK_C3, "to be cancelled"))
            cancel_sure(c, k);
    } else if (c->e->reply.outcome == OUT_OK &&
               state_possible(c, k, STATES_LIVE, CHECK_C3, "cancelled")) {
        narrow(c, k, CAN(STATE_CANCELLED));
    }
}

#define REQUEUE_FROM (CAN(STATE_SCHEDULED) | CAN(STATE_DEAD) | CAN(STATE_CANCELLED))

void check_requeue(struct checker *c)
{
    struct know *k = subject(c, c->e->op.job.job.seq);
    if (!k)
        return;
    if (maybe(c)) {
        if (k->can & REQUEUE_FROM) {
            k->can |= STATES_WAITING;
            k->run_at = RUN_AT_UNKNOWN;
            k->fail_min = k->crash_min = 0;
        }
    } else if (!refused(c, k) && state_possible(c, k, REQUEUE_FROM, CHECK_C3, "requeued")) {
        k->fail_min = k->fail_max = k->crash_min = k->crash_max = 0;
        k->run_at = c->e->reply.run_at.ms;
        k->run_set = c->e->mono;
        narrow(c, k, STATE_BIT(c->e->reply.state));
        check_unique(c, k, 0);
    }
}

static void patch_maybe(struct checker *c, struct know *k)
{
    const struct op_patch *op = &c->e->op.patch;
    if (!(k->can & STATES_WAITING))
        return;
    k->can |= STATES_WAITING;
    k->priority_sure = k->priority_sure && !op->has_priority;
    k->run_at = RUN_AT_UNKNOWN;
    if (op->has_payload && k->payload_count > 0) {
        if (k->payload_count < KNOW_PAYLOADS)
            k->payload[k->payload_count++] = op->payload;
        else
            k->payload_count = 0;
    }
}

void check_patch(struct checker *c)
{
    const struct op_patch *op = &c->e->op.patch;
    struct know *k = subject(c, op->job.seq);
    if (!k)
        return;
    if (maybe(c)) {
        patch_maybe(c, k);
        return;
    }
    if (refused(c, k) || !state_possible(c, k, STATES_WAITING, CHECK_C3, "patched"))
        return;
    narrow(c, k, STATE_BIT(c->e->reply.state));
    if (op->has_priority) {
        k->priority = op->priority;
        k->priority_sure = true;
    }
    if (op->has_run_at) {
        k->run_at = op->run_at.ms;
        k->run_set = c->e->mono;
    }
    if (op->has_payload) {
        k->payload[0] = op->payload;
        k->payload_count = 1;
    }
}

void check_remove(struct checker *c)
{
    unsigned from = CAN_ANY & ~(CAN(STATE_RUNNING) | CAN_GONE);
    struct know *k = subject(c, c->e->op.job.job.seq);
    if (!k)
        return;
    if (maybe(c)) {
        if (k->can & from)
            k->can |= CAN_GONE;
    } else if (!refused(c, k) && state_possible(c, k, from, CHECK_C3, "removed")) {
        narrow(c, k, CAN_GONE);
    }
}

/* ---- reads ----------------------------------------------------------------------------------- */

/* The lease a running job shows: the one known, or that of a claim without a reply. */
static void view_lease(struct checker *c, struct know *k, const struct hist_job *j)
{
    bool known = token_equal(j->token, k->lease.token);
    if (!known && !k->hidden)
        blame(c, CHECK_C5, k->seq, "job %llu runs under a token that no reply gave",
              (unsigned long long)k->seq);
    if (!known)
        k->lease = (struct know_lease){.token = j->token,
                                       .lease_ms = j->lease_ms,
                                       .end_min = c->e->mono,
                                       .bound = (j->job.flags & JOB_BOUND) != 0,
                                       .unheld = true,
                                       .cancel = j->limits.cancel_at.ms ? CANCEL_SURE : CANCEL_NONE,
                                       .timed = j->limits.timeout_ms != 0,
                                       .limit_min = c->e->mono,
                                       .limit_max = INT64_MAX};
    k->lease.counted = false;
    k->hidden = false;
}

static void check_view(struct checker *c, const struct hist_job *j)
{
    struct know *k = check_known(c, j);
    if (!k)
        return;
    enum check check = j->job.state == STATE_DEAD                ? CHECK_C6
                       : (STATE_BIT(j->job.state) & STATES_LIVE) ? CHECK_C3
                                                                 : CHECK_C1;
    if (!state_possible(c, k, STATE_BIT(j->job.state), check, state_name(j->job.state)))
        return;
    narrow(c, k, STATE_BIT(j->job.state));
    bool counts = j->job.failures >= k->fail_min && j->job.failures <= k->fail_max &&
                  j->job.crashes >= k->crash_min && j->job.crashes <= k->crash_max;
    if (!counts)
        blame(c, CHECK_C6, k->seq,
              "job %llu shows %u failures and %u crashes, expected %u…%u, %u…%u",
              (unsigned long long)k->seq, j->job.failures, j->job.crashes, k->fail_min, k->fail_max,
              k->crash_min, k->crash_max);
    k->fail_min = k->fail_max = j->job.failures;
    k->crash_min = k->crash_max = j->job.crashes;
    if (j->job.state == STATE_RUNNING)
        view_lease(c, k, j);
    check_report(c, k, j);
    if (j->job.state == STATE_SCHEDULED) {
        k->run_at = j->job.run_at.ms;
        k->run_set = c->e->mono;
    }
    if (c->drained && (STATE_BIT(j->job.state) & STATES_LIVE))
        blame(c, CHECK_C10, k->seq, "job %llu is still %s after the drain",
              (unsigned long long)k->seq, state_name((enum job_state)j->job.state));
}

void check_get(struct checker *c)
{
    if (maybe(c))
        return;
    for (uint32_t i = 0; i < c->e->job_count; i++)
        check_view(c, &c->e->jobs[i]);
    struct know *k = subject(c, c->e->op.job.job.seq);
    if (k)
        (void)refused(c, k);
}

void check_peek(struct checker *c)
{
    if (maybe(c) || c->e->reply.outcome != OUT_OK)
        return;
    for (uint32_t i = 0; i < c->e->job_count; i++) {
        if (c->e->jobs[i].job.state != c->e->op.peek.state)
            blame(c, CHECK_C2, c->e->jobs[i].job.seq, "peek shows another state than asked for");
        check_view(c, &c->e->jobs[i]);
    }
}

/* Something sent after the list was asked for, but before it was read, may show in it. */
static bool sent_later(const struct checker *c, const struct hist_job *j)
{
    for (size_t i = c->at + 1; i < c->h->count; i++) {
        const struct hist_entry *e = &c->h->entries[i];
        if (e->mono > c->e->replied_mono)
            break;
        if (e->kind != HIST_OP)
            continue;
        if (e->op.kind == OP_ENQUEUE && span_equal(e->op.enqueue.queue, j->queue) &&
            (!j->has_body || span_equal(e->op.enqueue.payload, j->payload)))
            return true;
    }
    return patched_later(c, j);
}

/* A page comes from the store at the time of reading, so states are not compared. */
void check_list(struct checker *c)
{
    if (maybe(c) || c->e->reply.outcome != OUT_OK)
        return;
    for (uint32_t i = 0; i < c->e->job_count; i++) {
        const struct hist_job *j = &c->e->jobs[i];
        struct know *k = facts_job(c, j->job.seq);
        if (sent_later(c, j))
            continue;
        if (k)
            check_payload(c, k, j);
        else
            (void)check_known(c, j);
    }
}
