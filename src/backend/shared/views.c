/* SPDX-License-Identifier: Apache-2.0 */
/* What is shown of jobs and queues that a store has loaded. */
#include "backend/shared/shared.h"

#include "ops/jobs/why.h"

/* --- jobs --- */

static void view_lease(const struct row *row, struct wall_time now, struct job_view *ret)
{
    ret->token = row->token;
    ret->lease_ms = row->lease_ms;
    ret->limits = row->limits;
    ret->worker = row->worker;
    ret->started_at = row->started_at;
    if (row->lease_ms)
        ret->lease_left_ms = row->until_ms > now.ms ? row->until_ms - now.ms : 0;
    else
        ret->holder = row->holder;
    counts_add_claim(&ret->outcome_counts); /* the lease that runs */
}

static void view_its_queue(const struct row *row, const struct wqueue *q, struct wall_time now,
                           struct job_view *ret)
{
    struct job_options own;
    struct job_rules rules;
    ret->queue = q->name;
    ret->owner = q->owner;
    ret->paused = q->paused_until.ms > now.ms;
    bool has_own = row->extra.options.len && options_decode(row->extra.options, &own) == 0;
    rules_of(&q->policy, has_own ? &own : NULL, &rules);
    ret->own_lease_ms = rules.lease_ms;
    ret->require_token = q->policy.require_token;
    ret->by_due = q->policy.by_due;
}

void row_view_body(const struct row *row, struct job_view *view)
{
    view->has_body = true;
    view->extra = row->extra;
    view->payload = row->payload;
    view->result_kind = row->result_kind;
    view->result = row->result;
    view->error_kind = row->error_kind;
    view->error = row->error;
    view->steps = row->steps;
}

void row_view(const struct row *row, const struct wqueue *q, struct wall_time now, bool body,
              struct job_view *ret)
{
    *ret = (struct job_view){.job = row->job, .outcome_counts = row->outcome_counts};
    ret->expires_at = row->extra.expires_at;
    view_its_queue(row, q, now, ret);
    if (row->job.state == STATE_RUNNING)
        view_lease(row, now, ret);
    if (row->job.state == STATE_DONE || body)
        ret->started_at = row->started_at;
    if (!body)
        return;
    ret->holder = row->holder;
    row_view_body(row, ret);
}

void turn_show_job(struct turn *t, const struct job_view *v)
{
    t->reply.seq = v->job.seq;
    t->reply.id_hi = v->job.id_hi;
    t->reply.state = v->job.state;
    t->reply.jobs = v;
    t->reply.job_count = 1;
}

/* --- attempts --- */

/* The current attempt, or the one that completed the job, is in the row of the job. */
static bool attempt_of_row(const struct row *row, struct attempt_view *ret)
{
    bool done = row->job.state == STATE_DONE;
    if ((row->job.state != STATE_RUNNING && !done) || row->started_at.ms == 0)
        return false;
    *ret = (struct attempt_view){
        .number = (uint32_t)row->job.failures + row->job.crashes + 1,
        .worker = row->worker,
        .started_at = row->started_at,
        .ended_at = {done ? row->job.since.ms : 0},
        .outcome = done ? ATTEMPT_DONE : ATTEMPT_RUNNING,
    };
    return true;
}

void unit_view_attempts(struct unit *u, const struct row *row, attempt_read_fn read,
                        const void *from, size_t count, struct job_view *v)
{
    uint32_t at = LIMIT_ATTEMPTS_KEPT;
    struct attempt_view *views = arena_array(&u->arena, at, sizeof *views);
    v->started_at = row->started_at;
    if (!views)
        return;
    if (attempt_of_row(row, &views[at - 1]))
        at--;
    for (size_t i = 0; i < count && at > 0; i++)
        if (read(from, i, &views[at - 1]))
            at--;
    for (uint32_t i = at; i < LIMIT_ATTEMPTS_KEPT; i++) {
        views[i].seq = row->job.seq;
        views[i].id_hi = row->job.id_hi;
        views[i].queue = v->queue;
    }
    v->attempts = views + at;
    v->attempt_count = LIMIT_ATTEMPTS_KEPT - at;
}

/* --- what a waiting job waits for --- */

bool unit_view_waits(const struct job_view *v)
{
    return (STATE_BIT(v->job.state) & STATES_WAITING) != 0;
}

const struct job_wait *unit_wait_view(struct unit *u, const struct queue_policy *p,
                                      const struct wait_counts *counts)
{
    struct job_wait *w = unit_alloc(u, sizeof *w);
    if (!w)
        return NULL;
    *w = (struct job_wait){
        .running = counts->running,
        .ready = counts->ready,
        .before = counts->before,
        .before_kind = counts->more_before ? COUNT_AT_LEAST : COUNT_EXACT,
    };
    if (counts->paused_until.ms > u->now.ms)
        w->paused_until = counts->paused_until;
    job_wait_limits(w, p, &counts->queue, &counts->group, u->now.ms * 1000);
    return w;
}

/* --- peeks --- */

#define PEEK_MAX 100u

bool peek_state_known(const struct op_peek *want)
{
    return want->state > STATE_NONE && want->state < STATE_COUNT;
}

uint32_t peek_limit(const struct op_peek *want)
{
    uint32_t most = want->newest_first ? LIMIT_BATCH : PEEK_MAX;
    return want->limit && want->limit < most ? want->limit : most;
}

bool turn_peek_allowed(struct turn *t, bool queue_there)
{
    if (!queue_there)
        return unit_refuse(t, OUT_NO_QUEUE, NULL);
    if (!peek_state_known(&t->op->peek))
        return unit_refuse(t, OUT_INVALID,
                           "state must be scheduled, ready, running, done, dead or cancelled");
    return true;
}

/* --- queues --- */

static uint64_t sum_shown(const struct wqueue *q, int sum)
{
    return q->sums[sum] > 0 ? (uint64_t)q->sums[sum] : 0;
}

static void view_counts(const struct wqueue *q, struct queue_view *v)
{
    struct queue_counts *c = &v->counts;
    for (int s = STATE_SCHEDULED; s < STATE_COUNT; s++)
        c->by_state[s] = sum_shown(q, s - 1);
    for (int f = 0; f < COUNTER_COUNT; f++)
        v->totals.of[f] = sum_shown(q, SUM_COUNTERS + f);
    counts_from_counters(c, &v->totals);
    c->urgent = sum_shown(q, SUM_URGENT);
    c->removed = sum_shown(q, SUM_REMOVED);
}

void wqueue_view(const struct wqueue *q, struct wall_time now, int64_t oldest_ms, int64_t due_ms,
                 struct queue_view *ret)
{
    *ret = (struct queue_view){
        .number = q->number,
        .name = q->name,
        .owner = q->owner,
        .note = q->note,
        .attributes = q->attributes,
        .policy = &q->policy,
        .created_at = q->created_at,
        .updated_at = q->updated_at,
        .paused_until = q->paused_until,
    };
    view_counts(q, ret);
    ret->counts.oldest_ready_ms = oldest_ms == 0 ? -1 : now.ms > oldest_ms ? now.ms - oldest_ms : 0;
    ret->counts.next_due.ms = due_ms;
}
