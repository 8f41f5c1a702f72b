/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept and for how long: finished jobs by age and count, jobs that expire before they run.
 */
#include "conform/conform.h"

static void keep_queue(struct env *e, uint64_t count, int64_t ms)
{
    struct queue_policy p = test_policy();
    p.keep_done = p.keep_dead = count;
    p.keep_done_ms = p.keep_dead_ms = ms;
    queue_make(e, "q", &p);
}

static void done_by_count(struct env *e)
{
    keep_queue(e, 3, INT64_MAX);
    uint64_t seqs[6];
    for (int i = 0; i < 6; i++)
        seqs[i] = job_in(e, "q", STATE_DONE, NULL);
    settle(e);
    EXPECT_COUNTS("q", .done = 3);
    for (int i = 0; i < 6; i++)
        EXPECT_STATE(seqs[i], i < 3 ? STATE_NONE : STATE_DONE);
    uint64_t dead = job_in(e, "q", STATE_DEAD, NULL); /* a count of its own */
    EXPECT_COUNTS("q", .done = 3, .dead = 1);
    EXPECT_STATE(dead, STATE_DEAD);
}

static void done_by_age(struct env *e)
{
    keep_queue(e, UINT64_MAX, 10000);
    uint64_t first = job_in(e, "q", STATE_DONE, NULL);
    advance(e, 4000);
    uint64_t second = job_in(e, "q", STATE_DONE, NULL);
    advance(e, 5999);
    EXPECT_STATE(first, STATE_DONE);
    advance(e, 1);
    EXPECT_STATE(first, STATE_NONE);
    EXPECT_STATE(second, STATE_DONE);
    advance(e, 4000);
    EXPECT_COUNTS("q", 0);
}

/* A long time passes at once; live jobs are not touched by age. */
static void live_jobs_do_not_age(struct env *e)
{
    keep_queue(e, UINT64_MAX, 30000);
    uint64_t done = job_in(e, "q", STATE_DONE, NULL);
    uint64_t ready = put(e, "q"), scheduled = put_delayed(e, "q", INT64_C(365) * 86400000);
    stand_still(e, INT64_C(30) * 86400000);
    EXPECT_STATE(done, STATE_NONE);
    EXPECT_STATE(ready, STATE_READY);
    EXPECT_STATE(scheduled, STATE_SCHEDULED);
}

static void dead_by_count_and_age(struct env *e)
{
    keep_queue(e, 2, 20000);
    uint64_t seqs[3];
    for (int i = 0; i < 3; i++) {
        seqs[i] = job_in(e, "q", STATE_DEAD, NULL);
        advance(e, 1000);
    }
    EXPECT_STATE(seqs[0], STATE_NONE);
    EXPECT_COUNTS("q", .dead = 2);
    advance(e, 18000);
    EXPECT_STATE(seqs[1], STATE_NONE);
    EXPECT_STATE(seqs[2], STATE_DEAD);
    advance(e, 1000);
    EXPECT_COUNTS("q", 0);
}

static void errors_stay(struct env *e)
{
    struct queue_policy p = test_policy();
    p.keep_done_ms = 1000;
    p.keep_dead = UINT64_MAX;
    p.keep_dead_ms = INT64_MAX;
    queue_make(e, "q", &p);
    uint64_t dead = job_in(e, "q", STATE_DEAD, NULL), done = job_in(e, "q", STATE_DONE, NULL);
    stand_still(e, INT64_C(400) * 86400000);
    EXPECT_STATE(done, STATE_NONE);
    EXPECT_STATE(dead, STATE_DEAD);
}

static void cancelled_follow_done(struct env *e)
{
    keep_queue(e, 2, 10000);
    uint64_t seqs[3];
    for (int i = 0; i < 3; i++)
        seqs[i] = job_in(e, "q", STATE_CANCELLED, NULL);
    settle(e);
    EXPECT_STATE(seqs[0], STATE_NONE);
    EXPECT_COUNTS("q", .cancelled = 2);
    advance(e, 10000);
    EXPECT_COUNTS("q", 0);
}

/* Nothing is kept, and still the same word gets the same answer. */
static void keep_none(struct env *e)
{
    keep_queue(e, 0, 0);
    struct held h;
    uint64_t seq = job_in(e, "q", STATE_DONE, &h);
    settle(e);
    EXPECT_STATE(seq, STATE_NONE);
    EXPECT_COUNTS("q", 0);
    const struct reply *r = ack(e, h);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->state, STATE_DONE);
    put_unique(e, "q", "k");
    EXPECT_OUT(fail(e, take(e, "q")), OUT_OK);
    EXPECT_COUNTS("q", .scheduled = 1);
}

static void policy_change_prunes(struct env *e)
{
    keep_queue(e, UINT64_MAX, INT64_MAX);
    for (int i = 0; i < 5; i++)
        job_in(e, "q", STATE_DONE, NULL);
    EXPECT_COUNTS("q", .done = 5);
    keep_queue(e, 2, INT64_MAX);
    settle(e);
    EXPECT_COUNTS("q", .done = 2);
    keep_queue(e, 2, 500);
    advance(e, 500);
    EXPECT_COUNTS("q", 0);
}

/* More than one slice. */
static void many(struct env *e)
{
    keep_queue(e, UINT64_MAX, 2000);
    struct op ops[1000];
    const struct reply *r[1000];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 800; i++)
            ops[i] = enqueue_op("q");
        run_batch(e, ops, 800, r);
        const struct reply *c = claim(e, "q", 800);
        EXPECT_INT(c->job_count, 800);
        for (int i = 0; i < 800; i++)
            ops[i] = lease_op(OP_ACK, held_of(&c->jobs[i]));
        run_batch(e, ops, 800, r);
    }
    EXPECT_COUNTS("q", .done = 2400);
    advance(e, 2000);
    EXPECT_COUNTS("q", 0);
    struct backend_figures figures;
    backend_figures(e->b, &figures);
    EXPECT_INT(figures.jobs, 0);
}

/* --- expires_at --- */

static uint64_t put_expiring(struct env *e, int64_t in_ms, int64_t delay_ms)
{
    struct op op = enqueue_op("q");
    op.enqueue.extra.expires_at = now_plus(e, in_ms);
    op.enqueue.delay_ms = delay_ms;
    return put_op(e, op);
}

static void expires(struct env *e)
{
    uint64_t ready = put_expiring(e, 2000, 0), scheduled = put_expiring(e, 3000, 5000);
    advance(e, 1999);
    EXPECT_STATE(ready, STATE_READY);
    advance(e, 1);
    EXPECT_STATE(ready, STATE_DEAD);
    EXPECT_INT(get(e, ready)->job.reason, REASON_EXPIRED);
    EXPECT_STATE(scheduled, STATE_SCHEDULED);
    advance(e, 1000);
    EXPECT_STATE(scheduled, STATE_DEAD);
    EXPECT_COUNTS("q", .dead = 2);
    EXPECT_INT(claim(e, "q", 5)->job_count, 0);
}

/* The claim comes in the very turn in which time has moved: before any tick. */
static void expired_at_claim_time(struct env *e)
{
    uint64_t late = put_expiring(e, 1000, 0), good = put(e, "q");
    settle(e);
    clock_manual_advance(&e->clock, 1000);
    const struct reply *r = claim(e, "q", 2);
    EXPECT_INT(r->job_count, 1);
    EXPECT_INT(r->jobs[0].job.seq, good);
    settle(e);
    EXPECT_STATE(late, STATE_DEAD);
}

static void running_jobs_do_not_expire(struct env *e)
{
    uint64_t acked = put_expiring(e, 1000, 0), released = put_expiring(e, 1000, 0);
    struct held a = take(e, "q"), b = take(e, "q");
    advance(e, 5000);
    EXPECT_STATE(acked, STATE_RUNNING);
    EXPECT_OUT(ack(e, a), OUT_OK);
    EXPECT_STATE(acked, STATE_DONE);
    EXPECT_OUT(release(e, b), OUT_OK); /* waits again: too late for that */
    EXPECT_INT(claim(e, "q", 1)->job_count, 0);
    advance(e, 2000);
    EXPECT_STATE(released, STATE_DEAD);
    EXPECT_INT(get(e, released)->job.reason, REASON_EXPIRED);
}

static void expired_on_arrival(struct env *e)
{
    struct op op = enqueue_op("q");
    op.enqueue.extra.expires_at = now_plus(e, -1);
    const struct reply *r = run(e, op);
    EXPECT(r->outcome == OUT_OK || r->outcome == OUT_INVALID);
    EXPECT_INT(claim(e, "q", 1)->job_count, 0);
}

static void expiry_frees_the_key(struct env *e)
{
    struct op op = enqueue_op("q");
    op.enqueue.extra.expires_at = now_plus(e, 1000);
    op.enqueue.extra.unique = SPAN_LITERAL("k");
    put_op(e, op);
    advance(e, 1000);
    put_unique(e, "q", "k");
    EXPECT_COUNTS("q", .ready = 1, .dead = 1);
}

static void real_clock(struct backend_config *c)
{
    c->clock.manual = false; /* moved by hand all the same */
}

/* A clock that jumped must not delete the history; run_at still follows it. */
static void leap_prunes_nothing(struct env *e)
{
    struct queue_policy p = test_policy();
    p.keep_done_ms = 60000;
    queue_make(e, "q", &p);
    uint64_t done = job_in(e, "q", STATE_DONE, NULL);
    uint64_t due = put_delayed(e, "q", 60000);
    e->clock.at.wall.ms += 2 * 3600000;
    settle_due(e);
    EXPECT_STATE(done, STATE_DONE);
    EXPECT_STATE(due, STATE_READY);
    EXPECT_INT(run(e, (struct op){.kind = OP_ACCEPT_CLOCK})->was_suspect, 1);
    settle_due(e);
    EXPECT_OUT(run(e, (struct op){.kind = OP_GET, .job = {.job = {.seq = done}}}), OUT_NOT_FOUND);
}

/* Set back, it keeps history longer, and brings nothing forward. */
static void set_back_keeps_longer(struct env *e)
{
    struct queue_policy p = test_policy();
    p.keep_done_ms = 60000;
    queue_make(e, "q", &p);
    uint64_t done = job_in(e, "q", STATE_DONE, NULL);
    uint64_t due = put_delayed(e, "q", 30000);
    e->clock.at.wall.ms -= 3600000;
    settle_due(e);
    advance(e, 120000);
    EXPECT_STATE(done, STATE_DONE);
    EXPECT_STATE(due, STATE_SCHEDULED);
    e->clock.at.wall.ms += 3600000; /* right again: not far enough to be suspect */
    settle_due(e);
    EXPECT_STATE(due, STATE_READY);
    EXPECT_OUT(run(e, (struct op){.kind = OP_GET, .job = {.job = {.seq = done}}}), OUT_NOT_FOUND);
}

static const struct conform_case cases[] = {
    CASE("NOM-10 done jobs are kept by count", done_by_count),
    CASE("NOM-10 done jobs are kept by age", done_by_age),
    CASE("NOM-10 live jobs have no age", live_jobs_do_not_age),
    CASE("dead jobs are kept by count and age", dead_by_count_and_age),
    CASE("NOM-10 errors stay until cleared", errors_stay),
    CASE("cancelled jobs are kept like done ones", cancelled_follow_done),
    CASE("HF-2 a repeated ack is answered although no done jobs are kept", keep_none),
    CASE("a changed retention applies to existing jobs", policy_change_prunes),
    CASE("NOM-10 retention of many jobs", many, .flags = EXACT),
    CASE("a wall clock that jumped prunes nothing until it is accepted", leap_prunes_nothing,
         .flags = EXACT, .configure = real_clock, .needs = NEEDS_OWN_CLOCK),
    CASE("a wall clock set back keeps longer", set_back_keeps_longer, .configure = real_clock,
         .needs = NEEDS_OWN_CLOCK),
    CASE("expires_at: dead on time, ready or scheduled", expires),
    CASE("expires_at: an expired job is never handed out", expired_at_claim_time),
    CASE("expires_at: a running job may finish", running_jobs_do_not_expire),
    CASE("expires_at in the past is never handed out", expired_on_arrival),
    CASE("expires_at frees the unique key", expiry_frees_the_key),
};
TOPIC(topic_retention, cases);
