/* SPDX-License-Identifier: Apache-2.0 */
/* What others than the lease's holder may do to one job: cancel, requeue, patch, remove, note. */
#include "backend/shared/shared.h"
#include "core/validate.h"

/* The job, if it is there and the move starts from its state; else the reply says why not. */
static struct row *row_for(struct unit *u, struct job_ref ref, unsigned states, enum job_move move,
                           struct turn *t)
{
    struct row *r = unit_find(u, ref);
    if (!r) {
        unit_refuse(t, OUT_NOT_FOUND, NULL);
        return NULL;
    }
    t->reply.queue = r->q->name;
    unit_reply_row(t, r);
    if (!move_starts_from(move, r->job.state) || (states && !(STATE_BIT(r->job.state) & states))) {
        unit_refuse(t, OUT_ILLEGAL, NULL);
        return NULL;
    }
    return r;
}

static void changed(struct turn *t, const struct row *r)
{
    unit_reply_row(t, r);
    unit_reply_relaxed(t, r->q);
}

void work_cancel(struct unit *u, struct turn *t)
{
    const struct op_job *want = &t->op->job;
    struct row *r =
        row_for(u, want->job, want->states, want->discard ? MOVE_DISCARD : MOVE_CANCEL, t);
    if (!r)
        return;
    struct record rec = {
        .kind = REC_JOB_CANCELLED,
        .job_cancelled = {.seq = r->job.seq,
                          .reason = want->discard ? REASON_DISCARDED : REASON_CANCELLED,
                          .at = u->now},
    };
    unit_row_take(u, r, &rec);
    changed(t, r);
    u->s->trim_wanted = true;
}

void work_requeue(struct unit *u, struct turn *t)
{
    const struct op_job *want = &t->op->job;
    struct row *r = row_for(u, want->job, want->states, MOVE_REQUEUE, t);
    struct row *rival = r ? unit_row_rival(u, r) : NULL;
    if (!r)
        return;
    if (rival) {
        unit_reply_row(t, rival);
        unit_refuse(t, OUT_DUPLICATE, NULL);
        return;
    }
    if (want->delay_ms < 0) {
        unit_refuse(t, OUT_INVALID, "delay_ms must be 0 or more");
        return;
    }
    struct wall_time run_at = {0};
    if (want->delay_ms > 0)
        run_at.ms =
            want->delay_ms > LIMIT_WALL_MS - u->now.ms ? LIMIT_WALL_MS : u->now.ms + want->delay_ms;
    struct record rec;
    decide_requeue(&r->job, run_at, r->q->generation, u->now, &rec);
    r->fates.requeues = (uint8_t)(r->fates.requeues + (r->fates.requeues < UINT8_MAX));
    unit_row_take(u, r, &rec);
    changed(t, r);
    t->reply.run_at = r->job.run_at;
}

static bool patch_right(const struct wqueue *q, const struct op_patch *want, struct turn *t)
{
    if (want->has_run_at && (want->run_at.ms < 0 || want->run_at.ms > LIMIT_WALL_MS))
        return unit_refuse(t, OUT_INVALID, "run_at must be a time before the year 10000");
    return !want->has_payload ||
           unit_body_right(t, want->payload_kind, want->payload, q->policy.payload_max);
}

void work_patch(struct unit *u, struct turn *t)
{
    const struct op_patch *want = &t->op->patch;
    struct row *r = row_for(u, want->job, 0, MOVE_PATCH, t);
    if (!r || !patch_right(r->q, want, t))
        return;
    struct wall_time run_at = want->has_run_at ? want->run_at : r->job.run_at;
    struct record rec = {
        .kind = REC_JOB_PATCHED,
        .job_patched = {.seq = r->job.seq,
                        .state = r->job.state,
                        .priority = want->has_priority ? want->priority : r->job.priority,
                        .run_at = run_at,
                        .at = u->now,
                        .generation = r->q->generation,
                        .has_payload = want->has_payload,
                        .payload_kind = want->has_payload ? want->payload_kind : 0,
                        .payload = want->has_payload ? want->payload : (struct span){NULL, 0}},
    };
    if (want->has_run_at)
        rec.job_patched.state = run_at.ms > u->now.ms ? STATE_SCHEDULED : STATE_READY;
    unit_row_take(u, r, &rec);
    changed(t, r);
    t->reply.run_at = r->job.run_at;
}

void work_remove(struct unit *u, struct turn *t)
{
    struct row *r = row_for(u, t->op->job.job, t->op->job.states, MOVE_REMOVE, t);
    if (!r)
        return;
    unit_row_remove(u, r);
    unit_reply_relaxed(t, r->q);
    t->reply.state = STATE_NONE;
}

void work_dispatched(struct unit *u, struct turn *t)
{
    struct row *r = unit_find(u, t->op->job.job);
    if (!u->s->config.dispatches)
        unit_refuse(t, OUT_INVALID, "this store dispatches no jobs");
    if (!u->s->config.dispatches || !r || !(r->job.flags & JOB_PENDING))
        return;
    r->job.flags &= (uint8_t)~JOB_PENDING;
    r->changed = true;
    u->records++;
}

/* --- notes --- */

static bool note_right(struct unit *u, const struct op_note *want, struct turn *t)
{
    struct err_note note;
    if ((want->has_label && validate_text("label", want->label, LIMIT_LABEL_BYTES, &note) != 0) ||
        (want->has_attributes &&
         validate_text("attributes", want->attributes, LIMIT_ATTRIBUTES_BYTES, &note) != 0))
        return unit_refuse_note(u, t, &note);
    if (!(want->has_label || want->has_attributes || want->has_result || want->has_error))
        return unit_refuse(t, OUT_INVALID,
                           "nothing to note: give a label, attributes, result or error");
    if (want->has_error && want->error_kind > ERROR_BUSINESS)
        return unit_refuse(t, OUT_INVALID, "the kind of an error is app (0) or business (1)");
    if (want->has_result && want->result_kind == PAYLOAD_NONE)
        return unit_refuse(t, OUT_INVALID, "a result must have a kind");
    return !want->has_result ||
           unit_body_right(t, want->result_kind, want->result, LIMIT_PAYLOAD_BYTES);
}

static void note_take(const struct op_note *want, struct row *r)
{
    if (want->has_label)
        r->extra.label = want->label;
    if (want->has_attributes)
        r->extra.attributes = want->attributes;
    if (want->has_label || want->has_attributes) {
        r->set_note = r->changed = true;
        r->job.flags |= JOB_HAS_EXTRA;
    }
    if (want->has_result) {
        r->result_kind = want->result_kind;
        r->result = want->result;
        r->set_result = true;
    }
    if (want->has_error) {
        r->error_kind = want->error_kind;
        r->error = validate_cut(want->error, LIMIT_ERROR_BYTES);
        r->set_error = true;
    }
}

void work_note(struct unit *u, struct turn *t)
{
    const struct op_note *want = &t->op->note;
    struct row *r = unit_find(u, want->job);
    if (!r) {
        unit_refuse(t, OUT_NOT_FOUND, NULL);
        return;
    }
    t->reply.queue = r->q->name;
    unit_reply_row(t, r);
    if (!note_right(u, want, t))
        return;
    if (want->token.counter &&
        (r->job.state != STATE_RUNNING || !token_equal(r->token, want->token))) {
        unit_refuse(t, OUT_LEASE_LOST, NULL);
        return;
    }
    note_take(want, r);
    u->records++;
    unit_reply_relaxed(t, r->q);
}
