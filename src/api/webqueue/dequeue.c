/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/web/queue/dequeue: the next pending job of a type as a JobDict with its token, or null.
 */
#include "api/claim_hold.h"
#include "api/json_members.h"
#include "api/webqueue/webqueue_impl.h"
#include "core/limits.h"

#define WAIT_MS_MAX 60000

struct dequeue_in {
    struct span type, worker;
    int64_t wait_ms;
};

#define AT(member) offsetof(struct dequeue_in, member)
static const struct field rows[] = {
    {"queue_type", FIELD_TEXT, AT(type), 0, WEBQUEUE_TYPE_BYTES_MAX, NULL, 0},
    {"worker", FIELD_TEXT, AT(worker), 0, LIMIT_WORKER_BYTES, NULL, 0},
    {"wait_ms", FIELD_INT, AT(wait_ms), 0, WAIT_MS_MAX, NULL, 0},
};

static void answer_job(struct claim_hold *h, const struct reply *r)
{
    char token[TOKEN_TEXT_BYTES];
    struct json_writer w;
    answer_begin(h->x, &w);
    if (r->job_count == 0) {
        json_write_null(&w);
    } else {
        claim_hold_job(h, &r->jobs[0]);
        token_text(r->jobs[0].token, token);
        json_write_object(&w);
        job_dict_members(&w, &r->jobs[0], http_request(h->x)->arena);
        write_text(&w, "token", token);
        json_write_object_end(&w);
    }
    claim_hold_answer(h, &w);
}

static void dequeue_reply(void *ctx, const struct reply *r)
{
    struct claim_hold *h = ctx;
    struct problem p;
    h->parked = NULL;
    if (r->outcome == OUT_OK) {
        answer_job(h, r);
        return;
    }
    web_problem(&p, http_request(h->x)->arena, r, broker_draining(h->broker));
    problem_answer(h->x, &p);
}

static void dequeue_run(struct webqueue *w, struct http_exchange *x, const struct web_type *t,
                        const struct dequeue_in *in)
{
    struct claim_hold *h = arena_array(http_request(x)->arena, 1, sizeof *h);
    struct op_claim want = {
        .queues = &t->queue, .queue_count = 1, .count = 1, .worker = in->worker, .want_body = true};
    if (!h) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    *h = (struct claim_hold){.broker = w->broker, .x = x, .wait_ms = (uint32_t)in->wait_ms};
    claim_hold_begin(h, &want, dequeue_reply, h);
}

void web_dequeue_handle(void *ctx, struct http_exchange *x)
{
    struct webqueue *w = ctx;
    struct dequeue_in in = {0};
    struct problem p;
    struct field_reader r = reader_of(w->broker, x, FIELDS(rows), &in, &p);
    struct web_type *t = NULL;
    if (!query_none(w->broker, x))
        return;
    if (fields_read_optional(&r, http_request(x)->body) < 0 ||
        !(t = type_named(w, r.arena, in.type, &p))) {
        problem_answer(x, &p);
        return;
    }
    type_check(t);
    dequeue_run(w, x, t, &in);
}
