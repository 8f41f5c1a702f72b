/* SPDX-License-Identifier: Apache-2.0 */
/* A job that a request has claimed is remembered until the whole answer has been sent. If the
 * answer cannot be built, or if the connection breaks first, the job is released uncounted. Lives
 * in the request's arena. */
#pragma once

#include "api/call.h"

struct claim_hold {
    struct broker *broker;
    struct http_exchange *x;
    uint32_t wait_ms;            /* how long the claim may wait for a job; 0 = not at all */
    struct broker_claim *parked; /* NULL after it was answered or cancelled */
    struct broker_held held;     /* seq 0 = none */
};
/* Submits the claim; fn(ctx) gets its reply and must clear h->parked. If the claim cannot be
 * submitted, the request is answered with the problem. */
void claim_hold_begin(struct claim_hold *h, const struct op_claim *want,
                      void (*fn)(void *ctx, const struct reply *reply), void *ctx);
/* Answers with the problem of a refusal, in the terms of the API. */
void claim_hold_refuse(struct claim_hold *h, const struct reply *r,
                       const struct problem_terms *terms);
/* The request holds this job from now on. */
void claim_hold_job(struct claim_hold *h, const struct job_view *v);
/* Ends the body and sends it with 200; releases the job if the body could not be built. */
void claim_hold_answer(struct claim_hold *h, struct json_writer *w);
