/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a job: POST /v1/jobs/{id}/steps/{name}, and the member "steps" of a job. */
#include "api/json_members.h"
#include "api/v1/jobs/reports.h"
#include "api/v1/v1_impl.h"

struct step_in {
    struct job_token token;
    struct span result;
};

#define AT(member) offsetof(struct step_in, member)
static const struct field step_rows[] = {
    {"token", FIELD_TOKEN, AT(token), 0, 0, NULL, FIELD_REQUIRED},
    {"result", FIELD_RAW, AT(result), 0, 0, NULL, FIELD_REQUIRED},
};

static bool result_right(struct http_exchange *x, struct span result)
{
    struct problem p;
    if (result.len <= LIMIT_STEP_RESULT_BYTES)
        return true;
    problem_set(&p, http_request(x)->arena, PROBLEM_STEPS_FULL, "result",
                "result must have at most %d bytes of JSON, not %zu", LIMIT_STEP_RESULT_BYTES,
                result.len);
    problem_answer(x, &p);
    return false;
}

static bool name_right(struct http_exchange *x, struct span name)
{
    struct problem p;
    struct err_note note;
    if (step_name_check(name, &note) == 0)
        return true;
    problem_set(&p, http_request(x)->arena, PROBLEM_INVALID_FIELD, "name", "%s", note.text);
    problem_answer(x, &p);
    return false;
}

void step_handle(void *ctx, struct http_exchange *x)
{
    struct step_in in = {.result = {NULL, 0}};
    struct span name = http_request(x)->params[1];
    if (!name_right(x, name))
        return;
    struct call *c = report_call(ctx, x, OP_STEP, FIELDS(step_rows), &in);
    if (!c || !result_right(x, in.result))
        return;
    c->op.lease.token = in.token;
    c->op.lease.step = name;
    c->op.lease.result_kind = PAYLOAD_JSON;
    c->op.lease.result = in.result;
    call_submit(c);
}

void steps_write(struct json_writer *w, struct span list)
{
    struct step s;
    if (list.len == 0)
        return;
    json_write_key(w, "steps");
    json_write_object(w);
    while (steps_next(&list, &s)) {
        json_write_key_span(w, s.name);
        json_write_raw(w, s.result);
    }
    json_write_object_end(w);
}

/* ---- imports ---- */

static int step_read(void *ctx, struct json_reader *r, struct span name, struct json_token value)
{
    struct step s = {.name = name};
    int err = json_skip(r, value, &s.result);
    return err < 0 ? err : steps_append(ctx, &s);
}

int steps_read(struct arena *arena, struct span text, struct span *ret, struct problem *p)
{
    struct json_reader r;
    struct buf list;
    struct err_note note = {"steps must be an object without a name given twice"};
    if (text.len == 0 || span_equal(text, SPAN_LITERAL("null")))
        return 0;
    buf_init(&list);
    json_open(&r, text);
    int err = json_object(&r, arena, step_read, &list);
    if (err == 0)
        err = steps_check(buf_span(&list), &note);
    *ret = buf_span(&list);
    if (err == 0 && !arena_keep(arena, ret))
        err = -ERR_NOMEM;
    buf_done(&list);
    if (err == -ERR_NOMEM)
        problem_of_error(p, err);
    else if (err < 0)
        problem_set(p, arena, PROBLEM_INVALID_FIELD, "steps", "%s", note.text);
    return err < 0 ? -ERR_INVALID : 0;
}
