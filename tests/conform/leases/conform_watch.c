/* SPDX-License-Identifier: Apache-2.0 */
/* Signals: after watch returns, no job becomes ready without one. Spurious ones are allowed, so a
 * case never expects silence, but for after unwatch. */
#include "conform/conform.h"

/* A worker that found nothing waits for the signal and then finds its job. */
static void expect_woken(struct env *e, struct watcher *w, uint64_t seq)
{
    EXPECT(signalled(e, w));
    EXPECT_INT(take(e, "q").seq, seq);
}

static struct watcher *parked(struct env *e)
{
    struct watcher *w = watch(e, "q"); /* before the last empty claim */
    EXPECT_INT(claim(e, "q", 1)->job_count, 0);
    w->signals = 0;
    return w;
}

static void new_job(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    struct watcher *w = parked(e);
    for (int i = 0; i < 5; i++) {
        w->signals = 0;
        expect_woken(e, w, put(e, "q"));
    }
}

static void queue_that_does_not_exist(struct env *e)
{
    struct watcher *w = parked(e);
    expect_woken(e, w, put(e, "q"));
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_DELETE, "q")), OUT_OK);
    w->signals = 0;
    expect_woken(e, w, put(e, "q")); /* the name, not the queue, is watched */
}

static void becoming_due(struct env *e)
{
    struct watcher *w = parked(e);
    uint64_t seq = put_delayed(e, "q", 1500);
    EXPECT_INT(queue_get(e, "q")->counts.next_due.ms, START_WALL_MS + 1500);
    advance(e, 1499);
    EXPECT_INT(claim(e, "q", 1)->job_count, 0);
    w->signals = 0;
    advance(e, 1);
    expect_woken(e, w, seq);
}

static void coming_back(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    uint64_t seq = put(e, "q");
    struct held h = take(e, "q");
    struct watcher *w = parked(e);
    EXPECT_OUT(release(e, h), OUT_OK);
    EXPECT(signalled(e, w));
    h = take(e, "q");
    EXPECT_OUT(fail(e, h), OUT_OK);
    w->signals = 0;
    advance(e, 1000); /* its retry is due */
    EXPECT(signalled(e, w));
    take(e, "q");
    w->signals = 0;
    advance(e, 10000); /* the lease runs out */
    expect_woken(e, w, seq);
}

static void by_other_hands(struct env *e)
{
    uint64_t dead = job_in(e, "q", STATE_DEAD, NULL);
    struct watcher *w = parked(e);
    EXPECT_OUT(requeue(e, dead), OUT_OK);
    expect_woken(e, w, dead);
    uint64_t later = put_delayed(e, "q", 60000);
    w->signals = 0;
    struct op op = {.kind = OP_PATCH, .patch = {.job = {.seq = later}, .has_run_at = true}};
    EXPECT_OUT(run(e, op), OUT_OK);
    expect_woken(e, w, later);
}

static void resume_wakes(struct env *e)
{
    uint64_t seq = put(e, "q");
    pause_queue(e, "q", (struct wall_time){LIMIT_WALL_MS});
    struct watcher *w = parked(e);
    pause_queue(e, "q", (struct wall_time){0});
    expect_woken(e, w, seq);
}

static void released_claim_wakes(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct op op = claim_op(e, "q", 1);
    op.claim.nonce = 99;
    const struct reply *r[1];
    run_batch(e, &op, 1, r);
    EXPECT_INT(r[0]->job_count, 1);
    struct watcher *w = parked(e);
    EXPECT_OUT(run(e, (struct op){.kind = OP_RELEASE_CLAIM, .release_claim = {99}}), OUT_OK);
    expect_woken(e, w, seq);
}

static void several_watchers(struct env *e)
{
    struct watcher *a = watch(e, "q"), *b = watch(e, "q"), *other = watch(e, "other");
    put(e, "q");
    EXPECT(signalled(e, a));
    EXPECT(signalled(e, b));
    backend_unwatch(e->b, a->handle);
    a->signals = b->signals = other->signals = 0;
    put(e, "q");
    put(e, "other");
    EXPECT(signalled(e, b));
    EXPECT(signalled(e, other));
    EXPECT_INT(a->signals, 0);
    backend_unwatch(e->b, b->handle);
    backend_unwatch(e->b, NULL);
    b->signals = 0;
    put(e, "q");
    settle(e);
    EXPECT_INT(b->signals, 0);
}

/* One batch makes many ready, in several queues. */
static void many_at_once(struct env *e)
{
    struct watcher *w[3] = {watch(e, "a"), watch(e, "b"), watch(e, "c")};
    struct op ops[30];
    const struct reply *r[30];
    for (int i = 0; i < 30; i++)
        ops[i] = enqueue_op(i % 3 == 0 ? "a" : i % 3 == 1 ? "b" : "c");
    run_batch(e, ops, 30, r);
    for (int i = 0; i < 3; i++)
        EXPECT(signalled(e, w[i]));
    EXPECT_INT(claim(e, "c", 100)->job_count, 10);
}

struct eager {
    struct env *e;
    struct op op;
    unsigned claimed, rounds;
};

static void eager_signal_cb(void *ctx);

static void eager_reply_cb(void *ctx, const struct reply *reply)
{
    struct eager *x = ctx;
    x->claimed += reply->job_count;
    if (reply->job_count > 0) /* until nothing is left: signals may stand for several jobs */
        eager_signal_cb(x);
}

static void eager_signal_cb(void *ctx)
{
    struct eager *x = ctx;
    x->rounds++;
    if (backend_submit(x->e->b, &x->op, 1, eager_reply_cb, x) != 0)
        x->rounds = 1000000;
}

/* Claiming from inside the signal, as a broker does: nothing is left lying. */
static void claim_inside_the_signal(struct env *e)
{
    struct eager *x = arena_array(&e->arena, 1, sizeof *x);
    EXPECT(x != NULL);
    *x = (struct eager){.e = e, .op = claim_op(e, "q", 3)};
    struct backend_watch *handle;
    EXPECT_INT(backend_watch(e->b, SPAN_LITERAL("q"), eager_signal_cb, x, &handle), 0);
    for (int i = 0; i < 30; i++) {
        put(e, "q");
        if (i % 7 == 0)
            put_delayed(e, "q", 100);
    }
    advance(e, 100);
    for (int i = 0; i < 20 && x->claimed < 35; i++)
        settle(e);
    EXPECT_INT(x->claimed, 35);
    EXPECT(x->rounds < 1000);
    backend_unwatch(e->b, handle);
    EXPECT_COUNTS("q", .running = 35);
}

static const struct conform_case cases[] = {
    CASE("PDQ-4 a new job gives a signal, each time", new_job),
    CASE("PDQ-4 a queue that does not exist yet can be watched", queue_that_does_not_exist),
    CASE("PDQ-4 a scheduled job becoming due gives a signal", becoming_due),
    CASE("PDQ-4 release, retry and crash give a signal", coming_back),
    CASE("PDQ-4 requeue and patch give a signal", by_other_hands),
    CASE("PDQ-4 resume gives a signal", resume_wakes),
    CASE("PDQ-4 a claim that is released gives a signal", released_claim_wakes, .flags = EXACT),
    CASE("several watchers; none after unwatch", several_watchers),
    CASE("PDQ-4 one batch wakes several queues", many_at_once, .flags = EXACT),
    CASE("PDQ-4 claiming from inside the signal", claim_inside_the_signal, .flags = EXACT),
};
TOPIC(topic_watch, cases);
