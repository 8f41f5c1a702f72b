/* SPDX-License-Identifier: Apache-2.0 */
#include "api/owned_job.h"

static void answer_absent(const struct owned_jobs *kind, struct http_exchange *x)
{
    struct problem p = {.code = PROBLEM_NOT_FOUND, .terms = kind->terms, .detail = kind->absent};
    problem_answer(x, &p);
}

bool owned_job_found(const struct owned_jobs *kind, struct http_exchange *x, const struct reply *r)
{
    if (r->job_count == 1 && span_equal(r->jobs[0].owner, kind->owner))
        return true;
    answer_absent(kind, x);
    return false;
}

bool owned_job_path(const struct owned_jobs *kind, struct http_exchange *x, struct job_ref *ret)
{
    struct problem p = {
        .code = PROBLEM_INVALID_ID, .terms = kind->terms, .field = "id", .detail = kind->bad_id};
    int err = id_parse(http_request(x)->params[0], ret);
    if (err == -ERR_RANGE) /* a UUID, but not of this server */
        answer_absent(kind, x);
    else if (err < 0)
        problem_answer(x, &p);
    return err == 0;
}
