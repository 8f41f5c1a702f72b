/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/jobs/{id}/why, and the list of its codes in the documentation. */
#include "ops/jobs/why.h"

#include "api/json_members.h"
#include "api/v1/v1_impl.h"
#include "api/v1/why_codes.h"

struct why_request {
    struct http_exchange *x;
    struct broker *broker;
    struct job_ref job;
};

static void write_reason(struct json_writer *w, const struct why_reason *r)
{
    json_write_object(w);
    write_text(w, "code", why_code_name(r->code));
    write_span(w, "detail", r->detail);
    write_time_if(w, "until", r->until);
    write_span_if(w, "by", r->by);
    if (r->counts) {
        write_uint(w, "count", r->count);
        write_bool(w, "exact", r->count_kind == COUNT_EXACT);
    }
    json_write_object_end(w);
}

static void write_job(struct json_writer *w, const struct why_request *q, const struct job_view *v)
{
    if (v) {
        write_id(w, "id", v->job.id_hi, v->job.seq);
        write_span(w, "queue", v->queue);
        write_text(w, "state", state_name((enum job_state)v->job.state));
        return;
    }
    write_span(w, "id", http_request(q->x)->params[0]);
    json_write_key(w, "state");
    json_write_null(w);
}

static void answered(void *ctx, const struct reply *refusal, const struct why_answer *answer)
{
    const struct why_request *q = ctx;
    struct json_writer w;
    struct problem p;
    if (refusal) {
        problem_of_reply(&p, http_request(q->x)->arena, refusal, broker_draining(q->broker));
        problem_answer(q->x, &p);
        return;
    }
    answer_begin(q->x, &w);
    json_write_object(&w);
    write_job(&w, q, answer->job);
    json_write_key(&w, "reasons");
    json_write_array(&w);
    for (uint32_t i = 0; i < answer->count; i++)
        write_reason(&w, &answer->reasons[i]);
    json_write_array_end(&w);
    write_time_if(&w, "expected_start", answer->expected_start);
    json_write_object_end(&w);
    answer_end(q->x, &w, 200);
}

void job_why_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct why_request *q = arena_array(http_request(x)->arena, 1, sizeof *q);
    if (!q) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    *q = (struct why_request){.x = x, .broker = n->broker};
    if (!query_none(n->broker, x) || !path_job(x, &q->job))
        return;
    int err = broker_why(n->broker, q->job, answered, q);
    if (err < 0)
        answer_error(x, err);
}

void why_codes_reference(FILE *out)
{
    for (unsigned i = 0; i < WHY_CODE_COUNT; i++)
        fprintf(out, "| `%s` | %s |\n", why_code_name((enum why_code)i),
                why_code_meaning((enum why_code)i));
}
