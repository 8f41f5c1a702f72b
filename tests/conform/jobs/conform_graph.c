/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs whose jobs partly exist already: by an idempotency key, by a unique key, or because the
 * ack of one of them enqueues the others. */
#include "conform/conform.h"
#include "core/jobs/dependency.h"

static struct op commit_op(struct op_enqueue *jobs, uint32_t count)
{
    return (struct op){.kind = OP_KV_COMMIT,
                       .kv_commit = {.enqueues = jobs, .enqueue_count = count, .jobs_alone = true}};
}

/* A job, and one in the queue "t" that depends on it. */
static const struct dependency_ref on_first[] = {{.index = 0}};
static const struct op_depends first = {.parents = on_first, .count = 1};

static struct op pair_op(struct op_enqueue jobs[2])
{
    jobs[0] = enqueue_op("p").enqueue;
    jobs[1] = enqueue_op("t").enqueue;
    jobs[1].depends = &first;
    return commit_op(jobs, 2);
}

static void acked_parent(struct env *e, bool kept)
{
    struct queue_policy p = test_policy();
    if (!kept)
        p.keep_done = 0, p.keep_done_ms = 0;
    queue_make(e, "p", &p);
    uint64_t seq = put(e, "p");
    struct held h = take(e, "p");
    struct dependency_ref refs[] = {{.job = {.seq = seq}}, {.index = 0}};
    struct op_depends parent = {.parents = refs, .count = 1}, both = {.parents = refs, .count = 2};
    struct op_enqueue next[] = {enqueue_op("n").enqueue, enqueue_op("n").enqueue};
    next[0].depends = &parent;
    next[1].depends = &both;
    struct op_kv_commit handoff = {.enqueues = next, .enqueue_count = 2};
    struct op op = lease_op(OP_ACK, h);
    op.lease.handoff = &handoff;
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->handoff->enqueued[0].state, STATE_READY);
    EXPECT_INT(r->handoff->enqueued[1].state, STATE_BLOCKED);
    settle_due(e);
    struct held one = take(e, "n");
    EXPECT_INT(get(e, one.seq)->dependent.counts[DEPENDENCY_END_DONE], 1);
    EXPECT_OUT(ack(e, one), OUT_OK);
    settle_due(e);
    EXPECT_INT(get(e, take(e, "n").seq)->dependent.counts[DEPENDENCY_END_DONE], 2);
}

/* The next job may depend on the job whose ack enqueues it: that one is done. */
static void handed_off(struct env *e)
{
    acked_parent(e, true);
}

static void handed_off_unkept(struct env *e)
{
    acked_parent(e, false);
}

/* The parent is there since an earlier request with its idempotency key. */
static void keyed_parent(struct env *e)
{
    struct op_enqueue jobs[2];
    struct op op = pair_op(jobs);
    jobs[0].idempotency_key = SPAN_LITERAL("own");
    EXPECT_OUT(run(e, op), OUT_OK);
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT(r->enqueued[0].repeat);
    uint64_t parent = r->enqueued[0].seq, waits = r->enqueued[1].seq;
    EXPECT_INT(r->enqueued[1].state, STATE_BLOCKED);
    settle_due(e);
    EXPECT_STATE(waits, STATE_BLOCKED);
    EXPECT_INT(get(e, waits)->waits, 1);
    EXPECT_OUT(ack(e, take(e, "p")), OUT_OK);
    settle_due(e);
    EXPECT_STATE(waits, STATE_READY);
    r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    uint64_t later = r->enqueued[1].seq;
    settle_due(e);
    EXPECT_STATE(later, STATE_READY);
    /* How it ended is not known any more. */
    EXPECT_OUT(run(e, job_op(OP_REMOVE, parent)), OUT_OK);
    r = run(e, op);
    EXPECT_OUT(r, OUT_INVALID);
    EXPECT_INT(r->failed, 1);
    EXPECT_COUNTS("t", .ready = 3);
}

/* The parent is there since an earlier request, and holds its unique key. */
static void unique_parent(struct env *e)
{
    struct op first_one = enqueue_op("p");
    first_one.enqueue.extra.unique = SPAN_LITERAL("k");
    uint64_t parent = put_op(e, first_one);
    struct op_enqueue jobs[2];
    struct op op = pair_op(jobs);
    jobs[0].extra.unique = SPAN_LITERAL("k");
    jobs[0].unique_mode = UNIQUE_RETURN;
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->enqueued[0].seq, parent);
    uint64_t child = r->enqueued[1].seq;
    settle_due(e);
    EXPECT_STATE(child, STATE_BLOCKED);
    EXPECT_OUT(ack(e, take(e, "p")), OUT_OK);
    settle_due(e);
    EXPECT_STATE(child, STATE_READY);
}

/* A job that exists does not get to depend on new ones: the request is refused as a whole. */
static void child_exists(struct env *e)
{
    struct op_enqueue jobs[2];
    struct op op = pair_op(jobs);
    jobs[1].idempotency_key = SPAN_LITERAL("then");
    EXPECT_OUT(run(e, op), OUT_OK);
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_KEY_REUSED);
    EXPECT_INT(r->failed, 1);
    EXPECT(r->failed_enqueue);
    op = pair_op(jobs);
    jobs[1].extra.unique = SPAN_LITERAL("k");
    jobs[1].unique_mode = UNIQUE_RETURN;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_OUT(run(e, op), OUT_DUPLICATE);
    EXPECT_COUNTS("p", .ready = 2);
    EXPECT_COUNTS("t", .blocked = 2);
    /* If all of it exists, it is a repeat. */
    jobs[0].idempotency_key = SPAN_LITERAL("a");
    jobs[1] = enqueue_op("t").enqueue;
    jobs[1].depends = &first;
    jobs[1].idempotency_key = SPAN_LITERAL("b");
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_COUNTS("p", .ready = 3);
}

/* A job cannot take the place of one on which it depends. */
static void replaced_parent(struct env *e)
{
    struct op old = enqueue_op("q");
    old.enqueue.extra.unique = SPAN_LITERAL("k");
    struct dependency_ref refs[] = {{.job = {.seq = put_op(e, old)}}};
    struct op_depends on_old = {.parents = refs, .count = 1};
    struct op next = old;
    next.enqueue.unique_mode = UNIQUE_REPLACE;
    next.enqueue.depends = &on_old;
    EXPECT_OUT(run(e, next), OUT_INVALID);
    EXPECT_STATE(refs[0].job.seq, STATE_READY);
}

/* Only a new job joins an open batch, and not in the place of its final job. */
static void joins_once(struct env *e)
{
    static const struct op_depends open = {.open = true};
    struct op then = enqueue_op("t");
    then.enqueue.depends = &open;
    then.enqueue.extra.unique = SPAN_LITERAL("final");
    uint64_t final = put_op(e, then);
    struct op old = enqueue_op("p");
    old.enqueue.extra.unique = SPAN_LITERAL("k");
    uint64_t there = put_op(e, old);
    struct op member = old;
    member.enqueue.unique_mode = UNIQUE_RETURN;
    member.enqueue.member_of.seq = final;
    const struct reply *r = run(e, member);
    EXPECT_OUT(r, OUT_DUPLICATE);
    EXPECT_INT(r->seq, there);
    struct op instead = enqueue_op("t");
    instead.enqueue.extra.unique = SPAN_LITERAL("final");
    instead.enqueue.unique_mode = UNIQUE_REPLACE;
    instead.enqueue.member_of.seq = final;
    EXPECT_OUT(run(e, instead), OUT_INVALID);
    EXPECT_STATE(final, STATE_BLOCKED);
    EXPECT_INT(get(e, final)->waits, 0);
}

static const struct conform_case cases[] = {
    CASE("HF-28 a hand-off may depend on the job that is acked", handed_off, EXACT),
    CASE("HF-28 also if its queue keeps no done jobs", handed_off_unkept, EXACT),
    CASE("HF-28 a job depends on one that an idempotency key finds", keyed_parent, EXACT),
    CASE("HF-28 a job depends on one that a unique key finds", unique_parent, EXACT),
    CASE("HF-28 a job that exists gets no new parents", child_exists, EXACT),
    CASE("HF-28 a job does not replace its parent", replaced_parent, EXACT),
    CASE("HF-28 only new jobs join an open batch", joins_once, EXACT),
};
TOPIC(topic_graph, cases, NEEDS_DEPENDENCIES);
