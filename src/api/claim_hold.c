/* SPDX-License-Identifier: Apache-2.0 */
#include "api/claim_hold.h"

static void give_back(struct claim_hold *h)
{
    if (h->held.seq)
        broker_give_back(h->broker, &h->held, 1);
    h->held.seq = 0;
}

static void client_closed_cb(void *ctx)
{
    struct claim_hold *h = ctx;
    if (!h->parked)
        return;
    broker_claim_cancel(h->broker, h->parked);
    h->parked = NULL;
    http_answer(h->x, 204, NULL);
}

static void sent_cb(void *ctx, bool whole)
{
    if (!whole)
        give_back(ctx);
}

void claim_hold_begin(struct claim_hold *h, const struct op_claim *want,
                      void (*fn)(void *ctx, const struct reply *reply), void *ctx)
{
    int err = broker_claim(h->broker, want, h->wait_ms, fn, ctx, &h->parked);
    if (err < 0) {
        answer_error(h->x, err);
        return;
    }
    http_watch(h->x, client_closed_cb, sent_cb, h);
    if (h->wait_ms > 0)
        http_park(h->x);
}

void claim_hold_refuse(struct claim_hold *h, const struct reply *r,
                       const struct problem_terms *terms)
{
    struct problem p;
    problem_of_reply(&p, http_request(h->x)->arena, r, broker_draining(h->broker));
    p.terms = terms;
    problem_answer(h->x, &p);
}

void claim_hold_job(struct claim_hold *h, const struct job_view *v)
{
    h->held = (struct broker_held){v->job.seq, v->token};
}

void claim_hold_answer(struct claim_hold *h, struct json_writer *w)
{
    int err = answer_close(h->x, w);
    if (err == 0) {
        http_answer(h->x, 200, JSON_TYPE);
        return;
    }
    give_back(h);
    answer_error(h->x, err);
}
