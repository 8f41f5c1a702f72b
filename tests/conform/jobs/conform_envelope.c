/* SPDX-License-Identifier: Apache-2.0 */
/* Kind and headers of a job, and class and stack of the error that a worker reports. */
#include "conform/rules/schedules.h"

#include "core/jobs/job_error.h"
#include "core/limits.h"

#define TRACE "{\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\"}"

static struct op kind_op(const char *queue, const char *kind)
{
    struct op op = enqueue_op(queue);
    op.enqueue.extra.kind = span_text(kind);
    return op;
}

static void expect_envelope(struct env *e, const struct job_view *v)
{
    EXPECT_TEXT(v->extra.kind, "welcome ü");
    EXPECT_TEXT(v->extra.headers, TRACE);
    EXPECT_TEXT(v->extra.correlation, "c1");
}

static uint64_t put_envelope(struct env *e)
{
    struct op op = kind_op("q", "welcome ü");
    op.enqueue.extra.headers = SPAN_LITERAL(TRACE);
    op.enqueue.extra.correlation = SPAN_LITERAL("c1");
    return put_op(e, op);
}

static void shown_everywhere(struct env *e)
{
    uint64_t seq = put_envelope(e);
    expect_envelope(e, get(e, seq));
    struct op op = {.kind = OP_PEEK,
                    .peek = {.queue = SPAN_LITERAL("q"), .state = STATE_READY, .want_body = true}};
    op.peek.limit = 1;
    const struct reply *r = run(e, op);
    EXPECT_INT(r->job_count, 1);
    expect_envelope(e, &r->jobs[0]);
    op = (struct op){.kind = OP_LIST, .list = {.want_body = true, .limit = 10}};
    r = run(e, op);
    EXPECT_INT(r->job_count, 1);
    expect_envelope(e, &r->jobs[0]);
    r = claim(e, "q", 1);
    EXPECT_INT(r->job_count, 1);
    expect_envelope(e, &r->jobs[0]);
    struct held h = held_of(&r->jobs[0]);
    EXPECT_OUT(release(e, h), OUT_OK);
    r = claim(e, "q", 1);
    EXPECT_INT(r->job_count, 1);
    expect_envelope(e, &r->jobs[0]);
    EXPECT_OUT(ack(e, held_of(&r->jobs[0])), OUT_OK);
    expect_envelope(e, get(e, seq));
}

static void kept_over_a_restart(struct env *e)
{
    uint64_t a = put_envelope(e), b = put(e, "q");
    env_restart(e);
    expect_envelope(e, get(e, a));
    EXPECT_INT(get(e, b)->extra.kind.len + get(e, b)->extra.headers.len, 0);
}

static void at_their_limits(struct env *e)
{
    char *kind = arena_alloc(&e->arena, LIMIT_KIND_BYTES + 1);
    char *headers = arena_alloc(&e->arena, LIMIT_HEADERS_BYTES + 1);
    EXPECT(kind && headers);
    memset(kind, 'k', LIMIT_KIND_BYTES + 1);
    memset(headers, 'v', LIMIT_HEADERS_BYTES + 1);
    memcpy(headers, "{\"a\":\"", 6);
    memcpy(headers + LIMIT_HEADERS_BYTES - 2, "\"}", 2);
    struct op op = enqueue_op("q");
    op.enqueue.extra.kind = span_of(kind, LIMIT_KIND_BYTES);
    op.enqueue.extra.headers = span_of(headers, LIMIT_HEADERS_BYTES);
    const struct job_view *v = get(e, put_op(e, op));
    EXPECT_SPAN(v->extra.kind, op.enqueue.extra.kind);
    EXPECT_SPAN(v->extra.headers, op.enqueue.extra.headers);
    op.enqueue.extra.kind.len++;
    EXPECT_OUT(run(e, op), OUT_INVALID);
    op.enqueue.extra.kind.len--;
    op.enqueue.extra.headers.len++;
    EXPECT_OUT(run(e, op), OUT_INVALID);
}

static void bad_headers(struct env *e)
{
    static const char *const bad[] = {
        "[]",
        "7",
        "{\"a\":1}",
        "{\"a\":\"1\",\"a\":\"2\"}",
        "{\"\":\"\"}",
        "{\"a b\":\"\"}",
        "{\"a\":\"\\u0001\"}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"1\"",
        "{\"ü\":\"\"}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct op op = enqueue_op("q");
        op.enqueue.extra.headers = span_text(bad[i]);
        const struct reply *r = run(e, op);
        EXPECT_OUT(r, OUT_INVALID);
        EXPECT(r->note && strncmp(r->note, "headers", 7) == 0);
    }
    struct op op = kind_op("q", "\xff");
    EXPECT_OUT(run(e, op), OUT_INVALID);
}

static void expect_kind(struct env *e, struct op_list want, const uint64_t *seqs, uint32_t count)
{
    want.limit = 10;
    const struct reply *r = run(e, (struct op){.kind = OP_LIST, .list = want});
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->job_count, count);
    for (uint32_t i = 0; i < count && i < r->job_count; i++)
        EXPECT_INT(r->jobs[i].job.seq, seqs[i]);
}

static void listed_by_kind(struct env *e)
{
    uint64_t a = put_op(e, kind_op("q", "welcome")), b = put_op(e, kind_op("q", "bill"));
    uint64_t c = put_op(e, kind_op("other", "welcome"));
    put(e, "q");
    uint64_t welcomes[] = {a, c}, newest[] = {c, a};
    struct op_list want = {.filter = {.kind = SPAN_LITERAL("welcome")}};
    expect_kind(e, want, welcomes, 2);
    want.newest_first = true;
    expect_kind(e, want, newest, 2);
    want.queue = SPAN_LITERAL("other");
    expect_kind(e, want, &c, 1);
    expect_kind(e, (struct op_list){.filter = {.kind = SPAN_LITERAL("bill")}}, &b, 1);
    expect_kind(e, (struct op_list){.filter = {.kind = SPAN_LITERAL("Bill")}}, NULL, 0);
    EXPECT_OUT(cancel(e, a), OUT_OK);
    want = (struct op_list){
        .filter = {.kind = SPAN_LITERAL("welcome"), .states = STATE_BIT(STATE_CANCELLED)}};
    expect_kind(e, want, &a, 1);
}

static void bulk_by_kind(struct env *e)
{
    uint64_t a = put_op(e, kind_op("q", "welcome")), b = put_op(e, kind_op("q", "bill"));
    uint64_t c = put(e, "q");
    struct op grouped = kind_op("q", "welcome");
    grouped.enqueue.extra.group = SPAN_LITERAL("g");
    uint64_t d = put_op(e, grouped);
    struct op op = {.kind = OP_BULK,
                    .bulk = {.action = BULK_CANCEL,
                             .queue = SPAN_LITERAL("q"),
                             .states = STATE_BIT(STATE_READY),
                             .kind = SPAN_LITERAL("welcome"),
                             .group = SPAN_LITERAL("g")}};
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_STATE(d, STATE_CANCELLED);
    EXPECT_STATE(a, STATE_READY);
    op.bulk.group = (struct span){NULL, 0};
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_STATE(a, STATE_CANCELLED);
    EXPECT_STATE(b, STATE_READY);
    EXPECT_STATE(c, STATE_READY);
    char *kind = arena_alloc(&e->arena, LIMIT_KIND_BYTES + 1);
    EXPECT(kind != NULL);
    memset(kind, 'k', LIMIT_KIND_BYTES + 1);
    op.bulk.kind = span_of(kind, LIMIT_KIND_BYTES + 1);
    EXPECT_OUT(run(e, op), OUT_INVALID);
}

static void from_a_commit(struct env *e)
{
    struct op_enqueue job = kind_op("q", "welcome ü").enqueue;
    job.extra.headers = SPAN_LITERAL(TRACE);
    job.extra.correlation = SPAN_LITERAL("c1");
    struct op op = {.kind = OP_KV_COMMIT, .kv_commit = {.enqueues = &job, .enqueue_count = 1}};
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    expect_envelope(e, get(e, r->enqueued[0].seq));
}

static void from_a_schedule(struct env *e)
{
    struct schedule_spec spec = cron_spec("q");
    struct wall_time at = {START_WALL_MS + 60000};
    spec.extra.kind = SPAN_LITERAL("welcome ü");
    spec.extra.headers = SPAN_LITERAL(TRACE);
    spec.extra.correlation = SPAN_LITERAL("c1");
    EXPECT_OUT(schedule_put(e, "s", &spec, at), OUT_OK);
    EXPECT_TEXT(schedule_get(e, "s")->spec.extra.kind, "welcome ü");
    EXPECT_TEXT(schedule_get(e, "s")->spec.extra.headers, TRACE);
    advance(e, 60000);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", at)), OUT_OK);
    const struct job_view *job = get(e, schedule_get(e, "s")->state.seq);
    EXPECT(job != NULL);
    expect_envelope(e, job);
}

/* ---- errors ---- */

static void expect_error(struct env *e, struct span packed)
{
    struct job_error x = job_error_split(packed);
    EXPECT_TEXT(x.text, "no route");
    EXPECT_TEXT(x.type, "TimeoutError");
    EXPECT_TEXT(x.stack, "at send\nat main");
}

static struct op fail_op(struct held h)
{
    struct op op = lease_op(OP_FAIL, h);
    op.lease.error = SPAN_LITERAL("no route");
    op.lease.error_type = SPAN_LITERAL("TimeoutError");
    op.lease.stack = SPAN_LITERAL("at send\nat main");
    return op;
}

static const struct job_view *history(struct env *e, uint64_t seq)
{
    struct op op = {.kind = OP_GET,
                    .job = {.job = {.seq = seq}, .want_body = true, .want_attempts = true}};
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    return &r->jobs[0];
}

static void class_and_stack(struct env *e)
{
    uint64_t seq = put(e, "q");
    EXPECT_OUT(run(e, fail_op(take(e, "q"))), OUT_OK);
    expect_error(e, get(e, seq)->error);
    const struct job_view *v = history(e, seq);
    EXPECT_INT(v->attempt_count, 1);
    expect_error(e, v->attempts[0].error);
    const struct reply *r = run(e, (struct op){.kind = OP_EXCEPTIONS});
    EXPECT_INT(r->attempt_count, 1);
    expect_error(e, r->attempts[0].error);
}

static void dead_with_class(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct op op = fail_op(take(e, "q"));
    op.lease.no_retry = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_STATE(seq, STATE_DEAD);
    expect_error(e, get(e, seq)->error);
    expect_error(e, history(e, seq)->attempts[0].error);
}

static void error_over_a_restart(struct env *e)
{
    uint64_t seq = put(e, "q");
    EXPECT_OUT(run(e, fail_op(take(e, "q"))), OUT_OK);
    env_restart(e);
    expect_error(e, get(e, seq)->error);
    expect_error(e, history(e, seq)->attempts[0].error);
}

static void errors_are_cut(struct env *e)
{
    char *text = arena_alloc(&e->arena, LIMIT_STACK_BYTES + 10);
    EXPECT(text != NULL);
    memset(text, 'x', LIMIT_STACK_BYTES + 10);
    uint64_t seq = put(e, "q");
    struct op op = fail_op(take(e, "q"));
    op.lease.error = SPAN_LITERAL("seen" JOB_ERROR_SEPARATOR "unseen");
    op.lease.error_type = span_of(text, LIMIT_ERROR_TYPE_BYTES + 1);
    op.lease.stack = span_of(text, LIMIT_STACK_BYTES + 10);
    EXPECT_OUT(run(e, op), OUT_OK);
    struct job_error x = job_error_split(get(e, seq)->error);
    EXPECT_TEXT(x.text, "seen");
    EXPECT_INT(x.type.len, LIMIT_ERROR_TYPE_BYTES);
    EXPECT_INT(x.stack.len, LIMIT_STACK_BYTES);
}

static void imported_error(struct env *e)
{
    struct span packed = SPAN_LITERAL("no route" JOB_ERROR_SEPARATOR
                                      "TimeoutError" JOB_ERROR_SEPARATOR "at send\nat main");
    struct job_past past = {
        .state = STATE_DEAD, .reason = REASON_FAILED, .failures = 1, .error = packed};
    struct op op = kind_op("q", "welcome");
    op.enqueue.past = &past;
    uint64_t seq = put_op(e, op);
    EXPECT_TEXT(get(e, seq)->extra.kind, "welcome");
    expect_error(e, get(e, seq)->error);
}

static const struct conform_case cases[] = {
    CASE("HF-20 kind and headers are shown wherever the job is", shown_everywhere),
    CASE("HF-20 kind and headers after a restart", kept_over_a_restart, .flags = RESTART),
    CASE("HF-20 kind and headers at their limits", at_their_limits),
    CASE("HF-20 invalid headers", bad_headers),
    CASE("HF-20 lists by kind", listed_by_kind, .needs = NEEDS_ONE_STORE),
    CASE("HF-20 bulk action by kind", bulk_by_kind),
    CASE("HF-20 PDQ-11 the job of a commit", from_a_commit, .needs = NEEDS_KV),
    CASE("HF-20 PDQ-11 the job of a schedule", from_a_schedule, .needs = NEEDS_SCHEDULES),
    CASE("PDQ-10 class and stack of an error", class_and_stack),
    CASE("PDQ-10 class and stack of the last error", dead_with_class),
    CASE("PDQ-10 class and stack after a restart", error_over_a_restart, .flags = RESTART),
    CASE("PDQ-10 class and stack are truncated", errors_are_cut),
    CASE("HF-20 PDQ-10 an imported job keeps them", imported_error),
};
TOPIC(topic_envelope, cases);
