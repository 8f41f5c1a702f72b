/* SPDX-License-Identifier: Apache-2.0 */
/* What may be done to one job without its lease: cancel, requeue, patch, remove, annotate; also as
 * a part of a bulk action. */
#include "core/jobs/job_error.h"
#include "core/limits.h"
#include "core/validate.h"
#include "ops/jobs/note.h"
#include "ops/replies.h"

/* The job, if it exists and the move starts from its state; else the reply says why not. */
static struct job *job_for(struct ops *o, struct job_ref ref, unsigned states, enum job_move move,
                           const struct queue_state **ret_queue, struct reply *r)
{
    struct job *j = o->store->job_find(o, ref, ret_queue);
    if (!j) {
        reply_refuse(r, OUT_NOT_FOUND, NULL);
        return NULL;
    }
    if (!o->store->queue_name(o, *ret_queue, &r->queue)) {
        reply_nomem(o, r);
        return NULL;
    }
    reply_about(r, j);
    if (!move_starts_from(move, (enum job_state)j->state) ||
        (states && !(STATE_BIT(j->state) & states))) {
        reply_refuse(r, OUT_ILLEGAL, NULL);
        return NULL;
    }
    return j;
}

static bool change(struct ops *o, struct job *j, const struct queue_state *q,
                   const struct record *rec, struct reply *r)
{
    if (!o->store->prepare(o, j, rec, 1))
        return reply_nomem(o, r);
    o->store->commit(o, j, rec);
    reply_changed(r, j, q);
    return true;
}

/* The record that cancels the job; of a running one that is not cancelled at once (`now`) the
 * request to do so. False: that was requested before. */
static bool decide_cancel(const struct ops *o, const struct job *j, bool now,
                          struct lease_limits *limits, struct record *ret)
{
    struct lease_state lease;
    uint32_t grace_ms = o->store->job_queue(o, j)->policy.cancel_grace_ms;
    if (now || grace_ms == 0 || !o->store->lease(o, j, &lease)) {
        decide_cancelled(j, REASON_CANCELLED, o->now, ret);
        return true;
    }
    *limits = lease.limits;
    if (cancel_requested(limits))
        return false;
    *ret = (struct record){
        .kind = REC_JOB_CANCEL_REQUESTED,
        .job_cancel_requested = {.seq = j->seq, .at = o->now, .grace_ms = grace_ms},
    };
    return apply_cancel_requested(j, &ret->job_cancel_requested, limits) == 0;
}

void ops_cancel(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_job *want = &op->job;
    const struct queue_state *q;
    enum job_move move = want->discard ? MOVE_DISCARD : MOVE_CANCEL;
    struct job *j = job_for(o, want->job, want->states, move, &q, r);
    if (!j)
        return;
    struct record rec;
    struct lease_limits limits = {0};
    if (want->discard)
        decide_cancelled(j, REASON_DISCARDED, o->now, &rec);
    if (!want->discard && !decide_cancel(o, j, want->force, &limits, &rec))
        reply_changed(r, j, q);
    else if (!change(o, j, q, &rec, r))
        return;
    r->lease.cancel_by = cancel_deadline(&limits);
}

void ops_requeue(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_job *want = &op->job;
    const struct queue_state *q;
    struct job *j = job_for(o, want->job, want->states, MOVE_REQUEUE, &q, r);
    struct job *rival = j ? o->store->key_rival(o, j) : NULL;
    if (!j)
        return;
    if (rival) {
        reply_about(r, rival);
        reply_refuse(r, OUT_DUPLICATE, NULL);
        return;
    }
    if (want->delay_ms < 0) {
        reply_refuse(r, OUT_INVALID, "delay_ms must be 0 or more");
        return;
    }
    struct wall_time run_at = {0};
    if (want->delay_ms > 0)
        run_at = time_after(o->now, want->delay_ms);
    struct record rec;
    decide_requeue(j, run_at, q->generation, o->now, &rec);
    if (!change(o, j, q, &rec, r))
        return;
    o->store->count_requeue(o, j);
    r->run_at = j->run_at;
}

static bool patch_valid(const struct queue_state *q, const struct op_patch *want, struct reply *r)
{
    if (want->has_run_at && (want->run_at.ms < 0 || want->run_at.ms > LIMIT_WALL_MS))
        return reply_refuse(r, OUT_INVALID, "run_at must be a time before the year 10000");
    return !want->has_payload ||
           reply_body_valid(r, want->payload_kind, want->payload, q->policy.payload_max);
}

static int64_t patched_priority(const struct job *j, const struct queue_state *q,
                                const struct op_patch *want, struct wall_time run_at)
{
    if (!q->policy.by_due)
        return want->has_priority ? want->priority : j->priority;
    return priority_by_due(want->has_priority ? want->priority : priority_given(j->priority),
                           run_at.ms ? run_at : id_time(j->id_hi));
}

static struct record patch_record(const struct ops *o, const struct job *j,
                                  const struct queue_state *q, const struct op_patch *want)
{
    struct wall_time run_at = want->has_run_at ? want->run_at : j->run_at;
    struct record rec = {
        .kind = REC_JOB_PATCHED,
        .job_patched = {.seq = j->seq,
                        .state = j->state,
                        .priority = patched_priority(j, q, want, run_at),
                        .run_at = run_at,
                        .at = o->now,
                        .generation = q->generation,
                        .has_payload = want->has_payload},
    };
    if (want->has_payload) {
        rec.job_patched.payload_kind = want->payload_kind;
        rec.job_patched.payload = want->payload;
    }
    if (want->has_run_at && j->state != STATE_BLOCKED)
        rec.job_patched.state = run_at.ms > o->now.ms ? STATE_SCHEDULED : STATE_READY;
    return rec;
}

void ops_patch(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_patch *want = &op->patch;
    const struct queue_state *q;
    struct job *j = job_for(o, want->job, 0, MOVE_PATCH, &q, r);
    if (!j || !patch_valid(q, want, r))
        return;
    struct record rec = patch_record(o, j, q, want);
    if (change(o, j, q, &rec, r))
        r->run_at = j->run_at;
}

void ops_remove(struct ops *o, const struct op *op, struct reply *r)
{
    const struct queue_state *q;
    struct job *j = job_for(o, op->job.job, op->job.states, MOVE_REMOVE, &q, r);
    if (!j)
        return;
    if (!o->store->remove(o, j)) {
        reply_nomem(o, r);
        return;
    }
    r->state = STATE_NONE;
    r->relaxed = q->policy.durability == DURABILITY_RELAXED;
}

bool ops_bulk_change(struct ops *o, struct job *j, enum bulk_action action, bool *ret_changed)
{
    struct record rec;
    struct lease_limits limits;
    *ret_changed = true;
    if (action == BULK_REMOVE)
        return o->store->remove(o, j);
    if (action == BULK_CANCEL || action == BULK_CANCEL_NOW) {
        if (!decide_cancel(o, j, action == BULK_CANCEL_NOW, &limits, &rec))
            return true;
    } else if (o->store->key_rival(o, j)) {
        *ret_changed = false;
        return true;
    } else {
        decide_requeue(j, (struct wall_time){0}, o->store->job_queue(o, j)->generation, o->now,
                       &rec);
    }
    if (!o->store->prepare(o, j, &rec, 1))
        return false;
    o->store->commit(o, j, &rec);
    if (action == BULK_REQUEUE)
        o->store->count_requeue(o, j);
    return true;
}

/* --- annotations --- */

static bool note_valid(struct ops *o, const struct op_note *want, struct reply *r)
{
    struct err_note note;
    if ((want->has_label && validate_text("label", want->label, LIMIT_LABEL_BYTES, &note) != 0) ||
        (want->has_attributes &&
         validate_text("attributes", want->attributes, LIMIT_ATTRIBUTES_BYTES, &note) != 0))
        return reply_invalid(o, r, &note);
    if (!(want->has_label || want->has_attributes || want->has_result || want->has_error))
        return reply_refuse(r, OUT_INVALID,
                            "nothing to note: give a label, attributes, result or error");
    if (want->has_error && want->error_kind > ERROR_BUSINESS)
        return reply_refuse(r, OUT_INVALID, "the kind of an error is app (0) or business (1)");
    if (want->has_result && want->result_kind == PAYLOAD_NONE)
        return reply_refuse(r, OUT_INVALID, "a result must have a kind");
    return !want->has_result ||
           reply_body_valid(r, want->result_kind, want->result, LIMIT_PAYLOAD_BYTES);
}

void note_record(const struct op_note *want, uint64_t seq, struct record *ret)
{
    struct rec_job_noted *n = &ret->job_noted;
    *ret = (struct record){.kind = REC_JOB_NOTED, .job_noted = {.seq = seq}};
    n->has_label = want->has_label;
    n->has_attributes = want->has_attributes;
    n->has_result = want->has_result;
    n->has_error = want->has_error;
    if (want->has_label)
        n->label = want->label;
    if (want->has_attributes)
        n->attributes = want->attributes;
    if (want->has_result) {
        n->result_kind = want->result_kind;
        n->result = want->result;
    }
    if (want->has_error) {
        n->error_kind = want->error_kind;
        n->error = job_error_cut(want->error);
    }
}

void ops_note(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_note *want = &op->note;
    const struct queue_state *q;
    struct job *j = o->store->job_find(o, want->job, &q);
    struct lease_state lease;
    struct record rec;
    if (!j) {
        reply_refuse(r, OUT_NOT_FOUND, NULL);
        return;
    }
    if (!o->store->queue_name(o, q, &r->queue)) {
        reply_nomem(o, r);
        return;
    }
    reply_about(r, j);
    if (!note_valid(o, want, r))
        return;
    if (want->token.counter &&
        (!o->store->lease(o, j, &lease) || !token_equal(lease.token, want->token))) {
        reply_refuse(r, j->state == STATE_CANCELLED ? OUT_CANCELLED : OUT_LEASE_LOST, NULL);
        return;
    }
    note_record(want, j->seq, &rec);
    (void)change(o, j, q, &rec, r);
}
