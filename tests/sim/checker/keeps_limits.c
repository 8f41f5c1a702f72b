/* SPDX-License-Identifier: Apache-2.0 */
/* C21: the leases of a queue with limits. Only those count which have surely not ended; each start
 * is held to the most generous of the policies that can be in force. */
#include "sim/checker/keeps_flow.h"

struct lease {
    const struct hist_job *job;
    const struct hist_entry *claim;
};

/* A start that took a token. */
struct start {
    struct span group;
    int64_t mono;
    uint64_t position;
    unsigned boots; /* before it */
};

struct limits {
    struct keeps *k;
    struct flow_policies policies;
    struct lease *leases;
    size_t lease_count, lease_room;
    struct start *starts; /* since the rate began */
    size_t start_count, start_room;
    struct rate_limit rate; /* count 0: none, or not known */
    unsigned boots;
};

/* ---- leases that end ------------------------------------------------------------------------- */

static bool ended(const struct lease *l, const struct hist_entry *e)
{
    if (e->mono >= l->claim->mono + l->job->lease_ms)
        return true;
    if (e->kind == HIST_CRASH)
        return e->position < l->claim->position;
    if (e->kind != HIST_OP || !e->apart)
        return false;
    switch ((int)e->op.kind) {
    case OP_ACK:
    case OP_FAIL:
    case OP_RELEASE:
        return e->op.lease.job.seq == l->job->job.seq;
    case OP_CANCEL:
        return e->op.job.job.seq == l->job->job.seq;
    case OP_RELEASE_CLAIM:
        return e->op.release_claim.nonce == l->claim->op.claim.nonce;
    default:
        return false;
    }
}

static void drop_ended(struct limits *l, const struct hist_entry *e)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->lease_count; i++)
        if (!ended(&l->leases[i], e))
            l->leases[kept++] = l->leases[i];
    l->lease_count = kept;
}

/* ---- slots ----------------------------------------------------------------------------------- */

static uint32_t leases_of(const struct limits *l, const struct span *group)
{
    uint32_t n = 0;
    for (size_t i = 0; i < l->lease_count; i++)
        n += !group || span_equal(l->leases[i].job->group, *group);
    return n;
}

static void check_slots(struct limits *l, const struct hist_job *j, size_t at)
{
    uint32_t max = flow_max_running(&l->policies), group_max = flow_max_per_group(&l->policies);
    uint32_t running = leases_of(l, NULL), in_group = leases_of(l, &j->group);
    if (max && running > max)
        keeps_blame(l->k, CHECK_C21, j->job.seq, at,
                    "job %llu is the %uth that runs, and the limit is %u",
                    (unsigned long long)j->job.seq, running, max);
    if (group_max && in_group > group_max)
        keeps_blame(l->k, CHECK_C21, j->job.seq, at,
                    "job %llu is the %uth of its group that runs, and the limit is %u",
                    (unsigned long long)j->job.seq, in_group, group_max);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static bool same_rate(const struct rate_limit *a, const struct rate_limit *b)
{
    return a->count == b->count &&
           (a->count == 0 || (a->per == b->per && a->window_ms == b->window_ms));
}

/* Another rate, or one that is not known, begins with all of its tokens. */
static void follow_rate(struct limits *l)
{
    struct rate_limit now = {0};
    const struct queue_policy *p = flow_sure(&l->policies);
    if (p)
        now = p->claim_rate;
    if (!same_rate(&now, &l->rate))
        l->start_count = 0;
    l->rate = now;
}

/* In each interval that ends now: a full bucket, and what has come since. A restart may forget what
 * jobs that have ended took, but no more than a bucket (docs/howto/limits-and-fair-share.md). */
static void check_rate(struct limits *l, const struct hist_job *j, size_t at)
{
    int64_t now = l->k->h->entries[at].mono;
    uint32_t n = 0;
    for (size_t i = l->start_count; i-- > 0;) {
        const struct start *s = &l->starts[i];
        if (l->rate.per == RATE_GROUP && !span_equal(s->group, j->group))
            continue;
        n++;
        int64_t more = (now - s->mono) * l->rate.count / l->rate.window_ms + 1;
        more += (int64_t)(l->boots - s->boots) * l->rate.count;
        if (n > l->rate.count + more)
            keeps_blame(l->k, CHECK_C21, j->job.seq, at,
                        "%u jobs started within %lld ms, and the rate is %u in %u ms", n,
                        (long long)(now - s->mono), l->rate.count, l->rate.window_ms);
    }
}

/* ---- the history ----------------------------------------------------------------------------- */

static void started(struct limits *l, const struct hist_job *j, size_t at)
{
    const struct hist_entry *e = &l->k->h->entries[at];
    l->leases = vec_room(l->leases, &l->lease_room, l->lease_count + 1, sizeof(*l->leases));
    l->leases[l->lease_count++] = (struct lease){j, e};
    check_slots(l, j, at);
    if (l->rate.count == 0)
        return;
    l->starts = vec_room(l->starts, &l->start_room, l->start_count + 1, sizeof(*l->starts));
    l->starts[l->start_count++] = (struct start){j->group, e->mono, e->position, l->boots};
    check_rate(l, j, at);
}

/* A start that the crash undid has taken no token. */
static void crashed(struct limits *l, uint64_t durable)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->start_count; i++)
        if (l->starts[i].position <= durable)
            l->starts[kept++] = l->starts[i];
    l->start_count = kept;
}

void keeps_limits(struct keeps *k)
{
    struct limits l = {.k = k};
    for (size_t i = 0; i < k->h->count; i++) {
        const struct hist_entry *e = &k->h->entries[i];
        drop_ended(&l, e);
        if (e->kind == HIST_CRASH)
            crashed(&l, e->position);
        l.boots += e->kind == HIST_BOOT;
        if (flow_policy_changes(&l.policies, e))
            follow_rate(&l);
        for (uint32_t n = 0; keeps_ok(e, OP_CLAIM) && n < e->job_count; n++)
            if (flow_limited(e->jobs[n].queue))
                started(&l, &e->jobs[n], i);
    }
    vec_free(l.leases);
    vec_free(l.starts);
    flow_policies_done(&l.policies);
}
