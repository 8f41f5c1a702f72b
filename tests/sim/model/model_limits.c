/* SPDX-License-Identifier: Apache-2.0 */
/* The model: limits at the claim, turns of groups, ageing, as core/queues/claim_limits.h has them.
 */
#include <string.h>

#include "base/check.h"
#include "sim/model/model_impl.h"

static bool by_group(const struct queue_policy *p)
{
    return p->max_running_per_group || p->fair || (p->claim_rate.count && p->claim_rate.per);
}

bool model_limited(const struct queue_policy *p)
{
    return by_group(p) || p->max_running || p->claim_rate.count || p->ageing_ms;
}

static struct model_group *group_of(struct model *m, uint32_t queue, struct span name)
{
    for (uint32_t i = 0; i < m->group_count; i++)
        if (m->groups[i].queue == queue && span_equal(m->groups[i].name, name))
            return &m->groups[i];
    CHECK(m->group_count < MODEL_GROUPS);
    struct model_group *g = &m->groups[m->group_count++];
    *g = (struct model_group){.queue = queue, .name = name, .round = 1};
    return g;
}

/* Jobs in this state; of one group, unless it is NULL. */
static uint32_t count(const struct model *m, uint32_t queue, const struct span *group,
                      uint8_t state)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->job_count; i++) {
        const struct model_job *j = &m->jobs[i];
        n += j->there && j->queue == queue && j->state == state &&
             (!group || span_equal(j->group, *group));
    }
    return n;
}

static int64_t now_us(const struct model *m)
{
    return m->now.mono.ms * 1000;
}

static int64_t share(const struct queue_policy *p)
{
    int64_t us = (int64_t)p->claim_rate.window_ms * 1000 / p->claim_rate.count;
    return us ? us : 1;
}

static bool token_there(const struct model *m, const struct queue_policy *p, int64_t full_us)
{
    int64_t full = full_us > now_us(m) ? full_us : now_us(m);
    return full + share(p) <= now_us(m) + (int64_t)p->claim_rate.window_ms * 1000;
}

static bool queue_open(const struct model *m, uint32_t queue)
{
    const struct model_queue *q = &m->queues[queue];
    const struct queue_policy *p = &q->policy;
    if (p->max_running && count(m, queue, NULL, STATE_RUNNING) >= p->max_running)
        return false;
    bool rated = p->claim_rate.count && p->claim_rate.per == RATE_QUEUE;
    return !rated || token_there(m, p, q->full_us);
}

static bool group_has_slot(const struct model *m, uint32_t queue, struct span group)
{
    uint32_t max = m->queues[queue].policy.max_running_per_group;
    return !max || count(m, queue, &group, STATE_RUNNING) < max;
}

static bool group_open(struct model *m, uint32_t queue, struct span group)
{
    const struct queue_policy *p = &m->queues[queue].policy;
    if (!group_has_slot(m, queue, group))
        return false;
    bool rated = p->claim_rate.count && p->claim_rate.per == RATE_GROUP;
    return !rated || token_there(m, p, group_of(m, queue, group)->full_us);
}

static int64_t aged(const struct model *m, const struct model_job *j)
{
    uint32_t period = m->queues[j->queue].policy.ageing_ms;
    return period ? j->priority - j->since / period : j->priority;
}

int64_t model_rank(const struct model *m, const struct model_job *j)
{
    uint32_t period = m->queues[j->queue].policy.ageing_ms;
    return period ? aged(m, j) + m->now.wall.ms / period : j->priority;
}

/* The head of each group has the group's place; within a group, the order is that of the jobs. */
static bool comes_before(struct model *m, const struct model_job *a, const struct model_job *b)
{
    bool fair = m->queues[a->queue].policy.fair == FAIR_GROUP;
    if (aged(m, a) != aged(m, b))
        return aged(m, a) > aged(m, b);
    uint64_t x = fair ? group_of(m, a->queue, a->group)->round : 0;
    uint64_t y = fair ? group_of(m, b->queue, b->group)->round : 0;
    return x != y ? x < y : a->seq < b->seq;
}

struct model_job *model_next(struct model *m, uint32_t queue)
{
    struct model_job *first = NULL;
    bool grouped = by_group(&m->queues[queue].policy);
    if (!queue_open(m, queue))
        return NULL;
    for (uint32_t i = 0; i < m->job_count; i++) {
        struct model_job *j = &m->jobs[i];
        if (j->there && j->queue == queue && j->state == STATE_READY &&
            (!grouped || group_open(m, queue, j->group)) && (!first || comes_before(m, j, first)))
            first = j;
    }
    return first;
}

bool model_may_start(struct model *m, const struct model_job *j)
{
    return queue_open(m, j->queue) &&
           (!by_group(&m->queues[j->queue].policy) || group_open(m, j->queue, j->group));
}

static void take_token(const struct model *m, const struct queue_policy *p, int64_t *full_us,
                       int64_t at_us)
{
    (void)m;
    *full_us = (*full_us > at_us ? *full_us : at_us) + share(p);
}

static void take_tokens(struct model *m, const struct model_job *j, int64_t at_us)
{
    struct model_queue *q = &m->queues[j->queue];
    if (q->policy.claim_rate.count && q->policy.claim_rate.per == RATE_QUEUE)
        take_token(m, &q->policy, &q->full_us, at_us);
    else if (q->policy.claim_rate.count)
        take_token(m, &q->policy, &group_of(m, j->queue, j->group)->full_us, at_us);
}

void model_started(struct model *m, const struct model_job *j, bool was_next)
{
    struct model_queue *q = &m->queues[j->queue];
    take_tokens(m, j, now_us(m));
    if (!was_next || q->policy.fair != FAIR_GROUP)
        return;
    struct model_group *g = group_of(m, j->queue, j->group);
    if (g->round > q->round)
        q->round = g->round;
    g->round = q->round + 1;
}

void model_joins(struct model *m, const struct model_job *j)
{
    struct model_group *g = group_of(m, j->queue, j->group);
    uint32_t others = 0;
    for (uint32_t i = 0; i < m->job_count; i++) {
        const struct model_job *o = &m->jobs[i];
        others += o != j && o->there && o->queue == j->queue && o->state == STATE_READY &&
                  span_equal(o->group, j->group);
    }
    if (others == 0 && g->round <= m->queues[j->queue].round)
        g->round = m->queues[j->queue].round + 1;
}

void model_limits_change(struct model *m, uint32_t queue, const struct queue_policy *before)
{
    struct model_queue *q = &m->queues[queue];
    const struct queue_policy *p = &q->policy;
    bool reorders = by_group(before) != by_group(p) || before->ageing_ms != p->ageing_ms;
    bool other_rate = before->claim_rate.count != p->claim_rate.count ||
                      before->claim_rate.per != p->claim_rate.per ||
                      before->claim_rate.window_ms != p->claim_rate.window_ms;
    if (!model_limited(p))
        q->round = 0;
    if (other_rate || !model_limited(p))
        q->full_us = 0;
    for (uint32_t i = 0; i < m->group_count; i++) {
        struct model_group *g = &m->groups[i];
        if (g->queue != queue)
            continue;
        if (reorders)
            g->round = q->round + 1;
        if (other_rate)
            g->full_us = 0;
    }
}

void model_limits_forget(struct model *m, uint32_t queue)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < m->group_count; i++)
        if (m->groups[i].queue != queue)
            m->groups[kept++] = m->groups[i];
    m->group_count = kept;
}

/* Rounds begin again; what runs has taken its tokens when it was claimed. */
void model_limits_boot(struct model *m)
{
    m->group_count = 0;
    for (uint32_t i = 0; i < MODEL_QUEUES; i++) {
        m->queues[i].round = 0;
        m->queues[i].full_us = 0;
    }
    for (uint64_t entered = 0, next; entered != UINT64_MAX; entered = next) {
        next = UINT64_MAX; /* in the order of their claims */
        for (uint32_t i = 0; i < m->job_count; i++) {
            const struct model_job *j = &m->jobs[i];
            if (!j->there || j->state != STATE_RUNNING)
                continue;
            int64_t ago_ms = m->now.wall.ms - j->since;
            if (j->entered == entered && ago_ms >= 0 &&
                ago_ms < m->queues[j->queue].policy.claim_rate.window_ms)
                take_tokens(m, j, now_us(m) - ago_ms * 1000);
            if (j->entered > entered && j->entered < next)
                next = j->entered;
        }
    }
}

void model_limits_count(struct model *m, uint32_t queue, struct queue_counts *ret)
{
    const struct queue_policy *p = &m->queues[queue].policy;
    if (!model_limited(p))
        return;
    if (p->max_running && count(m, queue, NULL, STATE_RUNNING) >= p->max_running) {
        ret->limited[CLAIM_QUEUE_LIMIT] = count(m, queue, NULL, STATE_READY);
        return;
    }
    for (uint32_t i = 0; i < m->job_count && queue_open(m, queue); i++) {
        const struct model_job *j = &m->jobs[i];
        if (j->there && j->queue == queue && j->state == STATE_READY)
            ret->limited[CLAIM_GROUP_LIMIT] += !group_has_slot(m, queue, j->group);
    }
}
