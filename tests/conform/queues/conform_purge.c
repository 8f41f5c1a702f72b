/* SPDX-License-Identifier: Apache-2.0 */
/* Purge: waiting jobs cease to exist at once, however long their removal takes. */
#include "conform/conform.h"

static const struct reply *purge(struct env *e, const char *queue)
{
    const struct reply *r = run(e, queue_op(OP_PURGE, queue));
    EXPECT_OUT(r, OUT_OK);
    return r;
}

static void waiting_jobs_go(struct env *e)
{
    uint64_t a = put(e, "q"), b = put_delayed(e, "q", 1000);
    uint64_t done = put_priority(e, "q", 9);
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    uint64_t other = put(e, "other");
    const struct reply *r = purge(e, "q");
    if (!e->lossy)
        EXPECT_INT(r->changed, 2);
    EXPECT_STATE(a, STATE_NONE);
    EXPECT_STATE(b, STATE_NONE);
    EXPECT_STATE(done, STATE_DONE);
    EXPECT_STATE(other, STATE_READY);
    EXPECT_COUNTS("q", .done = 1);
    EXPECT_INT(claim(e, "q", 5)->job_count, 0);
    advance(e, 2000); /* the scheduled one does not come back */
    EXPECT_COUNTS("q", .done = 1);
    EXPECT_OUT(cancel(e, a), OUT_NOT_FOUND);
    EXPECT_INT(peek(e, "q", STATE_SCHEDULED, 5)->job_count, 0);
    EXPECT_INT(queue_get(e, "q")->counts.next_due.ms, 0);
    EXPECT_INT(purge(e, "q")->changed, 0);
}

static void running_jobs_stay(struct env *e)
{
    uint64_t first = put(e, "q"), second = put(e, "q"), third = put(e, "q");
    put(e, "q");
    struct held a = take(e, "q"), b = take(e, "q"), c = take(e, "q");
    purge(e, "q");
    EXPECT_COUNTS("q", .running = 3);
    EXPECT_OUT(ack(e, a), OUT_OK);
    EXPECT_OUT(release(e, b), OUT_OK); /* back to wait, after the purge */
    EXPECT_OUT(fail(e, c), OUT_OK);
    EXPECT_STATE(first, STATE_DONE);
    EXPECT_STATE(second, STATE_READY);
    EXPECT_STATE(third, STATE_SCHEDULED);
    EXPECT_INT(take(e, "q").seq, second);
    purge(e, "q");
    EXPECT_STATE(third, STATE_NONE);
    EXPECT_COUNTS("q", .running = 1, .done = 1);
}

static void running_job_crashes_after(struct env *e)
{
    uint64_t seq = put(e, "q");
    take_for(e, "q", 1000);
    purge(e, "q");
    advance(e, 1000);
    EXPECT_STATE(seq, STATE_READY);
    EXPECT_INT(take(e, "q").seq, seq);
}

static void keys_are_free(struct env *e)
{
    uint64_t running = put_unique(e, "q", "runs");
    struct held h = take(e, "q");
    put_unique(e, "q", "waits");
    EXPECT_INT(h.seq, running);
    purge(e, "q");
    put_unique(e, "q", "waits");
    struct op op = enqueue_op("q");
    op.enqueue.extra.unique = SPAN_LITERAL("runs");
    EXPECT_OUT(run(e, op), OUT_DUPLICATE);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_OUT(run(e, op), OUT_OK);
    settle(e); /* what was purged is removed, the new holder keeps its key */
    op.enqueue.extra.unique = SPAN_LITERAL("waits");
    EXPECT_OUT(run(e, op), OUT_DUPLICATE);
    EXPECT_COUNTS("q", .ready = 2, .done = 1);
}

/* Jobs that are enqueued after the purge survive it, also in the same batch. */
static void horizon(struct env *e)
{
    put(e, "q");
    struct op ops[] = {enqueue_op("q"), queue_op(OP_PURGE, "q"), enqueue_op("q"),
                       queue_op(OP_QUEUE_GET, "q")};
    const struct reply *r[4];
    run_batch(e, ops, 4, r);
    EXPECT_INT(r[1]->changed, 2);
    EXPECT_INT(r[3]->queues[0].counts.by_state[STATE_READY], 1);
    EXPECT_STATE(r[0]->seq, STATE_NONE);
    EXPECT_STATE(r[2]->seq, STATE_READY);
    settle(e);
    EXPECT_COUNTS("q", .ready = 1);
    EXPECT_INT(take(e, "q").seq, r[2]->seq);
}

/* More than one slice of removals: the jobs disappear at once nevertheless. */
static void many(struct env *e)
{
    struct op ops[500];
    const struct reply *r[500];
    for (int i = 0; i < 500; i++) {
        ops[i] = enqueue_op("q");
        ops[i].enqueue.delay_ms = i % 2;
    }
    for (int i = 0; i < 5; i++)
        run_batch(e, ops, 500, r);
    uint64_t last = r[499]->seq;
    struct op ask[] = {queue_op(OP_PURGE, "q"), queue_op(OP_QUEUE_GET, "q"), enqueue_op("q")};
    run_batch(e, ask, 3, r);
    EXPECT_INT(r[0]->changed, 2500);
    EXPECT_INT(r[1]->queues[0].counts.by_state[STATE_READY], 0);
    EXPECT_INT(r[1]->queues[0].counts.by_state[STATE_SCHEDULED], 0);
    EXPECT_STATE(last, STATE_NONE);
    EXPECT_COUNTS("q", .ready = 1);
    settle(e);
    struct backend_figures figures;
    backend_figures(e->b, &figures);
    EXPECT_INT(figures.jobs, 1);
}

static void expect_group(struct env *e, uint64_t ready, uint64_t running)
{
    struct op op = queue_op(OP_QUEUE_GET, "q");
    op.queue.group = SPAN_LITERAL("lib-1");
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->queues[0].counts.by_state[STATE_READY], ready);
    EXPECT_INT(r->queues[0].counts.by_state[STATE_RUNNING], running);
}

static void groups_are_empty(struct env *e)
{
    put_grouped(e, "q", "lib-1");
    put_grouped(e, "q", "lib-1");
    struct held h = take(e, "q");
    expect_group(e, 1, 1);
    purge(e, "q");
    expect_group(e, 0, 1);
    put_grouped(e, "q", "lib-1");
    expect_group(e, 1, 1);
    EXPECT_OUT(release(e, h), OUT_OK);
    expect_group(e, 2, 0);
    settle(e);
    expect_group(e, 2, 0);
    EXPECT_COUNTS("q", .ready = 2);
}

static void again_and_again(struct env *e)
{
    for (int i = 0; i < 20; i++) {
        put(e, "q");
        put_delayed(e, "q", 100);
        purge(e, "q");
    }
    uint64_t seq = put(e, "q");
    advance(e, 200);
    EXPECT_COUNTS("q", .ready = 1);
    EXPECT_INT(take(e, "q").seq, seq);
}

static const struct conform_case cases[] = {
    CASE("PDQ-10 purge covers ready and scheduled, at once", waiting_jobs_go),
    CASE("PDQ-10 running jobs survive and may come back", running_jobs_stay),
    CASE("a running job that crashes after a purge comes back", running_job_crashes_after),
    CASE("purge frees unique keys at once", keys_are_free),
    CASE("purge has a horizon", horizon, .flags = EXACT),
    CASE("purge of many jobs", many, .flags = EXACT),
    CASE("purge empties groups", groups_are_empty),
    CASE("purge again and again", again_and_again),
};
TOPIC(topic_purge, cases);
