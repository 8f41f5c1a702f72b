/* SPDX-License-Identifier: Apache-2.0 */
/* What is known about jobs and queues, and how time makes it less certain. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "sim/checker/know.h"

void facts_init(struct facts *f)
{
    memset(f, 0, sizeof(*f));
}

void facts_done(struct facts *f)
{
    vec_free(f->jobs);
    vec_free(f->bulks);
}

void facts_copy(struct facts *to, const struct facts *from)
{
    to->jobs = vec_room(to->jobs, &to->job_room, from->job_count, sizeof(*to->jobs));
    to->bulks = vec_room(to->bulks, &to->bulk_room, from->bulk_count, sizeof(*to->bulks));
    if (from->job_count)
        memcpy(to->jobs, from->jobs, from->job_count * sizeof(*to->jobs));
    if (from->bulk_count)
        memcpy(to->bulks, from->bulks, from->bulk_count * sizeof(*to->bulks));
    to->job_count = from->job_count;
    to->silent = from->silent;
    to->bulk_count = from->bulk_count;
    to->queue_count = from->queue_count;
    memcpy(to->queues, from->queues, sizeof(to->queues));
}

struct know_queue *facts_queue(struct checker *c, struct span name, uint32_t *ret_index)
{
    struct facts *f = &c->facts;
    uint32_t i = 0;
    while (i < f->queue_count && !span_equal(f->queues[i].name, name))
        i++;
    if (i == f->queue_count) {
        CHECK(i < KNOW_QUEUES);
        f->queues[f->queue_count++] = (struct know_queue){
            .name = name, .policy = c->h->policy, .policy_sure = true, .pause_sure = true};
    }
    if (ret_index)
        *ret_index = i;
    return &f->queues[i];
}

struct know *facts_job(struct checker *c, uint64_t seq)
{
    for (size_t i = c->facts.job_count; i-- > 0;)
        if (c->facts.jobs[i].seq == seq)
            return &c->facts.jobs[i];
    return NULL;
}

static struct know *job_new(struct checker *c, uint64_t seq, const struct op_enqueue *born)
{
    struct facts *f = &c->facts;
    f->jobs = vec_room(f->jobs, &f->job_room, f->job_count + 1, sizeof(*f->jobs));
    struct know *k = &f->jobs[f->job_count++];
    memset(k, 0, sizeof(*k));
    k->seq = seq;
    k->born = born;
    k->touched = k->run_set = c->e->mono;
    k->ended = NOT_ENDED;
    (void)facts_queue(c, born->queue, &k->queue);
    return k;
}

struct know *facts_new(struct checker *c, uint64_t seq, size_t made)
{
    const struct op_enqueue *born = &c->h->entries[made].op.enqueue;
    struct know *k = job_new(c, seq, born);
    const struct know_queue *q = &c->facts.queues[k->queue];
    k->made = made;
    k->priority = born->has_priority ? born->priority : q->policy.priority;
    k->priority_sure = born->has_priority || q->policy_sure;
    k->payload[0] = born->payload;
    k->payload_count = 1;
    return k;
}

/* Entry i may have taken effect without anyone being told. */
static bool entry_silent(const struct checker *c, size_t i)
{
    const struct hist_entry *e = &c->h->entries[i];
    if (e->replied && e->reply.outcome != OUT_UNKNOWN)
        return false;
    bool current = i >= c->boot_entry && !c->second_pass;
    return current || !c->erased[i];
}

static bool entry_bound(const struct checker *c, size_t i)
{
    for (size_t n = 0; n < c->facts.job_count; n++)
        if (c->facts.jobs[n].made == i)
            return true;
    return false;
}

static bool alike(const struct op_enqueue *a, const struct op_enqueue *like)
{
    return span_equal(a->queue, like->queue) &&
           (like->payload.len == 0 || span_equal(a->payload, like->payload)) &&
           (like->idempotency_key.len == 0 ||
            (span_equal(a->idempotency_key, like->idempotency_key) &&
             a->fingerprint == like->fingerprint)) &&
           (like->extra.unique.len == 0 || span_equal(a->extra.unique, like->extra.unique));
}

/* Whatever has happened to the job meanwhile, it was not followed. */
static struct know *not_followed(struct know *k)
{
    k->can = CAN_ANY;
    k->ended = 0; /* it may have been over for long: retention counts from there */
    k->hidden = true;
    k->run_at = RUN_AT_UNKNOWN;
    k->fail_max = k->crash_max = COUNT_UNKNOWN;
    k->priority_sure = false;
    k->payload_count = 0;
    return k;
}

struct know *facts_bind(struct checker *c, uint64_t seq, const struct op_enqueue *like)
{
    size_t found = 0, count = 0;
    bool exact = like->payload.len > 0 || like->idempotency_key.len > 0;
    for (size_t i = 0; i < c->at && !(exact && count); i++) {
        const struct hist_entry *e = &c->h->entries[i];
        if (e->kind != HIST_OP || e->apart || e->op.kind != OP_ENQUEUE || !entry_silent(c, i) ||
            !alike(&e->op.enqueue, like) || entry_bound(c, i))
            continue;
        found = i;
        count++;
    }
    if (count == 0)
        return NULL;
    if (count == 1)
        return not_followed(facts_new(c, seq, found));
    struct op_enqueue *born = pool_alloc(&c->pool, sizeof(*born));
    born->queue = like->queue;
    struct know *k = not_followed(job_new(c, seq, born));
    k->vague = true;
    k->made = SIZE_MAX;
    return k;
}

/* ---- wall clock ------------------------------------------------------------------------------ */

void wall_set(struct checker *c, int64_t mono, int64_t wall)
{
    c->walls = vec_room(c->walls, &c->wall_room, c->wall_count + 1, sizeof(*c->walls));
    c->walls[c->wall_count++] = (struct wall_segment){mono, wall - mono};
}

static int64_t wall_extreme(const struct checker *c, int64_t from, int64_t upto, bool highest)
{
    int64_t best = highest ? INT64_MIN : INT64_MAX;
    for (size_t i = 0; i < c->wall_count; i++) {
        int64_t start = c->walls[i].from;
        int64_t end = i + 1 < c->wall_count ? c->walls[i + 1].from : upto;
        if (start < from)
            start = from;
        if (end > upto)
            end = upto;
        if (start > end)
            continue;
        int64_t wall = (highest ? end : start) + c->walls[i].offset;
        if (highest ? wall > best : wall < best)
            best = wall;
    }
    return best;
}

int64_t wall_peak(const struct checker *c, int64_t from, int64_t upto)
{
    return wall_extreme(c, from, upto, true);
}

int64_t wall_low(const struct checker *c, int64_t from, int64_t upto)
{
    return wall_extreme(c, from, upto, false);
}

/* ---- widening -------------------------------------------------------------------------------- */

struct know_rules rules_for(struct checker *c, const struct know *k)
{
    const struct know_queue *q = &c->facts.queues[k->queue];
    const struct job_options *o = k->born->options;
    struct know_rules r = {q->policy.max_attempts, q->policy.max_crashes, q->policy.lease_end,
                           q->policy_sure && !k->vague};
    if (o && o->max_attempts)
        r.max_attempts = o->max_attempts;
    if (o && o->max_crashes)
        r.max_crashes = o->max_crashes;
    return r;
}

unsigned cancel_states(const struct know *k, unsigned states)
{
    if (k->lease.cancel == CANCEL_SURE && !k->hidden)
        return CAN(STATE_CANCELLED);
    return states | (k->lease.cancel == CANCEL_NONE ? 0 : CAN(STATE_CANCELLED));
}

void cancel_maybe(struct checker *c, struct know *k)
{
    if (!(k->can & CAN(STATE_RUNNING)) || k->lease.cancel == CANCEL_SURE)
        return;
    k->lease.cancel = CANCEL_MAYBE;
    if (k->lease.limit_min > c->e->mono)
        k->lease.limit_min = c->e->mono;
    if (k->lease.end_min > c->e->mono)
        k->lease.end_min = c->e->mono;
}

/* Where a lease that runs out, or a bound connection that is lost, may leave the job. */
unsigned lease_end_states(struct checker *c, const struct know *k)
{
    struct know_rules r = rules_for(c, k);
    unsigned can = STATES_WAITING;
    if (!r.sure || k->lease.timed || k->hidden)
        return cancel_states(k, can | CAN(STATE_DEAD));
    if (r.lease_end == LEASE_END_FAIL)
        return cancel_states(k, CAN(STATE_DEAD));
    uint64_t crashes = (uint64_t)k->crash_max + 1;
    if (r.max_crashes && crashes >= r.max_crashes)
        can |= CAN(STATE_DEAD);
    if (r.lease_end == LEASE_END_COUNTED && crashes + k->fail_max >= r.max_attempts)
        can |= CAN(STATE_DEAD);
    return cancel_states(k, can);
}

static void count_up(uint32_t *count)
{
    if (*count != COUNT_UNKNOWN)
        ++*count;
}

static void drift_lease(struct checker *c, struct know *k)
{
    if ((k->can & CAN(STATE_RUNNING)) && (k->hidden || k->lease.unheld))
        k->can |= cancel_states(k, CAN(STATE_READY));
    bool over = k->hidden || c->e->mono >= k->lease.end_min;
    if (!(k->can & CAN(STATE_RUNNING)) || !over)
        return;
    k->can |= lease_end_states(c, k);
    k->run_at = RUN_AT_UNKNOWN;
    if (!k->lease.counted)
        count_up(&k->crash_max);
    if (!k->lease.counted && (k->lease.timed || k->hidden))
        count_up(&k->fail_max);
    k->lease.counted = true;
}

static unsigned bulk_targets(uint8_t action, unsigned can)
{
    switch ((enum bulk_action)action) {
    case BULK_REQUEUE:
        return can & (CAN(STATE_SCHEDULED) | CAN(STATE_DEAD) | CAN(STATE_CANCELLED))
                   ? STATES_WAITING
                   : 0;
    case BULK_CANCEL:
    case BULK_CANCEL_NOW:
        return can & STATES_LIVE ? CAN(STATE_CANCELLED) : 0;
    case BULK_REMOVE:
        return can & ~(CAN(STATE_RUNNING) | CAN_GONE) ? CAN_GONE : 0;
    }
    return 0;
}

static void drift_bulk(struct checker *c, struct know *k)
{
    for (size_t i = 0; i < c->facts.bulk_count; i++) {
        const struct know_bulk *b = &c->facts.bulks[i];
        if (b->queue != k->queue || (!k->vague && k->made > b->entry) || b->upto < k->touched)
            continue;
        if (b->op->group.len && !k->vague && !span_equal(b->op->group, k->born->extra.group))
            continue;
        unsigned more = bulk_targets(b->op->action, k->can);
        if (more == STATES_WAITING) {
            k->fail_min = k->crash_min = 0;
            k->run_at = RUN_AT_UNKNOWN;
        }
        k->can |= more;
        if (b->op->action == BULK_CANCEL)
            cancel_maybe(c, k);
    }
}

static bool kept_for_good(struct checker *c, const struct know *k, int64_t keep_ms, uint64_t keep)
{
    if (!c->facts.queues[k->queue].policy_sure || keep < c->facts.job_count + c->facts.silent)
        return false;
    int64_t age = wall_peak(c, k->ended, c->e->mono) - wall_low(c, k->ended, c->e->mono);
    return age < keep_ms;
}

static void drift_retention(struct checker *c, struct know *k)
{
    const struct queue_policy *p = &c->facts.queues[k->queue].policy;
    if (k->ended == NOT_ENDED)
        k->ended = k->touched;
    if ((k->can & STATES_FINISHED) && !kept_for_good(c, k, p->keep_done_ms, p->keep_done))
        k->can |= CAN_GONE;
    if ((k->can & CAN(STATE_DEAD)) && !kept_for_good(c, k, p->keep_dead_ms, p->keep_dead))
        k->can |= CAN_GONE;
}

void drift(struct checker *c, struct know *k)
{
    unsigned before;
    do {
        before = k->can;
        drift_lease(c, k);
        drift_bulk(c, k);
        bool due = k->run_at == RUN_AT_UNKNOWN || wall_peak(c, k->run_set, c->e->mono) >= k->run_at;
        if ((k->can & CAN(STATE_SCHEDULED)) && due)
            k->can |= CAN(STATE_READY);
        int64_t expires = k->born->extra.expires_at.ms;
        if ((k->can & STATES_WAITING) &&
            (k->vague || (expires && wall_peak(c, k->touched, c->e->mono) >= expires)))
            k->can |= CAN(STATE_DEAD);
        if (k->can & CAN_ENDED)
            drift_retention(c, k);
    } while (k->can != before);
}

void narrow(struct checker *c, struct know *k, unsigned can)
{
    if (!(can & CAN_ENDED))
        k->ended = NOT_ENDED;
    else if (k->ended == NOT_ENDED || !(k->can & CAN_ENDED))
        k->ended = c->e->mono;
    k->can = can;
    k->touched = c->e->mono;
    if (!(can & CAN(STATE_RUNNING)))
        k->hidden = false;
}

bool maybe(const struct checker *c)
{
    return !c->e->replied || c->e->reply.outcome == OUT_UNKNOWN;
}

bool state_possible(struct checker *c, struct know *k, unsigned states, enum check check,
                    const char *what)
{
    drift(c, k);
    if (k->can & states)
        return true;
    blame(c, check, k->seq, "job %llu: %s, though it can only be %s", (unsigned long long)k->seq,
          what, states_text(k->can));
    return false;
}
