/* SPDX-License-Identifier: Apache-2.0 */
/* What a record does to a row: its state by the rules of core, the sums of its queue, the
 * history of attempts, the last report about a lease, the holder of a unique key, and the event. */
#include "backend/record_events.h"
#include "backend/shared/shared.h"
#include "base/check.h"
#include "core/jobs/progress.h"
#include "core/queues/retention.h"

static void count(struct wqueue *q, const struct job *j, int64_t n)
{
    if (j->state == STATE_NONE)
        return;
    q->adds[j->state - 1] += n;
    if (j->state == STATE_READY && j->priority > PRIORITY_URGENT)
        q->adds[SUM_URGENT] += n;
}

static void count_record(struct wqueue *q, const struct record *rec, const struct job *before)
{
    counters_add_record((uint64_t *)&q->adds[SUM_COUNTERS], NULL, rec, before);
}

void unit_row_before(struct row *r)
{
    count(r->q, &r->job, -1);
    r->state_before = r->job.state;
}

static void mark_pending(const struct unit *u, struct row *r)
{
    if (r->job.state != STATE_READY)
        r->job.flags &= (uint8_t)~JOB_PENDING;
    else if (u->s->config.dispatches && r->state_before != STATE_READY)
        r->job.flags |= JOB_PENDING;
}

void unit_row_after(struct unit *u, struct row *r)
{
    struct wqueue *q = r->q;
    count(q, &r->job, 1);
    unit_dependencies_moved(r, r->state_before, r->job.state);
    r->changed = true;
    u->records++;
    r->held = r->extra.unique.len && unique_holds(q->policy.unique_scope, r->job.state);
    mark_pending(u, r);
    unit_limits_moved(u, r, r->state_before, r->job.state);
    if (r->job.state != STATE_READY)
        return;
    q->wake = true;
    if (claim_ordered(&q->policy))
        return;
    if (heap_push(&q->ready, (struct heap_entry){heap_order_desc(r->job.priority), r->job.seq}))
        u->nomem = true;
}

void unit_row_remove(struct unit *u, struct row *r)
{
    count(r->q, &r->job, -1);
    unit_dependencies_moved(r, r->job.state, STATE_NONE);
    unit_limits_moved(u, r, r->job.state, STATE_NONE);
    r->q->adds[SUM_REMOVED]++;
    r->gone = r->changed = true;
    r->held = false;
    u->records++;
}

void unit_row_rules(const struct row *r, struct job_options *space, struct job_rules *ret)
{
    bool own = r->extra.options.len && options_decode(r->extra.options, space) == 0;
    rules_of(&r->q->policy, own ? space : NULL, ret);
}

/* --- events --- */

static struct happened *add_happened(struct unit *u, uint8_t kind)
{
    struct happened *h = unit_alloc(u, sizeof *h);
    if (!h)
        return NULL;
    h->kind = kind;
    h->at = u->now;
    *u->happened_last = h;
    u->happened_last = &h->next;
    return h;
}

void unit_tell_queue(struct unit *u, uint8_t kind, const struct wqueue *q, uint64_t n)
{
    struct happened *h = add_happened(u, kind);
    if (!h)
        return;
    h->queue = q->name;
    h->count = n;
}

void unit_tell_refused(struct unit *u, struct job_ref job, struct span queue)
{
    struct happened *h = add_happened(u, EVENT_INBOX_REFUSED);
    if (!h)
        return;
    h->job = (struct job){.seq = job.seq, .id_hi = job.hi};
    h->queue = queue;
}

void unit_tell_key(struct unit *u, uint8_t kind, struct span key, uint64_t version)
{
    struct happened *h = add_happened(u, kind);
    if (!h)
        return;
    h->subject = key;
    h->count = version;
}

void unit_tell_alert(struct unit *u, uint8_t kind, struct span alert, struct span queue,
                     uint64_t value)
{
    struct happened *h = add_happened(u, kind);
    if (!h)
        return;
    h->subject = alert;
    h->queue = queue;
    h->count = value;
}

void unit_tell_schedule(struct unit *u, uint8_t kind, const struct wschedule *s,
                        const struct row *r)
{
    struct happened *h = add_happened(u, kind);
    if (!h)
        return;
    h->subject = s->name;
    if (r) {
        h->job = r->job;
        h->queue = r->q->name;
    } else {
        h->count = s->state.failures;
    }
}

void unit_tell(struct unit *u, uint8_t kind, const struct row *r)
{
    struct happened *h = add_happened(u, kind);
    if (!h)
        return;
    h->queue = r->q->name;
    h->job = r->job;
    if (r->q->policy.warn_depth)
        unit_depth(u, r->q);
}

void unit_depth(struct unit *u, struct wqueue *q)
{
    struct cached_queue *k = queue_cache_find(u->s, q->name);
    if (!k || !q->counted)
        return;
    uint64_t depth =
        unit_queue_state_count(q, STATE_READY) + unit_queue_state_count(q, STATE_SCHEDULED);
    if (depth_warns(q->policy.warn_depth, depth, &k->deep))
        unit_tell_queue(u, EVENT_QUEUE_DEEP, q, depth);
}

/* --- the end of a lease --- */

void unit_ended_add(struct unit *u, const struct ended *e)
{
    struct ended *a = unit_alloc(u, sizeof *a);
    if (!a)
        return;
    *a = *e;
    *u->ended_last = a;
    u->ended_last = &a->next;
}

static void end_attempt(struct unit *u, struct row *r, const struct job *before, uint8_t outcome,
                        struct wall_time at, uint8_t error_kind, struct span error)
{
    unit_ended_add(u, &(struct ended){
                          .row = r,
                          .number = (uint32_t)before->failures + before->crashes + 1,
                          .started_at = r->started_at,
                          .at = at,
                          .outcome = outcome,
                          .error_kind = error_kind,
                          .worker = r->worker,
                          .error = error,
                      });
}

/* Sets the end of the lease: this time, or its first limit. */
static void lease_until(struct row *r, int64_t ms)
{
    int64_t limit = limit_at_ms(&r->limits, r->started_at);
    r->until_ms = ms < limit ? ms : limit;
}

/* The lease has ended; the last report about it is kept with its token. */
static void end_lease(struct row *r, uint8_t kind)
{
    if (kind != OP_TICK) {
        r->reply_kind = (uint8_t)(kind + 1);
        r->reply_state = r->job.state;
        r->reply_run_at = r->job.run_at;
    }
    r->nonce = 0;
    r->until_ms = 0;
    r->limits = (struct lease_limits){0};
}

/* --- one function a kind of record; `before` is the job as it was --- */

typedef void (*row_apply_fn)(struct unit *u, struct row *r, const struct job *before,
                             const struct record *rec);

static void row_apply_ready(struct unit *u, struct row *r, const struct job *before,
                            const struct record *rec)
{
    (void)u, (void)before;
    CHECK(apply_ready(&r->job, &rec->job_ready) == 0);
}

static void keep_error(struct row *r, uint8_t kind, struct span error)
{
    r->error_kind = kind;
    r->error = error;
    r->set_error = true;
}

static void row_apply_back(struct unit *u, struct row *r, const struct job *before,
                           const struct record *rec)
{
    const struct rec_job_back *b = &rec->job_back;
    CHECK(apply_back(&r->job, b) == 0);
    end_attempt(u, r, before, attempt_of_back(b->reason, b->error), b->at, b->error_kind, b->error);
    end_lease(r, reason_report(b->reason));
    if (b->error.len)
        keep_error(r, b->error_kind, b->error);
}

static void row_apply_done(struct unit *u, struct row *r, const struct job *before,
                           const struct record *rec)
{
    const struct rec_job_done *d = &rec->job_done;
    (void)u, (void)before;
    CHECK(apply_done(&r->job, d) == 0);
    end_lease(r, OP_ACK); /* the row itself shows this attempt while the job is done */
    if (d->result_kind != PAYLOAD_NONE) {
        r->result_kind = d->result_kind;
        r->result = d->result;
        r->set_result = true;
    }
}

static void row_apply_dead(struct unit *u, struct row *r, const struct job *before,
                           const struct record *rec)
{
    const struct rec_job_dead *d = &rec->job_dead;
    CHECK(apply_dead(&r->job, d) == 0);
    if (before->state == STATE_RUNNING) {
        end_attempt(u, r, before, attempt_of_reason[d->reason], d->at, d->error_kind, d->error);
        end_lease(r, reason_report(d->reason));
    }
    if (d->error.len)
        keep_error(r, d->error_kind, d->error);
}

static void row_apply_cancelled(struct unit *u, struct row *r, const struct job *before,
                                const struct record *rec)
{
    const struct rec_job_cancelled *c = &rec->job_cancelled;
    CHECK(apply_cancelled(&r->job, c) == 0);
    if (before->state == STATE_DONE)
        end_attempt(u, r, before, ATTEMPT_DONE, before->since, 0, (struct span){NULL, 0});
    if (before->state == STATE_RUNNING) {
        end_attempt(u, r, before, attempt_of_reason[c->reason], c->at, 0, (struct span){NULL, 0});
        end_lease(r, OP_TICK);
    }
}

static void row_apply_requeued(struct unit *u, struct row *r, const struct job *before,
                               const struct record *rec)
{
    (void)u, (void)before;
    CHECK(apply_requeued(&r->job, &rec->job_requeued) == 0);
}

static void row_apply_unblocked(struct unit *u, struct row *r, const struct job *before,
                                const struct record *rec)
{
    (void)u, (void)before;
    CHECK(apply_unblocked(&r->job, &rec->job_unblocked) == 0);
}

static void row_apply_patched(struct unit *u, struct row *r, const struct job *before,
                              const struct record *rec)
{
    const struct rec_job_patched *p = &rec->job_patched;
    (void)u, (void)before;
    CHECK(apply_patched(&r->job, p) == 0);
    if (p->has_payload) {
        r->payload = p->payload;
        r->has_payload = r->set_payload = true;
    }
}

void unit_keep_reply(struct unit *u, const struct row *r)
{
    struct kept_reply *kept = r->reply_kind ? unit_alloc(u, sizeof *kept) : NULL;
    if (!kept)
        return;
    *kept = (struct kept_reply){.token = r->token,
                                .seq = r->job.seq,
                                .run_at = r->reply_run_at,
                                .kind = r->reply_kind,
                                .state = r->reply_state,
                                .next = u->new_replies};
    u->new_replies = kept;
}

static void row_apply_claimed(struct unit *u, struct row *r, const struct job *before,
                              const struct record *rec)
{
    const struct rec_job_claimed *c = &rec->job_claimed;
    CHECK(apply_claimed(&r->job, c) == 0);
    (void)before;
    unit_limits_started(u, r);
    /* A repeat of the report about the previous lease still has to get the same reply. */
    unit_keep_reply(u, r);
    r->reply_kind = 0;
    r->token = c->token;
    r->lease_ms = c->lease_ms;
    r->limits = (struct lease_limits){.timeout_ms = c->timeout_ms};
    r->worker = c->worker;
    r->started_at = c->at;
    lease_until(r, c->at.ms + c->lease_ms);
}

/* --- records that leave the job where it is --- */

static void row_apply_cancel_requested(struct unit *u, struct row *r, const struct job *before,
                                       const struct record *rec)
{
    (void)u, (void)before;
    CHECK(apply_cancel_requested(&r->job, &rec->job_cancel_requested, &r->limits) == 0);
    lease_until(r, r->until_ms);
}

static void row_apply_extended(struct unit *u, struct row *r, const struct job *before,
                               const struct record *rec)
{
    (void)before;
    CHECK(apply_extended(&r->job, &rec->job_extended) == 0);
    r->lease_ms = rec->job_extended.lease_ms;
    lease_until(r, u->now.ms + r->lease_ms);
    r->changed = true;
}

static void row_apply_priority(struct unit *u, struct row *r, const struct job *before,
                               const struct record *rec)
{
    (void)u, (void)before;
    CHECK(apply_priority(&r->job, &rec->job_priority) == 0);
    r->changed = true;
}

static void row_apply_noted(struct unit *u, struct row *r, const struct job *before,
                            const struct record *rec)
{
    const struct rec_job_noted *n = &rec->job_noted;
    (void)u, (void)before;
    CHECK(apply_noted(&r->job, n) == 0);
    if (n->has_label)
        r->extra.label = n->label;
    if (n->has_attributes)
        r->extra.attributes = n->attributes;
    if (n->has_label || n->has_attributes)
        r->set_note = r->changed = true;
    if (n->has_result) {
        r->result_kind = n->result_kind;
        r->result = n->result;
        r->set_result = true;
    }
    if (n->has_error)
        keep_error(r, n->error_kind, n->error);
}

static struct span log_added(struct unit *u, struct span log, struct span more)
{
    char *text = log.len ? unit_alloc(u, log.len + more.len) : NULL;
    if (!text)
        return more; /* nothing came before it, or the unit fails for lack of memory */
    memcpy(text, log.at, log.len);
    memcpy(text + log.len, more.at, more.len);
    return joblog_tail(span_of(text, log.len + more.len));
}

static void row_apply_report(struct unit *u, struct row *r, const struct job *before,
                             const struct record *rec)
{
    (void)before;
    CHECK(apply_reported(&r->job) == 0);
    r->set_report = true;
    if (rec->kind == REC_JOB_LOGGED) {
        r->log = log_added(u, r->log, rec->job_report.text);
        return;
    }
    r->progress = rec->job_report.text;
}

static void row_apply_steps(struct unit *u, struct row *r, const struct job *before,
                            const struct record *rec)
{
    (void)before;
    CHECK(apply_reported(&r->job) == 0);
    unit_row_steps(u, r, rec->job_report.text);
}

/* If a queue keeps no done jobs, they are removed with the record that ends them. The tick
 * removes the other jobs that retention does not keep. */
static void drop_unkept(struct unit *u, struct row *r)
{
    if (STATE_BIT(r->job.state) & STATES_LIVE)
        return;
    if (r->job.state == STATE_DONE && retention_none(retention_of(&r->q->policy, STATE_DONE)))
        unit_row_remove(u, r);
    else
        u->s->trim_wanted = true;
}

/* Whether the record changes the state of the job, or what the queue counts of it. */
static const struct {
    row_apply_fn apply;
    bool moves;
} row_records[] = {
    [REC_JOB_READY] = {row_apply_ready, true},
    [REC_JOB_CLAIMED] = {row_apply_claimed, true},
    [REC_JOB_BACK] = {row_apply_back, true},
    [REC_JOB_DONE] = {row_apply_done, true},
    [REC_JOB_DEAD] = {row_apply_dead, true},
    [REC_JOB_CANCELLED] = {row_apply_cancelled, true},
    [REC_JOB_REQUEUED] = {row_apply_requeued, true},
    [REC_JOB_UNBLOCKED] = {row_apply_unblocked, true},
    [REC_JOB_PATCHED] = {row_apply_patched, true},
    [REC_JOB_CANCEL_REQUESTED] = {row_apply_cancel_requested, true},
    [REC_JOB_EXTENDED] = {row_apply_extended, false},
    [REC_JOB_PRIORITY] = {row_apply_priority, false},
    [REC_JOB_NOTED] = {row_apply_noted, false},
    [REC_JOB_PROGRESS] = {row_apply_report, false},
    [REC_JOB_LOGGED] = {row_apply_report, false},
    [REC_JOB_STEPS] = {row_apply_steps, false},
};

void unit_row_take(struct unit *u, struct row *r, const struct record *rec)
{
    CHECK((size_t)rec->kind < sizeof row_records / sizeof row_records[0] &&
          row_records[rec->kind].apply);
    struct job before = r->job;
    bool moves = row_records[rec->kind].moves;
    enum event_kind event = record_event(rec);
    if (moves) {
        unit_row_before(r);
        count_record(r->q, rec, &before);
    }
    row_records[rec->kind].apply(u, r, &before, rec);
    if (moves)
        unit_row_after(u, r);
    else
        u->records++;
    if (event != EVENT_KIND_COUNT)
        unit_tell(u, (uint8_t)event, r);
    if (!moves)
        return;
    if (rec->kind == REC_JOB_DEAD) {
        unit_leave_payload(u, r);
        unit_alert_dead(u, r, &rec->job_dead);
    }
    drop_unkept(u, r);
}
