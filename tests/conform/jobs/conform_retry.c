/* SPDX-License-Identifier: Apache-2.0 */
/* Failing and handing back: back-off, attempts, the worker's own wish. */
#include "conform/conform.h"

static void make_q(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
}

/* N back-off entries: N retries, N + 1 deliveries, and the dead job shows N + 1. */
static void n_entries_n_retries(struct env *e)
{
    static const uint32_t waits[] = {1000, 5000, 10000};
    static const struct job_options options = {
        .max_attempts = 4,
        .has_backoff = true,
        .backoff = {.kind = BACKOFF_LIST, .step_count = 3, .step_ms = {1000, 5000, 10000}},
    };
    struct op op = enqueue_op("q");
    op.enqueue.options = &options;
    uint64_t seq = put_op(e, op);
    for (unsigned n = 0; n < 3; n++) {
        const struct reply *r = claim(e, "q", 1);
        EXPECT_INT(r->job_count, 1);
        EXPECT_INT(job_attempts(&r->jobs[0].job), n + 1);
        r = fail(e, held_of(&r->jobs[0]));
        EXPECT_INT(r->state, STATE_SCHEDULED);
        EXPECT_INT(r->run_at.ms, now_plus(e, waits[n]).ms);
        advance(e, waits[n] - 1);
        EXPECT_INT(claim(e, "q", 1)->job_count, 0);
        advance(e, 1);
    }
    EXPECT_INT(fail(e, take(e, "q"))->state, STATE_DEAD);
    const struct job_view *v = get(e, seq);
    EXPECT_INT(job_attempts(&v->job), 4);
    EXPECT_INT(v->job.reason, REASON_FAILED);
    EXPECT_COUNTS("q", .dead = 1);
}

static void no_retries(struct env *e)
{
    static const struct job_options options = {
        .max_attempts = 1, .has_backoff = true, .backoff = {.kind = BACKOFF_LIST}};
    struct op op = enqueue_op("q");
    op.enqueue.options = &options;
    uint64_t seq = put_op(e, op);
    EXPECT_INT(fail(e, take(e, "q"))->state, STATE_DEAD);
    EXPECT_INT(job_attempts(&get(e, seq)->job), 1);
    EXPECT_STATE(seq, STATE_DEAD);
}

static void queue_policy_counts(struct env *e)
{
    make_q(e);
    uint64_t seq = put(e, "q");
    EXPECT_INT(fail(e, take(e, "q"))->run_at.ms, now_plus(e, 1000).ms);
    advance(e, 1000);
    EXPECT_INT(fail(e, take(e, "q"))->run_at.ms, now_plus(e, 2000).ms);
    advance(e, 2000);
    EXPECT_INT(fail(e, take(e, "q"))->state, STATE_DEAD);
    EXPECT_INT(get(e, seq)->job.failures, 3);
}

static void exponential_within_jitter(struct env *e)
{
    struct queue_policy p = test_policy();
    p.max_attempts = 10;
    p.backoff = (struct backoff){
        .kind = BACKOFF_EXPONENTIAL, .jitter_percent = 10, .base_ms = 1000, .max_ms = 5000};
    queue_make(e, "q", &p);
    put(e, "q");
    static const int64_t waits[] = {1000, 2000, 4000, 5000, 5000};
    for (int i = 0; i < 5; i++) {
        int64_t wait = fail(e, take(e, "q"))->run_at.ms - e->clock.at.wall.ms;
        EXPECT(wait >= waits[i] * 9 / 10 && wait <= waits[i] * 11 / 10);
        advance(e, wait);
    }
}

static void worker_says_when(struct env *e)
{
    make_q(e);
    uint64_t seq = put(e, "q");
    struct op op = lease_op(OP_FAIL, take(e, "q"));
    op.lease.has_delay = true;
    op.lease.delay_ms = 7000;
    EXPECT_INT(run(e, op)->run_at.ms, now_plus(e, 7000).ms);
    EXPECT_INT(get(e, seq)->job.run_at.ms, now_plus(e, 7000).ms);
    advance(e, 7000);
    op = lease_op(OP_FAIL, take(e, "q"));
    op.lease.run_at = now_plus(e, 4321);
    EXPECT_INT(run(e, op)->run_at.ms, now_plus(e, 4321).ms);
    advance(e, 4321);
    op = lease_op(OP_FAIL, take(e, "q")); /* the wish does not buy another attempt */
    op.lease.has_delay = true;
    op.lease.delay_ms = 1;
    EXPECT_INT(run(e, op)->state, STATE_DEAD);
    EXPECT_INT(get(e, seq)->job.failures, 3);
}

static void worker_says_now(struct env *e)
{
    make_q(e);
    uint64_t seq = put(e, "q");
    struct op op = lease_op(OP_FAIL, take(e, "q"));
    op.lease.has_delay = true;
    op.lease.delay_ms = 0;
    EXPECT_INT(run(e, op)->state, STATE_READY);
    EXPECT_STATE(seq, STATE_READY);
    EXPECT_INT(get(e, seq)->job.failures, 1);
}

static void bury(struct env *e)
{
    make_q(e);
    uint64_t seq = put(e, "q");
    struct op op = lease_op(OP_FAIL, take(e, "q"));
    op.lease.no_retry = true;
    op.lease.error = SPAN_LITERAL("no such customer");
    op.lease.error_kind = ERROR_BUSINESS;
    EXPECT_INT(run(e, op)->state, STATE_DEAD);
    const struct job_view *v = get(e, seq);
    EXPECT_INT(v->job.reason, REASON_REJECTED);
    EXPECT_INT(v->job.failures, 1);
    EXPECT_TEXT(v->error, "no such customer");
    EXPECT_INT(v->error_kind, ERROR_BUSINESS);
    EXPECT_STATE(seq, STATE_DEAD);
}

static void error_is_kept(struct env *e)
{
    make_q(e);
    uint64_t seq = put(e, "q");
    struct op op = lease_op(OP_FAIL, take(e, "q"));
    op.lease.error = SPAN_LITERAL("Übel \"1\"\n");
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_TEXT(get(e, seq)->error, "Übel \"1\"\n");
    advance(e, 1000);
    const struct reply *r = claim(e, "q", 1);
    EXPECT_INT(r->job_count, 1);
    EXPECT_TEXT(r->jobs[0].error, "Übel \"1\"\n"); /* the next worker sees it */
    EXPECT_OUT(fail(e, held_of(&r->jobs[0])), OUT_OK);
    EXPECT_TEXT(get(e, seq)->error, "Übel \"1\"\n"); /* none given: the last one stays */
}

static void long_error_is_cut(struct env *e)
{
    char *text = arena_alloc(&e->arena, LIMIT_ERROR_BYTES + 1);
    EXPECT(text != NULL);
    memset(text, 'x', LIMIT_ERROR_BYTES - 1);
    memcpy(text + LIMIT_ERROR_BYTES - 1, "ü", 2); /* across the limit */
    uint64_t seq = put(e, "q");
    struct op op = lease_op(OP_FAIL, take(e, "q"));
    op.lease.error = span_of(text, LIMIT_ERROR_BYTES + 1);
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_SPAN(get(e, seq)->error, span_of(text, LIMIT_ERROR_BYTES - 1));
}

static void release_is_not_counted(struct env *e)
{
    make_q(e);
    uint64_t seq = put(e, "q");
    for (int i = 0; i < 5; i++) {
        const struct reply *r = claim(e, "q", 1);
        EXPECT_INT(r->job_count, 1);
        EXPECT_INT(job_attempts(&r->jobs[0].job), 1);
        EXPECT_INT(release(e, held_of(&r->jobs[0]))->state, STATE_READY);
    }
    const struct job_view *v = get(e, seq);
    EXPECT_INT(v->job.failures + v->job.crashes, 0);
    EXPECT_INT(v->job.reason, REASON_RELEASED);
    EXPECT_STATE(seq, STATE_READY);
}

static void release_with_delay(struct env *e)
{
    make_q(e);
    uint64_t seq = put(e, "q");
    struct op op = lease_op(OP_RELEASE, take(e, "q"));
    op.lease.has_delay = true;
    op.lease.delay_ms = 3000;
    const struct reply *r = run(e, op);
    EXPECT_INT(r->state, STATE_SCHEDULED);
    EXPECT_INT(r->run_at.ms, START_WALL_MS + 3000);
    advance(e, 2999);
    EXPECT_STATE(seq, STATE_SCHEDULED);
    advance(e, 1);
    op = lease_op(OP_RELEASE, take(e, "q"));
    op.lease.run_at = now_plus(e, 500);
    EXPECT_INT(run(e, op)->run_at.ms, START_WALL_MS + 3500);
    EXPECT_INT(get(e, seq)->job.failures, 0);
    EXPECT_STATE(seq, STATE_SCHEDULED);
}

static void wrong_delays(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct held h = take(e, "q");
    struct op op = lease_op(OP_FAIL, h);
    op.lease.has_delay = true;
    op.lease.delay_ms = -1;
    EXPECT_OUT(run(e, op), OUT_INVALID);
    op.kind = OP_RELEASE;
    EXPECT_OUT(run(e, op), OUT_INVALID);
    op.lease.run_at.ms = LIMIT_WALL_MS + 1;
    EXPECT_OUT(run(e, op), OUT_INVALID);
    EXPECT_STATE(seq, STATE_RUNNING);
    EXPECT_INT(get(e, seq)->job.failures, 0);
    EXPECT_OUT(ack(e, h), OUT_OK);
}

static void result_is_kept(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct op op = lease_op(OP_ACK, take(e, "q"));
    op.lease.result_kind = PAYLOAD_BYTES;
    op.lease.result = span_of("r\0s\xff", 4);
    EXPECT_INT(run(e, op)->state, STATE_DONE);
    const struct job_view *v = get(e, seq);
    EXPECT_SPAN(v->result, span_of("r\0s\xff", 4));
    EXPECT_INT(v->result_kind, PAYLOAD_BYTES);
    EXPECT_TEXT(v->payload, "{\"n\":1}");
    const struct reply *r = peek(e, "q", STATE_DONE, 1);
    EXPECT_INT(r->job_count, 1);
    EXPECT_SPAN(r->jobs[0].result, span_of("r\0s\xff", 4));
}

static const struct conform_case cases[] = {
    CASE("KV-12 N back-off entries give N retries and N+1 deliveries", n_entries_n_retries),
    CASE("KV-12 NOM-13 no retries: dead on the first failure", no_retries),
    CASE("the queue's attempts and back-off hold", queue_policy_counts),
    CASE("exponential back-off stays within its jitter", exponential_within_jitter),
    CASE("PDQ-14 fail may say when to run again", worker_says_when),
    CASE("PDQ-14 fail may ask for a retry at once", worker_says_now),
    CASE("fail without retry is dead at once", bury),
    CASE("NOM-6 the error is kept and shown", error_is_kept),
    CASE("a long error is truncated between characters", long_error_is_cut),
    CASE("a release is not counted", release_is_not_counted),
    CASE("PDQ-14 release may carry delay or run_at", release_with_delay),
    CASE("wrong delays are refused", wrong_delays),
    CASE("NOM-6 the result is kept byte for byte", result_is_kept),
};
TOPIC(topic_retry, cases);
