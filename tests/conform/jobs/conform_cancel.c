/* SPDX-License-Identifier: Apache-2.0 */
/* Cancels of running jobs, which give the worker a grace time (HF-21), and limits of the run time
 * of an attempt (HF-9). */
#include "conform/conform.h"

#define GRACE_MS 5000

/* Lease 10 s, grace time 5 s. */
static void queue_with(struct env *e, uint32_t timeout_ms)
{
    struct queue_policy p = test_policy();
    p.cancel_grace_ms = GRACE_MS;
    p.timeout_ms = timeout_ms;
    queue_make(e, "q", &p);
}

static const struct reply *request(struct env *e, uint64_t seq)
{
    struct op op = job_op(OP_CANCEL, seq);
    op.job.force = false;
    return run(e, op);
}

/* A running job whose cancel has just been requested. */
static struct held asked(struct env *e)
{
    queue_with(e, 0);
    put(e, "q");
    struct held h = take(e, "q");
    const struct reply *r = request(e, h.seq);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->state, STATE_RUNNING);
    EXPECT_INT(r->lease.cancel_by.ms, now_plus(e, GRACE_MS).ms);
    return h;
}

static void expect_cancelled(struct env *e, struct held h)
{
    const struct job_view *v = get(e, h.seq);
    EXPECT_INT(v->job.state, STATE_CANCELLED);
    EXPECT_INT(v->job.reason, REASON_CANCELLED);
    EXPECT_INT(v->job.crashes, 0);
    EXPECT_INT(v->job.failures, 0);
    EXPECT_COUNTS("q", .cancelled = 1);
    EXPECT_OUT(ack(e, h), OUT_CANCELLED);
    EXPECT_OUT(run(e, lease_op(OP_EXTEND, h)), OUT_CANCELLED);
}

static void stays_running(struct env *e)
{
    struct held h = asked(e);
    int64_t requested = now_plus(e, 0).ms;
    advance(e, GRACE_MS - 1);
    const struct job_view *v = get(e, h.seq);
    EXPECT_INT(v->job.state, STATE_RUNNING);
    EXPECT_INT(v->limits.cancel_at.ms, requested);
    EXPECT_INT(v->lease_left_ms, 1);
    /* Once more changes nothing. */
    EXPECT_INT(request(e, h.seq)->lease.cancel_by.ms, requested + GRACE_MS);
    EXPECT_OUT(requeue(e, h.seq), OUT_ILLEGAL);
    EXPECT_STATE(h.seq, STATE_RUNNING);
}

static void grace_ends(struct env *e)
{
    struct held h = asked(e);
    advance(e, GRACE_MS);
    EXPECT_STATE(h.seq, STATE_CANCELLED);
    expect_cancelled(e, h);
}

static void ack_in_time(struct env *e)
{
    struct held h = asked(e);
    advance(e, GRACE_MS - 1);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_STATE(h.seq, STATE_DONE);
    advance(e, GRACE_MS);
    EXPECT_STATE(h.seq, STATE_DONE);
    const struct reply *again = ack(e, h);
    EXPECT_OUT(again, OUT_OK);
    EXPECT(again->repeat);
    EXPECT_INT(again->state, STATE_DONE);
}

/* The batch that brings the ack also brings the time: the ack is executed first. */
static void ack_too_late(struct env *e)
{
    struct held h = asked(e);
    clock_manual_advance(&e->clock, GRACE_MS);
    EXPECT_OUT(ack(e, h), OUT_CANCELLED);
    settle(e);
    EXPECT_STATE(h.seq, STATE_CANCELLED);
}

static void fail_in_time(struct env *e)
{
    struct held h = asked(e);
    struct op op = lease_op(OP_FAIL, h);
    op.lease.error = SPAN_LITERAL("told to stop");
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->state, STATE_CANCELLED);
    r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT(r->repeat);
    EXPECT_INT(r->state, STATE_CANCELLED);
    EXPECT_TEXT(get(e, h.seq)->error, "told to stop");
    expect_cancelled(e, h);
}

static void release_in_time(struct env *e)
{
    struct held h = asked(e);
    const struct reply *r = release(e, h);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->state, STATE_CANCELLED);
    EXPECT(release(e, h)->repeat);
    expect_cancelled(e, h);
}

/* The job of a bound claim, whose cancel is requested. */
static struct held asked_bound(struct env *e)
{
    queue_with(e, 0);
    put(e, "q");
    struct op op = claim_op(e, "q", 1);
    op.claim.bound = true;
    struct held h = held_of(&run(e, op)->jobs[0]);
    EXPECT_OUT(request(e, h.seq), OUT_OK);
    return h;
}

static void connection_lost(struct env *e)
{
    struct held h = asked_bound(e);
    struct op op = lease_op(OP_RELEASE, h);
    op.lease.lost = true;
    EXPECT_INT(run(e, op)->state, STATE_CANCELLED);
    expect_cancelled(e, h);
}

static void lease_ends_first(struct env *e)
{
    queue_with(e, 0);
    put(e, "q");
    struct held h = take_for(e, "q", 1000);
    EXPECT_OUT(request(e, h.seq), OUT_OK);
    EXPECT_INT(get(e, h.seq)->lease_left_ms, 1000);
    advance(e, 1000);
    expect_cancelled(e, h);
}

static void extend_tells(struct env *e)
{
    struct held h = asked(e);
    advance(e, 2000);
    const struct reply *r = run(e, lease_op(OP_EXTEND, h));
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->lease.cancel_by.ms, now_plus(e, GRACE_MS - 2000).ms);
    EXPECT_INT(r->lease.left_ms, GRACE_MS - 2000);
    advance(e, GRACE_MS - 2000);
    expect_cancelled(e, h);
}

static void extend_tells_nothing(struct env *e)
{
    queue_with(e, 0);
    put(e, "q");
    struct held h = take(e, "q");
    const struct reply *r = run(e, lease_op(OP_EXTEND, h));
    EXPECT_INT(r->lease.cancel_by.ms, 0);
    EXPECT_INT(r->lease.left_ms, 10000);
}

static void force(struct env *e)
{
    struct held h = asked(e);
    EXPECT_INT(cancel(e, h.seq)->state, STATE_CANCELLED);
    expect_cancelled(e, h);
}

static void discard(struct env *e)
{
    struct held h = asked(e);
    struct op op = job_op(OP_CANCEL, h.seq);
    op.job.force = false;
    op.job.discard = true;
    EXPECT_INT(run(e, op)->state, STATE_CANCELLED);
    EXPECT_OUT(ack(e, h), OUT_CANCELLED);
}

static void no_grace(struct env *e)
{
    struct queue_policy p = test_policy();
    p.cancel_grace_ms = 0;
    queue_make(e, "q", &p);
    put(e, "q");
    struct held h = take(e, "q");
    const struct reply *r = request(e, h.seq);
    EXPECT_INT(r->state, STATE_CANCELLED);
    EXPECT_INT(r->lease.cancel_by.ms, 0);
}

static void waiting_job(struct env *e)
{
    queue_with(e, 0);
    uint64_t seq = put(e, "q");
    EXPECT_INT(request(e, seq)->state, STATE_CANCELLED);
}

/* The next lease of the job knows nothing of the request. */
static void requeued(struct env *e)
{
    struct held h = asked(e);
    advance(e, GRACE_MS);
    EXPECT_OUT(requeue(e, h.seq), OUT_OK);
    struct held again = take(e, "q");
    EXPECT_INT(get(e, h.seq)->limits.cancel_at.ms, 0);
    EXPECT_INT(get(e, h.seq)->lease_left_ms, 10000);
    EXPECT_OUT(ack(e, h), OUT_LEASE_LOST);
    EXPECT_OUT(ack(e, again), OUT_OK);
}

static void bulk(struct env *e)
{
    queue_with(e, 0);
    put(e, "q");
    struct held h = take(e, "q");
    put(e, "q");
    struct op op = {
        .kind = OP_BULK,
        .bulk = {.action = BULK_CANCEL, .queue = SPAN_LITERAL("q"), .states = STATES_LIVE}};
    EXPECT_INT(run(e, op)->changed, 2);
    EXPECT_COUNTS("q", .running = 1, .cancelled = 1);
    EXPECT(run(e, lease_op(OP_EXTEND, h))->lease.cancel_by.ms != 0);
    op.bulk.action = BULK_CANCEL_NOW;
    EXPECT_INT(run(e, op)->changed, 1);
    EXPECT_COUNTS("q", .cancelled = 2);
}

static void history(struct env *e)
{
    struct held h = asked(e);
    advance(e, GRACE_MS);
    EXPECT_STATE(h.seq, STATE_CANCELLED);
    struct op op = job_op(OP_GET, h.seq);
    op.job.want_attempts = true;
    const struct job_view *v = &run(e, op)->jobs[0];
    EXPECT_INT(v->attempt_count, 1);
    EXPECT_INT(v->attempts[0].outcome, ATTEMPT_CANCELLED);
}

static void event_told(struct env *e)
{
    queue_with(e, 0);
    put(e, "q");
    struct held h = take(e, "q");
    uint64_t seen = backend_events_last(e->b), oldest;
    EXPECT_OUT(request(e, h.seq), OUT_OK);
    EXPECT_OUT(request(e, h.seq), OUT_OK); /* one event for both */
    settle(e);
    struct backend_event events[8];
    size_t n =
        backend_events(e->b, seen, UINT64_C(1) << EVENT_CANCEL_REQUESTED, events, 8, &oldest);
    EXPECT_INT(n, 1);
    EXPECT_INT(events[0].seq, h.seq);
    EXPECT_INT(events[0].state, STATE_RUNNING);
    EXPECT_TEXT(events[0].queue, "q");
}

static void restart_keeps_request(struct env *e)
{
    struct held h = asked(e);
    int64_t requested = now_plus(e, 0).ms;
    advance(e, 2000);
    env_restart(e);
    EXPECT_INT(get(e, h.seq)->limits.cancel_at.ms, requested);
    EXPECT_INT(get(e, h.seq)->lease_left_ms, GRACE_MS - 2000);
    EXPECT(run(e, lease_op(OP_EXTEND, h))->lease.cancel_by.ms == requested + GRACE_MS);
    advance(e, GRACE_MS - 2000 - 1);
    EXPECT_STATE(h.seq, STATE_RUNNING);
    advance(e, 1);
    expect_cancelled(e, h);
}

/* The connection ended with the server. */
static void restart_bound(struct env *e)
{
    struct held h = asked_bound(e);
    env_restart(e);
    settle(e);
    EXPECT_STATE(h.seq, STATE_CANCELLED);
}

/* --- run times --- */

static void times_out(struct env *e)
{
    queue_with(e, 12000);
    put(e, "q");
    struct held h = take(e, "q");
    EXPECT_INT(get(e, h.seq)->limits.timeout_ms, 12000);
    advance(e, 9000);
    EXPECT_INT(run(e, lease_op(OP_EXTEND, h))->lease.left_ms, 3000);
    advance(e, 2000);
    EXPECT_INT(run(e, lease_op(OP_EXTEND, h))->lease.left_ms, 1000);
    advance(e, 999);
    EXPECT_STATE(h.seq, STATE_RUNNING);
    advance(e, 1);
    const struct job_view *v = get(e, h.seq);
    EXPECT_INT(v->job.state, STATE_SCHEDULED); /* the back-off applies */
    EXPECT_INT(v->job.run_at.ms, now_plus(e, 1000).ms);
    EXPECT_INT(v->job.reason, REASON_TIMED_OUT);
    EXPECT_INT(v->job.failures, 1);
    EXPECT_INT(v->job.crashes, 0);
    EXPECT_TEXT(v->error, "timed out after 12000 ms");
    EXPECT_OUT(ack(e, h), OUT_LEASE_LOST);
}

static void times_out_at_last(struct env *e)
{
    queue_with(e, 1000);
    uint64_t seq = put(e, "q");
    for (int i = 1; i <= 3; i++) {
        struct held h = take(e, "q");
        EXPECT_INT(get(e, seq)->lease_left_ms, 1000);
        advance(e, 1000);
        EXPECT_INT(get(e, seq)->job.failures, i);
        EXPECT_OUT(ack(e, h), OUT_LEASE_LOST);
        advance(e, 2000);
    }
    struct op op = job_op(OP_GET, seq);
    op.job.want_attempts = op.job.want_body = true;
    const struct job_view *v = &run(e, op)->jobs[0];
    EXPECT_INT(v->job.state, STATE_DEAD);
    EXPECT_INT(v->job.reason, REASON_TIMED_OUT);
    EXPECT_TEXT(v->error, "timed out after 1000 ms");
    EXPECT_INT(v->attempt_count, 3);
    EXPECT_INT(v->attempts[2].outcome, ATTEMPT_TIMED_OUT);
    EXPECT_TEXT(v->attempts[2].error, "timed out after 1000 ms");
    EXPECT_INT(queue_get(e, "q")->totals.of[COUNTER_FAILED_APP], 3);
    EXPECT_INT(queue_get(e, "q")->totals.of[COUNTER_CRASHED], 0);
    const struct reply *r =
        run(e, (struct op){.kind = OP_EXCEPTIONS, .exceptions = {.queue = SPAN_LITERAL("q")}});
    EXPECT_INT(r->attempt_count, 3);
}

static void lease_expires_before(struct env *e)
{
    queue_with(e, 10001);
    uint64_t seq = put(e, "q");
    take(e, "q");
    advance(e, 10000);
    EXPECT_INT(get(e, seq)->job.reason, REASON_LEASE_EXPIRED);
    EXPECT_INT(get(e, seq)->job.crashes, 1);
}

static void job_limit(struct env *e)
{
    queue_with(e, 3000);
    struct job_options own = {.timeout_ms = 1000};
    struct op op = enqueue_op("q");
    op.enqueue.options = &own;
    uint64_t seq = put_op(e, op);
    const struct reply *r = claim(e, "q", 1);
    EXPECT_INT(r->jobs[0].limits.timeout_ms, 1000);
    EXPECT_INT(r->jobs[0].lease_left_ms, 1000);
    advance(e, 1000);
    EXPECT_INT(get(e, seq)->job.reason, REASON_TIMED_OUT);
}

static void ack_after_timeout(struct env *e)
{
    queue_with(e, 1000);
    put(e, "q");
    struct held h = take(e, "q");
    clock_manual_advance(&e->clock, 1000);
    EXPECT_OUT(ack(e, h), OUT_LEASE_LOST);
    settle(e);
    EXPECT_STATE(h.seq, STATE_SCHEDULED);
}

static void cancel_before_timeout(struct env *e)
{
    queue_with(e, 6000);
    put(e, "q");
    struct held h = take(e, "q");
    advance(e, 3000);
    EXPECT_OUT(request(e, h.seq), OUT_OK);
    EXPECT_INT(get(e, h.seq)->lease_left_ms, 3000); /* the limit that comes first */
    advance(e, 3000);
    expect_cancelled(e, h);
}

static void restart_keeps_limit(struct env *e)
{
    queue_with(e, 6000);
    put(e, "q");
    struct held h = take(e, "q");
    advance(e, 4000);
    env_restart(e);
    EXPECT_INT(get(e, h.seq)->limits.timeout_ms, 6000);
    EXPECT_INT(get(e, h.seq)->lease_left_ms, 2000);
    advance(e, 2000);
    EXPECT_INT(get(e, h.seq)->job.reason, REASON_TIMED_OUT);
}

static const struct conform_case cases[] = {
    CASE("HF-21 a job whose cancel is requested runs until the grace time ends", stays_running,
         .flags = EXACT),
    CASE("HF-21 the end of the grace time cancels the job", grace_ends, .flags = EXACT),
    CASE("HF-21 an ack within the grace time makes the job done, and its repeat too", ack_in_time,
         .flags = EXACT),
    CASE("HF-21 an ack after the grace time is refused", ack_too_late, .flags = EXACT,
         .needs = NEEDS_OWN_CLOCK),
    CASE("HF-21 a fail within the grace time makes the job cancelled", fail_in_time),
    CASE("HF-21 a release within the grace time makes the job cancelled", release_in_time),
    CASE("HF-21 a lost connection makes the job cancelled", connection_lost),
    CASE("HF-21 an expired lease makes the job cancelled", lease_ends_first, .flags = EXACT),
    CASE("HF-21 the reply to an extend tells of the cancel and does not prolong the grace time",
         extend_tells, .flags = EXACT),
    CASE("HF-21 the reply to an extend tells of no cancel where none was requested",
         extend_tells_nothing, .flags = EXACT),
    CASE("HF-21 a cancel with force ends the lease at once", force),
    CASE("HF-21 a discard ends the lease at once", discard),
    CASE("HF-21 without a grace time the request ends the lease", no_grace),
    CASE("HF-21 a waiting job is cancelled at once", waiting_job),
    CASE("HF-21 a job that is requeued starts without the request", requeued, .flags = EXACT),
    CASE("HF-21 a bulk cancel requests the cancel of running jobs, or ends them at once", bulk),
    CASE("HF-21 PDQ-15 the history shows the attempt as cancelled", history, .flags = EXACT),
    CASE("HF-21 the request is an event, once", event_told),
    CASE("HF-21 a restart keeps the request and its deadline", restart_keeps_request,
         .flags = EXACT | RESTART),
    CASE("HF-21 a restart ends the bound lease of a job that is to be cancelled", restart_bound,
         .flags = RESTART),
    CASE("HF-9 an attempt ends at timeout_ms, though its lease is extended", times_out,
         .flags = EXACT),
    CASE("HF-9 PDQ-10 attempts that time out count as failed ones", times_out_at_last,
         .flags = EXACT),
    CASE("HF-9 a lease that expires before timeout_ms is lease_expired", lease_expires_before,
         .flags = EXACT),
    CASE("HF-9 a job brings its own timeout_ms", job_limit, .flags = EXACT),
    CASE("HF-9 an ack after timeout_ms is refused", ack_after_timeout, .flags = EXACT,
         .needs = NEEDS_OWN_CLOCK),
    CASE("HF-9 HF-21 the limit that comes first ends the lease", cancel_before_timeout,
         .flags = EXACT),
    CASE("HF-9 a restart keeps the limit", restart_keeps_limit, .flags = EXACT | RESTART),
};

TOPIC(topic_cancel, cases);
