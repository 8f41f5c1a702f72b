/* SPDX-License-Identifier: Apache-2.0 */
/* A unit's loaded rows as the state on which the operations of src/ops work (struct ops_store).
 *
 * Everything that the operations of a unit can ask for has been loaded before (load_plan.c). Memory
 * is not reserved: when memory is short, the unit is marked (nomem) and nothing of it is stored. */
#include "backend/shared/shared.h"
#include "base/check.h"

static struct row *row_of(const struct job *j)
{
    return (struct row *)(uintptr_t)j;
}

static struct queue_state *wqueue_state(struct wqueue *q)
{
    return (struct queue_state *)q;
}

/* --- jobs and queues --- */

static struct job *job_find(struct ops *o, struct job_ref ref, const struct queue_state **ret_queue)
{
    struct row *r = unit_find(unit_of(o), ref);
    if (!r)
        return NULL;
    *ret_queue = wqueue_state(r->q);
    return &r->job;
}

static bool seq_issued(const struct ops *o, uint64_t seq)
{
    return seq > 0 && (seq <= unit_of(o)->seq_high || unit_row(unit_of(o), seq));
}

static const struct queue_state *job_queue(const struct ops *o, const struct job *j)
{
    (void)o;
    return wqueue_state(row_of(j)->q);
}

static bool wqueue_name(struct ops *o, const struct queue_state *q, struct span *ret)
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

static struct job *row_key_rival(struct ops *o, const struct job *j)
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
    int64_t limit = limit_at_ms(&r->limits, r->started_at);
    *ret = (struct lease_state){.token = r->token,
                                .lease_ms = r->lease_ms,
                                .worker = r->worker,
                                .limits = r->limits,
                                .limit_left_ms = limit == INT64_MAX ? limit : limit - o->now.ms,
                                .limited = limit <= r->until_ms};
    return j->state == STATE_RUNNING;
}

/* The row has the report about its newest token; those about older ones were loaded, or replaced by
 * a claim of this unit. */
static bool report_find(const struct ops *o, uint64_t seq, struct job_token token,
                        struct lease_report *ret)
{
    const struct unit *u = unit_of(o);
    const struct row *r = unit_row(u, seq);
    if (r && r->reply_kind && token_equal(r->token, token)) {
        *ret = (struct lease_report){(uint8_t)(r->reply_kind - 1), r->reply_state, r->reply_run_at};
        return true;
    }
    const struct kept_reply *lists[] = {u->loaded_replies, u->new_replies};
    for (size_t i = 0; i < 2; i++)
        for (const struct kept_reply *w = lists[i]; w; w = w->next)
            if (w->seq == seq && token_equal(w->token, token)) {
                *ret = (struct lease_report){(uint8_t)(w->kind - 1), w->state, w->run_at};
                return true;
            }
    return false;
}

/* The row of a job that ended here keeps the token of its last lease, so no other lease can have
 * ended it. A job from another store has no token. */
static bool report_forgotten(struct ops *o, const struct job *j, struct job_token token)
{
    (void)o, (void)token;
    return row_of(j)->token.counter == 0;
}

static void report_keep(struct ops *o, const struct job *j, struct job_token token, uint8_t kind)
{
    struct row *r = row_of(j);
    (void)o, (void)token;
    r->reply_kind = (uint8_t)(kind + 1);
    r->reply_state = j->state;
    r->reply_run_at = j->run_at;
}

static void count_ending(struct ops *o, struct job *j, enum lease_ending how)
{
    (void)o;
    counts_add_ending(&row_of(j)->outcome_counts, how);
}

static void count_requeue(struct ops *o, struct job *j)
{
    (void)o;
    counts_add_requeue(&row_of(j)->outcome_counts);
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
        bool there = r && unit_row_there(r) && r->job.state == STATE_READY && !r->taken &&
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
bool unit_claim_more(struct unit *u, const struct wqueue *q)
{
    const struct wanted_name *n = unit_want_name(u, q->name);
    return n && n->claims > 0 && q->ready_loaded >= n->claims;
}

static const struct queue_state *queue_find(struct ops *o, struct span name)
{
    return wqueue_state(unit_queue_named(unit_of(o), name));
}

static uint64_t ready_count(const struct ops *o, const struct queue_state *q)
{
    (void)o;
    return unit_limited_count(queue_from(q));
}

static bool ready_next(struct ops *o, const struct queue_state *q, struct heap_entry *ret_order,
                       struct job **ret)
{
    struct unit *u = unit_of(o);
    struct row *r;
    bool sure = true;
    if (claim_limited(&q->policy)) {
        sure = unit_limited_next(u, queue_from(q), ret_order, &r);
    } else {
        r = unit_claim_top(u, queue_from(q), ret_order);
        sure = r || !unit_claim_more(u, queue_from(q));
    }
    *ret = r ? &r->job : NULL;
    return sure;
}

static struct job_token token_next(struct ops *o)
{
    struct shared *s = unit_of(o)->s;
    return (struct job_token){.counter = ++s->token_counter, .epoch = s->facts.epoch};
}

static bool lease_start(struct ops *o, struct job *j, const struct op_claim *want,
                        struct record *rec, struct job_view *view)
{
    struct row *r = row_of(j);
    rec->job_claimed.token = token_next(o);
    unit_row_take(unit_of(o), r, rec);
    r->nonce = want->nonce;
    view->queue = r->q->name;
    view->by_due = r->q->policy.by_due;
    view->expires_at = r->extra.expires_at;
    view->outcome_counts = r->outcome_counts;
    counts_add_claim(&view->outcome_counts); /* the one under way */
    return !o->nomem;
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

/* --- enqueues --- */

static struct job *job_by_seq(struct ops *o, uint64_t seq)
{
    struct row *r = unit_row(unit_of(o), seq);
    return r ? &r->job : NULL;
}

static struct job *key_holder(struct ops *o, struct queue_state *q, struct span key)
{
    struct row *r = unit_holder(unit_of(o), queue_from(q), key);
    if (!r || unit_row_there(r))
        return r ? &r->job : NULL;
    /* It was purged, and counted by the purge; its row is removed now, because it has the key. */
    r->gone = r->changed = true;
    r->held = false;
    return NULL;
}

static uint64_t queue_live(struct ops *o, const struct queue_state *state)
{
    const struct wqueue *q = queue_from(state);
    const struct cached_queue *k = queue_cache_find(unit_of(o)->s, q->name);
    return q->counted || !k ? unit_queue_live(q) : k->live;
}

static uint64_t live(struct ops *o)
{
    return unit_of(o)->live;
}

static bool queue_room(struct ops *o, size_t ahead, bool implied)
{
    return unit_queue_room(unit_of(o), ahead, implied);
}

static struct queue_state *queue_create(struct ops *o, struct span name)
{
    return wqueue_state(unit_queue_make(unit_of(o), name, &o->limits->policy));
}

static enum outcome seq_room(struct ops *o, const struct op_enqueue *want, size_t ahead,
                             const char **note)
{
    (void)o, (void)want, (void)ahead, (void)note;
    return OUT_OK;
}

static bool enqueues_ready(struct ops *o, const struct enqueue_plan *plans, size_t count,
                           const struct op_kv_commit *keys, size_t more)
{
    (void)plans, (void)count, (void)keys, (void)more;
    return !o->nomem;
}

static struct job *job_create(struct ops *o, struct enqueue_plan *p)
{
    struct row *r = unit_job_create(unit_of(o), p);
    return r ? &r->job : NULL;
}

/* --- keys of the key-value store --- */

static struct kv_usage kv_used(struct ops *o)
{
    const struct unit *u = unit_of(o);
    return (struct kv_usage){u->kv_keys + (uint64_t)u->kv_key_adds,
                             u->kv_bytes + (uint64_t)u->kv_byte_adds};
}

/* --- schedules --- */

static struct wschedule *wschedule_of(const struct schedule_base *s)
{
    return (struct wschedule *)(uintptr_t)s;
}

static struct schedule_base *schedule_find(struct ops *o, struct span name)
{
    return (struct schedule_base *)unit_schedule(unit_of(o), name);
}

static void schedule_names(struct ops *o, const struct schedule_base *s, struct span *ret_name,
                           struct span *ret_owner)
{
    (void)o;
    *ret_name = wschedule_of(s)->name;
    *ret_owner = wschedule_of(s)->owner;
}

static uint64_t schedule_count(const struct ops *o)
{
    return unit_of(o)->schedules_there;
}

static uint32_t schedule_number(const struct ops *o)
{
    return unit_of(o)->schedule_number;
}

static bool schedule_flows(struct ops *o, struct span but, const struct schedule_flow **ret,
                           size_t *ret_count)
{
    (void)but; /* they were loaded without it */
    *ret = unit_of(o)->flows;
    *ret_count = unit_of(o)->flow_count;
    return true;
}

static void schedule_read(const struct ops *o, const struct schedule_base *base,
                          struct rec_schedule_put *ret)
{
    const struct wschedule *s = wschedule_of(base);
    (void)o;
    *ret = (struct rec_schedule_put){
        .schedule = s->number,
        .paused = s->paused,
        .created_at = s->created_at,
        .updated_at = s->updated_at,
        .state = s->state,
        .name = s->name,
        .spec = s->text,
        .owner = s->owner,
        .note = s->note,
        .attributes = s->attributes,
    };
}

static struct schedule_base *schedule_put(struct ops *o, struct schedule_base *s,
                                          const struct rec_schedule_put *put,
                                          const struct schedule_spec *spec)
{
    return (struct schedule_base *)unit_schedule_put(unit_of(o), s ? wschedule_of(s) : NULL, put,
                                                     spec);
}

static bool schedule_delete(struct ops *o, struct schedule_base *s)
{
    wschedule_of(s)->gone = true;
    unit_of(o)->records++;
    return true;
}

static bool schedule_last_live(struct ops *o, const struct schedule_base *s)
{
    return unit_schedule_view(unit_of(o), wschedule_of(s)).last_live;
}

static void schedule_shown(struct ops *o, const struct schedule_base *s, struct reply *r)
{
    (void)r;
    unit_schedule_show(unit_of(o), wschedule_of(s), unit_of(o)->turn);
}

static bool schedule_prepare(struct ops *o, const struct record *rec)
{
    (void)rec;
    return !o->nomem;
}

static void schedule_step(struct ops *o, struct schedule_base *base, const struct record *rec,
                          const struct job *job)
{
    struct unit *u = unit_of(o);
    struct wschedule *s = wschedule_of(base);
    s->state = rec->schedule_state.state;
    s->moved = true;
    u->records++;
    if (rec->kind == REC_SCHEDULE_FIRED) {
        unit_tell_schedule(u, EVENT_SCHEDULE_FIRED, s, row_of(job));
    } else if (rec->kind == REC_SCHEDULE_FAILED && s->state.failures == 1) {
        unit_tell_schedule(u, EVENT_SCHEDULE_FAILED, s, NULL);
        unit_alert_failed(u, s);
    }
}

static struct span owner_of(struct ops *o, const struct queue_state *q)
{
    (void)o;
    return queue_from(q)->owner;
}

static void item_take(struct ops *o, const struct queue_state *q)
{
    struct heap_entry top;
    if (claim_limited(&q->policy))
        unit_limited_take(unit_of(o), queue_from(q));
    else
        heap_pop(&queue_from(q)->ready, &top);
}

static void item_return(struct ops *o, struct job *j)
{
    struct heap_entry e = {heap_order_desc(j->priority), j->seq};
    if (claim_limited(&row_of(j)->q->policy))
        unit_limited_return(unit_of(o), row_of(j));
    else
        o->nomem |= heap_push(&row_of(j)->q->ready, e) != 0;
}

static struct job_token token_ahead(struct ops *o, uint32_t index)
{
    const struct shared *s = unit_of(o)->s;
    return (struct job_token){.counter = s->token_counter + 1 + index, .epoch = s->facts.epoch};
}

static bool items_prepare(struct ops *o, const struct queue_state *q, uint32_t count, size_t *more)
{
    (void)q, (void)count, (void)more;
    return !o->nomem;
}

static void items_link(struct ops *o, const struct job *holder, struct job **items, uint32_t count)
{
    (void)o;
    for (uint32_t i = 0; i < count; i++) {
        struct row *r = row_of(items[i]);
        r->until_ms = LIMIT_WALL_MS;
        r->holder = (struct job_ref){holder->seq, holder->id_hi};
    }
}

/* --- changes --- */

static struct span steps_of(struct ops *o, const struct job *j)
{
    (void)o;
    return ((const struct row *)j)->step_index;
}

static bool job_prepare(struct ops *o, struct job *j, const struct record *recs, size_t count)
{
    (void)j, (void)recs, (void)count;
    return !o->nomem;
}

static void job_commit(struct ops *o, struct job *j, const struct record *rec)
{
    unit_row_take(unit_of(o), row_of(j), rec);
}

static bool row_remove(struct ops *o, struct job *j)
{
    unit_row_remove(unit_of(o), row_of(j));
    return true;
}

void unit_lease_ran_out(struct unit *u, struct row *r)
{
    u->nomem |= !ops_lease_ended(unit_ops(u), &r->job);
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
    if (!u->s->config.dispatches)
        unit_refuse(t, OUT_INVALID, "this store does not dispatch jobs");
    if (!u->s->config.dispatches || !r || !(r->job.flags & JOB_PENDING))
        return;
    r->job.flags &= (uint8_t)~JOB_PENDING;
    r->changed = true;
    u->records++;
}

const struct ops_store unit_ops_store = {
    .job_find = job_find,
    .seq_issued = seq_issued,
    .job_queue = job_queue,
    .queue_name = wqueue_name,
    .job_rules = job_rules,
    .key_rival = row_key_rival,
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
    .breaker_named_count = unit_breaker_named_count,
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
    .claim_room = unit_claim_room,
    .token_next = token_next,
    .lease_start = lease_start,
    .claim_reply = claim_reply,
    .job_by_seq = job_by_seq,
    .key_holder = key_holder,
    .queue_live = queue_live,
    .live = live,
    .queue_room = queue_room,
    .queue_create = queue_create,
    .idempotency_find = unit_idempotency_find,
    .idempotency_room = unit_idempotency_room,
    .idempotency_keep = unit_idempotency_keep,
    .seq_room = seq_room,
    .rate_full_us = unit_rate_full_us,
    .rate_take = unit_rate_take,
    .enqueues_prepare = enqueues_ready,
    .job_create = job_create,
    .kv_find = unit_kv_find,
    .kv_used = kv_used,
    .kv_version = unit_kv_version,
    .kv_set = unit_kv_set,
    .kv_delete = unit_kv_delete,
    .schedule_find = schedule_find,
    .schedule_names = schedule_names,
    .schedule_count = schedule_count,
    .schedule_number = schedule_number,
    .schedule_flows = schedule_flows,
    .schedule_read = schedule_read,
    .schedule_put = schedule_put,
    .schedule_delete = schedule_delete,
    .schedule_last_live = schedule_last_live,
    .schedule_show = schedule_shown,
    .schedule_prepare = schedule_prepare,
    .schedule_step = schedule_step,
    .queue_owner = owner_of,
    .item_take = item_take,
    .item_return = item_return,
    .token_ahead = token_ahead,
    .items_prepare = items_prepare,
    .items_link = items_link,
    .steps = steps_of,
    .prepare = job_prepare,
    .commit = job_commit,
    .remove = row_remove,
    .dependencies = &unit_dependency_store,
};
