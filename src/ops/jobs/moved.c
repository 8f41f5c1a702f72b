/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/jobs/moved.h"

#include "core/jobs/job_error.h"
#include "core/jobs/progress.h"
#include "core/jobs/state.h"
#include "core/jobs/steps.h"
#include "core/limits.h"
#include "core/validate.h"

#define NOTED_BYTES 64   /* of a record with result and error, less their texts */
#define ATTEMPT_BYTES 80 /* of a record of an attempt, less its texts */

static int wrong(struct err_note *note, const char *what)
{
    return err_note_set(note, -ERR_INVALID, "%s", what);
}

static bool wall_right(struct wall_time t)
{
    return t.ms >= 0 && t.ms <= LIMIT_WALL_MS;
}

/* Reports of workers are kept as they were where the job came from. */
static int error_check(uint8_t kind, struct span error, struct err_note *note)
{
    if (kind > ERROR_BUSINESS)
        return wrong(note, "error_kind must be app or business");
    return error.len <= JOB_ERROR_PACKED_MAX
               ? 0
               : wrong(note, "error, its class and its stack are too long");
}

static int attempt_check(const struct attempt_view *a, struct err_note *note)
{
    if (a->number == 0 || a->outcome == ATTEMPT_RUNNING || a->outcome >= ATTEMPT_OUTCOME_COUNT)
        return wrong(note, "an attempt must have a number and must have ended");
    if (!wall_right(a->started_at) || !wall_right(a->ended_at))
        return wrong(note, "the times of an attempt must be before the year 10000");
    int err = error_check(a->error_kind, a->error, note);
    return err ? err : validate_text("worker", a->worker, LIMIT_WORKER_BYTES, note);
}

static int attempts_check(const struct job_moved *m, struct err_note *note)
{
    int err = 0;
    if (m->attempt_count > LIMIT_ATTEMPTS_KEPT)
        return wrong(note, "a job keeps no more than its newest 20 attempts");
    for (uint32_t i = 0; i < m->attempt_count && !err; i++)
        err = attempt_check(&m->attempts[i], note);
    return err;
}

static int past_check(const struct job_past *past, struct err_note *note)
{
    if (!move_allowed(MOVE_IMPORT, STATE_NONE, past->state))
        return wrong(note, "state must be scheduled, ready, done, dead or cancelled");
    if (!reason_fits((enum job_state)past->state, (enum job_reason)past->reason))
        return err_note_set(note, -ERR_INVALID, "reason must be one for which a job can be %s",
                            state_name((enum job_state)past->state));
    int err = error_check(past->error_kind, past->error, note);
    if (err == 0)
        err = reports_check(past->progress, past->log, note);
    return err ? err : steps_check(past->steps, note);
}

int moved_check(const struct op_enqueue *want, struct err_note *note)
{
    const struct job_moved *m = want->moved;
    if (!want->past)
        return wrong(note, "a job that is moved must have its history");
    if (m->seq > LIMIT_SEQ)
        return wrong(note, "the id's sequence must be 1 to 2^53 - 1");
    if (!wall_right(m->since))
        return wrong(note, "since must be a time before the year 10000");
    if (m->result_kind > PAYLOAD_BYTES || m->result.len > LIMIT_PAYLOAD_BYTES ||
        (m->result_kind == PAYLOAD_NONE && m->result.len > 0))
        return wrong(note, "the result must be JSON or bytes, and at most 64 MiB");
    int err = past_check(want->past, note);
    return err ? err : attempts_check(m, note);
}

size_t moved_bytes(const struct job_moved *m)
{
    size_t bytes = NOTED_BYTES + m->result.len;
    for (uint32_t i = 0; i < m->attempt_count; i++)
        bytes += ATTEMPT_BYTES + m->attempts[i].worker.len + m->attempts[i].error.len;
    return bytes;
}
