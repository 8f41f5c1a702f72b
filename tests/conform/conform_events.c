/* SPDX-License-Identifier: Apache-2.0 */
/* Events: one for each change, in order, without holes, sent when the change is durable; and the
 * rule by which a listener knows that it missed some. */
#include "conform/conform.h"

#define EVENTS_MAX 64
#define RING 16384

struct tale {
    uint64_t after; /* the last event that was read */
    size_t count;
    struct backend_event at[EVENTS_MAX]; /* queue is checked before the loop runs again */
};

static struct tale *tale_new(struct env *e)
{
    struct tale *t = arena_array(&e->arena, 1, sizeof *t);
    if (!t)
        LEAVE("no memory");
    settle_due(e);
    t->after = backend_events_last(e->b);
    return t;
}

/* The events since the last call: exactly these kinds, in this order, ids without holes. */
static void expect_tale(struct env *e, struct tale *t, const char *kinds)
{
    char text[800] = "";
    size_t used = 0;
    uint64_t oldest = 0;
    settle_due(e);
    t->count = backend_events(e->b, t->after, 0, t->at, EVENTS_MAX, &oldest);
    EXPECT(oldest != 0 && oldest <= t->after + 1);
    EXPECT(!backend_events_missed(e->b, t->after));
    for (size_t i = 0; i < t->count; i++) {
        EXPECT_INT(t->at[i].id, ++t->after);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "",
                                 event_name(t->at[i].kind));
    }
    EXPECT_TEXT(span_text(text), kinds);
    EXPECT_INT(backend_events_last(e->b), t->after);
}

static void expect_job(struct env *e, const struct backend_event *v, uint64_t seq,
                       enum job_state state, enum job_reason reason, uint32_t attempts)
{
    EXPECT_INT(v->seq, seq);
    EXPECT(v->id_hi != 0);
    EXPECT_TEXT(v->queue, "q");
    EXPECT_INT(v->state, state);
    EXPECT_INT(v->reason, reason);
    EXPECT_INT(v->attempts, attempts);
    EXPECT_INT(v->count, 0);
    EXPECT_INT(v->at.ms, e->clock.at.wall.ms);
}

static void way_of_a_job(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    struct tale *t = tale_new(e);
    struct op op = enqueue_op("q");
    op.enqueue.extra.correlation = SPAN_LITERAL("c");
    op.enqueue.delay_ms = 1000;
    uint64_t seq = put_op(e, op);
    expect_tale(e, t, "enqueued");
    expect_job(e, &t->at[0], seq, STATE_SCHEDULED, REASON_NONE, 0);
    EXPECT(t->at[0].has_extra);
    clock_manual_advance(&e->clock, 1000);
    expect_tale(e, t, "ready");
    expect_job(e, &t->at[0], seq, STATE_READY, REASON_NONE, 0);
    struct held h = take(e, "q");
    expect_tale(e, t, "claimed");
    expect_job(e, &t->at[0], seq, STATE_RUNNING, REASON_NONE, 1);
    EXPECT_OUT(run(e, lease_op(OP_EXTEND, h)), OUT_OK);
    EXPECT_OUT(release(e, h), OUT_OK);
    expect_tale(e, t, "released");
    expect_job(e, &t->at[0], seq, STATE_READY, REASON_RELEASED, 0);
    EXPECT_OUT(fail(e, take(e, "q")), OUT_OK);
    expect_tale(e, t, "claimed retried");
    expect_job(e, &t->at[1], seq, STATE_SCHEDULED, REASON_FAILED, 1);
    clock_manual_advance(&e->clock, 1000);
    settle_due(e);
    take(e, "q");
    settle_due(e);
    clock_manual_advance(&e->clock, 10000);
    expect_tale(e, t, "ready claimed crashed");
    expect_job(e, &t->at[2], seq, STATE_READY, REASON_LEASE_EXPIRED, 2);
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    expect_tale(e, t, "claimed done");
    expect_job(e, &t->at[1], seq, STATE_DONE, REASON_NONE, 3);
}

static void other_ends(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    struct tale *t = tale_new(e);
    uint64_t seq = put(e, "q");
    struct op bury = lease_op(OP_FAIL, take(e, "q"));
    bury.lease.no_retry = true;
    EXPECT_OUT(run(e, bury), OUT_OK);
    expect_tale(e, t, "enqueued claimed dead");
    expect_job(e, &t->at[0], seq, STATE_READY, REASON_NONE, 0);
    EXPECT(!t->at[0].has_extra);
    expect_job(e, &t->at[2], seq, STATE_DEAD, REASON_REJECTED, 1);
    EXPECT_OUT(requeue(e, seq), OUT_OK);
    struct op patch = {.kind = OP_PATCH,
                       .patch = {.job = {.seq = seq}, .has_priority = true, .priority = 3}};
    EXPECT_OUT(run(e, patch), OUT_OK);
    EXPECT_OUT(cancel(e, seq), OUT_OK);
    EXPECT_OUT(run(e, job_op(OP_REMOVE, seq)), OUT_OK); /* no event */
    expect_tale(e, t, "requeued patched cancelled");
    expect_job(e, &t->at[0], seq, STATE_READY, REASON_NONE, 0);
    expect_job(e, &t->at[1], seq, STATE_READY, REASON_NONE, 0);
    expect_job(e, &t->at[2], seq, STATE_CANCELLED, REASON_CANCELLED, 0);
    struct op lost = lease_op(OP_RELEASE, (put(e, "q"), take(e, "q")));
    lost.lease.lost = true;
    EXPECT_OUT(run(e, lost), OUT_OK);
    expect_tale(e, t, "enqueued claimed crashed");
    struct op mortal = enqueue_op("q");
    mortal.enqueue.extra.expires_at = now_plus(e, 500);
    put_op(e, mortal);
    clock_manual_advance(&e->clock, 500);
    expect_tale(e, t, "enqueued dead");
    EXPECT_INT(t->at[1].reason, REASON_EXPIRED);
}

/* A refusal, a query and a repeat change nothing, so they cause no event. */
static void nothing_happened(struct env *e)
{
    struct held h;
    uint64_t seq = job_in(e, "q", STATE_DONE, &h);
    put_unique(e, "q", "k");
    struct tale *t = tale_new(e);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_OUT(cancel(e, seq), OUT_ILLEGAL);
    struct op again = enqueue_op("q");
    again.enqueue.extra.unique = SPAN_LITERAL("k");
    EXPECT_OUT(run(e, again), OUT_DUPLICATE);
    EXPECT_INT(claim(e, "other", 1)->job_count, 0);
    EXPECT(get(e, seq) != NULL);
    expect_tale(e, t, "");
}

static void queues(struct env *e)
{
    struct queue_policy p = test_policy();
    struct tale *t = tale_new(e);
    queue_make(e, "q", &p);
    queue_make(e, "q", &p);
    pause_queue(e, "q", (struct wall_time){LIMIT_WALL_MS});
    pause_queue(e, "q", (struct wall_time){0});
    expect_tale(e, t, "queue_created queue_changed queue_paused queue_resumed");
    for (size_t i = 0; i < t->count; i++) {
        EXPECT_TEXT(t->at[i].queue, "q");
        EXPECT_INT(t->at[i].seq, 0);
        EXPECT_INT(t->at[i].state, STATE_NONE);
    }
    pause_queue(e, "q", now_plus(e, 1000));
    clock_manual_advance(&e->clock, 1000);
    expect_tale(e, t, "queue_paused queue_resumed"); /* by itself */
    EXPECT_TEXT(t->at[1].queue, "q");
    put(e, "q");
    put_delayed(e, "q", 5000);
    EXPECT_OUT(run(e, queue_op(OP_PURGE, "q")), OUT_OK);
    expect_tale(e, t, "enqueued enqueued queue_purged");
    EXPECT_INT(t->at[2].count, 2);
    put(e, "other");
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_DELETE, "other")), OUT_OK);
    settle(e); /* its end, too */
    expect_tale(e, t, "queue_created enqueued queue_deleted");
    EXPECT_TEXT(t->at[0].queue, "other");
    EXPECT_TEXT(t->at[1].queue, "other"); /* gone, but not for long */
    EXPECT_TEXT(t->at[2].queue, "other");
    EXPECT_INT(t->at[2].count, 1);
}

static void deep(struct env *e)
{
    struct queue_policy p = test_policy();
    p.warn_depth = 10;
    queue_make(e, "q", &p);
    struct tale *t = tale_new(e);
    for (int i = 0; i < 9; i++)
        i % 2 ? put(e, "q") : put_delayed(e, "q", 3600000);
    uint64_t tenth = put(e, "q"), eleventh = put(e, "q");
    expect_tale(e, t,
                "enqueued enqueued enqueued enqueued enqueued enqueued enqueued enqueued enqueued "
                "enqueued queue_deep enqueued");
    EXPECT_INT(t->at[10].count, 10);
    EXPECT_TEXT(t->at[10].queue, "q");
    cancel(e, tenth);
    cancel(e, eleventh); /* 9 = 90 %: not below it */
    put(e, "q");
    expect_tale(e, t, "cancelled cancelled enqueued");
    EXPECT_INT(claim(e, "q", 2)->job_count, 2); /* 8 */
    put(e, "q");
    put(e, "q");
    expect_tale(e, t, "claimed claimed enqueued enqueued queue_deep");
    EXPECT_OUT(run(e, queue_op(OP_PURGE, "q")), OUT_OK);
    p.warn_depth = 1;
    queue_make(e, "q", &p);
    put(e, "q");
    expect_tale(e, t, "queue_purged queue_changed enqueued queue_deep");
    p.warn_depth = 0;
    queue_make(e, "q", &p);
    put(e, "q");
    p.warn_depth = 2;
    queue_make(e, "q", &p); /* it is there already */
    expect_tale(e, t, "queue_changed enqueued queue_changed queue_deep");
}

static void expect_gap(struct env *e, uint64_t after, bool missed)
{
    uint64_t oldest;
    struct backend_event one;
    uint64_t last = backend_events_last(e->b);
    backend_events(e->b, after, 0, &one, 1, &oldest);
    EXPECT_INT(oldest > after + 1 || after > last, missed); /* the rule of backend.h */
    EXPECT_INT(backend_events_missed(e->b, after), missed);
}

static void enqueue_many(struct env *e, size_t count)
{
    static struct op ops[LIMIT_BATCH];
    static const struct reply *r[LIMIT_BATCH];
    for (size_t i = 0; i < LIMIT_BATCH; i++)
        ops[i] = enqueue_op("q");
    for (; count > 0; count -= LIMIT_BATCH < count ? LIMIT_BATCH : count)
        run_batch(e, ops, LIMIT_BATCH < count ? LIMIT_BATCH : count, r);
}

static void gaps(struct env *e)
{
    struct backend_event v[3];
    uint64_t oldest, start = backend_events_last(e->b);
    EXPECT(start != 0);
    EXPECT_INT(backend_events(e->b, start, 0, v, 3, &oldest), 0);
    EXPECT_INT(oldest, start + 1); /* what the first will get */
    expect_gap(e, start, false);
    expect_gap(e, 0, true);
    expect_gap(e, start + 1, true); /* that event was never sent */
    expect_gap(e, UINT64_MAX, true);
    put(e, "q"); /* created, enqueued */
    settle_due(e);
    expect_gap(e, start, false);
    EXPECT_INT(backend_events(e->b, start, 0, v, 1, &oldest), 1);
    EXPECT_INT(v[0].id, start + 1);
    EXPECT_INT(backend_events(e->b, start + 1, 0, v, 3, &oldest), 1);
    EXPECT_INT(v[0].id, start + 2);
    enqueue_many(e, RING - 2);
    settle_due(e);
    EXPECT_INT(backend_events_last(e->b), start + RING);
    expect_gap(e, start, false); /* exactly full */
    put(e, "q");
    settle_due(e);
    expect_gap(e, start, true);
    expect_gap(e, start + 1, false);
    EXPECT_INT(backend_events(e->b, start, 0, v, 3, &oldest), 3);
    EXPECT_INT(v[0].id, start + 2);
    EXPECT_INT(oldest, start + 2);
    EXPECT_INT(backend_events(e->b, start + RING, 0, v, 3, &oldest), 1);
    EXPECT_INT(backend_events(e->b, UINT64_MAX, 0, v, 3, &oldest), 0);
}

static void gap_across_a_restart(struct env *e)
{
    put(e, "q");
    settle_due(e);
    uint64_t before = backend_events_last(e->b);
    expect_gap(e, before, false);
    env_restart(e);
    uint64_t now = backend_events_last(e->b);
    EXPECT(now > before);
    expect_gap(e, before, true); /* at once, before anything has happened */
    expect_gap(e, now, false);
    struct tale *t = tale_new(e);
    EXPECT_INT(t->after, now);
    put(e, "q");
    expect_tale(e, t, "enqueued"); /* loading made none */
    expect_gap(e, before, true);
}

static void bound_lease_of_a_restart(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct op op = claim_op(e, "q", 1);
    op.claim.bound = true;
    EXPECT_INT(run(e, op)->job_count, 1);
    env_restart(e);
    struct backend_event v[4];
    uint64_t oldest;
    EXPECT_INT(backend_events(e->b, 0, 0, v, 4, &oldest), 1); /* of this boot */
    EXPECT_INT(v[0].kind, EVENT_RELEASED);
    EXPECT_INT(v[0].id, oldest);
    expect_job(e, &v[0], seq, STATE_READY, REASON_RESTARTED, 0);
}

struct listener {
    struct env *e;
    unsigned calls;
    bool inside;
    uint64_t last;
};

static void news_cb(void *ctx)
{
    struct listener *x = ctx;
    x->calls++;
    if (x->inside || backend_events_last(x->e->b) <= x->last)
        x->calls = 1000000;
    x->last = backend_events_last(x->e->b);
}

static void news(struct env *e)
{
    put(e, "q");
    settle_due(e);
    struct listener *x = arena_array(&e->arena, 1, sizeof *x);
    EXPECT(x != NULL);
    *x = (struct listener){.e = e, .last = backend_events_last(e->b), .inside = true};
    backend_on_news(e->b, news_cb, x);
    const struct reply *r[1];
    struct op op = enqueue_op("q");
    struct pending *p = submit(e, &op, 1, r);
    x->inside = false;
    wait_for(e, p);
    settle_due(e);
    EXPECT_INT(x->calls, 1);
    settle(e); /* queries make none */
    EXPECT_INT(x->calls, 1);
    enqueue_many(e, 50);
    settle_due(e);
    EXPECT(x->calls > 1 && x->calls <= 51);
    EXPECT_INT(x->last, backend_events_last(e->b));
    unsigned calls = x->calls;
    backend_on_news(e->b, NULL, NULL);
    put(e, "q");
    settle_due(e);
    EXPECT_INT(x->calls, calls);
}

static void leaping_clock(struct backend_config *c)
{
    c->clock.manual = false;
}

static void clock_suspect(struct env *e)
{
    struct backend_figures f;
    struct op mortal = enqueue_op("q");
    mortal.enqueue.extra.expires_at = now_plus(e, 60000);
    uint64_t seq = put_op(e, mortal);
    EXPECT_INT(run(e, (struct op){.kind = OP_ACCEPT_CLOCK})->was_suspect, 0);
    struct tale *t = tale_new(e);
    e->clock.at.wall.ms += 2 * 3600 * 1000;
    expect_tale(e, t, "clock_suspect");
    EXPECT_TEXT(t->at[0].queue, "");
    backend_figures(e->b, &f);
    EXPECT(f.clock_suspect);
    EXPECT_STATE(seq, STATE_READY);
    EXPECT_INT(run(e, (struct op){.kind = OP_ACCEPT_CLOCK})->was_suspect, 1);
    expect_tale(e, t, "dead");
    EXPECT_STATE(seq, STATE_DEAD);
    backend_figures(e->b, &f);
    EXPECT(!f.clock_suspect);
}

static const struct conform_case cases[] = {
    CASE("events: from enqueue to done", way_of_a_job, .flags = EXACT),
    CASE("events: dead, requeued, patched, cancelled, lost, expired", other_ends, .flags = EXACT),
    CASE("events: refusals, queries and repeats cause none", nothing_happened, .flags = EXACT),
    CASE("events: queues", queues, .flags = EXACT),
    CASE("events: warn_depth, once until it has fallen below 90 %", deep, .flags = EXACT),
    CASE("events: what a listener missed", gaps, .flags = EXACT),
    CASE("events: a restart is a gap", gap_across_a_restart, .flags = EXACT | RESTART),
    CASE("events: a bound lease that a restart ended", bound_lease_of_a_restart,
         .flags = EXACT | RESTART, .needs = NEEDS_OWN_STORE),
    CASE("events: news", news, .flags = EXACT),
    CASE("events: a clock that jumped, and its acceptance", clock_suspect, .flags = EXACT,
         .configure = leaping_clock, .needs = NEEDS_OWN_CLOCK | NEEDS_ONE_STORE),
};
TOPIC(topic_events, cases);
