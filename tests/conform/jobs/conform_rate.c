/* SPDX-License-Identifier: Apache-2.0 */
/* PDQ-13: a queue's rate limit at enqueue, by key. */
#include "conform/conform.h"

static void limit(struct env *e, const char *queue, uint8_t per, uint32_t count, uint32_t window_ms)
{
    struct queue_policy policy = test_policy();
    policy.enqueue_rate = (struct rate_limit){per, count, window_ms};
    queue_make(e, queue, &policy);
}

static struct op keyed(const char *group, const char *correlation)
{
    struct op op = enqueue_op("q");
    op.enqueue.extra.group = span_text(group);
    op.enqueue.extra.correlation = span_text(correlation);
    return op;
}

/* count at once, then one each window / count; a refusal says exactly when, and costs nothing. */
static void burst_then_even(struct env *e)
{
    limit(e, "q", RATE_QUEUE, 4, 1000);
    for (int i = 0; i < 4; i++)
        put(e, "q");
    for (int i = 0; i < 3; i++) {
        const struct reply *r = run(e, enqueue_op("q"));
        EXPECT_OUT(r, OUT_RATE_LIMIT);
        EXPECT_INT(r->retry_ms, 250);
    }
    EXPECT_COUNTS("q", .ready = 4);
    advance(e, 249);
    const struct reply *r = run(e, enqueue_op("q"));
    EXPECT_OUT(r, OUT_RATE_LIMIT);
    EXPECT_INT(r->retry_ms, 1);
    advance(e, 1);
    put(e, "q");
    EXPECT_OUT(run(e, enqueue_op("q")), OUT_RATE_LIMIT);
    advance(e, 1000);
    for (int i = 0; i < 4; i++)
        put(e, "q");
    EXPECT_OUT(run(e, enqueue_op("q")), OUT_RATE_LIMIT);
    EXPECT_COUNTS("q", .ready = 9);
}

static void by_group(struct env *e)
{
    limit(e, "q", RATE_GROUP, 2, 10000);
    for (int i = 0; i < 2; i++) {
        put_op(e, keyed("a", "x"));
        put_op(e, keyed("b", "x"));
        put_op(e, keyed("", "x")); /* those without a key have one together */
    }
    EXPECT_OUT(run(e, keyed("a", "y")), OUT_RATE_LIMIT);
    EXPECT_OUT(run(e, keyed("b", "y")), OUT_RATE_LIMIT);
    EXPECT_OUT(run(e, keyed("", "y")), OUT_RATE_LIMIT);
    put_op(e, keyed("c", "x"));
    put(e, "another queue");
}

static void by_correlation(struct env *e)
{
    limit(e, "q", RATE_CORRELATION, 1, 10000);
    put_op(e, keyed("g", "order-1"));
    put_op(e, keyed("g", "order-2"));
    EXPECT_OUT(run(e, keyed("h", "order-1")), OUT_RATE_LIMIT);
    advance(e, 10000);
    put_op(e, keyed("h", "order-1"));
}

/* What makes no new job costs nothing: repeats, duplicates, refusals of other kinds. */
static void only_new_jobs_count(struct env *e)
{
    struct queue_policy policy = test_policy();
    policy.enqueue_rate = (struct rate_limit){RATE_QUEUE, 2, 10000};
    policy.capacity = 2;
    queue_make(e, "q", &policy);
    struct op op = enqueue_op("q");
    op.enqueue.extra.unique = SPAN_LITERAL("u");
    op.enqueue.idempotency_key = SPAN_LITERAL("key");
    put_op(e, op);
    for (int i = 0; i < 5; i++) {
        EXPECT(run(e, op)->repeat);
        struct op twin = enqueue_op("q");
        twin.enqueue.extra.unique = SPAN_LITERAL("u");
        EXPECT_OUT(run(e, twin), OUT_DUPLICATE);
    }
    put(e, "q");
    for (int i = 0; i < 3; i++)
        EXPECT_OUT(run(e, enqueue_op("q")), OUT_QUEUE_FULL);
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    EXPECT_OUT(run(e, enqueue_op("q")), OUT_RATE_LIMIT);
    EXPECT(run(e, op)->repeat); /* a repeat is answered, limit or not */
}

static void within_a_batch(struct env *e)
{
    limit(e, "q", RATE_QUEUE, 3, 10000);
    struct op ops[5];
    const struct reply *replies[5];
    for (int i = 0; i < 5; i++)
        ops[i] = enqueue_op("q");
    run_batch(e, ops, 5, replies);
    for (int i = 0; i < 5; i++)
        EXPECT_OUT(replies[i], i < 3 ? OUT_OK : OUT_RATE_LIMIT);
}

/* The jobs of one commit count together, each for its own key; a refusal takes nothing. */
static void within_a_commit(struct env *e)
{
    limit(e, "q", RATE_GROUP, 2, 10000);
    struct op_enqueue jobs[4] = {keyed("a", "").enqueue, keyed("b", "").enqueue,
                                 keyed("a", "").enqueue, keyed("a", "").enqueue};
    struct op op = {.kind = OP_KV_COMMIT, .kv_commit = {.enqueues = jobs, .enqueue_count = 4}};
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_RATE_LIMIT);
    EXPECT(r->failed_enqueue);
    EXPECT_INT(r->failed, 3);
    EXPECT_INT(r->retry_ms, 5000);
    EXPECT_COUNTS("q", .ready = 0);
    op.kv_commit.enqueue_count = 3;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_OUT(run(e, keyed("a", "")), OUT_RATE_LIMIT);
    put_op(e, keyed("b", ""));
    EXPECT_OUT(run(e, keyed("b", "")), OUT_RATE_LIMIT);
}

/* A new limit holds at once; none lets everything in; imports come from elsewhere. */
static void changed_and_ended(struct env *e)
{
    limit(e, "q", RATE_QUEUE, 1, 86400000);
    put(e, "q");
    EXPECT_INT(run(e, enqueue_op("q"))->retry_ms, 86400000);
    struct job_past past = {.state = STATE_DEAD, .reason = REASON_FAILED};
    struct op import = enqueue_op("q");
    import.enqueue.past = &past;
    put_op(e, import);
    limit(e, "q", RATE_QUEUE, 2, 1000);
    const struct reply *r = run(e, enqueue_op("q"));
    EXPECT_OUT(r, OUT_RATE_LIMIT); /* what was used up stays so, for the new window at most */
    EXPECT_INT(r->retry_ms, 500);
    struct queue_policy policy = test_policy();
    queue_make(e, "q", &policy);
    for (int i = 0; i < 10; i++)
        put(e, "q");
}

static void policy_is_kept(struct env *e)
{
    limit(e, "q", RATE_GROUP, 7, 5000);
    env_restart(e);
    const struct rate_limit *r = &queue_get(e, "q")->policy->enqueue_rate;
    EXPECT_INT(r->per, RATE_GROUP);
    EXPECT_INT(r->count, 7);
    EXPECT_INT(r->window_ms, 5000);
    for (int i = 0; i < 7; i++)
        put_grouped(e, "q", "g");
    EXPECT_OUT(run(e, keyed("g", "")), OUT_RATE_LIMIT);
}

static const struct conform_case cases[] = {
    CASE("PDQ-13 a burst up to the count, then an even rate", burst_then_even, .flags = EXACT),
    CASE("PDQ-13 by group", by_group, .flags = EXACT),
    CASE("PDQ-13 by correlation id", by_correlation, .flags = EXACT),
    CASE("PDQ-13 only new jobs count", only_new_jobs_count, .flags = EXACT),
    CASE("PDQ-13 within a batch", within_a_batch, .flags = EXACT),
    CASE("PDQ-13 within a commit of several", within_a_commit, .flags = EXACT, .needs = NEEDS_KV),
    CASE("PDQ-13 a limit is changed and ended", changed_and_ended, .flags = EXACT),
    CASE("PDQ-13 the limit survives a restart", policy_is_kept, .flags = RESTART | EXACT),
};
TOPIC(topic_rate, cases);
