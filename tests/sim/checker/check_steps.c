/* SPDX-License-Identifier: Apache-2.0 */
/* The checker on the results of steps (core/jobs/steps.h): C1, C2.
 *
 * Each request of the simulated workers stores another result, so a result says which request it is
 * from. A claim or a get shows what the store has when it is read, which may be later than the
 * request; but never less than what was confirmed before, and never what was refused, such as a
 * step of a lease that had ended. */
#include "core/jobs/steps.h"

#include "sim/checker/know.h"

static bool about(const struct hist_entry *e, uint64_t seq)
{
    return e->kind == HIST_OP && !e->apart && e->op.kind == OP_STEP && e->op.lease.job.seq == seq;
}

static bool confirmed(const struct hist_entry *e)
{
    return e->replied && e->reply.outcome == OUT_OK && !e->reply.relaxed;
}

static bool refused(const struct hist_entry *e)
{
    return e->replied && e->reply.outcome != OUT_OK && e->reply.outcome != OUT_UNKNOWN;
}

/* The last request that may have left this result, plus one; 0 = none. */
static size_t step_from(const struct checker *c, uint64_t seq, const struct step *s)
{
    for (size_t i = c->h->count; i-- > 0;) {
        const struct hist_entry *e = &c->h->entries[i];
        if (about(e, seq) && !refused(e) && span_equal(e->op.lease.step, s->name) &&
            span_equal(e->op.lease.result, s->result))
            return i + 1;
    }
    return 0;
}

static bool step_find(struct span list, struct span name, struct step *ret)
{
    while (steps_next(&list, ret))
        if (span_equal(ret->name, name))
            return true;
    return false;
}

static void check_lost(struct checker *c, const struct hist_job *j, uint64_t seq)
{
    struct step s;
    for (size_t i = 0; i < c->at; i++) {
        const struct hist_entry *e = &c->h->entries[i];
        if (!about(e, seq) || !confirmed(e))
            continue;
        struct span name = e->op.lease.step;
        if (!step_find(j->steps, name, &s))
            blame(c, CHECK_C1, seq, "job %llu has lost its step %.*s", (unsigned long long)seq,
                  (int)name.len, name.at);
        else if (step_from(c, seq, &s) < i + 1)
            blame(c, CHECK_C1, seq, "job %llu has an older result of its step %.*s",
                  (unsigned long long)seq, (int)name.len, name.at);
    }
}

void check_steps(struct checker *c, const struct know *k, const struct hist_job *j)
{
    const struct op *op = &c->e->op;
    bool shows = op->kind == OP_GET ? op->job.want_steps : op->claim.want_body;
    struct span list = j->steps;
    struct step s;
    if (!shows)
        return;
    while (steps_next(&list, &s))
        if (step_from(c, k->seq, &s) == 0)
            blame(c, CHECK_C2, k->seq,
                  "job %llu shows a result of its step %.*s that no one stored",
                  (unsigned long long)k->seq, (int)s.name.len, s.name.at);
    if (j->has_body) /* else it was removed before it was read */
        check_lost(c, j, k->seq);
}
