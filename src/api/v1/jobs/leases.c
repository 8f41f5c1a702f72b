/* SPDX-License-Identifier: Apache-2.0 */
/* ack, fail, extend and release: for one job by its path, or for many with an outcome each. */
#include "api/json_members.h"
#include "api/v1/jobs/batch.h"
#include "api/v1/jobs/job_view.h"
#include "api/v1/kv/commit.h"
#include "core/limits.h"

struct lease_in {
    struct job_ref job;
    struct job_token token;
    struct span result;
    struct span error, error_type, stack;
    uint8_t error_kind;
    bool retry;
    int64_t delay_ms, lease_ms;
    struct wall_time run_at;
    struct commit_in handoff;
};

static const char *const error_kinds[] = {"app", "business", NULL};

#define AT(member) offsetof(struct lease_in, member)
/* Each table ends with the id, which is omitted if the path contains it. */
#define ID_ROW                                                                                     \
    {                                                                                              \
        "id", FIELD_JOB, AT(job), 0, 0, NULL, FIELD_REQUIRED                                       \
    }
#define TOKEN_ROW                                                                                  \
    {                                                                                              \
        "token", FIELD_TOKEN, AT(token), 0, 0, NULL, FIELD_REQUIRED                                \
    }
#define WHEN_ROWS                                                                                  \
    {"delay_ms", FIELD_INT, AT(delay_ms), 0, LIMIT_WALL_MS, NULL, 0},                              \
    {                                                                                              \
        "run_at", FIELD_TIME, AT(run_at), 0, 0, NULL, 0                                            \
    }
static const struct field ack_rows[] = {
    TOKEN_ROW,
    {"result", FIELD_RAW, AT(result), 0, 0, NULL, 0},
    HANDOFF_ROWS(AT(handoff), FIELD_EMPTY),
    ID_ROW,
};
static const struct field fail_rows[] = {
    TOKEN_ROW,
    {"error", FIELD_CUT, AT(error), 0, LIMIT_ERROR_BYTES, NULL, 0},
    {"error_type", FIELD_CUT, AT(error_type), 0, LIMIT_ERROR_TYPE_BYTES, NULL, 0},
    {"stack", FIELD_CUT, AT(stack), 0, LIMIT_STACK_BYTES, NULL, 0},
    {"error_kind", FIELD_ENUM, AT(error_kind), ERROR_APP, 0, error_kinds, 0},
    {"result", FIELD_RAW, AT(result), 0, 0, NULL, 0},
    {"retry", FIELD_BOOL, AT(retry), 0, 0, NULL, 0},
    WHEN_ROWS,
    ID_ROW,
};
static const struct field extend_rows[] = {
    TOKEN_ROW,
    {"lease_ms", FIELD_INT, AT(lease_ms), LIMIT_LEASE_MS_MIN, LIMIT_LEASE_MS, NULL, 0},
    ID_ROW,
};
static const struct field release_rows[] = {
    TOKEN_ROW,
    {"reason", FIELD_CUT, AT(error), 0, LIMIT_ERROR_BYTES, NULL, 0},
    {"error_type", FIELD_CUT, AT(error_type), 0, LIMIT_ERROR_TYPE_BYTES, NULL, 0},
    WHEN_ROWS,
    ID_ROW,
};

/* One of the four calls. */
struct lease_verb {
    enum op_kind kind;
    struct fields table;
    bool when; /* has delay_ms and run_at */
};
#define VERB(kind, rows, when)                                                                     \
    {                                                                                              \
        kind, {rows, sizeof(rows) / sizeof *(rows)}, when                                          \
    }
static const struct lease_verb verb_ack = VERB(OP_ACK, ack_rows, false);
static const struct lease_verb verb_fail = VERB(OP_FAIL, fail_rows, true);
static const struct lease_verb verb_extend = VERB(OP_EXTEND, extend_rows, false);
static const struct lease_verb verb_release = VERB(OP_RELEASE, release_rows, true);

/* ---- the answer ---- */

static void write_lease(const struct batch *b, struct json_writer *w, const struct batch_item *item)
{
    write_job_name(w, item->id_hi, item->seq);
    write_text(w, "state", state_name(item->state));
    if (item->state == STATE_SCHEDULED)
        write_time(w, "run_at", item->run_at);
    if (item->lease.left_ms > 0) {
        struct wall_time now = broker_now(b->n->broker).wall;
        write_time(w, "lease_until", (struct wall_time){now.ms + item->lease.left_ms});
    }
    cancel_write(w, &item->lease);
    if (item->repeat)
        write_bool(w, "repeat", true);
    if (item->handoff)
        commit_write(w, item->handoff);
}

/* ---- the request ---- */

static void take_lease(const struct lease_verb *verb, const struct field_reader *r,
                       const struct lease_in *in, struct op_lease *op)
{
    *op = (struct op_lease){
        .job = in->job,
        .token = in->token,
        .error = in->error,
        .error_type = in->error_type,
        .stack = in->stack,
        .error_kind = in->error_kind,
        .no_retry = !in->retry,
        .has_delay = verb->when && (fields_has(r, "delay_ms") || fields_has(r, "run_at")),
        .delay_ms = in->delay_ms,
        .run_at = in->run_at,
        .lease_ms = (uint32_t)in->lease_ms,
    };
    if (in->result.len > 0) {
        op->result_kind = PAYLOAD_JSON;
        op->result = in->result;
    }
}

/* The hand-off of an ack, if it has one. */
static int take_handoff(struct batch *b, const struct field_reader *r, const struct lease_in *in,
                        struct op_lease *op, struct problem *p)
{
    if (!fields_has(r, "enqueues") && !fields_has(r, "sets") && !fields_has(r, "deletes"))
        return 0;
    struct op_kv_commit *commit = arena_array(b->arena, 1, sizeof *commit);
    op->handoff = commit;
    if (commit)
        return commit_read(b->n, b->x, &in->handoff, commit, p);
    problem_of_error(p, -ERR_NOMEM);
    return -ERR_INVALID;
}

static void add_lease(struct batch *b, const struct lease_verb *verb, size_t index,
                      struct span text, const struct job_ref *path)
{
    struct lease_in in = {.retry = true};
    struct problem p;
    struct fields table = verb->table;
    struct op_lease *op = &batch_op(b, index, verb->kind)->lease;
    if (path) {
        in.job = *path;
        table.count--;
    }
    struct field_reader r = reader_of(b->n->broker, b->x, table, &in, &p);
    int err = fields_read_optional(&r, text);
    if (err == 0 && verb->when)
        err = fields_exclude(&r, "delay_ms", "run_at");
    if (err == 0) {
        take_lease(verb, &r, &in, op);
        err = verb->kind == OP_ACK ? take_handoff(b, &r, &in, op, &p) : 0;
    }
    if (err < 0)
        batch_refuse(b, index, &p);
}

static void lease_one(struct native *n, struct http_exchange *x, const struct lease_verb *verb)
{
    struct job_ref job;
    if (!query_none(n->broker, x) || !path_job(x, &job))
        return;
    struct batch *b = batch_new(n, x, 1, false, write_lease);
    if (!b)
        return;
    add_lease(b, verb, 0, http_request(x)->body, &job);
    batch_submit(b);
}

static const struct field many_rows[] = {
    {"jobs", FIELD_OBJECTS, 0, 0, LIMIT_BATCH, NULL, FIELD_REQUIRED},
};

static void lease_many(struct native *n, struct http_exchange *x, const struct lease_verb *verb)
{
    struct texts_in jobs = {0};
    struct problem p;
    struct field_reader r = reader_of(n->broker, x, FIELDS(many_rows), &jobs, &p);
    if (!query_none(n->broker, x))
        return;
    if (!body_read(&r, x))
        return;
    struct batch *b = batch_new(n, x, jobs.count, true, write_lease);
    if (!b)
        return;
    for (size_t i = 0; i < jobs.count; i++)
        add_lease(b, verb, i, jobs.list[i], NULL);
    batch_submit(b);
}

void ack_handle(void *ctx, struct http_exchange *x)
{
    lease_one(ctx, x, &verb_ack);
}

void fail_handle(void *ctx, struct http_exchange *x)
{
    lease_one(ctx, x, &verb_fail);
}

void extend_handle(void *ctx, struct http_exchange *x)
{
    lease_one(ctx, x, &verb_extend);
}

void release_handle(void *ctx, struct http_exchange *x)
{
    lease_one(ctx, x, &verb_release);
}

void ack_many_handle(void *ctx, struct http_exchange *x)
{
    lease_many(ctx, x, &verb_ack);
}

void fail_many_handle(void *ctx, struct http_exchange *x)
{
    lease_many(ctx, x, &verb_fail);
}

void extend_many_handle(void *ctx, struct http_exchange *x)
{
    lease_many(ctx, x, &verb_extend);
}

void release_many_handle(void *ctx, struct http_exchange *x)
{
    lease_many(ctx, x, &verb_release);
}
