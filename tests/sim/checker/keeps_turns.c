/* SPDX-License-Identifier: Apache-2.0 */
/* C22: groups take turns, and age counts. Only jobs are followed that were ready at once when they
 * were enqueued, until they start for the first time, and only while the policy is known, no limit
 * of groups can keep the job back, and neither a restart nor a step of the clock begins the order
 * again.
 *
 * Turns. Between two starts of a group that always has a ready job, each other group starts at most
 * two jobs of no higher priority: one of a round for which it was late, and that of the round after
 * it (core/queues/claim_limits.h).
 * Age. A job does not start while another waits whose priority, with its age, is higher. */
#include "sim/checker/keeps_flow.h"

#define TURNS 2

struct waiting {
    uint64_t seq;
    struct span group;
    int64_t priority, since;
    uint32_t own;                   /* starts of its own group since then */
    uint32_t others[KEEPER_GROUPS]; /* … and of the others, by keeper_group_of */
};

struct turns {
    struct keeps *k;
    struct flow_policies policies;
    struct waiting *list;
    size_t count, room;
};

static unsigned group_number(struct span group)
{
    unsigned i = KEEPER_GROUPS - 1;
    while (i > 0 && !span_equal(group, span_text(keeper_group_of(i))))
        i--;
    return i;
}

/* The policy, if it has an order that can be checked. */
static const struct queue_policy *ordered(const struct turns *t)
{
    const struct queue_policy *p = flow_sure(&t->policies);
    bool by_group =
        p && (p->max_running_per_group || (p->claim_rate.count && p->claim_rate.per == RATE_GROUP));
    return p && !by_group && (p->fair == FAIR_GROUP || p->ageing_ms) ? p : NULL;
}

static void begins_to_wait(struct turns *t, const struct hist_entry *e)
{
    const struct op_enqueue *op = &e->op.enqueue;
    t->list = vec_room(t->list, &t->room, t->count + 1, sizeof(*t->list));
    t->list[t->count++] = (struct waiting){.seq = e->reply.seq,
                                           .group = op->extra.group,
                                           .priority = op->has_priority ? op->priority : 0,
                                           .since = e->wall};
}

/* Anything that names the job, or may have taken it. */
static void no_longer(struct turns *t, uint64_t seq)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->list[i].seq == seq)
            t->list[i--] = t->list[--t->count];
}

static int64_t aged(const struct queue_policy *p, const struct waiting *w)
{
    return w->priority - (p->ageing_ms ? w->since / p->ageing_ms : 0);
}

static const struct waiting *find(const struct turns *t, uint64_t seq)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->list[i].seq == seq)
            return &t->list[i];
    return NULL;
}

static bool in_claim(const struct hist_entry *e, uint64_t seq)
{
    for (uint32_t n = 0; n < e->job_count; n++)
        if (e->jobs[n].job.seq == seq)
            return true;
    return false;
}

static void check_age(struct turns *t, const struct queue_policy *p, const struct hist_job *j,
                      size_t at)
{
    const struct waiting *taken = find(t, j->job.seq);
    for (size_t i = 0; taken && i < t->count; i++)
        if (!in_claim(&t->k->h->entries[at], t->list[i].seq) &&
            aged(p, &t->list[i]) > aged(p, taken))
            keeps_blame(t->k, CHECK_C22, t->list[i].seq, at,
                        "job %llu started, and job %llu waits, which is older for its priority",
                        (unsigned long long)j->job.seq, (unsigned long long)t->list[i].seq);
}

static void count_turn(struct turns *t, const struct hist_job *j)
{
    for (size_t i = 0; i < t->count; i++) {
        struct waiting *w = &t->list[i];
        if (span_equal(w->group, j->group))
            w->own++;
        else if (j->job.priority <= w->priority)
            w->others[group_number(j->group)]++;
    }
}

static void check_turns(struct turns *t, size_t at)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct waiting *w = &t->list[i];
        for (unsigned g = 0; g < KEEPER_GROUPS; g++)
            if (!in_claim(&t->k->h->entries[at], w->seq) && w->others[g] > TURNS * (w->own + 1))
                keeps_blame(t->k, CHECK_C22, w->seq, at,
                            "while job %llu waited, its group started %u jobs, another %u",
                            (unsigned long long)w->seq, w->own, w->others[g]);
    }
}

static void claimed(struct turns *t, const struct hist_entry *e, size_t at)
{
    const struct queue_policy *p = ordered(t);
    if (!p || !keeps_ok(e, OP_CLAIM) || e->job_count == 0 || !flow_limited(e->jobs[0].queue))
        return;
    for (uint32_t n = 0; n < e->job_count; n++) {
        check_age(t, p, &e->jobs[n], at);
        count_turn(t, &e->jobs[n]);
    }
    if (p->fair == FAIR_GROUP && !p->ageing_ms)
        check_turns(t, at);
    for (uint32_t n = 0; n < e->job_count; n++)
        no_longer(t, e->jobs[n].job.seq);
}

/* A claim whose outcome is not known may have taken any job; memory that is short leaves jobs out
 * of the order for a while. */
static bool begins_again(struct turns *t, const struct hist_entry *e)
{
    return flow_policy_changes(&t->policies, e) || e->kind != HIST_OP || e->strained ||
           (e->apart && e->op.kind == OP_CLAIM && !keeps_ok(e, OP_CLAIM) && !keeps_refused(e));
}

static bool ready_at_once(const struct hist_entry *e)
{
    return keeps_ok(e, OP_ENQUEUE) && flow_limited(e->op.enqueue.queue) &&
           e->reply.state == STATE_READY && !e->reply.repeat;
}

void keeps_turns(struct keeps *k)
{
    struct turns t = {.k = k};
    for (size_t i = 0; i < k->h->count; i++) {
        const struct hist_entry *e = &k->h->entries[i];
        if (begins_again(&t, e))
            t.count = 0;
        else if (ready_at_once(e))
            begins_to_wait(&t, e);
        else
            claimed(&t, e, i);
    }
    vec_free(t.list);
    flow_policies_done(&t.policies);
}
