/* SPDX-License-Identifier: Apache-2.0 */
/* Results of steps, which the holder of a lease stores and later claims of the job contain. The
 * step of a name replaces the one that was stored under this name before, so a repeated request has
 * no further effect and the same reply. */
#include "core/jobs/steps.h"

#include "base/json/json.h"
#include "ops/jobs/held.h"
#include "ops/replies.h"

static bool step_valid(struct ops *o, const struct op_lease *want, struct reply *r)
{
    struct err_note note;
    if (step_name_check(want->step, &note) != 0)
        return reply_invalid(o, r, &note);
    if (want->result.len > LIMIT_STEP_RESULT_BYTES)
        return reply_refuse(r, OUT_INVALID, "the result of a step must have at most 65536 bytes");
    return (want->result_kind == PAYLOAD_JSON && json_check(want->result, NULL, NULL) == 0) ||
           reply_refuse(r, OUT_INVALID, "the result of a step must be JSON");
}

static bool step_room(struct ops *o, const struct held *h, const struct op_lease *want,
                      struct reply *r)
{
    struct steps_use others = steps_use_without(o->store->steps(o, h->j), o->hash_key, want->step);
    if (others.count >= LIMIT_STEPS)
        return reply_refuse(r, OUT_STEPS_FULL, "the job has 1000 steps, which is the limit");
    if (others.bytes + want->step.len + want->result.len > LIMIT_STEPS_BYTES)
        return reply_refuse(r, OUT_STEPS_FULL,
                            "with this result, the steps of the job would have more than 1 MiB");
    return true;
}

void ops_step(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_lease *want = &op->lease;
    struct held h;
    if (!held_job(o, op, &h, r) || !step_valid(o, want, r) || !step_room(o, &h, want, r))
        return;
    r->lease.cancel_by = cancel_deadline(&h.lease.limits);
    struct step step = {want->step, want->result};
    buf_clear(&o->scratch);
    struct span kept = {NULL, 0};
    if (steps_append(&o->scratch, &step) == 0)
        kept = text_keep(o, buf_span(&o->scratch));
    if (!kept.at) {
        reply_nomem(o, r);
        return;
    }
    struct record rec = {.kind = REC_JOB_STEPS, .job_report = {.seq = h.j->seq, .text = kept}};
    held_commit(o, &h, &rec, 1, r);
}
