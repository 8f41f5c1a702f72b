/* SPDX-License-Identifier: Apache-2.0 */
/* Which job comes next, and when. */
#include "conform/conform.h"

static void expect_next(struct env *e, const char *queue, uint64_t seq)
{
    EXPECT_INT(take(e, queue).seq, seq);
}

static void priority_then_fifo(struct env *e)
{
    uint64_t low = put_priority(e, "q", -1);
    uint64_t a = put(e, "q"), b = put(e, "q");
    uint64_t high = put_priority(e, "q", 10);
    uint64_t c = put(e, "q");
    const struct reply *r = peek(e, "q", STATE_READY, 10);
    EXPECT_INT(r->job_count, 5);
    EXPECT_INT(r->jobs[0].job.seq, high);
    EXPECT_INT(r->jobs[4].job.seq, low);
    expect_next(e, "q", high);
    expect_next(e, "q", a);
    expect_next(e, "q", b);
    expect_next(e, "q", c);
    expect_next(e, "q", low);
}

/* Within one priority the job that was due first comes first; the priority is shown as given. */
static void by_due(struct env *e)
{
    struct queue_policy policy = test_policy();
    policy.by_due = true;
    queue_make(e, "q", &policy);
    uint64_t late = put_delayed(e, "q", 3000), soon = put_delayed(e, "q", 1000);
    uint64_t now = put(e, "q"), low = put_priority(e, "q", -10), high = put_priority(e, "q", 10);
    EXPECT_INT(view_priority(get(e, late)), 0);
    EXPECT_INT(view_priority(get(e, low)), -10);
    EXPECT_INT(view_priority(get(e, high)), 10);
    advance(e, 5000);
    expect_next(e, "q", high);
    expect_next(e, "q", now);
    expect_next(e, "q", soon);
    expect_next(e, "q", late);
    expect_next(e, "q", low);
}

static void fifo_over_many(struct env *e)
{
    uint64_t seqs[100];
    for (int i = 0; i < 100; i++)
        seqs[i] = put(e, "q");
    for (int i = 0; i < 100;) {
        const struct reply *r = claim(e, "q", 7);
        EXPECT(r->job_count == 7 || (r->job_count > 0 && i + (int)r->job_count == 100));
        for (uint32_t k = 0; k < r->job_count; k++)
            EXPECT_INT(r->jobs[k].job.seq, seqs[i++]);
    }
}

static void extreme_priorities(struct env *e)
{
    uint64_t lowest = put_priority(e, "q", INT64_MIN);
    uint64_t minus = put_priority(e, "q", -1);
    uint64_t highest = put_priority(e, "q", INT64_MAX);
    uint64_t zero = put_priority(e, "q", 0);
    EXPECT_INT(get(e, highest)->job.priority, INT64_MAX);
    EXPECT_INT(get(e, lowest)->job.priority, INT64_MIN);
    expect_next(e, "q", highest);
    expect_next(e, "q", zero);
    expect_next(e, "q", minus);
    expect_next(e, "q", lowest);
}

static void scheduled_does_not_block(struct env *e)
{
    struct op op = enqueue_op("q");
    op.enqueue.has_priority = true;
    op.enqueue.priority = INT64_MAX;
    op.enqueue.run_at = now_plus(e, INT64_C(10) * 365 * 86400 * 1000);
    uint64_t far = put_op(e, op);
    uint64_t near = put_priority(e, "q", -100);
    EXPECT_COUNTS("q", .scheduled = 1, .ready = 1);
    expect_next(e, "q", near);
    EXPECT_INT(claim(e, "q", 1)->job_count, 0);
    EXPECT_STATE(far, STATE_SCHEDULED);
}

static void never_early(struct env *e)
{
    uint64_t seq = put_delayed(e, "q", 1500);
    EXPECT_INT(get(e, seq)->job.run_at.ms, START_WALL_MS + 1500);
    uint64_t other = put_delayed(e, "q", 1499); /* so that something happens at that moment */
    EXPECT_INT(claim(e, "q", 1)->job_count, 0);
    advance(e, 1499);
    expect_next(e, "q", other);
    EXPECT_INT(claim(e, "q", 1)->job_count, 0);
    EXPECT_STATE(seq, STATE_SCHEDULED);
    advance(e, 1);
    EXPECT_STATE(seq, STATE_READY);
    expect_next(e, "q", seq);
}

static void run_at_is_a_time(struct env *e)
{
    struct op op = enqueue_op("q");
    op.enqueue.run_at = now_plus(e, 700);
    op.enqueue.delay_ms = 5; /* run_at comes first */
    uint64_t seq = put_op(e, op);
    advance(e, 699);
    EXPECT_STATE(seq, STATE_SCHEDULED);
    advance(e, 1);
    EXPECT_STATE(seq, STATE_READY);
    op.enqueue.run_at = now_plus(e, -5000);
    EXPECT_STATE(put_op(e, op), STATE_READY);
}

static void farthest_delay(struct env *e)
{
    uint64_t seq = put_delayed(e, "q", INT64_MAX);
    EXPECT_INT(get(e, seq)->job.run_at.ms, LIMIT_WALL_MS);
    EXPECT_STATE(seq, STATE_SCHEDULED);
    struct held h = seize(e, seq);
    struct op op = lease_op(OP_RELEASE, h);
    op.lease.has_delay = true;
    op.lease.delay_ms = INT64_MAX;
    EXPECT_INT(run(e, op)->run_at.ms, LIMIT_WALL_MS);
    EXPECT_STATE(seq, STATE_SCHEDULED);
    advance(e, 1000);
    EXPECT_INT(claim(e, "q", 1)->job_count, 0);
}

/* Once due, a job is ordered by priority and sequence, not by the time when it became due. */
static void due_jobs_stand_in_line(struct env *e)
{
    uint64_t first = put_delayed(e, "q", 900);
    uint64_t second = put_delayed(e, "q", 300);
    uint64_t third = put(e, "q");
    struct op op = enqueue_op("q");
    op.enqueue.has_priority = true;
    op.enqueue.priority = 1;
    op.enqueue.delay_ms = 600;
    uint64_t urgent = put_op(e, op);
    const struct reply *r = peek(e, "q", STATE_SCHEDULED, 10);
    EXPECT_INT(r->job_count, 3);
    EXPECT_INT(r->jobs[0].job.seq, second);
    EXPECT_INT(r->jobs[1].job.seq, urgent);
    EXPECT_INT(r->jobs[2].job.seq, first);
    advance(e, 1000);
    EXPECT_COUNTS("q", .ready = 4);
    expect_next(e, "q", urgent);
    expect_next(e, "q", first);
    expect_next(e, "q", second);
    expect_next(e, "q", third);
}

static void due_one_by_one(struct env *e)
{
    uint64_t late = put_delayed(e, "q", 3000);
    uint64_t soon = put_delayed(e, "q", 1000);
    uint64_t mid = put_delayed(e, "q", 2000);
    advance(e, 1000);
    expect_next(e, "q", soon);
    EXPECT_COUNTS("q", .scheduled = 2, .running = 1);
    advance(e, 1000);
    expect_next(e, "q", mid);
    advance(e, 1000);
    expect_next(e, "q", late);
}

static struct op claim_over(struct env *e, const struct span *queues, uint32_t n, uint32_t count)
{
    struct op op = claim_op(e, "", count);
    op.claim.queues = queues;
    op.claim.queue_count = n;
    return op;
}

static void across_queues(struct env *e)
{
    static const struct span queues[] = {{"c", 1}, {"a", 1}, {"nowhere", 7}, {"b", 1}};
    uint64_t a1 = put(e, "a"), b1 = put(e, "b");
    uint64_t b2 = put_priority(e, "b", 5), a2 = put(e, "a");
    uint64_t c1 = put_priority(e, "c", 5);
    uint64_t should[] = {b2, c1, a1, b1, a2};
    const struct reply *r = run(e, claim_over(e, queues, 4, 3));
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->job_count, 3);
    for (int i = 0; i < 3; i++)
        EXPECT_INT(r->jobs[i].job.seq, should[i]);
    EXPECT_TEXT(r->jobs[0].queue, "b");
    EXPECT_TEXT(r->jobs[1].queue, "c");
    r = run(e, claim_over(e, queues, 4, 10));
    EXPECT_INT(r->job_count, 2);
    EXPECT_INT(r->jobs[0].job.seq, should[3]);
    EXPECT_INT(r->jobs[1].job.seq, should[4]);
}

/* A store that reads fewer jobs of each queue may return fewer jobs, but in their order. */
static void across_very_many_queues(struct env *e)
{
    enum { NAMES = 250, BOTH = 40 };
    char texts[NAMES][16];
    struct span queues[NAMES];
    uint64_t should[3 + BOTH];
    for (int i = 0; i < NAMES; i++) {
        snprintf(texts[i], sizeof texts[i], "many%d", i);
        queues[i] = span_text(texts[i]);
    }
    for (int i = 0; i < BOTH; i++)
        should[3 + i] = put(e, i % 2 ? "many0" : "many249");
    for (int i = 0; i < 3; i++)
        should[i] = put_priority(e, "many7", 2);
    for (int got = 0, more; got < 3 + BOTH; got += more) {
        const struct reply *r = run(e, claim_over(e, queues, NAMES, 1000));
        EXPECT_OUT(r, OUT_OK);
        more = (int)r->job_count;
        EXPECT(more > 0 && got + more <= 3 + BOTH);
        for (int i = 0; i < more; i++)
            EXPECT_INT(r->jobs[i].job.seq, should[got + i]);
    }
}

static void queue_named_twice(struct env *e)
{
    static const struct span queues[] = {{"a", 1}, {"a", 1}};
    uint64_t first = put(e, "a"), second = put(e, "a");
    const struct reply *r = run(e, claim_over(e, queues, 2, 5));
    EXPECT_INT(r->job_count, 2);
    EXPECT_INT(r->jobs[0].job.seq, first);
    EXPECT_INT(r->jobs[1].job.seq, second);
}

static void released_keeps_its_place(struct env *e)
{
    uint64_t first = put(e, "q");
    put(e, "q");
    struct held h = take(e, "q");
    EXPECT_OUT(release(e, h), OUT_OK);
    expect_next(e, "q", first);
}

static void retried_keeps_its_place(struct env *e)
{
    struct queue_policy p = test_policy();
    p.backoff.step_count = 0;
    queue_make(e, "q", &p);
    uint64_t first = put(e, "q"), second = put(e, "q");
    EXPECT_OUT(fail(e, take(e, "q")), OUT_OK);
    EXPECT_STATE(first, STATE_READY);
    expect_next(e, "q", first);
    expect_next(e, "q", second);
}

static const struct conform_case cases[] = {
    CASE("NOM-5 ORC-5 priority first, then first in first out", priority_then_fifo),
    CASE("TF-4 by_due: within one priority what was due first", by_due),
    CASE("PDQ-3 FIFO within one priority, over many claims", fifo_over_many),
    CASE("priorities reach from INT64_MIN to INT64_MAX", extreme_priorities),
    CASE("PDQ-2 a far-future urgent job never blocks a ready one", scheduled_does_not_block),
    CASE("KV-2 a delayed job is never early, and ready on time", never_early),
    CASE("run_at is absolute and may lie in the past", run_at_is_a_time),
    CASE("the longest delay ends with the calendar", farthest_delay),
    CASE("PDQ-2 due jobs line up by priority and sequence", due_jobs_stand_in_line),
    CASE("scheduled jobs become ready one by one", due_one_by_one),
    CASE("a claim over several queues picks by priority and sequence", across_queues,
         .needs = NEEDS_ONE_STORE),
    CASE("a claim over very many queues keeps the order", across_very_many_queues,
         .needs = NEEDS_ONE_STORE),
    CASE("a queue named twice in a claim counts once", queue_named_twice),
    CASE("a released job keeps its place", released_keeps_its_place),
    CASE("PDQ-3 a retried job keeps its place", retried_keeps_its_place),
};
TOPIC(topic_order, cases);
