/* SPDX-License-Identifier: Apache-2.0 */
/* A job that a request has claimed is remembered until the answer has left: if the answer could not
 * be built, or did not leave whole, the job goes back uncounted. Lives in the request's arena. */
#pragma once

#include "api/call.h"

struct claim_hold {
    struct broker *broker;
    struct http_exchange *x;
    struct broker_claim *parked; /* NULL once it was answered or cancelled */
    struct broker_held held;     /* seq 0 = none */
};
/* Submits the claim, which does not wait; fn(ctx) gets its reply and must clear h->parked. What
 * cannot be submitted is answered. */
void claim_hold_begin(struct claim_hold *h, const struct op_claim *want,
                      void (*fn)(void *ctx, const struct reply *reply), void *ctx);
/* From now on the request holds this job. */
void claim_hold_job(struct claim_hold *h, const struct job_view *v);
/* Ends the body and sends it with 200; gives the job back when it could not be built. */
void claim_hold_answer(struct claim_hold *h, struct json_writer *w);
