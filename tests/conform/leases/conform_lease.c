/* SPDX-License-Identifier: Apache-2.0 */
/* Leases that expire, are renewed, or end with a connection. */
#include "conform/conform.h"

static void policy_queue(struct env *e, enum lease_end end)
{
    struct queue_policy p = test_policy();
    p.lease_end = (uint8_t)end;
    queue_make(e, "q", &p);
}

static void ends_on_time(struct env *e)
{
    policy_queue(e, LEASE_END_REQUEUE);
    uint64_t seq = put(e, "q");
    struct held h = take(e, "q");
    advance(e, 9999);
    EXPECT_STATE(seq, STATE_RUNNING);
    EXPECT_INT(get(e, seq)->lease_left_ms, 1);
    advance(e, 1);
    EXPECT_STATE(seq, STATE_READY);
    struct held again = take(e, "q");
    EXPECT_INT(again.seq, seq);
    EXPECT(token_older(h.token, again.token));
}

static void end_requeue(struct env *e)
{
    policy_queue(e, LEASE_END_REQUEUE);
    uint64_t seq = put(e, "q");
    for (int crash = 1; crash <= 2; crash++) {
        take(e, "q");
        advance(e, 10000);
        const struct job_view *v = get(e, seq);
        EXPECT_INT(v->job.state, STATE_READY); /* at once, without back-off */
        EXPECT_INT(v->job.crashes, crash);
        EXPECT_INT(v->job.failures, 0);
        EXPECT_INT(v->job.reason, REASON_LEASE_EXPIRED);
    }
    EXPECT_INT(job_attempts(&claim(e, "q", 1)->jobs[0].job), 3);
    advance(e, 10000);
    const struct job_view *v = get(e, seq);
    EXPECT_INT(v->job.state, STATE_DEAD);
    EXPECT_INT(v->job.reason, REASON_CRASH_LOOP);
    EXPECT_INT(v->job.crashes, 3);
    EXPECT_COUNTS("q", .dead = 1);
    advance(e, 30000);
    EXPECT_COUNTS("q", .dead = 1);
}

/* Failures have their own count: two of each do not make a job dead. */
static void crashes_apart_from_failures(struct env *e)
{
    policy_queue(e, LEASE_END_REQUEUE);
    uint64_t seq = put(e, "q");
    for (int i = 1; i <= 2; i++) {
        take(e, "q");
        advance(e, 10000);
        EXPECT_OUT(fail(e, take(e, "q")), OUT_OK);
        advance(e, 2000);
        EXPECT_INT(get(e, seq)->job.crashes, i);
        EXPECT_INT(get(e, seq)->job.failures, i);
        EXPECT_STATE(seq, STATE_READY);
    }
    EXPECT_INT(fail(e, take(e, "q"))->state, STATE_DEAD);
    EXPECT_INT(get(e, seq)->job.reason, REASON_FAILED);
}

static void end_counted(struct env *e)
{
    policy_queue(e, LEASE_END_COUNTED);
    uint64_t seq = put(e, "q");
    take(e, "q");
    advance(e, 10000);
    const struct job_view *v = get(e, seq);
    EXPECT_INT(v->job.state, STATE_SCHEDULED); /* the back-off applies */
    EXPECT_INT(v->job.run_at.ms, START_WALL_MS + 11000);
    EXPECT_INT(v->job.crashes, 1);
    advance(e, 1000);
    EXPECT_OUT(fail(e, take(e, "q")), OUT_OK);
    EXPECT_INT(get(e, seq)->job.run_at.ms, START_WALL_MS + 11000 + 2000);
    advance(e, 2000);
    take(e, "q");
    advance(e, 10000); /* the third attempt in all: crashes and failures share the count */
    v = get(e, seq);
    EXPECT_INT(v->job.state, STATE_DEAD);
    EXPECT_INT(v->job.crashes, 2);
    EXPECT_INT(v->job.failures, 1);
    EXPECT_STATE(seq, STATE_DEAD);
}

static void end_fail(struct env *e)
{
    policy_queue(e, LEASE_END_FAIL);
    uint64_t seq = put(e, "q");
    struct held h = take_for(e, "q", 3000);
    advance(e, 2999);
    EXPECT_STATE(seq, STATE_RUNNING);
    advance(e, 1);
    const struct job_view *v = get(e, seq);
    EXPECT_INT(v->job.state, STATE_DEAD);
    EXPECT_INT(v->job.reason, REASON_LEASE_EXPIRED);
    EXPECT_TEXT(v->error, "Timeout after 3s");
    EXPECT_OUT(ack(e, h), OUT_LEASE_LOST);
    EXPECT_STATE(seq, STATE_DEAD);
}

static void renewing_keeps_it(struct env *e)
{
    policy_queue(e, LEASE_END_FAIL);
    uint64_t seq = put(e, "q");
    struct held h = take(e, "q");
    for (int i = 0; i < 6; i++) {
        advance(e, 9500);
        EXPECT_OUT(run(e, lease_op(OP_EXTEND, h)), OUT_OK);
        EXPECT_INT(get(e, seq)->lease_left_ms, 10000);
    }
    EXPECT_STATE(seq, STATE_RUNNING);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_STATE(seq, STATE_DONE);
}

static void counts_from_the_last_renewal(struct env *e)
{
    policy_queue(e, LEASE_END_FAIL);
    uint64_t seq = put(e, "q");
    struct held h = take(e, "q");
    advance(e, 8000);
    EXPECT_OUT(run(e, lease_op(OP_EXTEND, h)), OUT_OK);
    advance(e, 9999);
    EXPECT_STATE(seq, STATE_RUNNING);
    advance(e, 1);
    EXPECT_STATE(seq, STATE_DEAD);
    EXPECT_TEXT(get(e, seq)->error, "Timeout after 10s");
}

static void extend_to_another_length(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct held h = take(e, "q"); /* 30 s */
    struct op op = lease_op(OP_EXTEND, h);
    op.lease.lease_ms = 2000;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_INT(get(e, seq)->lease_ms, 2000);
    op.lease.lease_ms = LIMIT_LEASE_MS + 1;
    EXPECT_OUT(run(e, op), OUT_INVALID);
    op.lease.lease_ms = LIMIT_LEASE_MS_MIN - 1;
    EXPECT_OUT(run(e, op), OUT_INVALID);
    advance(e, 1999);
    EXPECT_STATE(seq, STATE_RUNNING);
    advance(e, 1);
    EXPECT_STATE(seq, STATE_READY);
}

static void no_limit_on_crashes(struct env *e)
{
    struct queue_policy p = test_policy();
    p.max_crashes = 0;
    queue_make(e, "q", &p);
    uint64_t seq = put(e, "q");
    for (int i = 1; i <= 12; i++) {
        take_for(e, "q", 500);
        advance(e, 500);
        EXPECT_INT(get(e, seq)->job.crashes, i);
    }
    EXPECT_STATE(seq, STATE_READY);
}

static void job_brings_max_crashes(struct env *e)
{
    static const struct job_options options = {.max_crashes = 1};
    policy_queue(e, LEASE_END_REQUEUE);
    struct op op = enqueue_op("q");
    op.enqueue.options = &options;
    uint64_t seq = put_op(e, op);
    take(e, "q");
    advance(e, 10000);
    EXPECT_STATE(seq, STATE_DEAD);
    EXPECT_INT(get(e, seq)->job.reason, REASON_CRASH_LOOP);
}

static struct held take_bound(struct env *e)
{
    struct op op = claim_op(e, "q", 1);
    op.claim.bound = true;
    const struct reply *r = run(e, op);
    EXPECT_INT(r->job_count, 1);
    EXPECT(r->jobs[0].job.flags & JOB_BOUND);
    return held_of(&r->jobs[0]);
}

static void connection_lost(struct env *e)
{
    policy_queue(e, LEASE_END_REQUEUE);
    uint64_t seq = put(e, "q");
    struct op lost = lease_op(OP_RELEASE, take_bound(e));
    lost.lease.lost = true;
    const struct reply *r = run(e, lost);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->state, STATE_READY); /* at once, the first time */
    EXPECT_INT(get(e, seq)->job.crashes, 1);
    lost = lease_op(OP_RELEASE, take_bound(e));
    lost.lease.lost = true;
    r = run(e, lost);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->state, STATE_SCHEDULED); /* with the back-off from the second time on */
    EXPECT_INT(r->run_at.ms, START_WALL_MS + 1000);
    EXPECT_INT(get(e, seq)->job.crashes, 2);
    EXPECT(!(get(e, seq)->job.flags & JOB_BOUND));
    advance(e, 1000);
    lost = lease_op(OP_RELEASE, take_bound(e));
    lost.lease.lost = true;
    EXPECT_INT(run(e, lost)->state, STATE_DEAD);
    EXPECT_INT(get(e, seq)->job.reason, REASON_CRASH_LOOP);
}

static void bound_lease_still_expires(struct env *e)
{
    policy_queue(e, LEASE_END_REQUEUE);
    uint64_t seq = put(e, "q");
    take_bound(e);
    advance(e, 10000);
    EXPECT_STATE(seq, STATE_READY);
    EXPECT_INT(get(e, seq)->job.crashes, 1);
}

/* The clock is still moved by hand, but the backend does not know. */
static void configure_real_clock(struct backend_config *c)
{
    c->clock.manual = false;
}

/* The time for which the process was stopped must not count against leases. */
static void stall_is_not_counted(struct env *e)
{
    policy_queue(e, LEASE_END_FAIL);
    uint64_t seq = put(e, "q");
    struct held h = take(e, "q");
    advance(e, 5000);
    stand_still(e, 3600000);
    EXPECT_STATE(seq, STATE_RUNNING);
    advance(e, 4000);
    EXPECT_STATE(seq, STATE_RUNNING);
    EXPECT_OUT(ack(e, h), OUT_OK);
}

static void wall_clock_does_not_matter(struct env *e)
{
    policy_queue(e, LEASE_END_FAIL);
    uint64_t seq = put(e, "q");
    struct held h = take(e, "q");
    e->clock.at.wall.ms += 3600000;
    settle(e);
    EXPECT_STATE(seq, STATE_RUNNING);
    e->clock.at.wall.ms -= 7200000;
    settle(e);
    advance(e, 9000);
    EXPECT_STATE(seq, STATE_RUNNING);
    EXPECT_OUT(ack(e, h), OUT_OK);
}

static void many_end_together(struct env *e)
{
    policy_queue(e, LEASE_END_REQUEUE);
    for (int i = 0; i < 50; i++)
        put(e, "q");
    EXPECT_INT(claim(e, "q", 50)->job_count, 50);
    advance(e, 10000);
    EXPECT_COUNTS("q", .ready = 50);
    if (!e->lossy)
        EXPECT_INT(queue_get(e, "q")->counts.crashed, 50);
}

static const struct conform_case cases[] = {
    CASE("KV-6 a lease ends on time, not before", ends_on_time),
    CASE("HF-17 KV-6 requeue: ready at once, dead after max_crashes", end_requeue),
    CASE("HF-17 requeue: crashes and failures are counted apart", crashes_apart_from_failures),
    CASE("HF-17 requeue_counted: shared count, back-off", end_counted),
    CASE("HF-17 NOM-9 fail: dead with the reason", end_fail),
    CASE("NOM-9 a worker that renews is never failed", renewing_keeps_it),
    CASE("NOM-9 the lease counts from the last renewal", counts_from_the_last_renewal),
    CASE("extend may change the length", extend_to_another_length),
    CASE("max_crashes 0 is no limit", no_limit_on_crashes),
    CASE("KV-6 a job may bring its own max_crashes", job_brings_max_crashes),
    CASE("KV-3 a lost connection is a crash, with back-off from the second", connection_lost),
    CASE("KV-3 a bound lease still runs out", bound_lease_still_expires),
    CASE("a stall of the process is not counted against leases", stall_is_not_counted,
         .configure = configure_real_clock, .needs = NEEDS_OWN_CLOCK),
    CASE("leases do not follow the wall clock", wall_clock_does_not_matter,
         .configure = configure_real_clock, .needs = NEEDS_OWN_CLOCK),
    CASE("many leases end together", many_end_together),
};
TOPIC(topic_lease, cases);
