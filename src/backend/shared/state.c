/* SPDX-License-Identifier: Apache-2.0 */
/* A unit's loaded rows as the state on which the operations of src/ops work (struct ops_store).
 *
 * Everything that the operations of a unit can ask for has been loaded before (wants.c). Memory is
 * not reserved: when there is none, the unit is marked (nomem) and nothing of it is stored. */
#include "backend/shared/shared.h"
#include "base/check.h"

static struct row *row_of(const struct job *j)
{
    return (struct row *)(uintptr_t)j;
}

static struct queue_state *state_of(struct wqueue *q)
{
    return (struct queue_state *)q;
}

/* --- jobs and queues --- */

static struct job *job_find(struct ops *o, struct job_ref ref)
{
    struct row *r = unit_find(unit_of(o), ref);
    return r ? &r->job : NULL;
}

static bool seq_issued(const struct ops *o, uint64_t seq)
{
    return seq > 0 && seq <= unit_of(o)->seq_high;
}

static const struct queue_state *job_queue(const struct ops *o, const struct job *j)
{
    (void)o;
    return state_of(row_of(j)->q);
}

static bool queue_name(struct ops *o, const struct queue_state *q, struct span *ret)
{
    (void)o;
    *ret = queue_from(q)->name;
    return true;
}

static void job_rules(const struct ops *o, const struct job *j, struct job_options *room,
                      struct job_rules *ret)
{
    (void)o;
    unit_row_rules(row_of(j), room, ret);
}

static struct job *key_rival(struct ops *o, const struct job *j)
{
    const struct row *r = row_of(j);
    struct row *holder =
        r->extra.unique.len ? unit_holder(unit_of(o), r->q, r->extra.unique) : NULL;
    return holder && holder != r && unit_row_there(holder) ? &holder->job : NULL;
}

/* --- leases --- */

static bool job_lease(const struct ops *o, const struct job *j, struct lease_state *ret)
{
    const struct row *r = row_of(j);
    (void)o;
    *ret = (struct lease_state){r->token, r->lease_ms, r->worker};
    return j->state == STATE_RUNNING;
}

/* The row has the report about its newest token; those about older ones were loaded, or replaced by
 * a claim of this unit. */
static bool report_find(const struct ops *o, uint64_t seq, struct job_token token,
                        struct lease_report *ret)
{
    const struct unit *u = unit_of(o);
    const struct row *r = unit_row(u, seq);
    if (r && r->word && token_equal(r->token, token)) {
        *ret = (struct lease_report){(uint8_t)(r->word - 1), r->word_state, r->word_run_at};
        return true;
    }
    const struct word *lists[] = {u->words, u->said};
    for (size_t i = 0; i < 2; i++)
        for (const struct word *w = lists[i]; w; w = w->next)
            if (w->seq == seq && token_equal(w->token, token)) {
                *ret = (struct lease_report){(uint8_t)(w->kind - 1), w->state, w->run_at};
                return true;
            }
    return false;
}

/* The row of a job that ended here keeps the token of its last lease: no other can have ended it.
 * One that came from another store has none. */
static bool report_forgotten(struct ops *o, const struct job *j, struct job_token token)
{
    (void)o, (void)token;
    return row_of(j)->token.counter == 0;
}

static void report_keep(struct ops *o, const struct job *j, struct job_token token, uint8_t kind)
{
    struct row *r = row_of(j);
    (void)o, (void)token;
    r->word = (uint8_t)(kind + 1);
    r->word_state = j->state;
    r->word_run_at = j->run_at;
}

static void count_ending(struct ops *o, struct job *j, enum lease_ending how)
{
    (void)o;
    counts_add_ending(&row_of(j)->fates, how);
}

static void count_requeue(struct ops *o, struct job *j)
{
    (void)o;
    counts_add_requeue(&row_of(j)->fates);
}

static struct job *claimed_by(struct ops *o, uint64_t nonce)
{
    const struct unit *u = unit_of(o);
    for (size_t i = 0; nonce && i < u->row_count; i++) {
        struct row *r = u->rows[i];
        if (r->nonce == nonce && r->job.state == STATE_RUNNING && unit_row_there(r))
            return &r->job;
    }
    return NULL;
}

/* --- claims --- */

struct row *unit_claim_top(struct unit *u, struct wqueue *q, struct heap_entry *ret)
{
    while (heap_top(&q->ready, ret)) {
        struct row *r = unit_row(u, ret->seq);
        bool there = r && unit_row_there(r) && r->job.state == STATE_READY &&
                     heap_order_desc(r->job.priority) == ret->order;
        if (there && !(r->extra.expires_at.ms && r->extra.expires_at.ms <= u->now.ms))
            return r;
        heap_pop(&q->ready, ret);
    }
    return NULL;
}

void unit_claimable(struct unit *u, struct row *r)
{
    struct heap_entry e = {heap_order_desc(r->job.priority), r->job.seq};
    if (r->job.state != STATE_READY)
        return;
    if (heap_push(&r->q->ready, e) != 0)
        u->nomem = true;
    r->q->ready_loaded++;
}

/* Whether the queue may have more ready jobs than were loaded of it. */
static bool has_more(struct unit *u, const struct wqueue *q)
{
    const struct wanted_name *n = unit_want_name(u, q->name);
    return n && n->claims > 0 && q->ready_loaded >= n->claims;
}

static const struct queue_state *queue_find(struct ops *o, struct span name)
{
    return state_of(unit_queue_named(unit_of(o), name));
}

static uint64_t ready_count(const struct ops *o, const struct queue_state *q)
{
    (void)o;
    return queue_from(q)->ready.len;
}

static bool ready_next(struct ops *o, const struct queue_state *q, struct heap_entry *ret_order,
                       struct job **ret)
{
    struct unit *u = unit_of(o);
    struct row *r = unit_claim_top(u, queue_from(q), ret_order);
    *ret = r ? &r->job : NULL;
    return r || !has_more(u, queue_from(q));
}

static struct job_token token_next(struct ops *o)
{
    struct shared *s = unit_of(o)->s;
    return (struct job_token){.counter = ++s->token_counter, .epoch = s->facts.epoch};
}

static bool claim_prepare(struct ops *o, struct job *j, const struct op_claim *want,
                          const struct record *rec)
{
    (void)o, (void)j, (void)want, (void)rec;
    return true;
}

static void claim_done(struct ops *o, struct job *j, const struct op_claim *want,
                       struct job_view *view)
{
    struct row *r = row_of(j);
    (void)o;
    r->nonce = want->nonce;
    view->queue = r->q->name;
    view->expires_at = r->extra.expires_at;
    view->fates = r->fates;
    counts_add_claim(&view->fates); /* the one under way */
}

static bool claim_reply(struct ops *o, struct reply *r, struct job_view *views, struct job **jobs,
                        uint32_t count, bool want_body)
{
    struct unit *u = unit_of(o);
    struct row **rows = unit_alloc(u, (count ? count : 1) * sizeof(struct row *));
    if (!rows)
        return false;
    for (uint32_t i = 0; i < count; i++)
        rows[i] = row_of(jobs[i]);
    r->jobs = views;
    r->job_count = count;
    u->turn->bodies = want_body ? rows : NULL;
    return true;
}

/* --- changes --- */

static bool job_prepare(struct ops *o, struct job *j, const struct record *recs, size_t count)
{
    (void)j, (void)recs, (void)count;
    return !o->nomem;
}

static void job_commit(struct ops *o, struct job *j, const struct record *rec)
{
    unit_row_take(unit_of(o), row_of(j), rec);
}

static bool job_remove(struct ops *o, struct job *j)
{
    unit_row_remove(unit_of(o), row_of(j));
    return true;
}

void unit_lease_ran_out(struct unit *u, struct row *r)
{
    u->nomem |= !ops_lease_timed_out(unit_ops(u), &r->job);
}

void unit_lease_restarted(struct unit *u, struct row *r)
{
    u->nomem |= !ops_lease_taken_back(unit_ops(u), &r->job, REASON_RESTARTED);
}

void unit_item_left(struct unit *u, struct row *r, uint8_t holder_state)
{
    u->nomem |= !ops_item_left(unit_ops(u), &r->job, r->holder, holder_state);
}

void work_dispatched(struct unit *u, struct turn *t)
{
    struct row *r = unit_find(u, t->op->job.job);
    if (!r || !(r->job.flags & JOB_PENDING))
        return;
    r->job.flags &= (uint8_t)~JOB_PENDING;
    r->changed = true;
    u->records++;
}

const struct ops_store unit_ops_store = {
    .job_find = job_find,
    .seq_issued = seq_issued,
    .job_queue = job_queue,
    .queue_name = queue_name,
    .job_rules = job_rules,
    .key_rival = key_rival,
    .policy_default = unit_policy_default,
    .queue_room = unit_queue_has_room,
    .queue_count = unit_queue_count,
    .queue_read = unit_queue_read,
    .scope_waits = unit_scope_waits,
    .keys_shared = unit_keys_shared,
    .queue_put = unit_queue_put,
    .queue_commit = unit_queue_commit,
    .bulk_count = unit_bulk_count,
    .bulk_begin = unit_bulk_begin,
    .alert_find = unit_alert_find,
    .alert_at = unit_alert_at,
    .alert_notices = unit_alert_notices,
    .raised = unit_alert_raised,
    .raised_count = unit_raised_count,
    .alert_commit = unit_alert_commit,
    .notice_new = unit_notice_new,
    .notice_find = unit_notice_find,
    .notice_alert = unit_notice_alert,
    .notice_commit = unit_notice_commit,
    .notices_begin = unit_notices_begin,
    .notice_due = unit_notice_due,
    .notice_look = unit_notice_look,
    .notices_next = unit_notices_next,
    .notices_release = unit_notices_release,
    .breaker_find = unit_breaker_find,
    .breaker_next = unit_breaker_next,
    .breaker_commit = unit_breaker_commit,
    .lease = job_lease,
    .report_find = report_find,
    .report_forgotten = report_forgotten,
    .report_keep = report_keep,
    .count_ending = count_ending,
    .count_requeue = count_requeue,
    .claimed_by = claimed_by,
    .queue_find = queue_find,
    .ready_count = ready_count,
    .ready_next = ready_next,
    .token_next = token_next,
    .claim_prepare = claim_prepare,
    .claim_done = claim_done,
    .claim_reply = claim_reply,
    .prepare = job_prepare,
    .commit = job_commit,
    .remove = job_remove,
};
