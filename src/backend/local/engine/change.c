/* SPDX-License-Identifier: Apache-2.0 */
/* What others than the lease's holder may do to one job: cancel, requeue, patch, remove, note. */
#include "backend/local/engine/engine_impl.h"
#include "core/validate.h"

/* The job, if it is there and the move starts from its state; else the reply says why not. */
static struct live *job_for(struct engine *e, struct job_ref ref, unsigned states,
                            enum job_move move, struct engine_reply *r)
{
    struct live *l = jobs_find(e, ref, NULL);
    if (!l) {
        refuse(r, OUT_NOT_FOUND, NULL);
        return NULL;
    }
    if (name_for_reply(e, queue_of(e, l), &r->reply.queue) != 0) {
        refuse_nomem(r);
        return NULL;
    }
    reply_job(r, l);
    if (!move_starts_from(move, l->job.state) || (states && !(STATE_BIT(l->job.state) & states))) {
        refuse(r, OUT_ILLEGAL, NULL);
        return NULL;
    }
    return l;
}

static bool emit_change(struct engine *e, struct engine_reply *r, struct live *l,
                        const struct record *rec)
{
    struct queue *q = queue_of(e, l);
    if (jobs_reserve(e, q, 0, 1, record_bytes_max(rec)) != 0) {
        refuse_nomem(r);
        return false;
    }
    engine_emit(e, rec);
    r->after = e->position;
    reply_relaxed(e, r, q);
    return true;
}

void op_cancel(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    enum job_move move = op->job.discard ? MOVE_DISCARD : MOVE_CANCEL;
    struct live *l = job_for(e, op->job.job, op->job.states, move, r);
    if (!l)
        return;
    uint8_t reason = op->job.discard ? REASON_DISCARDED : REASON_CANCELLED;
    struct record rec = {
        .kind = REC_JOB_CANCELLED,
        .job_cancelled = {.seq = l->job.seq, .reason = reason, .at = e->now.wall},
    };
    if (emit_change(e, r, l, &rec))
        reply_job(r, l);
}

/* Another job holds the key this one would need again. */
struct live *change_conflict(struct engine *e, const struct live *l)
{
    if (!l->extra || hash128_none(extra_unique(extra_at(e, l->extra))))
        return NULL;
    struct live *holder = jobs_unique_holder(e, extra_unique(extra_at(e, l->extra)));
    return holder && holder != l ? holder : NULL;
}

void op_requeue(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    struct live *l = job_for(e, op->job.job, op->job.states, MOVE_REQUEUE, r);
    if (!l)
        return;
    struct live *holder = change_conflict(e, l);
    if (holder) {
        reply_job(r, holder);
        refuse(r, OUT_DUPLICATE, NULL);
        return;
    }
    if (op->job.delay_ms < 0) {
        refuse(r, OUT_INVALID, "delay_ms must be 0 or more");
        return;
    }
    struct wall_time run_at = {0};
    if (op->job.delay_ms > 0) {
        int64_t room = LIMIT_WALL_MS - e->now.wall.ms;
        run_at.ms = op->job.delay_ms > room ? LIMIT_WALL_MS : e->now.wall.ms + op->job.delay_ms;
    }
    struct record rec;
    decide_requeue(&l->job, run_at, queue_of(e, l)->generation, e->now.wall, &rec);
    if (emit_change(e, r, l, &rec)) {
        fates_requeue(e, l->job.seq);
        reply_job(r, l);
        r->reply.run_at = l->job.run_at;
    }
}

static bool patch_right(const struct queue *q, const struct op_patch *want, struct engine_reply *r)
{
    if (want->has_run_at && (want->run_at.ms < 0 || want->run_at.ms > LIMIT_WALL_MS))
        refuse(r, OUT_INVALID, "run_at must be a time before the year 10000");
    else if (want->has_payload)
        return body_right(r, want->payload_kind, want->payload, q->policy.payload_max);
    else
        return true;
    return false;
}

void op_patch(struct engine *e, const struct op *op)
{
    const struct op_patch *want = &op->patch;
    struct engine_reply *r = reply_new(e, op);
    struct live *l = job_for(e, want->job, 0, MOVE_PATCH, r);
    if (!l || !patch_right(queue_of(e, l), want, r))
        return;
    struct wall_time run_at = want->has_run_at ? want->run_at : l->job.run_at;
    struct record rec = {
        .kind = REC_JOB_PATCHED,
        .job_patched = {.seq = l->job.seq,
                        .state = l->job.state,
                        .priority = want->has_priority ? want->priority : l->job.priority,
                        .run_at = run_at,
                        .at = e->now.wall,
                        .generation = queue_of(e, l)->generation,
                        .has_payload = want->has_payload,
                        .payload_kind = want->has_payload ? want->payload_kind : 0,
                        .payload = want->has_payload ? want->payload : (struct span){NULL, 0}},
    };
    if (want->has_run_at)
        rec.job_patched.state = run_at.ms > e->now.wall.ms ? STATE_SCHEDULED : STATE_READY;
    if (emit_change(e, r, l, &rec)) {
        reply_job(r, l);
        r->reply.run_at = l->job.run_at;
    }
}

void op_remove(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    struct live *l = job_for(e, op->job.job, op->job.states, MOVE_REMOVE, r);
    if (!l)
        return;
    uint64_t previous = 0;
    buf_clear(&e->scratch);
    if (record_seq_append(&e->scratch, &previous, l->job.seq) != 0) {
        refuse_nomem(r);
        return;
    }
    struct record rec = {
        .kind = REC_JOBS_GONE,
        .jobs_gone = {.count = 1, .seqs = buf_span(&e->scratch)},
    };
    if (emit_change(e, r, l, &rec))
        r->reply.state = STATE_NONE;
}

/* --- notes --- */

static bool note_right(struct engine *e, const struct op_note *want, struct engine_reply *r)
{
    struct err_note note;
    if ((want->has_label && validate_text("label", want->label, LIMIT_LABEL_BYTES, &note) != 0) ||
        (want->has_attributes &&
         validate_text("attributes", want->attributes, LIMIT_ATTRIBUTES_BYTES, &note) != 0))
        return refuse_note(e, r, &note);
    if (!(want->has_label || want->has_attributes || want->has_result || want->has_error))
        return refuse(r, OUT_INVALID, "nothing to note: give a label, attributes, result or error");
    if (want->has_error && want->error_kind > ERROR_BUSINESS)
        return refuse(r, OUT_INVALID, "the kind of an error is app (0) or business (1)");
    if (want->has_result && want->result_kind == PAYLOAD_NONE)
        return refuse(r, OUT_INVALID, "a result must have a kind");
    return !want->has_result || body_right(r, want->result_kind, want->result, LIMIT_PAYLOAD_BYTES);
}

void note_fill(const struct op_note *want, uint64_t seq, struct record *ret)
{
    ret->kind = REC_JOB_NOTED;
    ret->job_noted = (struct rec_job_noted){
        .seq = seq,
        .has_label = want->has_label,
        .has_attributes = want->has_attributes,
        .has_result = want->has_result,
        .has_error = want->has_error,
        .label = want->has_label ? want->label : (struct span){NULL, 0},
        .attributes = want->has_attributes ? want->attributes : (struct span){NULL, 0},
        .result_kind = want->has_result ? want->result_kind : PAYLOAD_NONE,
        .result = want->has_result ? want->result : (struct span){NULL, 0},
        .error_kind = want->has_error ? want->error_kind : ERROR_APP,
        .error =
            want->has_error ? validate_cut(want->error, LIMIT_ERROR_BYTES) : (struct span){NULL, 0},
    };
}

void op_note(struct engine *e, const struct op *op)
{
    const struct op_note *want = &op->note;
    struct engine_reply *r = reply_new(e, op);
    struct live *l = jobs_find(e, want->job, NULL);
    if (!l || name_for_reply(e, queue_of(e, l), &r->reply.queue) != 0) {
        refuse(r, l ? OUT_UNAVAILABLE : OUT_NOT_FOUND, l ? NO_ROOM : NULL);
        return;
    }
    reply_job(r, l);
    if (!note_right(e, want, r))
        return;
    if (want->token.counter &&
        (!l->lease || !token_equal(lease_at(e, l->lease)->token, want->token))) {
        refuse(r, OUT_LEASE_LOST, NULL);
        return;
    }
    struct record rec;
    note_fill(want, l->job.seq, &rec);
    if (slab_reserve(&e->extras, 1) != 0 || names_reserve(e, 1) != 0 ||
        emit_reserve(e, record_bytes_max(&rec)) != 0) {
        refuse_nomem(r);
        return;
    }
    engine_emit(e, &rec);
    r->after = e->position;
    reply_relaxed(e, r, queue_of(e, l));
}
