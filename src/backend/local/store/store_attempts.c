/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/store/store_attempts.h"

static uint32_t attempt_number(const struct job *j)
{
    return (uint32_t)j->failures + j->crashes + 1;
}

bool attempt_ends(const struct job *before, const struct record *r, struct attempt_end *ret)
{
    *ret = (struct attempt_end){.number = attempt_number(before)};
    /* While it was done, its row described the last attempt. */
    if (before->state == STATE_DONE && r->kind == REC_JOB_CANCELLED &&
        r->job_cancelled.reason == REASON_DISCARDED) {
        ret->outcome = ATTEMPT_DONE;
        ret->at = before->since;
        return true;
    }
    if (before->state != STATE_RUNNING)
        return false;
    switch ((int)r->kind) {
    case REC_JOB_BACK:
        ret->outcome = attempt_of_back(r->job_back.reason, r->job_back.error);
        ret->at = r->job_back.at;
        ret->error_kind = r->job_back.error_kind;
        ret->error = r->job_back.error;
        return true;
    case REC_JOB_DEAD:
        ret->outcome = attempt_of_reason[r->job_dead.reason];
        ret->at = r->job_dead.at;
        ret->error_kind = r->job_dead.error_kind;
        ret->error = r->job_dead.error;
        return true;
    case REC_JOB_CANCELLED:
        ret->outcome = attempt_of_reason[r->job_cancelled.reason];
        ret->at = r->job_cancelled.at;
        return true;
    default:
        return false;
    }
}

bool attempt_import(const struct job *j, const struct rec_job_attempt *r, struct attempt_end *ret,
                    struct wall_time *ret_started_at)
{
    *ret = (struct attempt_end){.outcome = r->outcome,
                                .error_kind = r->error_kind,
                                .number = r->number,
                                .at = r->ended_at,
                                .error = r->error};
    *ret_started_at = r->started_at.ms < j->since.ms ? r->started_at : j->since;
    return j->state == STATE_DONE && r->outcome == ATTEMPT_DONE;
}

bool attempt_of_job(const struct job *j, struct wall_time started_at, struct attempt_view *ret)
{
    bool done = j->state == STATE_DONE;
    if ((j->state != STATE_RUNNING && !done) || started_at.ms == 0)
        return false;
    ret->number = attempt_number(j);
    ret->started_at = started_at;
    ret->ended_at = done ? j->since : (struct wall_time){0};
    ret->outcome = done ? ATTEMPT_DONE : ATTEMPT_RUNNING;
    return true;
}
