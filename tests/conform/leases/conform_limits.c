/* SPDX-License-Identifier: Apache-2.0 */
/* HF-9, HF-28, HF-29: limits at the claim, fair share and ageing (core/queues/claim_limits.h). */
#include "conform/conform.h"

#include <stdio.h>

static void make(struct env *e, struct queue_policy p)
{
    queue_make(e, "q", &p);
}

static unsigned got(struct env *e, uint32_t count)
{
    return claim(e, "q", count)->job_count;
}

static void slots_of_a_queue(struct env *e)
{
    struct queue_policy p = test_policy();
    p.max_running = 2;
    make(e, p);
    for (int i = 0; i < 5; i++)
        put(e, "q");
    const struct reply *r = claim(e, "q", 5);
    EXPECT_INT(r->job_count, 2);
    struct held first = held_of(&r->jobs[0]), second = held_of(&r->jobs[1]);
    EXPECT_INT(got(e, 1), 0);
    EXPECT_INT(queue_get(e, "q")->counts.limited[CLAIM_QUEUE_LIMIT], 3);
    EXPECT_OUT(ack(e, first), OUT_OK);
    take(e, "q");
    EXPECT_INT(got(e, 1), 0);
    EXPECT_OUT(release(e, second), OUT_OK);
    EXPECT_INT(got(e, 5), 1);
    advance(e, 10000); /* both leases end */
    EXPECT_INT(got(e, 5), 2);
}

static void slots_of_groups(struct env *e)
{
    struct queue_policy p = test_policy();
    p.max_running_per_group = 1;
    make(e, p);
    uint64_t a = put_grouped(e, "q", "a");
    for (int i = 0; i < 50; i++)
        put_grouped(e, "q", "a");
    uint64_t b = put_grouped(e, "q", "b"), none = put(e, "q");
    put(e, "q"); /* those without a group are one */
    struct held h = take(e, "q");
    EXPECT_INT(h.seq, a);
    EXPECT_INT(take(e, "q").seq, b);
    EXPECT_INT(take(e, "q").seq, none);
    EXPECT_INT(got(e, 1), 0);
    EXPECT_INT(queue_get(e, "q")->counts.limited[CLAIM_GROUP_LIMIT], 51);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT(take(e, "q").seq > a);
    EXPECT_INT(got(e, 1), 0);
}

static void several_queues_in_one_claim(struct env *e)
{
    struct queue_policy p = test_policy();
    const struct span both[] = {SPAN_LITERAL("q"), SPAN_LITERAL("other")};
    p.max_running = 1;
    make(e, p);
    put(e, "q");
    put(e, "q");
    put(e, "other");
    put(e, "other");
    struct op op = claim_op(e, "q", 4);
    op.claim.queues = both;
    op.claim.queue_count = 2;
    EXPECT_INT(run(e, op)->job_count, 3);
    EXPECT_COUNTS("q", .ready = 1, .running = 1);
}

static void a_change_takes_effect(struct env *e)
{
    struct queue_policy p = test_policy();
    make(e, p);
    for (int i = 0; i < 6; i++)
        put_grouped(e, "q", i % 2 ? "a" : "b");
    struct held first = take(e, "q");
    take(e, "q");
    p.max_running = 1; /* lower than what runs */
    make(e, p);
    EXPECT_INT(got(e, 1), 0);
    EXPECT_OUT(ack(e, first), OUT_OK);
    EXPECT_INT(got(e, 1), 0);
    p.max_running = 0;
    p.max_running_per_group = 1;
    make(e, p);
    EXPECT_INT(got(e, 5), 1); /* of the group of the job that ended */
    make(e, test_policy());
    settle_due(e);
    EXPECT_INT(got(e, 5), 3);
}

static void rate_of_a_queue(struct env *e)
{
    struct queue_policy p = test_policy();
    p.claim_rate = (struct rate_limit){RATE_QUEUE, 2, 1000};
    make(e, p);
    for (int i = 0; i < 4; i++)
        put(e, "q");
    EXPECT_INT(got(e, 4), 2);
    EXPECT_INT(got(e, 4), 0);
    EXPECT_INT(queue_get(e, "q")->counts.limited[CLAIM_RATE], 2);
    advance(e, 499);
    EXPECT_INT(got(e, 4), 0);
    advance(e, 1);
    EXPECT_INT(got(e, 4), 1);
    EXPECT_INT(got(e, 4), 0);
}

static void rate_of_groups(struct env *e)
{
    struct queue_policy p = test_policy();
    p.claim_rate = (struct rate_limit){RATE_GROUP, 1, 1000};
    make(e, p);
    for (int i = 0; i < 6; i++)
        put_grouped(e, "q", i % 2 ? "a" : "b");
    EXPECT_INT(got(e, 6), 2);
    EXPECT_INT(got(e, 6), 0);
    advance(e, 1000);
    EXPECT_INT(got(e, 6), 2);
}

/* Another order of the jobs gives no tokens. */
static void a_change_keeps_the_tokens(struct env *e)
{
    struct queue_policy p = test_policy();
    p.claim_rate = (struct rate_limit){RATE_GROUP, 1, 1000};
    make(e, p);
    for (int i = 0; i < 6; i++)
        put_grouped(e, "q", i % 2 ? "a" : "b");
    EXPECT_INT(got(e, 6), 2);
    p.ageing_ms = 1000;
    make(e, p);
    settle_due(e);
    EXPECT_INT(got(e, 6), 0);
    p.fair = FAIR_GROUP;
    make(e, p);
    settle_due(e);
    EXPECT_INT(got(e, 6), 0);
    advance(e, 1000);
    EXPECT_INT(got(e, 6), 2);
}

static void groups_take_turns(struct env *e)
{
    struct queue_policy p = test_policy();
    p.fair = FAIR_GROUP;
    make(e, p);
    uint64_t large[20], small[3];
    for (int i = 0; i < 20; i++)
        large[i] = put_grouped(e, "q", "large");
    for (int i = 0; i < 3; i++)
        small[i] = put_grouped(e, "q", "small");
    for (int i = 0; i < 3; i++) {
        EXPECT_INT(take(e, "q").seq, large[i]);
        EXPECT_INT(take(e, "q").seq, small[i]);
    }
    EXPECT_INT(take(e, "q").seq, large[3]);
    uint64_t back = put_grouped(e, "q", "small"); /* no credit for the time without jobs */
    struct op urgent = enqueue_op("q");
    urgent.enqueue.extra.group = SPAN_LITERAL("large");
    urgent.enqueue.has_priority = true;
    urgent.enqueue.priority = 1;
    uint64_t first = put_op(e, urgent); /* turns are within one priority */
    EXPECT_INT(take(e, "q").seq, first);
    EXPECT_INT(take(e, "q").seq, back);
    EXPECT_INT(take(e, "q").seq, large[4]);
}

static void age_raises_jobs(struct env *e)
{
    struct queue_policy p = test_policy();
    p.ageing_ms = 1000;
    make(e, p);
    uint64_t old = put_priority(e, "q", 0);
    advance(e, 3500);
    uint64_t low = put_priority(e, "q", 2), high = put_priority(e, "q", 5);
    EXPECT_INT(take(e, "q").seq, high);
    EXPECT_INT(take(e, "q").seq, old);
    EXPECT_INT(take(e, "q").seq, low);
}

static void by_id(struct env *e)
{
    struct queue_policy p = test_policy();
    p.max_running_per_group = 1;
    make(e, p);
    uint64_t a = put_grouped(e, "q", "a"), later = put_grouped(e, "q", "a");
    struct held h = seize(e, later);
    struct op op = {.kind = OP_CLAIM, .claim = {.one = {.seq = a}, .count = 1}};
    EXPECT_OUT(run(e, op), OUT_ILLEGAL);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_INT(take(e, "q").seq, a);
}

static struct watcher *parked(struct env *e)
{
    struct watcher *w = watch(e, "q");
    EXPECT_INT(got(e, 1), 0);
    w->signals = 0;
    return w;
}

/* Each way in which a job that was kept back can start signals the queue. */
static void signals(struct env *e)
{
    struct queue_policy p = test_policy();
    p.max_running = 1;
    make(e, p);
    for (int i = 0; i < 8; i++)
        put(e, "q");
    struct held h = take(e, "q");
    struct watcher *w = parked(e);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT(signalled(e, w));
    h = take(e, "q");
    w->signals = 0;
    EXPECT_OUT(release(e, h), OUT_OK);
    EXPECT(signalled(e, w));
    h = take(e, "q");
    w->signals = 0;
    EXPECT_OUT(cancel(e, h.seq), OUT_OK);
    EXPECT(signalled(e, w));
    take(e, "q");
    w->signals = 0;
    advance(e, 10000); /* the lease ends */
    EXPECT(signalled(e, w));
    take(e, "q");
    w->signals = 0;
    p.max_running = 2;
    make(e, p);
    EXPECT(signalled(e, w));
    take(e, "q");
    p.max_running = 0;
    p.claim_rate = (struct rate_limit){RATE_QUEUE, 1, 1000};
    make(e, p);
    (void)got(e, 1);
    w->signals = 0;
    advance(e, 1000); /* a token */
    EXPECT(signalled(e, w));
    EXPECT_INT(got(e, 2), 1);
}

/* Slots come from leases, so they are right after a restart. */
static void restart(struct env *e)
{
    struct queue_policy p = test_policy();
    p.max_running_per_group = 1;
    p.claim_rate = (struct rate_limit){RATE_QUEUE, 2, 60000};
    make(e, p);
    put_grouped(e, "q", "a");
    put_grouped(e, "q", "a");
    uint64_t b = put_grouped(e, "q", "b");
    put_grouped(e, "q", "c");
    take(e, "q");
    env_restart(e);
    EXPECT_INT(take(e, "q").seq, b);
    EXPECT_INT(got(e, 4), 0); /* what runs has taken its token */
}

/* Jobs of the groups in turn. */
static void put_in_groups(struct env *e, unsigned jobs, unsigned groups)
{
    static const struct reply *replies[500];
    static struct op ops[500];
    static char names[500][16];
    for (unsigned done = 0; done < jobs;) {
        unsigned n = jobs - done < 500 ? jobs - done : 500;
        for (unsigned i = 0; i < n; i++) {
            snprintf(names[i], sizeof names[i], "g%u", (done + i) % groups);
            ops[i] = enqueue_op("q");
            ops[i].enqueue.extra.group = span_text(names[i]);
        }
        run_batch(e, ops, n, replies);
        for (unsigned i = 0; i < n; i++)
            EXPECT_OUT(replies[i], OUT_OK);
        done += n;
    }
}

/* Claims until one is empty. */
static unsigned got_all(struct env *e)
{
    unsigned all = 0, n;
    while ((n = got(e, 500)) > 0)
        all += n;
    return all;
}

/* More jobs than a step that builds the order puts into their places. */
static void an_order_of_many_jobs(struct env *e)
{
    struct queue_policy p = test_policy();
    make(e, p);
    put_in_groups(e, 2500, 50);
    p.max_running_per_group = 10;
    make(e, p);
    settle_due(e);
    EXPECT_INT(got_all(e), 500);
    p.max_running_per_group = 0;
    make(e, p);
    settle_due(e);
    EXPECT_INT(got_all(e), 2000);
}

/* More groups than one claim examines again. */
static void a_higher_limit_opens_many_groups(struct env *e)
{
    struct queue_policy p = test_policy();
    p.max_running_per_group = 1;
    make(e, p);
    put_in_groups(e, 3600, 1200);
    EXPECT_INT(got_all(e), 1200);
    p.max_running_per_group = 3;
    make(e, p);
    unsigned all = 0;
    for (int i = 0; i < 20 && all < 2400; i++)
        all += got_all(e);
    EXPECT_INT(all, 2400);
    EXPECT_INT(queue_get(e, "q")->counts.by_state[STATE_RUNNING], 3600);
}

/* Slots of jobs that ran before the queue had groups. */
static void slots_from_before(struct env *e)
{
    make(e, test_policy());
    put_in_groups(e, 6, 2);
    struct held first = take(e, "q");
    struct queue_policy p = test_policy();
    p.max_running_per_group = 1;
    make(e, p);
    EXPECT_INT(got(e, 5), 1); /* of the other group */
    EXPECT_OUT(ack(e, first), OUT_OK);
    EXPECT_INT(got(e, 5), 1);
}

static void purged_and_deleted(struct env *e)
{
    struct queue_policy p = test_policy();
    p.max_running_per_group = 1;
    p.fair = FAIR_GROUP;
    make(e, p);
    for (int i = 0; i < 4; i++)
        put_grouped(e, "q", i % 2 ? "a" : "b");
    struct held h = take(e, "q");
    EXPECT_OUT(run(e, queue_op(OP_PURGE, "q")), OUT_OK);
    settle_due(e);
    EXPECT_INT(got(e, 5), 0);
    uint64_t busy = put_grouped(e, "q", "b"), free = put_grouped(e, "q", "a");
    EXPECT_INT(take(e, "q").seq, free);
    EXPECT_INT(got(e, 5), 0);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_INT(take(e, "q").seq, busy);
    struct op op = queue_op(OP_QUEUE_DELETE, "q");
    EXPECT_OUT(run(e, op), OUT_OK);
    settle_due(e);
    make(e, p);
    put_grouped(e, "q", "a");
    put_grouped(e, "q", "a");
    EXPECT_INT(got(e, 5), 1);
}

/* What takes a ready job out of its place, or moves it. */
static void places_follow_the_jobs(struct env *e)
{
    struct queue_policy p = test_policy();
    p.fair = FAIR_GROUP;
    make(e, p);
    uint64_t first = put_grouped(e, "q", "a"), second = put_grouped(e, "q", "a");
    uint64_t other = put_grouped(e, "q", "b");
    struct op op = {.kind = OP_PATCH, .patch = {.job = {.seq = other}}};
    op.patch.has_priority = true;
    op.patch.priority = 5;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_OUT(cancel(e, first), OUT_OK);
    op = enqueue_op("q");
    op.enqueue.extra.group = SPAN_LITERAL("c");
    op.enqueue.extra.expires_at = now_plus(e, 1000);
    op.enqueue.has_priority = true;
    op.enqueue.priority = 9;
    put_op(e, op);
    advance(e, 2000);
    EXPECT_INT(take(e, "q").seq, other);
    struct held h = take(e, "q");
    EXPECT_INT(h.seq, second);
    EXPECT_INT(got(e, 5), 0);
    EXPECT_OUT(release(e, h), OUT_OK);
    EXPECT_INT(take(e, "q").seq, second);
}

static const struct conform_case cases[] = {
    CASE("HF-28 max_running: slots come from leases", slots_of_a_queue, EXACT),
    CASE("HF-28 max_running_per_group blocks no other group", slots_of_groups, EXACT),
    CASE("HF-28 a claim over several queues", several_queues_in_one_claim, EXACT),
    CASE("HF-28 a change of the policy takes effect", a_change_takes_effect, EXACT),
    CASE("HF-9 claim_rate of a queue", rate_of_a_queue, EXACT),
    CASE("HF-9 claim_rate of groups", rate_of_groups, EXACT),
    CASE("HF-9 a change of the order gives no tokens", a_change_keeps_the_tokens, EXACT),
    CASE("HF-29 groups take turns", groups_take_turns, EXACT),
    CASE("HF-29 age raises a job", age_raises_jobs, EXACT),
    CASE("HF-28 claims by id stay within the limits", by_id, EXACT),
    CASE("HF-28 an order of many jobs is built in steps", an_order_of_many_jobs, EXACT),
    CASE("HF-28 a higher limit opens many groups", a_higher_limit_opens_many_groups, EXACT),
    CASE("HF-28 jobs that ran before occupy slots", slots_from_before, EXACT),
    CASE("HF-28 purges and deletes of queues with limits", purged_and_deleted, EXACT),
    CASE("HF-29 places of groups follow their jobs", places_follow_the_jobs, EXACT),
    CASE("HF-28 what was kept back is signalled", signals, EXACT),
    CASE("HF-28 limits hold after a restart", restart, EXACT | RESTART),
};
TOPIC(topic_limits, cases);
