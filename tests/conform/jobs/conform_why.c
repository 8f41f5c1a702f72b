/* SPDX-License-Identifier: Apache-2.0 */
/* HF-5: what a store says of a waiting job (struct job_wait): the jobs before it, the pause of its
 * queue, the limits at the claim. ops/jobs/why.h turns it into reasons. */
#include "conform/conform.h"
#include "ops/jobs/why.h"

static const struct job_wait *wait_of(struct env *e, uint64_t seq)
{
    struct op op = job_op(OP_GET, seq);
    op.job.want_wait = true;
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    return r->jobs[0].wait;
}

static void only_of_jobs_that_wait(struct env *e)
{
    uint64_t ready = put(e, "q"), later = put_delayed(e, "q", 60000);
    EXPECT(get(e, ready)->wait == NULL);
    EXPECT(wait_of(e, ready) != NULL);
    EXPECT(wait_of(e, later) != NULL);
    struct held h = take(e, "q");
    EXPECT(wait_of(e, h.seq) == NULL);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT(wait_of(e, h.seq) == NULL);
}

static void jobs_before(struct env *e)
{
    uint64_t low = put_priority(e, "q", -1), first = put(e, "q"), second = put(e, "q");
    put_delayed(e, "q", 60000);
    put_priority(e, "other", 100);
    EXPECT_INT(wait_of(e, first)->before, 0);
    EXPECT_INT(wait_of(e, second)->before, 1);
    EXPECT_INT(wait_of(e, low)->before, 2);
    uint64_t high = put_priority(e, "q", 7);
    const struct job_wait *w = wait_of(e, low);
    EXPECT_INT(w->before, 3);
    EXPECT_INT(w->before_kind, COUNT_EXACT);
    EXPECT_INT(w->ready, 4);
    EXPECT_INT(w->running, 0);
    EXPECT(!w->grouped);
    EXPECT_INT(w->paused_until.ms, 0);
    EXPECT_INT(take(e, "q").seq, high);
    w = wait_of(e, low);
    EXPECT_INT(w->before, 2);
    EXPECT_INT(w->ready, 3);
    EXPECT_INT(w->running, 1);
}

/* Whatever is known of them, the number is bounded and says what it is. */
static void very_many_before(struct env *e)
{
    struct op ops[500];
    const struct reply *replies[500];
    uint64_t count = 0;
    for (int round = 0; round < 6; round++) {
        for (size_t i = 0; i < 500; i++) {
            ops[i] = enqueue_op("q");
            ops[i].tag = i;
            ops[i].enqueue.has_priority = true;
            ops[i].enqueue.priority = (int64_t)(i % 3);
        }
        run_batch(e, ops, 500, replies);
        for (size_t i = 0; i < 500; i++)
            EXPECT_OUT(replies[i], OUT_OK);
        count += 500;
    }
    uint64_t last = put(e, "q");
    const struct job_wait *w = wait_of(e, last);
    EXPECT_INT(w->ready, count + 1);
    EXPECT(w->before <= count && w->before >= BEFORE_COUNTED);
    if (w->before_kind == COUNT_EXACT)
        EXPECT_INT(w->before, count);
    if (w->before_kind == COUNT_ESTIMATE)
        EXPECT(w->before >= count * 9 / 10);
    EXPECT_INT(wait_of(e, put_priority(e, "q", 9))->before, 0);
}

static void pauses(struct env *e)
{
    uint64_t ready = put(e, "q"), later = put_delayed(e, "q", 60000);
    pause_queue(e, "q", now_plus(e, 5000));
    EXPECT_INT(wait_of(e, ready)->paused_until.ms, now_plus(e, 5000).ms);
    EXPECT_INT(wait_of(e, later)->paused_until.ms, now_plus(e, 5000).ms);
    pause_queue(e, "q", (struct wall_time){LIMIT_WALL_MS});
    EXPECT_INT(wait_of(e, ready)->paused_until.ms, LIMIT_WALL_MS);
    pause_queue(e, "q", (struct wall_time){0});
    EXPECT_INT(wait_of(e, ready)->paused_until.ms, 0);
    pause_queue(e, "q", now_plus(e, 5000));
    advance(e, 5001);
    EXPECT_INT(wait_of(e, ready)->paused_until.ms, 0);
}

static void limits(struct env *e)
{
    struct queue_policy p = test_policy();
    p.max_running = 3;
    p.max_running_per_group = 1;
    queue_make(e, "q", &p);
    put_grouped(e, "q", "a");
    uint64_t second = put_grouped(e, "q", "a"), third = put_grouped(e, "q", "a");
    uint64_t other = put_grouped(e, "q", "b");
    const struct job_wait *w = wait_of(e, third);
    EXPECT(w->grouped);
    EXPECT_INT(w->before, 2); /* of its group */
    EXPECT_INT(w->before_kind, COUNT_EXACT);
    EXPECT_INT(w->ready, 4);
    EXPECT_INT(w->queue.most, 3);
    EXPECT_INT(w->group.most, 1);
    EXPECT_INT(w->group.running, 0);
    struct held h = take(e, "q");
    w = wait_of(e, second);
    EXPECT_INT(w->queue.running, 1);
    EXPECT_INT(w->group.running, 1);
    EXPECT_INT(w->before, 0);
    w = wait_of(e, other);
    EXPECT_INT(w->group.running, 0);
    EXPECT_INT(w->before, 0);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_INT(wait_of(e, second)->group.running, 0);
    EXPECT_INT(wait_of(e, second)->queue.running, 0);
}

static void slots_of_the_queue(struct env *e)
{
    struct queue_policy p = test_policy();
    p.max_running = 1;
    queue_make(e, "q", &p);
    put(e, "q");
    uint64_t second = put(e, "q"), third = put(e, "q");
    take(e, "q");
    const struct job_wait *w = wait_of(e, third);
    EXPECT_INT(w->queue.running, 1);
    EXPECT_INT(w->queue.most, 1);
    EXPECT_INT(w->before, 1);
    EXPECT(!w->grouped);
    EXPECT_INT(wait_of(e, second)->before, 0);
}

static void rates(struct env *e)
{
    struct queue_policy p = test_policy();
    p.claim_rate = (struct rate_limit){RATE_QUEUE, 1, 8000};
    queue_make(e, "q", &p);
    p.claim_rate.per = RATE_GROUP;
    queue_make(e, "g", &p);
    put(e, "q");
    put_grouped(e, "g", "a");
    uint64_t next = put(e, "q"), a = put_grouped(e, "g", "a"), b = put_grouped(e, "g", "b");
    EXPECT_INT(wait_of(e, next)->token_ms, 0);
    take(e, "q");
    take(e, "g");
    EXPECT_INT(wait_of(e, next)->token_ms, 8000);
    EXPECT(!wait_of(e, next)->rate_by_group);
    EXPECT_INT(wait_of(e, a)->token_ms, 8000);
    EXPECT(wait_of(e, a)->rate_by_group);
    EXPECT_INT(wait_of(e, b)->token_ms, 0);
    advance(e, 3000);
    EXPECT_INT(wait_of(e, next)->token_ms, 5000);
    EXPECT_INT(wait_of(e, a)->token_ms, 5000);
    advance(e, 5000);
    EXPECT_INT(wait_of(e, next)->token_ms, 0);
}

static void of_a_blocked_job(struct env *e)
{
    uint64_t parent = put(e, "p");
    struct dependency_ref ref = {.job = {.seq = parent}};
    struct op_depends depends = {.parents = &ref, .count = 1};
    struct op op = enqueue_op("q");
    op.enqueue.depends = &depends;
    uint64_t child = put_op(e, op);
    op = job_op(OP_GET, child);
    op.job.want_wait = op.job.want_parents = true;
    pause_queue(e, "q", now_plus(e, 5000));
    const struct job_view *v = run(e, op)->jobs;
    EXPECT_INT(v->job.state, STATE_BLOCKED);
    EXPECT(v->wait != NULL);
    EXPECT_INT(v->wait->paused_until.ms, now_plus(e, 5000).ms);
    EXPECT_INT(v->waits, 1);
    EXPECT_INT(v->parent_count, 1);
    EXPECT_INT(v->parents[0].seq, parent);
}

/* Of the view of a queue, in a list or not. */
static uint64_t counted(struct env *e, const char *queue, enum why_code code)
{
    struct why_count counts[WHY_COUNTS_MAX];
    uint64_t by_kind[2] = {0, 0};
    for (int list = 0; list < 2; list++) {
        struct op op = queue_op(list ? OP_QUEUE_LIST : OP_QUEUE_GET, list ? "" : queue);
        const struct reply *r = run(e, op);
        EXPECT_OUT(r, OUT_OK);
        for (uint32_t q = 0; q < r->queue_count; q++) {
            if (!span_equal(r->queues[q].name, span_text(queue)))
                continue;
            uint32_t n = why_counts(&r->queues[q], now_plus(e, 0), counts);
            for (uint32_t i = 0; i < n; i++)
                by_kind[list] += counts[i].code == code ? counts[i].count : 0;
        }
    }
    EXPECT_INT(by_kind[0], by_kind[1]);
    return by_kind[0];
}

static void counts_by_reason(struct env *e)
{
    put(e, "q");
    put(e, "q");
    put_delayed(e, "q", 60000);
    EXPECT_INT(counted(e, "q", WHY_BEHIND), 2);
    EXPECT_INT(counted(e, "q", WHY_NOT_DUE), 1);
    EXPECT_INT(counted(e, "q", WHY_DEPENDS_ON), 0);
    pause_queue(e, "q", now_plus(e, 5000));
    EXPECT_INT(counted(e, "q", WHY_BEHIND), 0);
    EXPECT_INT(counted(e, "q", WHY_QUEUE_PAUSED), 2);
    advance(e, 5001);
    EXPECT_INT(counted(e, "q", WHY_QUEUE_PAUSED), 0);
    take(e, "q");
    EXPECT_INT(counted(e, "q", WHY_BEHIND), 1);
}

static void counts_of_blocked_jobs(struct env *e)
{
    uint64_t parent = put(e, "p");
    struct dependency_ref ref = {.job = {.seq = parent}};
    struct op_depends depends = {.parents = &ref, .count = 1};
    struct op op = enqueue_op("q");
    op.enqueue.depends = &depends;
    put_op(e, op);
    EXPECT_INT(counted(e, "q", WHY_DEPENDS_ON), 1);
    EXPECT_INT(counted(e, "q", WHY_BEHIND), 0);
}

static void counts_of_limits(struct env *e)
{
    struct queue_policy p = test_policy();
    p.max_running = 2;
    p.max_running_per_group = 1;
    queue_make(e, "q", &p);
    for (int i = 0; i < 3; i++)
        put_grouped(e, "q", "a");
    put_grouped(e, "q", "b");
    EXPECT_INT(counted(e, "q", WHY_BEHIND), 4);
    take(e, "q");
    EXPECT_INT(counted(e, "q", WHY_GROUP_LIMIT), 2);
    EXPECT_INT(counted(e, "q", WHY_BEHIND), 1);
    take(e, "q");
    EXPECT_INT(counted(e, "q", WHY_QUEUE_LIMIT), 2);
    EXPECT_INT(counted(e, "q", WHY_GROUP_LIMIT), 0);
    p = test_policy();
    p.claim_rate = (struct rate_limit){RATE_QUEUE, 1, 8000};
    queue_make(e, "r", &p);
    put(e, "r");
    put(e, "r");
    take(e, "r");
    EXPECT_INT(counted(e, "r", WHY_CLAIM_RATE), 1);
    EXPECT_INT(counted(e, "r", WHY_BEHIND), 0);
}

static const struct conform_case cases[] = {
    CASE("HF-5 only a job that waits says what it waits for", only_of_jobs_that_wait),
    CASE("HF-5 the jobs before a ready job are counted by priority and sequence", jobs_before,
         .flags = EXACT),
    CASE("HF-5 of very many jobs before it the number is bounded and says what it is",
         very_many_before, .flags = EXACT),
    CASE("HF-5 a waiting job says until when its queue is paused", pauses),
    CASE("HF-5 a ready job says how many slots of its queue and group are in use", limits,
         .flags = EXACT),
    CASE("HF-5 slots of a queue without groups", slots_of_the_queue, .flags = EXACT),
    CASE("HF-5 a ready job says when there is a token for it", rates, .flags = EXACT),
    CASE("HF-5 a blocked job says for which jobs it waits", of_a_blocked_job,
         .needs = NEEDS_DEPENDENCIES),
    CASE("HF-5 the view of a queue says how many jobs wait, by reason", counts_by_reason),
    CASE("HF-5 the view of a queue counts blocked jobs", counts_of_blocked_jobs,
         .needs = NEEDS_DEPENDENCIES),
    CASE("HF-5 the view of a queue says which limit its ready jobs wait for", counts_of_limits,
         .flags = EXACT),
};
TOPIC(topic_why, cases);
