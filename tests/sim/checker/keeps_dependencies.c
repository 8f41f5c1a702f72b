/* SPDX-License-Identifier: Apache-2.0 */
/* C20: a job that depends on others never starts before they have ended as declared, and does not
 * start again after its end. A keeper's job ends by a request about it, or by the rule of what it
 * depends on itself; nothing else ends it. */
#include "core/jobs/dependency.h"
#include "sim/checker/keeps.h"

static bool ends(const struct hist_entry *e, uint64_t seq, bool well)
{
    if (e->kind != HIST_OP || !e->apart)
        return false;
    if (e->op.kind == OP_ACK)
        return e->op.lease.job.seq == seq;
    if (well)
        return false;
    return (e->op.kind == OP_FAIL && e->op.lease.job.seq == seq) ||
           (e->op.kind == OP_CANCEL && e->op.job.job.seq == seq);
}

/* Whether the parent can have ended before entry `at`; `well`: by an ack. */
static bool can_have_ended(const struct keeps *k, uint64_t seq, bool well, size_t at)
{
    const struct hist_job *end = keeps_job(k, seq);
    for (size_t i = 0; i < at; i++)
        if (ends(&k->h->entries[i], seq, well))
            return true;
    return !well && (!end || end->job.reason == REASON_DEPENDENCY_FAILED);
}

/* The jobs of a batch, if the request is one. */
static const struct op_kv_commit *batch_of(const struct hist_entry *e)
{
    bool batch = e->kind == HIST_OP && e->apart && e->op.kind == OP_KV_COMMIT;
    return batch && e->op.kv_commit.jobs_alone ? &e->op.kv_commit : NULL;
}

/* What a job depends on. Jobs of the same batch are named by their index in it. */
struct made {
    const struct op_depends *depends;
    const struct op_kv_commit *batch; /* NULL = it was enqueued alone */
};

static bool made_by(const struct hist_entry *e, struct span payload, struct made *ret)
{
    const struct op_kv_commit *batch = batch_of(e);
    if (e->kind == HIST_OP && e->apart && e->op.kind == OP_ENQUEUE &&
        span_equal(e->op.enqueue.payload, payload)) {
        *ret = (struct made){e->op.enqueue.depends, NULL};
        return true;
    }
    for (uint32_t i = 0; batch && i < batch->enqueue_count; i++)
        if (span_equal(batch->enqueues[i].payload, payload)) {
            *ret = (struct made){batch->enqueues[i].depends, batch};
            return true;
        }
    return false;
}

/* By the request that created the job; none, if its payload is not known. */
static struct made creation(const struct keeps *k, const struct hist_job *j)
{
    struct made made = {NULL, NULL};
    for (size_t i = 0; j->has_body && i < k->h->count; i++)
        if (made_by(&k->h->entries[i], j->payload, &made))
            break;
    return made;
}

/* 0 = not known: nothing was read in the end, or a repeat of the batch created it again. */
static uint64_t parent_of(const struct keeps *k, const struct made *made, uint32_t i)
{
    const struct dependency_ref *ref = &made->depends->parents[i];
    unsigned count;
    if (ref->job.seq || !made->batch)
        return ref->job.seq;
    const struct hist_job *j = keeps_job_with(k, made->batch->enqueues[ref->index].payload, &count);
    return count == 1 ? j->job.seq : 0;
}

static void check_start(struct keeps *k, const struct hist_job *j, size_t at)
{
    struct made made = creation(k, j);
    const struct op_depends *d = made.depends;
    for (uint32_t i = 0; d && i < d->count; i++) {
        uint64_t parent = parent_of(k, &made, i);
        if (parent && !can_have_ended(k, parent, d->rule != DEPENDENCY_RUN, at))
            keeps_blame(k, CHECK_C20, j->job.seq, at,
                        "job %llu started before job %llu had ended as declared",
                        (unsigned long long)j->job.seq, (unsigned long long)parent);
    }
}

static void check_once(struct keeps *k, const struct hist_job *j, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        const struct hist_entry *e = &k->h->entries[i];
        if (keeps_ok(e, OP_ACK) && e->op.lease.job.seq == j->job.seq &&
            e->replied_mono < k->h->entries[at].mono)
            keeps_blame(k, CHECK_C20, j->job.seq, at, "job %llu started again after its end",
                        (unsigned long long)j->job.seq);
    }
}

/* Whether the lease of a claim may have ended before entry `at`. A crash forgets a claim that was
 * answered before its record was durable. */
static bool lease_may_end(const struct keeps *k, const struct hist_job *j, size_t from, size_t at)
{
    const struct hist_entry *claim = &k->h->entries[from];
    if (k->h->entries[at].mono >= claim->mono + j->lease_ms)
        return true;
    for (size_t i = from + 1; i < at; i++) {
        const struct hist_entry *e = &k->h->entries[i];
        if (e->kind == HIST_CRASH && e->position < claim->position)
            return true;
        bool gives_back = e->kind == HIST_OP && e->op.kind == OP_RELEASE_CLAIM &&
                          e->op.release_claim.nonce == claim->op.claim.nonce;
        if (gives_back || ends(e, j->job.seq, false))
            return true;
    }
    return false;
}

/* Two claims have the job at the same time: it was made ready twice. */
static void check_alone(struct keeps *k, const struct hist_job *j, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        const struct hist_entry *e = &k->h->entries[i];
        for (uint32_t n = 0; keeps_ok(e, OP_CLAIM) && n < e->job_count; n++)
            if (e->jobs[n].job.seq == j->job.seq && !token_equal(e->jobs[n].token, j->token) &&
                !lease_may_end(k, &e->jobs[n], i, at))
                keeps_blame(k, CHECK_C20, j->job.seq, at, "job %llu started twice",
                            (unsigned long long)j->job.seq);
    }
}

/* In the end: a job was cancelled or died by its rule exactly if a parent did not end well. */
static void check_rule(struct keeps *k, const struct hist_job *j)
{
    struct made made = creation(k, j);
    const struct op_depends *d = made.depends;
    bool failed = false, known = d != NULL;
    for (uint32_t i = 0; known && i < d->count; i++) {
        const struct hist_job *parent = keeps_job(k, parent_of(k, &made, i));
        known = parent != NULL;
        failed = failed || (parent && parent->job.state != STATE_DONE);
    }
    bool by_rule = j->job.reason == REASON_DEPENDENCY_FAILED;
    if (!known || by_rule == (failed && d->rule != DEPENDENCY_RUN))
        return;
    keeps_blame(k, CHECK_C20, j->job.seq, k->h->count - 1,
                by_rule ? "job %llu ended by its rule, but all of its parents are done"
                        : "job %llu did not end by its rule, but a parent of it failed",
                (unsigned long long)j->job.seq);
}

/* A batch exists completely or not at all, and completely if it was answered. */
static void check_batch(struct keeps *k, size_t at)
{
    const struct hist_entry *e = &k->h->entries[at];
    const struct op_kv_commit *batch = batch_of(e);
    uint32_t there = 0;
    unsigned count;
    for (uint32_t i = 0; i < batch->enqueue_count; i++)
        there += keeps_job_with(k, batch->enqueues[i].payload, &count) != NULL;
    bool all = there == batch->enqueue_count;
    if (!all && (there > 0 || keeps_ok(e, OP_KV_COMMIT)))
        keeps_blame(k, CHECK_C20, 0, at, "of %u jobs of batch %u there are %u",
                    batch->enqueue_count, e->call, there);
}

void keeps_dependencies(struct keeps *k)
{
    static const struct span children = SPAN_LITERAL("x-children");
    for (size_t i = 0; i < k->h->count; i++) {
        const struct hist_entry *e = &k->h->entries[i];
        for (uint32_t n = 0; keeps_ok(e, OP_CLAIM) && n < e->job_count; n++)
            if (span_equal(e->jobs[n].queue, children)) {
                check_start(k, &e->jobs[n], i);
                check_once(k, &e->jobs[n], i);
                check_alone(k, &e->jobs[n], i);
            }
    }
    for (size_t i = 0; i < k->drained && k->drained < k->h->count; i++)
        if (batch_of(&k->h->entries[i]))
            check_batch(k, i);
    for (size_t i = 0; i < k->end_count; i++)
        if (span_equal(k->end[i]->queue, children) &&
            !(STATE_BIT(k->end[i]->job.state) & STATES_LIVE))
            check_rule(k, k->end[i]);
}
