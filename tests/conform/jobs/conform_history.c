/* SPDX-License-Identifier: Apache-2.0 */
/* The history of attempts, and the last errors. */
#include "conform/conform.h"

#include "core/jobs/job_error.h"
#include "core/limits.h"

static struct op get_op(uint64_t seq)
{
    struct op op = job_op(OP_GET, seq);
    op.job.want_attempts = true;
    return op;
}

/* The job with its history. */
static const struct job_view *history(struct env *e, uint64_t seq)
{
    const struct reply *r = run(e, get_op(seq));
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->job_count, 1);
    return &r->jobs[0];
}

static struct held take_as(struct env *e, const char *queue, const char *worker)
{
    struct op op = claim_op(e, queue, 1);
    op.claim.worker = span_text(worker);
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->job_count, 1);
    return held_of(&r->jobs[0]);
}

static const struct reply *fail_with(struct env *e, struct held h, const char *error,
                                     uint8_t error_kind)
{
    struct op op = lease_op(OP_FAIL, h);
    op.lease.error = span_text(error);
    op.lease.error_kind = error_kind;
    return run(e, op);
}

struct expected {
    enum attempt_outcome outcome;
    uint32_t number;
    const char *worker, *error;
    int64_t started, ended; /* after the start of the case; ended -1 = running */
};

static void expect_attempt(struct env *e, const struct attempt_view *a, uint64_t seq,
                           struct expected x)
{
    if (a->outcome != x.outcome)
        LEAVE("attempt %u is %s, not %s", a->number, attempt_outcome_name(a->outcome),
              attempt_outcome_name(x.outcome));
    EXPECT_INT(a->seq, seq);
    EXPECT(a->id_hi != 0);
    EXPECT_INT(a->number, x.number);
    EXPECT_TEXT(a->worker, x.worker);
    EXPECT_TEXT(a->error, x.error);
    EXPECT_INT(a->started_at.ms, START_WALL_MS + x.started);
    EXPECT_INT(a->ended_at.ms, x.ended < 0 ? 0 : START_WALL_MS + x.ended);
}

static void expect_history(struct env *e, uint64_t seq, const struct expected *x, uint32_t count)
{
    const struct job_view *v = history(e, seq);
    EXPECT_INT(v->attempt_count, count);
    for (uint32_t i = 0; i < count; i++) {
        expect_attempt(e, &v->attempts[i], seq, x[i]);
        EXPECT_TEXT(v->attempts[i].queue, "q");
    }
    EXPECT_INT(v->started_at.ms, count ? START_WALL_MS + x[count - 1].started : 0);
}
#define EXPECT_HISTORY(seq, ...)                                                                   \
    do {                                                                                           \
        const struct expected x_[] = {__VA_ARGS__};                                                \
        expect_history(e, (seq), x_, sizeof x_ / sizeof x_[0]);                                    \
    } while (0)

static void make_queue(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
}

static void never_claimed(struct env *e)
{
    uint64_t seq = put(e, "q");
    expect_history(e, seq, NULL, 0);
    const struct job_view *v = history(e, seq);
    EXPECT(!v->has_body);
    struct op op = get_op(seq);
    op.job.want_body = true;
    const struct reply *r = run(e, op);
    EXPECT(r->jobs[0].has_body);
    EXPECT_TEXT(r->jobs[0].payload, "{\"n\":1}");
    EXPECT_INT(r->jobs[0].attempt_count, 0);
    EXPECT_OUT(run(e, get_op(seq + 1)), OUT_NOT_FOUND);
}

/* Done at the first attempt, like most jobs. */
static void done_at_once(struct env *e)
{
    make_queue(e);
    uint64_t seq = put(e, "q");
    advance(e, 100);
    struct held h = take_as(e, "q", "anna");
    EXPECT_HISTORY(seq, {ATTEMPT_RUNNING, 1, "anna", "", 100, -1});
    advance(e, 250);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_HISTORY(seq, {ATTEMPT_DONE, 1, "anna", "", 100, 350});
    const struct reply *r = list(e, (struct op_list){.limit = 5});
    EXPECT_INT(r->jobs[0].started_at.ms, START_WALL_MS + 100);
    EXPECT_INT(get(e, seq)->started_at.ms, START_WALL_MS + 100);
}

static void each_outcome(struct env *e)
{
    make_queue(e);
    uint64_t seq = put(e, "q");
    EXPECT_OUT(fail_with(e, take_as(e, "q", "anna"), "no", ERROR_BUSINESS), OUT_OK);
    advance(e, 1000);
    take_as(e, "q", "bert");
    advance(e, 10001);
    settle(e);
    EXPECT_HISTORY(seq, {ATTEMPT_FAILED, 1, "anna", "no", 0, 0},
                   {ATTEMPT_LEASE_EXPIRED, 2, "bert", "", 1000, 11000});
    EXPECT_INT(history(e, seq)->attempts[0].error_kind, ERROR_BUSINESS);
    struct held h = take_as(e, "q", "");
    EXPECT_OUT(release(e, h), OUT_OK);
    take_as(e, "q", "carl");
    advance(e, 5);
    EXPECT_OUT(cancel(e, seq), OUT_OK);
    EXPECT_HISTORY(seq, {ATTEMPT_FAILED, 1, "anna", "no", 0, 0},
                   {ATTEMPT_LEASE_EXPIRED, 2, "bert", "", 1000, 11000},
                   {ATTEMPT_RELEASED, 3, "", "", 11001, 11001},
                   {ATTEMPT_CANCELLED, 3, "carl", "", 11001, 11006});
}

/* The history includes the last attempt of a dead job; a requeue keeps all attempts, and numbers
 * start again. */
static void dead_and_requeued(struct env *e)
{
    make_queue(e);
    uint64_t seq = put(e, "q");
    struct op op = lease_op(OP_FAIL, take_as(e, "q", "anna"));
    op.lease.no_retry = true;
    op.lease.error = SPAN_LITERAL("never");
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_HISTORY(seq, {ATTEMPT_FAILED, 1, "anna", "never", 0, 0});
    advance(e, 10);
    EXPECT_OUT(requeue(e, seq), OUT_OK);
    EXPECT_OUT(ack(e, take_as(e, "q", "bert")), OUT_OK);
    EXPECT_HISTORY(seq, {ATTEMPT_FAILED, 1, "anna", "never", 0, 0},
                   {ATTEMPT_DONE, 1, "bert", "", 10, 10});
}

static void crash_loop(struct env *e)
{
    make_queue(e);
    uint64_t seq = put(e, "q");
    for (int i = 0; i < 3; i++) {
        take_as(e, "q", "anna");
        advance(e, 10000);
        settle(e);
    }
    EXPECT_STATE(seq, STATE_DEAD);
    EXPECT_HISTORY(seq, {ATTEMPT_LEASE_EXPIRED, 1, "anna", "", 0, 10000},
                   {ATTEMPT_LEASE_EXPIRED, 2, "anna", "", 10000, 20000},
                   {ATTEMPT_LEASE_EXPIRED, 3, "anna", "", 20000, 30000});
}

static void lost_connection(struct env *e)
{
    make_queue(e);
    uint64_t seq = put(e, "q");
    struct op op = lease_op(OP_RELEASE, take_as(e, "q", "anna"));
    op.lease.lost = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_HISTORY(seq, {ATTEMPT_LEASE_EXPIRED, 1, "anna", "", 0, 0});
}

/* A job that never ran has no attempt, and a patch does not create one. */
static void ends_without_attempts(struct env *e)
{
    make_queue(e);
    uint64_t cancelled = put(e, "q");
    EXPECT_OUT(cancel(e, cancelled), OUT_OK);
    expect_history(e, cancelled, NULL, 0);
    struct op op = enqueue_op("q");
    op.enqueue.extra.expires_at = now_plus(e, 50);
    uint64_t expired = put_op(e, op);
    advance(e, 100);
    settle(e);
    EXPECT_STATE(expired, STATE_DEAD);
    expect_history(e, expired, NULL, 0);
    uint64_t patched = put(e, "q");
    op = (struct op){.kind = OP_PATCH,
                     .patch = {.job = {.seq = patched}, .has_priority = true, .priority = 3}};
    EXPECT_OUT(run(e, op), OUT_OK);
    expect_history(e, patched, NULL, 0);
    EXPECT_INT(run(e, (struct op){.kind = OP_EXCEPTIONS})->attempt_count, 0);
}

/* A patch between two attempts keeps the first. */
static void patched_between(struct env *e)
{
    make_queue(e);
    uint64_t seq = put(e, "q");
    EXPECT_OUT(fail_with(e, take_as(e, "q", "anna"), "no", ERROR_APP), OUT_OK);
    struct op op = {.kind = OP_PATCH,
                    .patch = {.job = {.seq = seq}, .has_run_at = true, .run_at = {0}}};
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_OUT(ack(e, take_as(e, "q", "bert")), OUT_OK);
    EXPECT_HISTORY(seq, {ATTEMPT_FAILED, 1, "anna", "no", 0, 0},
                   {ATTEMPT_DONE, 2, "bert", "", 0, 0});
}

/* Releases are not counted, so that only the bound ends them. */
static void bounded(struct env *e)
{
    uint64_t seq = put(e, "q");
    for (int i = 0; i < LIMIT_ATTEMPTS_KEPT + 5; i++) {
        char worker[16];
        snprintf(worker, sizeof worker, "w%d", i);
        EXPECT_OUT(release(e, take_as(e, "q", worker)), OUT_OK);
    }
    const struct job_view *v = history(e, seq);
    EXPECT_INT(v->attempt_count, LIMIT_ATTEMPTS_KEPT);
    EXPECT_TEXT(v->attempts[0].worker, "w5");
    EXPECT_TEXT(v->attempts[LIMIT_ATTEMPTS_KEPT - 1].worker, "w24");
    struct held h = take_as(e, "q", "last");
    v = history(e, seq);
    EXPECT_INT(v->attempt_count, LIMIT_ATTEMPTS_KEPT);
    EXPECT_TEXT(v->attempts[0].worker, "w6");
    EXPECT_INT(v->attempts[LIMIT_ATTEMPTS_KEPT - 1].outcome, ATTEMPT_RUNNING);
    EXPECT_OUT(ack(e, h), OUT_OK);
    v = history(e, seq);
    EXPECT_INT(v->attempt_count, LIMIT_ATTEMPTS_KEPT);
    EXPECT_INT(v->attempts[LIMIT_ATTEMPTS_KEPT - 1].outcome, ATTEMPT_DONE);
}

/* All in one batch: the store records also those changes that cancel each other out. */
static void within_a_batch(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct op ops[4];
    const struct reply *replies[4];
    struct span worker = SPAN_LITERAL("anna");
    for (int i = 0; i < 2; i++) {
        ops[2 * i] = claim_op(e, "q", 1);
        ops[2 * i].claim.worker = worker;
        ops[2 * i + 1] = lease_op_by_id(i ? OP_ACK : OP_RELEASE, seq);
    }
    run_batch(e, ops, 4, replies);
    for (int i = 0; i < 4; i++)
        EXPECT_OUT(replies[i], OUT_OK);
    const struct job_view *v = history(e, seq);
    EXPECT_INT(v->attempt_count, 2);
    EXPECT_INT(v->attempts[0].outcome, ATTEMPT_RELEASED);
    EXPECT_TEXT(v->attempts[0].worker, "anna");
    EXPECT_INT(v->attempts[1].outcome, ATTEMPT_DONE);
    EXPECT_TEXT(v->attempts[1].worker, "anna");
}

/* --- exceptions --- */

static const struct reply *exceptions(struct env *e, const char *queue, uint32_t limit)
{
    struct op op = {.kind = OP_EXCEPTIONS,
                    .exceptions = {.queue = span_text(queue), .limit = limit}};
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    return r;
}

static uint64_t gone_wrong(struct env *e, const char *queue, const char *error)
{
    uint64_t seq = put(e, queue);
    struct held h = take_as(e, queue, "anna");
    EXPECT_INT(h.seq, seq);
    struct op op = lease_op(OP_FAIL, h);
    op.lease.error = span_text(error);
    op.lease.no_retry = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    return seq;
}

/* Whatever else happened to the jobs: under every profile. */
static void newest_first(struct env *e)
{
    uint64_t a = gone_wrong(e, "one", "first"), b = gone_wrong(e, "two", "second");
    EXPECT_OUT(ack(e, (put(e, "one"), take(e, "one"))), OUT_OK);
    uint64_t c = gone_wrong(e, "one", "third");
    const struct reply *r = exceptions(e, "", 0);
    EXPECT_INT(r->attempt_count, 3);
    EXPECT_INT(r->attempts[0].seq, c);
    EXPECT_INT(r->attempts[1].seq, b);
    EXPECT_INT(r->attempts[2].seq, a);
    EXPECT_TEXT(r->attempts[1].error, "second");
    EXPECT_TEXT(r->attempts[1].queue, "two");
    EXPECT_TEXT(r->attempts[1].worker, "anna");
    EXPECT_INT(r->attempts[1].outcome, ATTEMPT_FAILED);
    EXPECT_INT(exceptions(e, "", 2)->attempt_count, 2);
    r = exceptions(e, "one", 0);
    EXPECT_INT(r->attempt_count, 2);
    EXPECT_INT(r->attempts[0].seq, c);
    EXPECT_INT(r->attempts[1].seq, a);
    EXPECT_INT(exceptions(e, "one", 1)->attempts[0].seq, c);
    struct op op = {.kind = OP_EXCEPTIONS, .exceptions = {.queue = SPAN_LITERAL("nope")}};
    EXPECT_OUT(run(e, op), OUT_NO_QUEUE);
}

/* Failures that were tried again and crashes are listed; releases without a reason and
 * cancellations are not. */
static void which_are_exceptions(struct env *e)
{
    make_queue(e);
    uint64_t seq = put(e, "q");
    EXPECT_OUT(fail_with(e, take_as(e, "q", "anna"), "no", ERROR_APP), OUT_OK);
    advance(e, 1000);
    EXPECT_OUT(release(e, take_as(e, "q", "bert")), OUT_OK);
    take_as(e, "q", "carl");
    advance(e, 10000);
    settle(e);
    struct held h = take_as(e, "q", "dora");
    EXPECT_OUT(cancel(e, h.seq), OUT_OK);
    const struct reply *r = exceptions(e, "", 0);
    EXPECT_INT(r->attempt_count, 2);
    expect_attempt(e, &r->attempts[0], seq,
                   (struct expected){ATTEMPT_LEASE_EXPIRED, 2, "carl", "", 1000, 11000});
    expect_attempt(e, &r->attempts[1], seq,
                   (struct expected){ATTEMPT_FAILED, 1, "anna", "no", 0, 0});
}

/* The reason that a worker gives is the error of the attempt and of the job, which is not counted.
 * A release without a reason leaves the last error. */
static void released_with_a_reason(struct env *e)
{
    make_queue(e);
    uint64_t seq = put(e, "q");
    struct op op = lease_op(OP_RELEASE, take_as(e, "q", "anna"));
    op.lease.error = SPAN_LITERAL("no configuration");
    op.lease.error_type = SPAN_LITERAL("exit 78");
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_OUT(release(e, take_as(e, "q", "bert")), OUT_OK);
    static const char packed[] = "no configuration" JOB_ERROR_SEPARATOR "exit 78";
    EXPECT_HISTORY(seq, {ATTEMPT_RELEASED_WITH_ERROR, 1, "anna", packed, 0, 0},
                   {ATTEMPT_RELEASED, 1, "bert", "", 0, 0});
    const struct reply *r = exceptions(e, "", 0);
    EXPECT_INT(r->attempt_count, 1);
    expect_attempt(e, &r->attempts[0], seq,
                   (struct expected){ATTEMPT_RELEASED_WITH_ERROR, 1, "anna", packed, 0, 0});
    const struct job_view *v = history(e, seq);
    EXPECT_INT(v->job.failures, 0);
    EXPECT_INT(v->job.state, STATE_READY);
}

/* A job that no longer exists is not shown, from the moment of the reply to its removal. */
static void gone_with_their_jobs(struct env *e)
{
    uint64_t removed = gone_wrong(e, "q", "removed");
    gone_wrong(e, "deleted", "deleted");
    struct queue_policy p = test_policy();
    queue_make(e, "purged", &p);
    put(e, "purged");
    EXPECT_OUT(fail_with(e, take(e, "purged"), "purged", ERROR_APP), OUT_OK);
    uint64_t kept = gone_wrong(e, "q", "kept");
    EXPECT_INT(exceptions(e, "", 0)->attempt_count, 4);
    EXPECT_OUT(run(e, queue_op(OP_PURGE, "purged")), OUT_OK);
    EXPECT_INT(exceptions(e, "", 0)->attempt_count, 3);
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_DELETE, "deleted")), OUT_OK);
    EXPECT_INT(exceptions(e, "", 0)->attempt_count, 2);
    EXPECT_OUT(run(e, job_op(OP_REMOVE, removed)), OUT_OK);
    const struct reply *r = exceptions(e, "", 0);
    EXPECT_INT(r->attempt_count, 1);
    EXPECT_INT(r->attempts[0].seq, kept);
    EXPECT_INT(exceptions(e, "purged", 0)->attempt_count, 0);
    /* A queue of the same name begins with nothing. */
    put(e, "deleted");
    EXPECT_INT(exceptions(e, "deleted", 0)->attempt_count, 0);
}

/* --- restarts --- */

static void kept_over_restart(struct env *e)
{
    make_queue(e);
    uint64_t seq = put(e, "q"), done = put(e, "q");
    EXPECT_OUT(fail_with(e, take_as(e, "q", "anna"), "no", ERROR_APP), OUT_OK);
    EXPECT_OUT(ack(e, take_as(e, "q", "anna")), OUT_OK);
    advance(e, 1000);
    struct held h = take_as(e, "q", "bert");
    env_restart(e);
    EXPECT_HISTORY(done, {ATTEMPT_DONE, 1, "anna", "", 0, 0});
    EXPECT_HISTORY(seq, {ATTEMPT_FAILED, 1, "anna", "no", 0, 0},
                   {ATTEMPT_RUNNING, 2, "bert", "", 1000, -1});
    advance(e, 10);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_HISTORY(seq, {ATTEMPT_FAILED, 1, "anna", "no", 0, 0},
                   {ATTEMPT_DONE, 2, "bert", "", 1000, 1010});
    EXPECT_INT(exceptions(e, "", 0)->attempt_count, 1);
}

/* A lease that is bound to a connection ends at a restart, uncounted. */
static void bound_over_restart(struct env *e)
{
    make_queue(e);
    uint64_t seq = put(e, "q");
    struct op op = claim_op(e, "q", 1);
    op.claim.worker = SPAN_LITERAL("anna");
    op.claim.bound = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    advance(e, 20);
    env_restart(e);
    EXPECT_HISTORY(seq, {ATTEMPT_RELEASED, 1, "anna", "", 0, 20});
    EXPECT_OUT(ack(e, take_as(e, "q", "bert")), OUT_OK);
    EXPECT_HISTORY(seq, {ATTEMPT_RELEASED, 1, "anna", "", 0, 20},
                   {ATTEMPT_DONE, 1, "bert", "", 20, 20});
    EXPECT_INT(exceptions(e, "", 0)->attempt_count, 0);
}

static const struct conform_case cases[] = {
    CASE("PDQ-15 a job that was never claimed has no history", never_claimed),
    CASE("PDQ-15 the attempt under way, and done", done_at_once, EXACT),
    CASE("PDQ-15 failed, crashed, released, cancelled attempts", each_outcome, EXACT),
    CASE("PDQ-15 history of a dead job, and after its requeue", dead_and_requeued, EXACT),
    CASE("PDQ-15 history of a job that crashed too often", crash_loop, EXACT),
    CASE("PDQ-15 a lost connection is a crash", lost_connection, EXACT),
    CASE("PDQ-15 ends that are no attempts", ends_without_attempts),
    CASE("PDQ-15 history is kept by a patch", patched_between, EXACT),
    CASE("PDQ-15 history is bounded", bounded, EXACT),
    CASE("PDQ-15 attempts within one batch", within_a_batch, EXACT),
    CASE("PDQ-10 exceptions, newest first, by queue", newest_first),
    CASE("PDQ-10 which attempts are exceptions", which_are_exceptions, EXACT),
    CASE("PDQ-8 the reason of a release is an exception", released_with_a_reason, EXACT),
    CASE("PDQ-10 exceptions go with their jobs", gone_with_their_jobs),
    CASE("PDQ-15 history is kept over a restart", kept_over_restart, RESTART | EXACT),
    CASE("PDQ-15 bound leases given back at a restart", bound_over_restart, RESTART | EXACT),
};
TOPIC(topic_history, cases);
