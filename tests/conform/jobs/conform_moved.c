/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that are migrated from another store completely: id, state, times, result, attempts. */
#include "conform/conform.h"

#include "core/limits.h"

#define OLD_MS (START_WALL_MS - 3600000) /* an hour before the case begins */
#define OLD_HI (((uint64_t)OLD_MS << 16) | 0x7abc)

static const struct attempt_view tries[] = {
    {.number = 1,
     .worker = {"anna", 4},
     .started_at = {OLD_MS + 1000},
     .ended_at = {OLD_MS + 2000},
     .outcome = ATTEMPT_FAILED,
     .error_kind = ERROR_BUSINESS,
     .error = {"no such account", 15}},
    {.number = 2,
     .worker = {"bert", 4},
     .started_at = {OLD_MS + 3000},
     .ended_at = {OLD_MS + 4000},
     .outcome = ATTEMPT_DONE},
};

/* A job of the other store; the case changes the fields that it tests. */
struct moving {
    struct job_past past;
    struct job_moved moved;
};

static struct moving *moving_new(struct env *e, uint64_t seq, enum job_state state,
                                 enum job_reason reason)
{
    struct moving m = {
        .past = {.state = (uint8_t)state, .reason = (uint8_t)reason, .failures = 1},
        .moved = {.seq = seq, .id_hi = OLD_HI, .since = {OLD_MS + 4000}},
    };
    struct moving *kept = arena_copy(&e->arena, &m, sizeof m);
    EXPECT(kept != NULL);
    return kept;
}

static struct moving *moving_done(struct env *e, uint64_t seq)
{
    struct moving *m = moving_new(e, seq, STATE_DONE, REASON_NONE);
    m->past.error = SPAN_LITERAL("no such account");
    m->past.error_kind = ERROR_BUSINESS;
    m->moved.result_kind = PAYLOAD_JSON;
    m->moved.result = SPAN_LITERAL("{\"sent\":1}");
    m->moved.attempts = tries;
    m->moved.attempt_count = 2;
    return m;
}

static struct op moving_op(const struct moving *m)
{
    struct op op = enqueue_op("q");
    op.enqueue.past = &m->past;
    op.enqueue.moved = &m->moved;
    return op;
}

static const struct job_view *with_attempts(struct env *e, uint64_t seq)
{
    struct op op = job_op(OP_GET, seq);
    op.job.want_attempts = true;
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    return &r->jobs[0];
}

static void expect_attempts(struct env *e, uint64_t seq, const struct attempt_view *x,
                            uint32_t count)
{
    const struct job_view *v = with_attempts(e, seq);
    EXPECT_INT(v->attempt_count, count);
    EXPECT_INT(v->started_at.ms, x[count - 1].started_at.ms);
    for (uint32_t i = 0; i < count; i++) {
        EXPECT_INT(v->attempts[i].number, x[i].number);
        EXPECT_INT(v->attempts[i].outcome, x[i].outcome);
        EXPECT_INT(v->attempts[i].error_kind, x[i].error_kind);
        EXPECT_INT(v->attempts[i].started_at.ms, x[i].started_at.ms);
        EXPECT_INT(v->attempts[i].ended_at.ms, x[i].ended_at.ms);
        EXPECT_SPAN(v->attempts[i].worker, x[i].worker);
        EXPECT_SPAN(v->attempts[i].error, x[i].error);
    }
}

static void expect_done(struct env *e, uint64_t seq)
{
    const struct job_view *v = get(e, seq);
    EXPECT(v != NULL);
    EXPECT_INT(v->job.id_hi, OLD_HI);
    EXPECT_INT(v->job.since.ms, OLD_MS + 4000);
    EXPECT_INT(v->job.failures, 1);
    EXPECT_INT(v->result_kind, PAYLOAD_JSON);
    EXPECT_TEXT(v->result, "{\"sent\":1}");
    EXPECT_TEXT(v->error, "no such account");
    EXPECT_INT(v->error_kind, ERROR_BUSINESS);
    EXPECT_INT(v->started_at.ms, OLD_MS + 3000);
    EXPECT_STATE(seq, STATE_DONE);
    expect_attempts(e, seq, tries, 2);
}

static void comes_done(struct env *e)
{
    EXPECT_INT(put_op(e, moving_op(moving_done(e, 77))), 77);
    expect_done(e, 77);
    EXPECT_COUNTS("q", .done = 1);
    EXPECT(put(e, "q") > 77);
}

static void survives(struct env *e)
{
    put_op(e, moving_op(moving_done(e, 5000))); /* beyond the first block of sequences */
    put_op(e, moving_op(moving_done(e, 40)));   /* and below the last one */
    env_restart(e);
    expect_done(e, 5000);
    expect_done(e, 40);
    put_op(e, moving_op(moving_done(e, 50)));
    env_restart(e);
    expect_done(e, 50);
    EXPECT_COUNTS("q", .done = 3);
    EXPECT(put(e, "q") > 5000);
}

/* Changes that are due by its times are left to the next tick. */
static void every_state(struct env *e)
{
    struct op op = moving_op(moving_new(e, 1, STATE_SCHEDULED, REASON_FAILED));
    op.enqueue.run_at = now_plus(e, 5000);
    put_op(e, op);
    put_op(e, moving_op(moving_new(e, 2, STATE_READY, REASON_LEASE_EXPIRED)));
    put_op(e, moving_op(moving_new(e, 3, STATE_DEAD, REASON_CRASH_LOOP)));
    put_op(e, moving_op(moving_new(e, 4, STATE_CANCELLED, REASON_DISCARDED)));
    EXPECT_STATE(1, STATE_SCHEDULED);
    EXPECT_STATE(2, STATE_READY);
    EXPECT_STATE(3, STATE_DEAD);
    EXPECT_STATE(4, STATE_CANCELLED);
    EXPECT_COUNTS("q", .scheduled = 1, .ready = 1, .dead = 1, .cancelled = 1);
    EXPECT_INT(get(e, 2)->job.since.ms, OLD_MS + 4000);
    EXPECT_INT(get(e, 4)->job.reason, REASON_DISCARDED);
    EXPECT_INT(take(e, "q").seq, 2);
    advance(e, 5000);
    EXPECT_INT(take(e, "q").seq, 1);
    EXPECT_OUT(requeue(e, 3), OUT_OK);
    EXPECT_INT(take(e, "q").seq, 3);
}

/* A successful attempt is not the outcome of a job that was discarded afterwards. */
static void discarded(struct env *e)
{
    struct moving *m = moving_done(e, 9);
    m->past.state = STATE_CANCELLED;
    m->past.reason = REASON_DISCARDED;
    m->moved.since.ms = OLD_MS + 9000;
    put_op(e, moving_op(m));
    expect_attempts(e, 9, tries, 2);
    EXPECT_OUT(requeue(e, 9), OUT_OK);
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    const struct job_view *v = with_attempts(e, 9);
    EXPECT_INT(v->attempt_count, 3);
    EXPECT_INT(v->attempts[1].outcome, ATTEMPT_DONE);
    EXPECT_INT(v->attempts[2].number, 1);
}

static void there_already(struct env *e)
{
    put_op(e, moving_op(moving_done(e, 12)));
    const struct reply *r = run(e, moving_op(moving_done(e, 12)));
    EXPECT_OUT(r, OUT_EXISTS);
    EXPECT_INT(r->seq, 12);
    EXPECT_INT(r->id_hi, OLD_HI);
    EXPECT_COUNTS("q", .done = 1);
    expect_done(e, 12);
    struct op op = moving_op(moving_done(e, 12)); /* into a queue that is not there: it stays so */
    op.enqueue.queue = SPAN_LITERAL("another");
    EXPECT_OUT(run(e, op), OUT_EXISTS);
    EXPECT(!queue_get(e, "another"));
    struct queue_policy small = test_policy(); /* and before its size is looked at */
    small.payload_max = 0;
    queue_make(e, "small", &small);
    op.enqueue.queue = SPAN_LITERAL("small");
    EXPECT_OUT(run(e, op), OUT_EXISTS);
    EXPECT_COUNTS("small", .done = 0);
}

static void keys(struct env *e)
{
    struct queue_policy kept = test_policy();
    kept.unique_scope = UNIQUE_KEPT;
    struct op op = moving_op(moving_done(e, 3));
    op.enqueue.extra.unique = SPAN_LITERAL("k");
    put_op(e, op);
    uint64_t live = put_unique(e, "q", "k"); /* an ended job holds no key among live ones */
    EXPECT_STATE(live, STATE_READY);
    queue_make(e, "r", &kept);
    op = moving_op(moving_done(e, 90));
    op.enqueue.queue = SPAN_LITERAL("r");
    op.enqueue.extra.unique = SPAN_LITERAL("k");
    put_op(e, op);
    struct op second = enqueue_op("r");
    second.enqueue.extra.unique = SPAN_LITERAL("k");
    EXPECT_OUT(run(e, second), OUT_DUPLICATE);
}

static void expect_wrong(struct env *e, const struct moving *m)
{
    const struct reply *r = run(e, moving_op(m));
    EXPECT_OUT(r, OUT_INVALID);
    EXPECT(r->note != NULL);
}

static void wrong(struct env *e)
{
    static struct attempt_view one;
    struct moving *m = moving_new(e, 1, STATE_RUNNING, REASON_NONE);
    expect_wrong(e, m);
    expect_wrong(e, moving_new(e, 1, STATE_DONE, REASON_FAILED));
    expect_wrong(e, moving_new(e, LIMIT_SEQ + 1, STATE_DONE, REASON_NONE));
    m = moving_done(e, 1);
    m->moved.since.ms = -1;
    expect_wrong(e, m);
    m = moving_done(e, 1);
    m->moved.result_kind = PAYLOAD_NONE;
    expect_wrong(e, m);
    m = moving_done(e, 1);
    m->moved.attempt_count = LIMIT_ATTEMPTS_KEPT + 1;
    expect_wrong(e, m);
    m = moving_done(e, 1);
    one = tries[0];
    one.outcome = ATTEMPT_RUNNING;
    m->moved.attempts = &one;
    m->moved.attempt_count = 1;
    expect_wrong(e, m);
    struct op op = moving_op(moving_done(e, 1));
    op.enqueue.past = NULL;
    EXPECT_OUT(run(e, op), OUT_INVALID);
    EXPECT_INT(run(e, queue_op(OP_QUEUE_GET, "q"))->outcome, OUT_NO_QUEUE);
}

static void silent(struct env *e)
{
    struct backend_event events[8];
    uint64_t oldest;
    settle_due(e);
    uint64_t after = backend_events_last(e->b);
    put_op(e, moving_op(moving_done(e, 1)));
    put_op(e, moving_op(moving_new(e, 2, STATE_DEAD, REASON_FAILED)));
    settle_due(e);
    size_t count = backend_events(e->b, after, 0, events, 8, &oldest);
    for (size_t i = 0; i < count; i++)
        EXPECT_INT(events[i].seq, 0); /* the event that the queue was created */
    const struct queue_counts *c = &queue_get(e, "q")->counts;
    EXPECT_INT(c->died + c->failed + c->acked + c->claimed, 0);
}

/* They come by their sequence, which is not the order in which they ended. */
static void retention_goes_by_age(struct env *e)
{
    struct queue_policy p = test_policy();
    p.keep_done_ms = 7200000;
    queue_make(e, "q", &p);
    for (int i = 0; i < 4; i++) {
        struct moving *m = moving_done(e, (uint64_t)i + 1);
        m->moved.since.ms = OLD_MS + 4000 + (4 - i) * 1000;
        put_op(e, moving_op(m));
    }
    env_restart(e);
    EXPECT_COUNTS("q", .done = 4);
    advance(e, 3600000 + 4000 + 2000); /* those that ended 1 s and 2 s after the mark */
    EXPECT_COUNTS("q", .done = 2);
    EXPECT_STATE(1, STATE_DONE);
    EXPECT_STATE(2, STATE_DONE);
    EXPECT_STATE(4, STATE_NONE);
}

static void be_still(struct backend_config *c)
{
    c->still = true;
}

static void still(struct env *e)
{
    put(e, "r");
    uint64_t due = put_delayed(e, "q", 1000);
    take_for(e, "r", 1000);
    advance(e, 5000);
    EXPECT_STATE(due, STATE_SCHEDULED);
    EXPECT_COUNTS("r", .running = 1);
}

static const struct conform_case cases[] = {
    CASE("moved: a done job keeps id, times, result and attempts", comes_done),
    CASE("moved: survives a restart, whatever the order of the ids", survives, RESTART),
    CASE("moved: every state but running", every_state, EXACT),
    CASE("moved: a discarded job", discarded, EXACT),
    CASE("moved: an id that is there is refused", there_already, EXACT),
    CASE("moved: unique keys of ended jobs", keys, EXACT),
    CASE("moved: what cannot be is refused", wrong),
    CASE("moved: it causes no event", silent, EXACT),
    CASE("moved: retention goes by age", retention_goes_by_age, EXACT | RESTART),
    CASE("still: nothing happens by itself", still, EXACT, .configure = be_still),
};
TOPIC(topic_moved, cases, NEEDS_WHOLE_JOBS);
