/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/queues/{queue}/claim and POST /v1/claim.
 *
 * A claim that waits is parked in the broker. The claimed jobs are remembered until the whole
 * answer has been sent. If it cannot be built, or if the connection breaks first, the jobs are
 * released uncounted. */
#include <stdio.h>

#include "api/json_members.h"
#include "api/v1/jobs/job_view.h"
#include "api/v1/v1_impl.h"
#include "core/limits.h"
#include "core/validate.h"

#define WAIT_MS_MAX 60000

struct claim_in {
    struct texts_in queues;
    int64_t count, wait_ms, lease_ms;
    struct span worker;
};

#define AT(member) offsetof(struct claim_in, member)
#define CLAIM_ROWS                                                                                 \
    {"count", FIELD_INT, AT(count), 1, LIMIT_BATCH, NULL, 0},                                      \
        {"wait_ms", FIELD_INT, AT(wait_ms), 0, WAIT_MS_MAX, NULL, 0},                              \
        {"lease_ms", FIELD_INT, AT(lease_ms), LIMIT_LEASE_MS_MIN, LIMIT_LEASE_MS, NULL, 0},        \
    {                                                                                              \
        "worker", FIELD_TEXT, AT(worker), 0, LIMIT_WORKER_BYTES, NULL, 0                           \
    }
static const struct field one_queue_rows[] = {CLAIM_ROWS};
static const struct field any_queue_rows[] = {
    CLAIM_ROWS,
    {"queues", FIELD_TEXTS, AT(queues), 0, LIMIT_QUEUES_PER_REQUEST, NULL, FIELD_REQUIRED},
};

struct claim {
    struct native *n;
    struct http_exchange *x;
    struct broker_claim *parked; /* NULL after it was answered or cancelled */
    struct broker_held *held;    /* the claimed jobs; in the arena */
    size_t held_count;
    bool raw; /* the body is the payload alone */
};

/* ---- the answer ---- */

static void give_back(struct claim *c)
{
    if (c->held_count > 0)
        broker_give_back(c->n->broker, c->held, c->held_count);
    c->held_count = 0;
}

/* false: no memory; then no job may be sent. */
static bool hold(struct claim *c, const struct reply *r)
{
    c->held_count = 0;
    if (r->job_count == 0)
        return true;
    c->held = arena_array(http_request(c->x)->arena, r->job_count, sizeof *c->held);
    if (!c->held)
        return false;
    for (uint32_t i = 0; i < r->job_count; i++)
        c->held[i] = (struct broker_held){r->jobs[i].job.seq, r->jobs[i].token};
    c->held_count = r->job_count;
    return true;
}

/* Without memory for the list, the jobs are released one by one. */
static void refuse_jobs(struct claim *c, const struct reply *r)
{
    for (uint32_t i = 0; i < r->job_count; i++) {
        struct broker_held one = {r->jobs[i].job.seq, r->jobs[i].token};
        broker_give_back(c->n->broker, &one, 1);
    }
    answer_error(c->x, -ERR_NOMEM);
}

static void answer_list(struct claim *c, const struct reply *r)
{
    struct json_writer w;
    struct wall_time now = broker_now(c->n->broker).wall;
    answer_begin(c->x, &w);
    json_write_object(&w);
    json_write_key(&w, "jobs");
    json_write_array(&w);
    for (uint32_t i = 0; i < r->job_count; i++)
        job_claim_write(&w, &r->jobs[i], now);
    json_write_array_end(&w);
    json_write_object_end(&w);
    int err = answer_close(c->x, &w);
    if (err < 0) {
        give_back(c);
        answer_error(c->x, err);
        return;
    }
    http_answer(c->x, 200, JSON_TYPE);
}

/* The name of a queue may have bytes that a header value must not have; they are
 * percent-encoded. */
static void header_queue(struct http_exchange *x, struct span name)
{
    static const char hex[] = "0123456789ABCDEF";
    char text[LIMIT_QUEUE_NAME_BYTES * 3];
    size_t len = 0;
    for (size_t i = 0; i < name.len && i < LIMIT_QUEUE_NAME_BYTES; i++) {
        unsigned char c = (unsigned char)name.at[i];
        if (c > 0x20 && c < 0x7f && c != '%') {
            text[len++] = (char)c;
        } else {
            text[len++] = '%';
            text[len++] = hex[c >> 4];
            text[len++] = hex[c & 15];
        }
    }
    http_answer_header(x, "Holdfast-Queue", span_of(text, len));
}

static void raw_headers(struct http_exchange *x, const struct job_view *v)
{
    char id[ID_ULID_BYTES], token[TOKEN_TEXT_BYTES], attempt[12];
    id_ulid(id_make(v->job.id_hi, v->job.seq), id);
    token_text(v->token, token);
    snprintf(attempt, sizeof attempt, "%u", job_attempts(&v->job));
    http_answer_header(x, "Holdfast-Id", span_text(id));
    http_answer_header(x, "Holdfast-Token", span_text(token));
    http_answer_header(x, "Holdfast-Attempt", span_text(attempt));
    header_queue(x, v->queue);
}

static void answer_raw(struct claim *c, const struct reply *r)
{
    if (r->job_count == 0) {
        http_answer(c->x, 204, NULL);
        return;
    }
    const struct job_view *v = &r->jobs[0];
    if (buf_append_span(http_answer_body(c->x), v->payload) < 0) {
        give_back(c);
        answer_error(c->x, -ERR_NOMEM);
        return;
    }
    raw_headers(c->x, v);
    http_answer(c->x, 200,
                v->job.payload_kind == PAYLOAD_JSON ? "application/json"
                                                    : "application/octet-stream");
}

static void claim_reply(void *ctx, const struct reply *r)
{
    struct claim *c = ctx;
    struct problem p;
    c->parked = NULL;
    if (r->outcome != OUT_OK) {
        problem_of_reply(&p, http_request(c->x)->arena, r, broker_draining(c->n->broker));
        problem_answer(c->x, &p);
    } else if (!hold(c, r)) {
        refuse_jobs(c, r);
    } else if (c->raw) {
        answer_raw(c, r);
    } else {
        answer_list(c, r);
    }
}

/* ---- the client ---- */

static void claim_closed(void *ctx)
{
    struct claim *c = ctx;
    if (!c->parked)
        return;
    broker_claim_cancel(c->n->broker, c->parked);
    c->parked = NULL;
    http_answer(c->x, 204, NULL);
}

static void claim_sent(void *ctx, bool whole)
{
    if (!whole)
        give_back(ctx);
}

/* ---- the request ---- */

static bool wants_raw(const struct http_request *r)
{
    return http_name_equal(http_request_header(r, "accept"), "application/octet-stream");
}

static int check_names(struct field_reader *r, const struct claim_in *in)
{
    struct err_note note;
    for (size_t i = 0; i < in->queues.count; i++) {
        if (validate_queue_name(in->queues.list[i], &note) == 0)
            continue;
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "queues", "%s", note.text);
        return -ERR_INVALID;
    }
    return 0;
}

static int check_raw(struct field_reader *r, const struct claim_in *in, bool raw)
{
    if (!raw || in->count == 1)
        return 0;
    problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "count",
                "count must be 1 if the reply is the payload alone "
                "(Accept: application/octet-stream)");
    return -ERR_INVALID;
}

static void claim_submit(struct claim *c, const struct claim_in *in)
{
    struct op_claim want = {
        .queues = in->queues.list,
        .queue_count = (uint32_t)in->queues.count,
        .count = (uint32_t)in->count,
        .lease_ms = (uint32_t)in->lease_ms,
        .worker = in->worker,
        .want_body = true,
    };
    if (in->count > 1)
        http_alone(c->x);
    int err = broker_claim(c->n->broker, &want, (uint32_t)in->wait_ms, claim_reply, c, &c->parked);
    if (err < 0) {
        answer_error(c->x, err);
        return;
    }
    http_watch(c->x, claim_closed, claim_sent, c);
    if (in->wait_ms > 0)
        http_park(c->x);
}

static void claim_run(struct native *n, struct http_exchange *x, struct fields table,
                      struct claim_in *in)
{
    const struct http_request *request = http_request(x);
    struct claim *c = arena_array(request->arena, 1, sizeof *c);
    struct problem p;
    struct field_reader r = reader_of(n->broker, x, table, in, &p);
    if (!c) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    *c = (struct claim){.n = n, .x = x, .raw = wants_raw(request)};
    if (fields_read_optional(&r, request->body) < 0 || check_names(&r, in) < 0 ||
        check_raw(&r, in, c->raw) < 0)
        problem_answer(x, &p);
    else
        claim_submit(c, in);
}

void claim_queue_handle(void *ctx, struct http_exchange *x)
{
    struct span name;
    if (!query_none(broker_of(ctx), x) || !path_queue(x, &name))
        return;
    struct span *queues = arena_copy(http_request(x)->arena, &name, sizeof name);
    if (!queues) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    struct claim_in in = {.queues = {queues, 1}, .count = 1};
    claim_run(ctx, x, FIELDS(one_queue_rows), &in);
}

void claim_any_handle(void *ctx, struct http_exchange *x)
{
    struct claim_in in = {.count = 1};
    if (query_none(broker_of(ctx), x))
        claim_run(ctx, x, FIELDS(any_queue_rows), &in);
}
