/* SPDX-License-Identifier: Apache-2.0 */
/* Who works, and what the reply to a worker's word tells about the job and its lease. */
#include "conform/conform.h"

static struct held take_as(struct env *e, const char *queue, const char *worker)
{
    struct op op = claim_op(e, queue, 1);
    op.claim.worker = span_text(worker);
    const struct reply *r = run(e, op);
    EXPECT_INT(r->job_count, 1);
    return held_of(&r->jobs[0]);
}

static const struct reply *workers(struct env *e)
{
    const struct reply *r = run(e, (struct op){.kind = OP_WORKERS});
    EXPECT_OUT(r, OUT_OK);
    return r;
}

static void who_holds_leases(struct env *e)
{
    for (int i = 0; i < 5; i++)
        put(e, "q");
    EXPECT_INT(workers(e)->worker_total, 0);
    struct held a = take_as(e, "q", "anna"), b = take_as(e, "q", "bert");
    struct held a2 = take_as(e, "q", "anna");
    take(e, "q"); /* nameless */
    const struct reply *r = workers(e);
    EXPECT_INT(r->worker_total, 2);
    EXPECT_INT(r->worker_count, 2);
    EXPECT_TEXT(r->workers[0].name, "anna"); /* longest at it first */
    EXPECT_INT(r->workers[0].running, 2);
    EXPECT_TEXT(r->workers[1].name, "bert");
    EXPECT_INT(r->workers[1].running, 1);
    EXPECT_OUT(ack(e, a), OUT_OK);
    EXPECT_OUT(fail(e, b), OUT_OK);
    r = workers(e);
    EXPECT_INT(r->worker_total, 1);
    EXPECT_INT(r->workers[0].running, 1);
    EXPECT_OUT(release(e, a2), OUT_OK);
    EXPECT_INT(workers(e)->worker_total, 0);
    b = take_as(e, "q", "bert");
    a = take_as(e, "q", "anna");
    r = workers(e);
    EXPECT_TEXT(r->workers[0].name, "bert");
    EXPECT_OUT(cancel(e, b.seq), OUT_OK);
    r = workers(e);
    EXPECT_INT(r->worker_count, 1);
    EXPECT_TEXT(r->workers[0].name, "anna");
}

static void after_a_restart(struct env *e)
{
    put(e, "q");
    struct held h = take_as(e, "q", "anna");
    env_restart(e);
    const struct reply *r = workers(e);
    EXPECT_INT(r->worker_total, 1);
    EXPECT_TEXT(r->workers[0].name, "anna");
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_INT(workers(e)->worker_total, 0);
}

static void what_a_reply_tells(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    put(e, "q");
    advance(e, 3000);
    struct op op = claim_op(e, "q", 1);
    op.claim.worker = SPAN_LITERAL("anna");
    const struct reply *r = run(e, op);
    EXPECT_INT(r->job_count, 1);
    EXPECT_INT(r->jobs[0].waited_ms, 3000);
    struct held h = held_of(&r->jobs[0]);
    advance(e, 2000);
    r = run(e, lease_op(OP_EXTEND, h));
    EXPECT_TEXT(r->worker, "anna");
    EXPECT_TEXT(r->queue, "q");
    advance(e, 1500);
    r = fail(e, h);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->ran_ms, 3500);
    EXPECT_TEXT(r->worker, "anna");
    EXPECT_TEXT(r->queue, "q");
    r = fail(e, h); /* said again */
    EXPECT(r->repeat);
    EXPECT_INT(r->ran_ms, 0);
    EXPECT_TEXT(r->queue, "q");
    advance(e, 1000);
    h = take(e, "q");
    advance(e, 700);
    r = release(e, h);
    EXPECT_INT(r->ran_ms, 700);
    EXPECT_TEXT(r->worker, "");
    h = take_as(e, "q", "bert");
    advance(e, 250);
    r = ack(e, h);
    EXPECT_INT(r->ran_ms, 250);
    EXPECT_TEXT(r->worker, "bert");
    EXPECT_TEXT(r->queue, "q");
    EXPECT_TEXT(run(e, job_op(OP_REMOVE, h.seq))->queue, "q");
    EXPECT_TEXT(cancel(e, h.seq)->queue, ""); /* not there */
}

static void a_queue_that_is_gone(struct env *e)
{
    /* The reply waits for the disk while its queue goes; the name must not. */
    uint64_t seq = put(e, "a queue with a long name, so that it is no short text");
    const char *name = "a queue with a long name, so that it is no short text";
    struct op ops[2] = {job_op(OP_CANCEL, seq), queue_op(OP_QUEUE_DELETE, name)};
    const struct reply *r[2];
    run_batch(e, ops, 2, r);
    EXPECT_OUT(r[0], OUT_OK);
    EXPECT_TEXT(r[0]->queue, name);
    EXPECT_OUT(r[1], OUT_OK);
}

static void queue_of_a_change(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct op patch = {.kind = OP_PATCH, .patch = {.job = {.seq = seq}, .has_priority = true}};
    EXPECT_TEXT(run(e, patch)->queue, "q");
    EXPECT_TEXT(cancel(e, seq)->queue, "q");
    EXPECT_TEXT(requeue(e, seq)->queue, "q");
    struct held h = take(e, "q");
    EXPECT_INT(h.seq, seq);
    const struct reply *r = run(e, job_op(OP_REMOVE, seq));
    EXPECT_OUT(r, OUT_ILLEGAL);
    EXPECT_TEXT(r->queue, "q");
    r = claim(e, "q", 1);
    EXPECT_INT(r->job_count, 0);
}

static const struct conform_case cases[] = {
    CASE("workers: who holds leases", who_holds_leases, .flags = EXACT),
    CASE("workers: after a restart", after_a_restart, .flags = RESTART),
    CASE("workers: the fields of a reply", what_a_reply_tells, .flags = EXACT),
    CASE("workers: a reply outlives its queue", a_queue_that_is_gone, .flags = EXACT),
    CASE("workers: the queue of a change", queue_of_a_change),
};
TOPIC(topic_workers, cases);
