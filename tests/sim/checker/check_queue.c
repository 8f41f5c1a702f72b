/* SPDX-License-Identifier: Apache-2.0 */
/* The checker on operations that concern whole queues: C3, C9, C10. */
#include <string.h>

#include "sim/checker/know.h"

static struct know_queue *named(struct checker *c, uint32_t *ret)
{
    return facts_queue(c, c->e->op.queue.name, ret);
}

static void drift_queue(struct checker *c, uint32_t queue)
{
    for (size_t i = 0; i < c->facts.job_count; i++)
        if (c->facts.jobs[i].queue == queue)
            drift(c, &c->facts.jobs[i]);
}

void check_queue_put(struct checker *c)
{
    uint32_t queue;
    struct know_queue *q = named(c, &queue);
    const struct queue_policy *policy = c->e->op.queue.policy;
    drift_queue(c, queue); /* what time has brought so far came under the old policy */
    if (maybe(c)) {
        q->policy_sure = q->policy_sure && !policy;
    } else if (c->e->reply.outcome == OUT_OK && policy) {
        q->policy = *policy;
        q->policy_sure = true;
    }
}

void check_pause(struct checker *c)
{
    struct know_queue *q = named(c, NULL);
    if (maybe(c)) {
        q->pause_sure = false;
    } else if (c->e->reply.outcome == OUT_OK) {
        q->pause_sure = true;
        q->paused_until = c->e->op.queue.until.ms;
    }
}

static unsigned without(unsigned can, unsigned removed)
{
    return can & removed ? (can & ~removed) | CAN_GONE : can;
}

/* What `removed` covers in the queue no longer exists; or perhaps. */
static void empty_queue(struct checker *c, uint32_t queue, unsigned removed)
{
    for (size_t i = 0; i < c->facts.job_count; i++) {
        struct know *k = &c->facts.jobs[i];
        if (k->queue != queue)
            continue;
        drift(c, k);
        if (maybe(c) && (k->can & removed))
            k->can |= CAN_GONE;
        else if (!maybe(c) && (k->can & removed))
            narrow(c, k, without(k->can, removed));
    }
}

void check_purge(struct checker *c)
{
    uint32_t queue;
    (void)named(c, &queue);
    if (maybe(c) || c->e->reply.outcome == OUT_OK)
        empty_queue(c, queue, STATES_WAITING);
}

void check_queue_delete(struct checker *c)
{
    uint32_t queue;
    struct know_queue *q = named(c, &queue);
    if (!maybe(c) && c->e->reply.outcome != OUT_OK)
        return;
    empty_queue(c, queue, STATES_ALL);
    q->policy_sure = q->pause_sure = !maybe(c);
    if (!maybe(c)) {
        q->policy = c->h->policy;
        q->paused_until = 0;
    }
}

/* Counts of a queue against the jobs known in it; exact when the state of each job is. */
static void check_counts(struct checker *c, uint32_t queue, const struct hist_queue *shown)
{
    uint64_t surely[STATE_COUNT] = {0}, perhaps[STATE_COUNT] = {0};
    for (size_t i = 0; i < c->facts.job_count; i++) {
        struct know *k = &c->facts.jobs[i];
        if (k->queue != queue)
            continue;
        drift(c, k);
        for (int s = STATE_SCHEDULED; s < STATE_COUNT; s++) {
            perhaps[s] += (k->can & STATE_BIT(s)) != 0;
            surely[s] += k->can == STATE_BIT(s);
        }
    }
    for (int s = STATE_SCHEDULED; s < STATE_COUNT; s++) {
        if (c->drained && (STATE_BIT(s) & STATES_LIVE) && shown->by_state[s])
            blame(c, CHECK_C10, 0, "%llu jobs counted as %s after the drain",
                  (unsigned long long)shown->by_state[s], state_name((enum job_state)s));
        if (shown->by_state[s] < surely[s] || (c->drained && shown->by_state[s] > perhaps[s]))
            blame(c, CHECK_C10, 0, "%llu jobs counted as %s, a recount gives %llu…%llu",
                  (unsigned long long)shown->by_state[s], state_name((enum job_state)s),
                  (unsigned long long)surely[s], (unsigned long long)perhaps[s]);
    }
}

void check_queue_get(struct checker *c)
{
    if (maybe(c) || c->e->reply.outcome != OUT_OK)
        return;
    for (uint32_t i = 0; i < c->e->queue_count; i++) {
        const struct hist_queue *shown = &c->e->queues[i];
        uint32_t queue;
        struct know_queue *q = facts_queue(c, shown->name, &queue);
        check_counts(c, queue, shown);
        q->policy = shown->policy;
        q->policy_sure = q->pause_sure = true;
        q->paused_until = shown->paused_until.ms;
    }
}

/* Works through its jobs in slices, until it is answered. */
void check_bulk(struct checker *c)
{
    struct facts *f = &c->facts;
    if (!maybe(c) && c->e->reply.outcome != OUT_OK)
        return;
    f->bulks = vec_room(f->bulks, &f->bulk_room, f->bulk_count + 1, sizeof(*f->bulks));
    struct know_bulk *b = &f->bulks[f->bulk_count++];
    b->entry = c->at;
    b->op = &c->e->op.bulk;
    b->from = c->e->mono;
    b->upto = maybe(c) ? INT64_MAX : c->e->replied_mono;
    (void)facts_queue(c, b->op->queue, &b->queue);
}
