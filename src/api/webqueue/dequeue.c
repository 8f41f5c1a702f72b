/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/web/queue/dequeue: the next pending job of a type as a JobDict with its token, or null.
 *
 * What was handed out goes back uncounted when the answer did not leave whole. */
#include "api/webqueue/webqueue_impl.h"
#include "api/words.h"
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

struct dequeue {
    struct broker *broker;
    struct http_exchange *x;
    struct broker_claim *parked; /* NULL once it was answered or cancelled */
    struct broker_held held;     /* seq 0 = nothing */
};

static void give_back(struct dequeue *d)
{
    if (d->held.seq != 0)
        broker_give_back(d->broker, &d->held, 1);
    d->held.seq = 0;
}

static void answer_job(struct dequeue *d, const struct reply *r)
{
    char token[TOKEN_TEXT_BYTES];
    struct json_writer w;
    answer_begin(d->x, &w);
    if (r->job_count == 0) {
        json_write_null(&w);
    } else {
        d->held = (struct broker_held){r->jobs[0].job.seq, r->jobs[0].token};
        token_text(r->jobs[0].token, token);
        json_write_object(&w);
        job_dict_members(&w, &r->jobs[0], http_request(d->x)->arena);
        write_text(&w, "token", token);
        json_write_object_end(&w);
    }
    int err = answer_close(d->x, &w);
    if (err < 0) {
        give_back(d);
        answer_error(d->x, err);
        return;
    }
    http_answer(d->x, 200, JSON_TYPE);
}

static void dequeue_reply(void *ctx, const struct reply *r)
{
    struct dequeue *d = ctx;
    struct problem p;
    d->parked = NULL;
    if (r->outcome == OUT_OK) {
        answer_job(d, r);
        return;
    }
    web_problem(&p, http_request(d->x)->arena, r, broker_draining(d->broker));
    problem_answer(d->x, &p);
}

static void dequeue_gone(void *ctx)
{
    struct dequeue *d = ctx;
    if (!d->parked)
        return;
    broker_claim_cancel(d->broker, d->parked);
    d->parked = NULL;
    http_answer(d->x, 204, NULL);
}

static void dequeue_sent(void *ctx, bool whole)
{
    if (!whole)
        give_back(ctx);
}

static void dequeue_run(struct webqueue *w, struct http_exchange *x, const struct web_type *t,
                        const struct dequeue_in *in)
{
    struct dequeue *d = arena_array(http_request(x)->arena, 1, sizeof *d);
    struct op_claim want = {
        .queues = &t->queue, .queue_count = 1, .count = 1, .worker = in->worker, .want_body = true};
    if (!d) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    *d = (struct dequeue){.broker = w->broker, .x = x};
    int err = broker_claim(w->broker, &want, (uint32_t)in->wait_ms, dequeue_reply, d, &d->parked);
    if (err < 0) {
        answer_error(x, err);
        return;
    }
    http_watch(x, dequeue_gone, dequeue_sent, d);
    if (in->wait_ms > 0)
        http_park(x);
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
    type_look(t);
    dequeue_run(w, x, t, &in);
}
