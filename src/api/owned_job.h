/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of an API that shows only its own, by their UUID: the items of the orchestrator, the
 * tasks. */
#pragma once

#include "api/call.h"

struct owned_jobs {
    struct span owner; /* of their queues */
    const struct problem_terms *terms;
    const char *absent; /* the detail of the 404 */
    const char *bad_id; /* the detail of the 400 */
};
/* Whether the reply of a read has the job, and it belongs to the API. false: 404 was answered. */
bool owned_job_found(const struct owned_jobs *kind, struct http_exchange *x, const struct reply *r);
/* Reads the id in the path. false: the problem was answered. */
bool owned_job_path(const struct owned_jobs *kind, struct http_exchange *x, struct job_ref *ret);
