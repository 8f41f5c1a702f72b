/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that depend on others: C16, a child never starts before its parents have ended as declared,
 * and starts exactly once. */
#include "conform/conform.h"
#include "core/jobs/dependency.h"

/* Parents by sequence, ended with 0. */
static struct op child_op(struct env *e, const char *queue, const uint64_t *parents, uint8_t rule)
{
    struct op op = enqueue_op(queue);
    uint32_t count = 0;
    while (parents[count])
        count++;
    struct dependency_ref *refs = arena_array(&e->arena, count + 1, sizeof *refs);
    struct op_depends *d = arena_array(&e->arena, 1, sizeof *d);
    for (uint32_t i = 0; i < count; i++)
        refs[i].job.seq = parents[i];
    *d = (struct op_depends){.parents = refs, .count = count, .rule = rule};
    op.enqueue.depends = d;
    return op;
}

static uint64_t put_child(struct env *e, const uint64_t *parents, uint8_t rule)
{
    return put_op(e, child_op(e, "c", parents, rule));
}

static void waits_for_all(struct env *e)
{
    uint64_t parents[] = {put(e, "p"), put(e, "p"), 0};
    uint64_t child = put_child(e, parents, DEPENDENCY_CANCEL);
    EXPECT_STATE(child, STATE_BLOCKED);
    EXPECT_COUNTS("c", .blocked = 1);
    EXPECT_INT(claim(e, "c", 1)->job_count, 0);
    const struct job_view *v = get(e, child);
    EXPECT(v->is_dependent);
    EXPECT_INT(v->waits, 2);
    EXPECT_OUT(ack(e, take(e, "p")), OUT_OK);
    settle_due(e);
    EXPECT_STATE(child, STATE_BLOCKED);
    EXPECT_OUT(ack(e, take(e, "p")), OUT_OK);
    settle_due(e);
    EXPECT_STATE(child, STATE_READY);
    struct held h = take(e, "c");
    EXPECT_INT(h.seq, child);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_INT(get(e, child)->dependent.counts[DEPENDENCY_END_DONE], 2);
    EXPECT_COUNTS("c", .done = 1);
}

static void run_at_still_holds(struct env *e)
{
    uint64_t parents[] = {put(e, "p"), 0};
    struct op op = child_op(e, "c", parents, DEPENDENCY_CANCEL);
    op.enqueue.delay_ms = 60000;
    uint64_t child = put_op(e, op);
    EXPECT_STATE(child, STATE_BLOCKED);
    EXPECT_OUT(ack(e, take(e, "p")), OUT_OK);
    settle_due(e);
    EXPECT_STATE(child, STATE_SCHEDULED);
    advance(e, 60001);
    settle_due(e);
    EXPECT_STATE(child, STATE_READY);
}

static uint64_t parent_that(struct env *e, enum job_state ends)
{
    uint64_t seq = ends == STATE_NONE ? put(e, "x") : job_in(e, "x", ends, NULL);
    return seq;
}

/* The table of core/jobs/dependency.h, for parents that have ended before and after. */
static void rules(struct env *e)
{
    static const enum job_state ends[] = {STATE_DONE, STATE_DEAD, STATE_CANCELLED, STATE_NONE};
    static const enum job_state thens[DEPENDENCY_RULE_COUNT] = {[DEPENDENCY_CANCEL] =
                                                                    STATE_CANCELLED,
                                                                [DEPENDENCY_DEAD] = STATE_DEAD,
                                                                [DEPENDENCY_RUN] = STATE_READY};
    struct queue_policy p = test_policy();
    queue_make(e, "x", &p);
    for (size_t i = 0; i < 4; i++)
        for (uint8_t rule = 0; rule < DEPENDENCY_RULE_COUNT; rule++) {
            enum job_state then = ends[i] == STATE_DONE ? STATE_READY : thens[rule];
            if (ends[i] != STATE_NONE) { /* before */
                uint64_t parents[] = {parent_that(e, ends[i]), 0};
                uint64_t child = put_child(e, parents, rule);
                settle_due(e);
                EXPECT_STATE(child, then);
            }
            uint64_t parents[] = {put(e, "x"), 0};
            uint64_t child = put_child(e, parents, rule);
            EXPECT_STATE(child, STATE_BLOCKED);
            struct op bury;
            if (ends[i] == STATE_NONE) {
                EXPECT_OUT(run(e, job_op(OP_REMOVE, parents[0])), OUT_OK);
            } else if (ends[i] == STATE_CANCELLED) {
                EXPECT_OUT(cancel(e, parents[0]), OUT_OK);
            } else {
                struct held h = take(e, "x");
                bury = lease_op(ends[i] == STATE_DONE ? OP_ACK : OP_FAIL, h);
                bury.lease.no_retry = true;
                EXPECT_OUT(run(e, bury), OUT_OK);
            }
            settle_due(e);
            EXPECT_STATE(child, then);
            if (then == STATE_CANCELLED || then == STATE_DEAD)
                EXPECT_INT(get(e, child)->job.reason, REASON_DEPENDENCY_FAILED);
            run(e, queue_op(OP_PURGE, "c"));
        }
}

/* A failed attempt is not an end. */
static void retries(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "p", &p);
    uint64_t parents[] = {put(e, "p"), 0};
    uint64_t child = put_child(e, parents, DEPENDENCY_CANCEL);
    EXPECT_OUT(fail(e, take(e, "p")), OUT_OK);
    settle_due(e);
    EXPECT_STATE(child, STATE_BLOCKED);
    advance(e, 2000);
    EXPECT_OUT(ack(e, take(e, "p")), OUT_OK);
    settle_due(e);
    EXPECT_STATE(child, STATE_READY);
}

/* What happens to a parent after its end does not matter to the child. */
static void parents_later(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "x", &p);
    uint64_t dead[] = {job_in(e, "x", STATE_DEAD, NULL), 0};
    uint64_t cancelled = put_child(e, dead, DEPENDENCY_CANCEL);
    settle_due(e);
    EXPECT_STATE(cancelled, STATE_CANCELLED);
    EXPECT_OUT(requeue(e, dead[0]), OUT_OK);
    EXPECT_OUT(ack(e, take(e, "x")), OUT_OK);
    settle_due(e);
    EXPECT_STATE(cancelled, STATE_CANCELLED);
    /* A requeue of the child itself makes it an ordinary job. */
    EXPECT_OUT(requeue(e, cancelled), OUT_OK);
    EXPECT_STATE(cancelled, STATE_READY);
    EXPECT_OUT(run(e, job_op(OP_REMOVE, dead[0])), OUT_OK);
    settle_due(e);
    EXPECT_STATE(cancelled, STATE_READY);
}

/* Retention frees a parent that has ended; the child no longer needs it. */
static void retention(struct env *e)
{
    struct queue_policy p = test_policy();
    p.keep_done = 0;
    p.keep_done_ms = 1;
    queue_make(e, "p", &p);
    uint64_t parents[] = {put(e, "p"), put(e, "p"), 0};
    uint64_t child = put_child(e, parents, DEPENDENCY_CANCEL);
    EXPECT_OUT(ack(e, take(e, "p")), OUT_OK);
    advance(e, 5000);
    settle_due(e);
    EXPECT_STATE(parents[0], STATE_NONE);
    EXPECT_STATE(child, STATE_BLOCKED);
    EXPECT_OUT(ack(e, take(e, "p")), OUT_OK);
    settle_due(e);
    EXPECT_STATE(child, STATE_READY);
}

static void blocked_job_moves(struct env *e)
{
    uint64_t parents[] = {put(e, "p"), 0};
    uint64_t a = put_child(e, parents, DEPENDENCY_CANCEL), b = put_child(e, parents, 0);
    struct op patch = {.kind = OP_PATCH,
                       .patch = {.job = {.seq = a},
                                 .has_priority = true,
                                 .priority = 5,
                                 .has_run_at = true,
                                 .run_at = now_plus(e, 1000)}};
    EXPECT_OUT(run(e, patch), OUT_OK);
    EXPECT_STATE(a, STATE_BLOCKED);
    EXPECT_INT(get(e, a)->job.priority, 5);
    EXPECT_OUT(requeue(e, a), OUT_ILLEGAL);
    EXPECT_OUT(run(e, job_op(OP_REMOVE, b)), OUT_OK);
    EXPECT_OUT(cancel(e, a), OUT_OK);
    settle_due(e);
    EXPECT_OUT(ack(e, take(e, "p")), OUT_OK);
    settle_due(e);
    EXPECT_STATE(a, STATE_CANCELLED);
    EXPECT_STATE(b, STATE_NONE);
}

/* A blocked job expires, holds its unique key, and counts. */
static void blocked_job_waits(struct env *e)
{
    struct queue_policy p = test_policy();
    p.capacity = 1;
    queue_make(e, "c", &p);
    uint64_t parents[] = {put(e, "p"), 0};
    struct op op = child_op(e, "c", parents, DEPENDENCY_CANCEL);
    op.enqueue.extra.unique = SPAN_LITERAL("k");
    op.enqueue.extra.expires_at = now_plus(e, 5000);
    uint64_t child = put_op(e, op);
    struct op other = enqueue_op("c");
    EXPECT_OUT(run(e, other), OUT_QUEUE_FULL);
    other.enqueue.extra.unique = SPAN_LITERAL("k");
    EXPECT_OUT(run(e, other), OUT_DUPLICATE);
    advance(e, 6000);
    settle_due(e);
    EXPECT_STATE(child, STATE_DEAD);
    EXPECT_INT(get(e, child)->job.reason, REASON_EXPIRED);
    EXPECT_OUT(ack(e, take(e, "p")), OUT_OK);
    settle_due(e);
    EXPECT_STATE(child, STATE_DEAD);
}

static void purged(struct env *e)
{
    uint64_t parents[] = {put(e, "p"), 0};
    uint64_t run_anyway = put_child(e, parents, DEPENDENCY_RUN);
    EXPECT_OUT(run(e, queue_op(OP_PURGE, "p")), OUT_OK);
    settle_due(e);
    EXPECT_STATE(run_anyway, STATE_READY);
    uint64_t again[] = {put(e, "p"), 0};
    uint64_t child = put_child(e, again, DEPENDENCY_RUN);
    EXPECT_OUT(run(e, queue_op(OP_PURGE, "c")), OUT_OK);
    EXPECT_OUT(ack(e, take(e, "p")), OUT_OK);
    settle_due(e);
    EXPECT_STATE(child, STATE_NONE);
    uint64_t third[] = {put(e, "p"), 0};
    uint64_t left = put_child(e, third, DEPENDENCY_CANCEL);
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_DELETE, "p")), OUT_OK);
    settle_due(e);
    EXPECT_STATE(left, STATE_CANCELLED);
}

static void refusals(struct env *e)
{
    uint64_t unknown[] = {4711, 0};
    EXPECT_OUT(run(e, child_op(e, "c", unknown, 0)), OUT_INVALID);
    uint64_t gone[] = {put(e, "p"), 0};
    EXPECT_OUT(run(e, job_op(OP_REMOVE, gone[0])), OUT_OK);
    EXPECT_OUT(run(e, child_op(e, "c", gone, 0)), OUT_INVALID);
    uint64_t there[] = {put(e, "p"), 0};
    EXPECT_OUT(run(e, child_op(e, "c", there, DEPENDENCY_RULE_COUNT)), OUT_INVALID);
    struct op self = child_op(e, "c", there, 0);
    ((struct dependency_ref *)(uintptr_t)self.enqueue.depends->parents)->job.seq = 0;
    EXPECT_OUT(run(e, self), OUT_INVALID);
    uint64_t twice[] = {there[0], there[0], 0};
    uint64_t child = put_child(e, twice, 0);
    EXPECT_INT(get(e, child)->waits, 1);
    struct op more = {.kind = OP_DEPENDENCIES, .dependencies = {.job = {.seq = child}}};
    EXPECT_OUT(run(e, more), OUT_ILLEGAL); /* it is not open */
}

/* A graph in one commit: 0 and 1, 2 after both, 3 after 2. */
static void graph(struct env *e)
{
    static const struct dependency_ref of_2[] = {{.index = 0}, {.index = 1}},
                                       of_3[] = {{.index = 2}};
    static const struct op_depends two = {.parents = of_2, .count = 2},
                                   three = {.parents = of_3, .count = 1};
    struct op_enqueue jobs[4];
    for (int i = 0; i < 4; i++)
        jobs[i] = enqueue_op("q").enqueue;
    jobs[2].depends = &two;
    jobs[3].depends = &three;
    struct op op = {.kind = OP_KV_COMMIT,
                    .kv_commit = {.enqueues = jobs, .enqueue_count = 4, .jobs_alone = true}};
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->enqueued[2].state, STATE_BLOCKED);
    EXPECT_COUNTS("q", .ready = 2, .blocked = 2);
    for (int i = 0; i < 4; i++) {
        EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
        settle_due(e);
    }
    EXPECT_COUNTS("q", .done = 4);
    jobs[0].depends = &three; /* on a later one */
    EXPECT_OUT(run(e, op), OUT_INVALID);
    EXPECT_COUNTS("q", .done = 4);
}

/* A job that is open gets more parents, by name and by enqueue, until it is closed. */
static void open_job(struct env *e)
{
    static const struct op_depends open = {.open = true};
    struct op then = enqueue_op("t");
    then.enqueue.depends = &open;
    uint64_t seq = put_op(e, then);
    settle_due(e);
    EXPECT_STATE(seq, STATE_BLOCKED);
    struct op member = enqueue_op("p");
    member.enqueue.member_of.seq = seq;
    uint64_t first = put_op(e, member), other = put(e, "p");
    EXPECT_INT(get(e, seq)->waits, 1);
    struct job_ref refs[] = {{.seq = other}, {.seq = first}};
    struct op more = {.kind = OP_DEPENDENCIES,
                      .dependencies = {.job = {.seq = seq}, .parents = refs, .count = 2}};
    EXPECT_OUT(run(e, more), OUT_OK);
    EXPECT_INT(get(e, seq)->waits, 2);
    EXPECT_OUT(ack(e, take(e, "p")), OUT_OK);
    EXPECT_OUT(ack(e, take(e, "p")), OUT_OK);
    settle_due(e);
    EXPECT_STATE(seq, STATE_BLOCKED);
    /* A loop: a job that waits for it cannot become its parent. */
    uint64_t after[] = {seq, 0};
    struct job_ref loop = {.seq = put_child(e, after, 0)}, self = {.seq = seq};
    more.dependencies = (struct op_dependencies){.job = {.seq = seq}, .parents = &loop, .count = 1};
    EXPECT_OUT(run(e, more), OUT_INVALID);
    more.dependencies.parents = &self;
    EXPECT_OUT(run(e, more), OUT_INVALID);
    more.dependencies = (struct op_dependencies){.job = {.seq = seq}, .close = true};
    EXPECT_OUT(run(e, more), OUT_OK);
    settle_due(e);
    EXPECT_STATE(seq, STATE_READY);
    EXPECT_OUT(run(e, member), OUT_ILLEGAL);
    EXPECT_INT(get(e, seq)->dependent.counts[DEPENDENCY_END_NONE], 2);
}

/* Everything survives: the rule, the counts, what is waited for. */
static void restarts(struct env *e)
{
    uint64_t parents[] = {put(e, "p"), put(e, "p"), put(e, "p"), 0};
    uint64_t child = put_child(e, parents, DEPENDENCY_RUN);
    uint64_t strict = put_child(e, parents, DEPENDENCY_DEAD);
    EXPECT_OUT(ack(e, take(e, "p")), OUT_OK);
    settle_due(e);
    env_restart(e);
    EXPECT_INT(get(e, child)->waits, 2);
    EXPECT_INT(get(e, child)->dependent.counts[DEPENDENCY_END_DONE], 1);
    EXPECT_OUT(cancel(e, parents[1]), OUT_OK);
    env_restart(e);
    settle_due(e);
    EXPECT_STATE(strict, STATE_DEAD);
    EXPECT_STATE(child, STATE_BLOCKED);
    EXPECT_OUT(ack(e, take(e, "p")), OUT_OK);
    env_restart(e);
    settle_due(e);
    EXPECT_STATE(child, STATE_READY);
    EXPECT_INT(get(e, child)->dependent.counts[DEPENDENCY_END_CANCELLED], 1);
    EXPECT_INT(take(e, "c").seq, child);
    EXPECT_INT(claim(e, "c", 1)->job_count, 0);
}

static const struct conform_case cases[] = {
    CASE("HF-28 a job waits until all of its parents have ended", waits_for_all),
    CASE("HF-28 run_at holds after the parents have ended", run_at_still_holds),
    CASE("HF-28 the rule says what a parent that did not end well means", rules),
    CASE("HF-28 a retry is not an end", retries),
    CASE("HF-28 what a parent does after its end does not matter", parents_later),
    CASE("HF-28 retention removes a parent that has ended", retention),
    CASE("HF-28 a blocked job can be patched, cancelled and removed", blocked_job_moves),
    CASE("HF-28 a blocked job expires, holds its key and takes room", blocked_job_waits, EXACT),
    CASE("HF-28 purge and delete of parents and children", purged),
    CASE("HF-28 unknown parents and loops are refused", refusals, EXACT),
    CASE("HF-28 a graph of jobs is one commit", graph, EXACT),
    CASE("HF-28 an open job gets more parents", open_job, EXACT),
    CASE("HF-28 dependencies survive a restart", restarts, RESTART),
};
TOPIC(topic_dependencies, cases, NEEDS_DEPENDENCIES);
