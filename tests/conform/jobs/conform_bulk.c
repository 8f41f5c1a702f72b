/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk actions: by queue, state and group; conflicts are reported, the rest is done. */
#include "conform/conform.h"

static struct op bulk_op(enum bulk_action action, const char *queue, unsigned states)
{
    return (struct op){
        .kind = OP_BULK,
        .bulk = {.action = (uint8_t)action, .queue = span_text(queue), .states = states}};
}

static void expect_bulk(struct env *e, struct op op, uint64_t changed, uint64_t refused)
{
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    if (e->lossy) /* a repeat finds less to do */
        return;
    EXPECT_INT(r->changed, changed);
    EXPECT_INT(r->refused, refused);
}

static uint64_t dead_unique(struct env *e, const char *unique)
{
    uint64_t seq = put_unique(e, "q", unique);
    struct op bury = lease_op(OP_FAIL, take(e, "q"));
    bury.lease.no_retry = true;
    EXPECT_OUT(run(e, bury), OUT_OK);
    return seq;
}

static void retry_errors(struct env *e)
{
    uint64_t a = dead_unique(e, "a"), b = dead_unique(e, "b"), c = dead_unique(e, "c");
    uint64_t holder = put_unique(e, "q", "b"); /* b's key was taken meanwhile */
    expect_bulk(e, bulk_op(BULK_REQUEUE, "q", STATE_BIT(STATE_DEAD)), 2, 1);
    EXPECT_STATE(a, STATE_READY);
    EXPECT_STATE(b, STATE_DEAD);
    EXPECT_STATE(c, STATE_READY);
    EXPECT_STATE(holder, STATE_READY);
    EXPECT_INT(get(e, a)->job.failures, 0);
    EXPECT_COUNTS("q", .ready = 3, .dead = 1);
    EXPECT_INT(take(e, "q").seq, a);
    EXPECT_INT(take(e, "q").seq, c);
    EXPECT_INT(take(e, "q").seq, holder);
}

/* Two dead jobs with one key: one of them can be requeued, not both. */
static void two_with_one_key(struct env *e)
{
    uint64_t a = dead_unique(e, "k"), b = dead_unique(e, "k");
    expect_bulk(e, bulk_op(BULK_REQUEUE, "q", 0), 1, 1);
    EXPECT_COUNTS("q", .ready = 1, .dead = 1);
    EXPECT(get(e, a)->job.state != get(e, b)->job.state);
}

static void clear_completed_and_errors(struct env *e)
{
    uint64_t done = job_in(e, "q", STATE_DONE, NULL), dead = job_in(e, "q", STATE_DEAD, NULL);
    uint64_t running = job_in(e, "q", STATE_RUNNING, NULL);
    uint64_t ready = job_in(e, "q", STATE_READY, NULL);
    uint64_t foreign = job_in(e, "other", STATE_DONE, NULL);
    expect_bulk(e, bulk_op(BULK_REMOVE, "q", STATE_BIT(STATE_DONE)), 1, 0);
    EXPECT_STATE(done, STATE_NONE);
    EXPECT_COUNTS("q", .ready = 1, .running = 1, .dead = 1);
    expect_bulk(e, bulk_op(BULK_REMOVE, "q", STATE_BIT(STATE_DEAD)), 1, 0);
    EXPECT_STATE(dead, STATE_NONE);
    expect_bulk(e, bulk_op(BULK_REMOVE, "q", STATES_ALL), 1, 0); /* never the running one */
    EXPECT_STATE(ready, STATE_NONE);
    EXPECT_STATE(running, STATE_RUNNING);
    EXPECT_STATE(foreign, STATE_DONE);
}

static uint64_t job_of_group(struct env *e, const char *group, enum job_state state)
{
    uint64_t seq = put_grouped(e, "q", group);
    struct op op = lease_op(state == STATE_DONE ? OP_ACK : OP_FAIL, take(e, "q"));
    op.lease.no_retry = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    return seq;
}

static void by_group(struct env *e)
{
    uint64_t a = job_of_group(e, "lib-1", STATE_DEAD), b = job_of_group(e, "lib-2", STATE_DEAD);
    uint64_t c = job_of_group(e, "lib-1", STATE_DONE);
    struct op op = bulk_op(BULK_REQUEUE, "q", STATE_BIT(STATE_DEAD));
    op.bulk.group = SPAN_LITERAL("lib-1");
    expect_bulk(e, op, 1, 0);
    EXPECT_STATE(a, STATE_READY);
    EXPECT_STATE(b, STATE_DEAD);
    op = bulk_op(BULK_REMOVE, "q", STATE_BIT(STATE_DONE));
    op.bulk.group = SPAN_LITERAL("lib-2");
    expect_bulk(e, op, 0, 0);
    EXPECT_STATE(c, STATE_DONE);
    op.bulk.group = SPAN_LITERAL("lib-1");
    expect_bulk(e, op, 1, 0);
    EXPECT_STATE(c, STATE_NONE);
    op.bulk.group = SPAN_LITERAL("no such group");
    expect_bulk(e, op, 0, 0);
    EXPECT_COUNTS("q", .ready = 1, .dead = 1);
}

static void cancel_all(struct env *e)
{
    uint64_t running = job_in(e, "q", STATE_RUNNING, NULL);
    uint64_t ready = put(e, "q"), scheduled = put_delayed(e, "q", 5000);
    expect_bulk(e, bulk_op(BULK_CANCEL, "q", STATES_WAITING), 2, 0);
    EXPECT_STATE(running, STATE_RUNNING);
    EXPECT_STATE(ready, STATE_CANCELLED);
    EXPECT_STATE(scheduled, STATE_CANCELLED);
    EXPECT_INT(get(e, ready)->job.reason, REASON_CANCELLED);
    expect_bulk(e, bulk_op(BULK_CANCEL_NOW, "q", STATES_LIVE), 1, 0);
    EXPECT_STATE(running, STATE_CANCELLED);
    EXPECT_INT(claim(e, "q", 5)->job_count, 0);
    EXPECT_COUNTS("q", .cancelled = 3);
}

static void wrong_asks(struct env *e)
{
    put(e, "q");
    EXPECT_OUT(run(e, bulk_op((enum bulk_action)0, "q", 0)), OUT_INVALID);
    EXPECT_OUT(run(e, bulk_op((enum bulk_action)9, "q", 0)), OUT_INVALID);
    expect_bulk(e, bulk_op(BULK_REQUEUE, "q", STATE_BIT(STATE_DONE)), 0, 0); /* cannot start */
    EXPECT_COUNTS("q", .ready = 1);
}

/* A request that names no states must not change every job of the queue. */
static void states_left_out(struct env *e)
{
    uint64_t dead = job_in(e, "q", STATE_DEAD, NULL), done = job_in(e, "q", STATE_DONE, NULL);
    uint64_t cancelled = job_in(e, "q", STATE_CANCELLED, NULL);
    uint64_t scheduled = put_delayed(e, "q", 5000);
    static const enum bulk_action strict[] = {BULK_CANCEL, BULK_REMOVE};
    for (size_t i = 0; i < sizeof strict / sizeof *strict; i++) {
        const struct reply *r = run(e, bulk_op(strict[i], "q", 0));
        EXPECT_OUT(r, OUT_INVALID);
        EXPECT(r->note && strncmp(r->note, "states ", 7) == 0);
    }
    EXPECT_COUNTS("q", .scheduled = 1, .done = 1, .dead = 1, .cancelled = 1);
    expect_bulk(e, bulk_op(BULK_REQUEUE, "q", 0), 1, 0);
    EXPECT_STATE(dead, STATE_READY);
    EXPECT_STATE(cancelled, STATE_CANCELLED);
    EXPECT_STATE(scheduled, STATE_SCHEDULED);
    EXPECT_STATE(done, STATE_DONE);
}

/* Later jobs are not affected, also in the same batch. */
static void horizon(struct env *e)
{
    put(e, "q");
    struct op ops[] = {bulk_op(BULK_CANCEL, "q", STATES_WAITING), enqueue_op("q"), enqueue_op("q")};
    const struct reply *r[3];
    run_batch(e, ops, 3, r);
    EXPECT_INT(r[0]->changed, 1);
    EXPECT_STATE(r[1]->seq, STATE_READY);
    EXPECT_COUNTS("q", .ready = 2, .cancelled = 1);
}

/* More than one slice, with claims and acks in between. */
static void many(struct env *e)
{
    struct op ops[500];
    const struct reply *r[500];
    for (int i = 0; i < 500; i++)
        ops[i] = enqueue_op("q");
    for (int i = 0; i < 5; i++)
        run_batch(e, ops, 500, r);
    struct op ask = bulk_op(BULK_CANCEL, "q", STATES_WAITING);
    struct pending *p = submit(e, &ask, 1, r);
    uint64_t acked = 0;
    while (pending_left(p) > 0) {
        const struct reply *c = claim(e, "q", 10);
        for (uint32_t i = 0; i < c->job_count; i++) {
            EXPECT_OUT(ack(e, held_of(&c->jobs[i])), OUT_OK);
            acked++;
        }
    }
    wait_for(e, p);
    EXPECT_OUT(r[0], OUT_OK);
    EXPECT_INT(r[0]->changed + acked, 2500);
    EXPECT_COUNTS("q", .done = acked, .cancelled = 2500 - acked);
}

/* Jobs that failed before the wall clock was set back are still affected. */
static void clock_set_back(struct env *e)
{
    uint64_t seq = job_in(e, "q", STATE_DEAD, NULL);
    advance(e, 1000);
    e->clock.at.wall.ms -= 600000;
    settle(e);
    expect_bulk(e, bulk_op(BULK_REQUEUE, "q", STATE_BIT(STATE_DEAD)), 1, 0);
    EXPECT_STATE(seq, STATE_READY);
}

static void wakes_the_waiting(struct env *e)
{
    uint64_t seq = job_in(e, "q", STATE_DEAD, NULL);
    struct watcher *w = watch(e, "q");
    EXPECT_INT(claim(e, "q", 1)->job_count, 0);
    expect_bulk(e, bulk_op(BULK_REQUEUE, "q", 0), 1, 0);
    EXPECT(signalled(e, w));
    EXPECT_INT(take(e, "q").seq, seq);
}

static const struct conform_case cases[] = {
    CASE("NOM-7 retry errors: conflicts reported, the rest done", retry_errors),
    CASE("NOM-7 NOM-3 two dead jobs with one key", two_with_one_key),
    CASE("NOM-7 HF-16 clear completed, clear errors", clear_completed_and_errors),
    CASE("NOM-7 NOM-14 by group", by_group),
    CASE("HF-7 cancel waiting jobs, then running ones", cancel_all),
    CASE("bulk: an unknown action and illegal states are refused", wrong_asks),
    CASE("bulk: cancel and remove name their states, requeue means dead jobs", states_left_out),
    CASE("bulk applies to jobs that existed at the request", horizon, .flags = EXACT),
    CASE("NOM-7 bulk over many jobs while others work", many, .flags = EXACT),
    CASE("NOM-7 bulk after the wall clock was set back", clock_set_back),
    CASE("NOM-7 a bulk requeue wakes waiting claims", wakes_the_waiting),
};
TOPIC(topic_bulk, cases);
