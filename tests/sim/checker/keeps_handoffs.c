/* SPDX-License-Identifier: Apache-2.0 */
/* C19: hand-offs. An ack, the job and the key that it hands off exist together or not at all. */
#include "sim/checker/keeps.h"
#include "sim/clients/keeper.h"

static const struct op_kv_commit *handoff_of(const struct hist_entry *e)
{
    return e->kind == HIST_OP && e->apart && e->op.kind == OP_ACK ? e->op.lease.handoff : NULL;
}

static const struct hist_job *next_of(const struct keeps *k, const struct hist_entry *e,
                                      unsigned *count)
{
    return keeps_job_with(k, handoff_of(e)->enqueues[0].payload, count);
}

static void check_parts(struct keeps *k, size_t at)
{
    const struct hist_entry *e = &k->h->entries[at];
    const struct hist_job *j = keeps_job(k, e->op.lease.job.seq);
    const struct hist_kv *key = keeps_key(k, KEY_COMMIT, e->call);
    bool there = key && key->found;
    unsigned count;
    const struct hist_job *next = next_of(k, e, &count);
    uint64_t seq = e->op.lease.job.seq;
    if (count > 1)
        keeps_blame(k, CHECK_C19, seq, at, "ack %u handed off %u jobs", e->call, count);
    if (there != (next != NULL))
        keeps_blame(k, CHECK_C19, seq, at, "ack %u left its %s alone", e->call,
                    there ? "key" : "next job");
    if (next && j && j->job.state != STATE_DONE)
        keeps_blame(k, CHECK_C19, seq, at, "job %llu is %s, and the next job exists",
                    (unsigned long long)seq, state_name((enum job_state)j->job.state));
    if (!next && keeps_ok(e, OP_ACK))
        keeps_blame(k, CHECK_C19, seq, at, "ack %u was answered, and the next job does not exist",
                    e->call);
}

/* Whether this may be what made the job done. */
static bool may_have_ended(const struct keeps *k, const struct hist_entry *e, uint64_t seq)
{
    unsigned count;
    if (e->kind != HIST_OP || e->op.kind != OP_ACK || e->op.lease.job.seq != seq ||
        keeps_refused(e))
        return false;
    return !handoff_of(e) || next_of(k, e, &count);
}

/* A job that is done was acked, with all that the ack handed off. */
static void check_end(struct keeps *k, size_t at)
{
    uint64_t seq = k->h->entries[at].op.lease.job.seq;
    const struct hist_job *j = keeps_job(k, seq);
    if (!j || j->job.state != STATE_DONE)
        return;
    for (size_t i = 0; i < k->h->count; i++)
        if (may_have_ended(k, &k->h->entries[i], seq))
            return;
    keeps_blame(k, CHECK_C19, seq, at, "job %llu is done, and what it handed off does not exist",
                (unsigned long long)seq);
}

void keeps_handoffs(struct keeps *k)
{
    for (size_t i = 0; i < k->h->count; i++) {
        if (!handoff_of(&k->h->entries[i]))
            continue;
        check_parts(k, i);
        check_end(k, i);
    }
}
