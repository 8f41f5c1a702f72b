/* SPDX-License-Identifier: Apache-2.0 */
/* Settling: after the clock was moved, one call does what is due; figures. */
#include "conform/conform.h"

static void everything_due(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    struct op mortal = enqueue_op("q");
    mortal.enqueue.extra.expires_at = now_plus(e, 3600000);
    uint64_t leased = put(e, "q"), expires = put_op(e, mortal);
    uint64_t later = put_delayed(e, "q", 3600000), not_yet = put_delayed(e, "q", 3600001);
    EXPECT_INT(take(e, "q").seq, leased);
    settle_due(e);
    clock_manual_advance(&e->clock, 3600000); /* in one step */
    settle_due(e);
    EXPECT_STATE(leased, STATE_READY);
    EXPECT_STATE(expires, STATE_DEAD);
    EXPECT_STATE(later, STATE_READY);
    EXPECT_STATE(not_yet, STATE_SCHEDULED);
    clock_manual_advance(&e->clock, p.keep_dead_ms);
    settle_due(e);
    EXPECT_STATE(expires, STATE_NONE);
}

/* More than one slice, and more than a turn of the loop does. */
static void many_due(struct env *e)
{
    enum { BATCHES = 10 };
    static struct op ops[LIMIT_BATCH];
    static const struct reply *r[LIMIT_BATCH];
    for (size_t i = 0; i < LIMIT_BATCH; i++) {
        ops[i] = enqueue_op("q");
        ops[i].enqueue.delay_ms = 1000;
    }
    for (int i = 0; i < BATCHES; i++)
        run_batch(e, ops, LIMIT_BATCH, r);
    struct watcher *w = watch(e, "q");
    clock_manual_advance(&e->clock, 1000);
    w->signals = 0;
    settle_due(e);
    EXPECT(w->signals > 0); /* late ones, too, have been given */
    EXPECT_INT(queue_get(e, "q")->counts.by_state[STATE_READY], BATCHES * LIMIT_BATCH);
    struct op bulk = {
        .kind = OP_BULK,
        .bulk = {.action = BULK_CANCEL_NOW, .queue = SPAN_LITERAL("q"), .states = STATES_LIVE}};
    submit(e, &bulk, 1, r);
    settle_due(e);
    EXPECT_INT(queue_get(e, "q")->counts.by_state[STATE_CANCELLED], BATCHES * LIMIT_BATCH);
}

static void count_cb(void *ctx)
{
    ++*(unsigned *)ctx;
}

static void settle_and_close(struct env *e)
{
    unsigned *answers = arena_array(&e->arena, 1, sizeof *answers);
    EXPECT(answers != NULL);
    put_delayed(e, "q", 1000);
    clock_manual_advance(&e->clock, 1000);
    for (int i = 0; i < 3; i++)
        EXPECT_INT(backend_settle(e->b, count_cb, answers), 0);
    EXPECT_INT(*answers, 0);
    env_close(e);
    EXPECT_INT(*answers, 3); /* each once, none lost */
}

struct again {
    struct env *e;
    unsigned left;
};

static void again_cb(void *ctx)
{
    struct again *x = ctx;
    if (x->left > 0 && --x->left > 0 && backend_settle(x->e->b, again_cb, x) != 0)
        x->left = 1000;
}

static void settle_from_inside(struct env *e)
{
    struct again *x = arena_array(&e->arena, 1, sizeof *x);
    EXPECT(x != NULL);
    *x = (struct again){e, 5};
    again_cb(x);
    for (int i = 0; i < 100 && x->left > 0; i++)
        settle(e);
    EXPECT_INT(x->left, 0);
}

static void settle_after_close(struct env *e)
{
    unsigned *answers = arena_array(&e->arena, 1, sizeof *answers);
    EXPECT(answers != NULL);
    struct backend *b = e->b;
    e->b = NULL;
    backend_close(b, count_cb, answers);
    EXPECT_INT(backend_settle(b, count_cb, answers), -ERR_CLOSED);
    while (*answers == 0 && uv_run(&e->loop, UV_RUN_ONCE))
        ;
    EXPECT_INT(*answers, 1);
}

static void limited(struct backend_config *c)
{
    c->capacity = 1000;
}

static void figures(struct env *e)
{
    struct backend_figures f;
    struct op keyed = enqueue_op("a");
    keyed.enqueue.idempotency_key = SPAN_LITERAL("k");
    put_op(e, keyed);
    put_delayed(e, "a", 1000);
    job_in(e, "b", STATE_DONE, NULL);
    settle_due(e);
    backend_figures(e->b, &f);
    EXPECT_INT(f.keys, 1);
    EXPECT_INT(f.queues, 2);
    EXPECT_INT(f.live, 2);
    EXPECT_INT(f.jobs, 3);
    EXPECT_INT(f.capacity, 1000);
    EXPECT_INT(f.by_state[STATE_READY], 1);
    EXPECT_INT(f.by_state[STATE_SCHEDULED], 1);
    EXPECT_INT(f.by_state[STATE_DONE], 1);
    EXPECT_INT(f.position, f.durable);
    EXPECT(f.epoch >= 1 && !f.disk_full && !f.clock_suspect);
    EXPECT_INT(f.commit_us.count, f.commits);
    EXPECT_INT(f.commit_records.count, f.commits);
    if (e->profile->on_disk) {
        EXPECT(f.commits > 0);
        EXPECT(f.commit_records.sum >= 6 && f.commit_records.sum < f.position);
        EXPECT(histogram_quantile(&f.commit_us, 1) > 0);
    }
}

static const struct conform_case cases[] = {
    CASE("settle: everything that is due, at once", everything_due),
    CASE("settle: many slices, and their signals", many_due, .flags = EXACT),
    CASE("settle: close answers those under way", settle_and_close),
    CASE("settle: from inside its own answer", settle_from_inside),
    CASE("settle: refused once closing", settle_after_close),
    CASE("figures", figures, .flags = EXACT, .configure = limited, .needs = NEEDS_ONE_STORE),
};
TOPIC(topic_settle, cases);
