/* SPDX-License-Identifier: Apache-2.0 */
/* Ack, fail, extend and release: the reports of a lease's holder; and leases that end without one.
 *
 * Limits. A requested cancel and timeout_ms each give a lease an end that no extend postpones
 * (struct lease_limits). From the request on, every end of the lease makes the job cancelled,
 * except an ack within the grace time. A report that comes after a limit is refused, even if the
 * lease's end has not been recorded yet.
 *
 * A report names the lease by its token. A repeat of the report that ended the lease gets the kept
 * reply, also after the job has been claimed by others. core/limits.h says how long each store
 * keeps a reply (LIMIT_KEPT_REPLIES, LIMIT_KEPT_REPLY_MS). */
#include "core/jobs/job_error.h"
#include "core/limits.h"
#include "core/validate.h"
#include "ops/jobs/held.h"
#include "ops/jobs/note.h"
#include "ops/replies.h"

static bool token_fits(const struct ops *o, const struct op *op, const struct lease_state *lease)
{
    if (DEFECT(o, DEFECT_ANY_TOKEN) && op->kind == OP_ACK)
        return true;
    return op->lease.any_token || token_equal(lease->token, op->lease.token);
}

/* The holder has sent this report before: the reply is the same. */
static bool repeats(const struct ops *o, const struct op *op, bool *ret_known, struct reply *r)
{
    const struct op_lease *want = &op->lease;
    struct lease_report before;
    *ret_known = !want->any_token && want->token.counter != 0 &&
                 o->store->report_find(o, want->job.seq, want->token, &before);
    if (!*ret_known || before.kind != op->kind)
        return false;
    r->seq = want->job.seq;
    r->state = (enum job_state)before.state;
    r->run_at = before.run_at;
    r->repeat = true;
    return true;
}

/* Why a report that names no current lease of the job is refused. */
static enum outcome refusal(struct ops *o, const struct op_lease *want, const struct job *j,
                            bool known)
{
    if (!j)
        return o->store->seq_issued(o, want->job.seq) ? OUT_GONE : OUT_NOT_FOUND;
    if (want->any_token)
        return OUT_ILLEGAL;
    bool forgotten = !known && o->store->report_forgotten(o, j, want->token);
    if (j->state == STATE_CANCELLED)
        return OUT_CANCELLED;
    return forgotten && j->state == STATE_DONE ? OUT_GONE : OUT_LEASE_LOST;
}

/* Whether no limit of the lease has passed; else the reply says which. */
static bool in_time(const struct ops *o, const struct op *op, const struct lease_state *lease,
                    struct reply *r)
{
    if (lease->limit_left_ms > 0 || (DEFECT(o, DEFECT_LATE_ACK) && op->kind == OP_ACK))
        return true;
    return reply_refuse(r, cancel_requested(&lease->limits) ? OUT_CANCELLED : OUT_LEASE_LOST, NULL);
}

struct job *held_job(struct ops *o, const struct op *op, struct held *h, struct reply *r)
{
    const struct op_lease *want = &op->lease;
    struct job *j = h->j = o->store->job_find(o, want->job, &h->q);
    if (j) {
        if (!o->store->queue_name(o, h->q, &r->queue)) {
            reply_nomem(o, r);
            return NULL;
        }
        if (want->any_token && h->q->policy.require_token) {
            reply_refuse(r, OUT_INVALID,
                         "token is required: the queue's policy (require_token) does not allow "
                         "changes of a job by its id alone");
            return NULL;
        }
        reply_about(r, j);
        if (o->store->lease(o, j, &h->lease) && token_fits(o, op, &h->lease))
            return in_time(o, op, &h->lease, r) ? j : NULL;
    }
    bool known;
    if (!repeats(o, op, &known, r))
        r->outcome = refusal(o, want, j, known);
    return NULL;
}

bool held_name_holder(struct ops *o, const struct held *h, struct reply *r)
{
    int64_t ran = o->now.ms - h->j->since.ms;
    r->ran_ms = ran > 0 && !held_goes_on(r->kind) ? ran : 0;
    r->worker = text_keep(o, h->lease.worker);
    return r->worker.at || r->worker.len == 0 || reply_nomem(o, r);
}

void held_finish(const struct held *h, struct reply *r)
{
    reply_changed(r, h->j, h->q);
    r->run_at = h->j->run_at;
}

void ops_ack(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_lease *want = &op->lease;
    struct held h;
    struct job *j = held_job(o, op, &h, r);
    if (!j && r->repeat && want->handoff)
        handoff_repeat(o, want->handoff, r);
    if (!j || !reply_body_valid(r, want->result_kind, want->result, LIMIT_PAYLOAD_BYTES) ||
        !held_name_holder(o, &h, r))
        return;
    struct record rec = {
        .kind = REC_JOB_DONE,
        .job_done = {.seq = j->seq,
                     .at = o->now,
                     .result_kind = want->result_kind,
                     .result = want->result},
    };
    if (want->handoff) {
        handoff_commit(o, want->handoff, &h, &rec, r);
        return;
    }
    if (!o->store->prepare(o, j, &rec, 1)) {
        reply_nomem(o, r);
        return;
    }
    o->store->commit(o, j, &rec);
    held_finish(&h, r);
}

/* When the job may run again, from `delay_ms` or `run_at`. */
static bool when_to_run(const struct ops *o, const struct op_lease *want, struct wall_time *ret,
                        struct reply *r)
{
    if (want->run_at.ms < 0 || want->run_at.ms > LIMIT_WALL_MS ||
        (want->has_delay && want->delay_ms < 0))
        return reply_refuse(
            r, OUT_INVALID,
            "delay_ms must be 0 or more; run_at must be a time before the year 10000");
    bool delayed = want->run_at.ms == 0 && want->has_delay;
    *ret = delayed ? time_after(o->now, want->delay_ms) : want->run_at;
    return true;
}

/* Ends the lease with the last of the records. The result of a failed attempt, its error where the
 * end itself has none, and a new priority are recorded before it, while the job is still running.
 */
static bool end_lease(struct ops *o, struct job *j, const struct op_lease *want,
                      const struct record *end, enum lease_ending how)
{
    struct record recs[3];
    size_t count = 0;
    struct op_note note = {0};
    if (want) {
        note.has_result = want->result_kind != PAYLOAD_NONE;
        note.result_kind = want->result_kind;
        note.result = want->result;
        note.has_error = end->kind == REC_JOB_CANCELLED && want->error.len > 0;
        note.error_kind = want->error_kind;
        note.error = want->error;
    }
    if (note.has_result || note.has_error)
        note_record(&note, j->seq, &recs[count++]);
    if (want && want->has_priority && want->priority != j->priority)
        recs[count++] = (struct record){
            .kind = REC_JOB_PRIORITY, .job_priority = {.seq = j->seq, .priority = want->priority}};
    recs[count++] = *end;
    if (!o->store->prepare(o, j, recs, count))
        return false;
    for (size_t i = 0; i < count; i++)
        o->store->commit(o, j, &recs[i]);
    o->store->count_ending(o, j, how);
    return true;
}

static bool report_end(struct ops *o, const struct held *h, const struct op *op,
                       const struct record *end, enum lease_ending how, struct reply *r)
{
    if (!held_name_holder(o, h, r))
        return false;
    if (!end_lease(o, h->j, &op->lease, end, how))
        return reply_nomem(o, r);
    held_finish(h, r);
    return true;
}

/* A cancel was requested, and the holder ends the lease otherwise than by an ack. */
static void report_cancelled(struct ops *o, const struct held *h, const struct op *op,
                             struct reply *r)
{
    struct record rec;
    decide_cancelled(h->j, REASON_CANCELLED, o->now, &rec);
    /* The record does not show that the holder reported the end; keep that. */
    if (report_end(o, h, op, &rec, ENDED_OTHERWISE, r))
        o->store->report_keep(o, h->j, h->lease.token, (uint8_t)op->kind);
}

void ops_fail(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_lease *want = &op->lease;
    struct held h;
    struct job *j = held_job(o, op, &h, r);
    struct job_error error = {want->error, want->error_type, want->stack};
    struct fail_request f = {.error_kind = want->error_kind,
                             .no_retry = want->no_retry,
                             .damaged = want->damaged,
                             .has_run_at = want->has_delay || want->run_at.ms != 0};
    if (!j || !when_to_run(o, want, &f.run_at, r) ||
        !reply_body_valid(r, want->result_kind, want->result, LIMIT_PAYLOAD_BYTES))
        return;
    if (want->error_kind > ERROR_BUSINESS) {
        reply_refuse(r, OUT_INVALID, "the kind of an error is app (0) or business (1)");
        return;
    }
    if (job_error_pack(&error, o->memory, &f.error) < 0) {
        reply_nomem(o, r);
        return;
    }
    if (cancel_requested(&h.lease.limits) && !want->damaged) {
        struct op packed = *op;
        packed.lease.error = f.error;
        report_cancelled(o, &h, &packed, r);
        return;
    }
    struct job_options room;
    struct job_rules rules;
    struct record rec;
    o->store->job_rules(o, j, &room, &rules);
    decide_fail(j, &rules, &f, h.q->generation, o->now, o->random, &rec);
    report_end(o, &h, op, &rec, want->no_retry ? ENDED_REJECTED : ENDED_OTHERWISE, r);
}

/* The record of a lease that ended by time or whose connection broke; its text is in the arena.
 * The random generator is unchanged when memory is short. */
static bool decide_end(struct ops *o, const struct job *j, bool lost,
                       const struct lease_state *lease, struct record *ret)
{
    uint32_t generation = o->store->job_queue(o, j)->generation;
    char *text = arena_alloc(o->memory, LEASE_END_TEXT_BYTES);
    struct job_options room;
    struct job_rules rules;
    if (!text)
        return false;
    o->store->job_rules(o, j, &room, &rules);
    if (!lost)
        rules.lease_ms = lease->lease_ms;
    if (cancel_requested(&lease->limits))
        decide_cancelled(j, REASON_CANCELLED, o->now, ret);
    else if (lease->limited && !lost)
        decide_timeout(j, &rules, lease->limits.timeout_ms, generation, o->now, o->random, text,
                       ret);
    else
        decide_lease_end(j, &rules, lost, generation, o->now, o->random, text, ret);
    return true;
}

void ops_release(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_lease *want = &op->lease;
    struct held h;
    struct wall_time run_at = {0};
    struct record rec;
    struct job *j = held_job(o, op, &h, r);
    struct job_error error = {want->error, want->error_type, (struct span){NULL, 0}};
    if (!j || !when_to_run(o, want, &run_at, r))
        return;
    if (cancel_requested(&h.lease.limits)) {
        report_cancelled(o, &h, op, r);
        return;
    }
    if (!want->lost) {
        decide_release(j, run_at, h.q->generation, o->now, &rec);
        if (job_error_pack(&error, o->memory, &rec.job_back.error) < 0) {
            reply_nomem(o, r);
            return;
        }
        report_end(o, &h, op, &rec, want->unsaid ? ENDED_OTHERWISE : ENDED_RELEASED, r);
        return;
    }
    if (!decide_end(o, j, true, &h.lease, &rec)) {
        reply_nomem(o, r);
        return;
    }
    /* The record counts as a crash, for which no report is kept; here there is one. */
    if (report_end(o, &h, op, &rec, ENDED_BY_TIME, r))
        o->store->report_keep(o, j, h.lease.token, OP_RELEASE);
}

bool held_extension(const struct held *h, uint32_t lease_ms, struct record *ret, bool *ret_any,
                    struct reply *r)
{
    *ret_any = h->lease.lease_ms != 0; /* one without an end has nothing to extend */
    if (!*ret_any)
        return true;
    lease_ms = lease_ms ? lease_ms : h->lease.lease_ms;
    if (lease_ms < LIMIT_LEASE_MS_MIN || lease_ms > LIMIT_LEASE_MS)
        return reply_refuse(r, OUT_INVALID, "lease_ms must be between 100 and 86400000");
    *ret = (struct record){
        .kind = REC_JOB_EXTENDED,
        .job_extended = {.seq = h->j->seq, .lease_ms = lease_ms},
    };
    return true;
}

void held_left(const struct held *h, const struct record *extended, struct reply *r)
{
    int64_t lease_ms = extended->job_extended.lease_ms;
    r->lease.left_ms = lease_ms < h->lease.limit_left_ms ? lease_ms : h->lease.limit_left_ms;
}

void ops_extend(struct ops *o, const struct op *op, struct reply *r)
{
    struct held h;
    struct record rec;
    bool any;
    struct job *j = held_job(o, op, &h, r);
    if (!j)
        return;
    r->lease.cancel_by = cancel_deadline(&h.lease.limits);
    if (!held_extension(&h, op->lease.lease_ms, &rec, &any, r) || !any ||
        !held_name_holder(o, &h, r))
        return;
    if (!o->store->prepare(o, j, &rec, 1)) {
        reply_nomem(o, r);
        return;
    }
    o->store->commit(o, j, &rec);
    held_left(&h, &rec, r);
    held_finish(&h, r);
}

void ops_release_claim(struct ops *o, const struct op *op, struct reply *r)
{
    struct job *j;
    while ((j = o->store->claimed_by(o, op->release_claim.nonce)) != NULL) {
        if (!ops_lease_taken_back(o, j, REASON_RELEASED)) {
            reply_nomem(o, r);
            return;
        }
        r->changed++;
    }
}

uint8_t reason_report(uint8_t reason)
{
    if (reason == REASON_FAILED || reason == REASON_REJECTED)
        return OP_FAIL;
    return reason == REASON_RELEASED ? OP_RELEASE : OP_TICK;
}

/* --- leases that end without a report --- */

bool ops_lease_ended(struct ops *o, struct job *j)
{
    struct random before = *o->random;
    struct lease_state lease;
    struct record rec;
    if (!o->store->lease(o, j, &lease))
        return true;
    if (decide_end(o, j, false, &lease, &rec) && end_lease(o, j, NULL, &rec, ENDED_BY_TIME))
        return true;
    *o->random = before;
    return false;
}

bool ops_item_left(struct ops *o, struct job *j, struct job_ref holder, uint8_t holder_state)
{
    struct random before = *o->random;
    char *text = arena_alloc(o->memory, LEFT_TEXT_BYTES);
    struct job_options room;
    struct job_rules rules;
    struct lease_state lease;
    struct record rec;
    if (!text)
        return false;
    o->store->job_rules(o, j, &room, &rules);
    if (o->store->lease(o, j, &lease) && cancel_requested(&lease.limits))
        decide_cancelled(j, REASON_CANCELLED, o->now, &rec);
    else
        decide_left(j, &rules, holder, (enum job_state)holder_state,
                    o->store->job_queue(o, j)->generation, o->now, o->random, text, &rec);
    if (o->store->prepare(o, j, &rec, 1)) {
        o->store->commit(o, j, &rec);
        return true;
    }
    *o->random = before;
    return false;
}

bool ops_lease_taken_back(struct ops *o, struct job *j, enum job_reason reason)
{
    struct lease_state lease;
    struct record rec;
    decide_release(j, (struct wall_time){0}, o->store->job_queue(o, j)->generation, o->now, &rec);
    rec.job_back.reason = (uint8_t)reason;
    if (o->store->lease(o, j, &lease) && cancel_requested(&lease.limits))
        decide_cancelled(j, REASON_CANCELLED, o->now, &rec);
    if (!o->store->prepare(o, j, &rec, 1))
        return false;
    o->store->commit(o, j, &rec);
    return true;
}

bool ops_job_expired(struct ops *o, struct job *j)
{
    struct record rec;
    decide_expire(j, o->now, &rec);
    if (!o->store->prepare(o, j, &rec, 1))
        return false;
    o->store->commit(o, j, &rec);
    return true;
}
