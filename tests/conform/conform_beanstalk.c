/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that only some APIs need: a new priority at the end of a lease, the outcome counts of
 * a job, how many urgent jobs are ready, and the deletion of a queue that is not used. */
#include "conform/conform.h"
#include "core/limits.h"

static struct op ranked(enum op_kind kind, struct held h, int64_t priority)
{
    struct op op = lease_op(kind, h);
    op.lease.has_priority = true;
    op.lease.priority = priority;
    return op;
}

static void release_with_priority(struct env *e)
{
    uint64_t first = put_priority(e, "q", 5), second = put_priority(e, "q", 5);
    EXPECT_OUT(run(e, ranked(OP_RELEASE, take(e, "q"), -7)), OUT_OK);
    EXPECT_INT(get(e, first)->job.priority, -7);
    EXPECT_INT(get(e, second)->job.priority, 5);
    EXPECT_INT(take(e, "q").seq, second); /* the order follows */
    EXPECT_INT(take(e, "q").seq, first);
}

static void release_later_with_priority(struct env *e)
{
    uint64_t seq = put_priority(e, "q", 1);
    struct op op = ranked(OP_RELEASE, take(e, "q"), INT64_MIN);
    op.lease.has_delay = true;
    op.lease.delay_ms = 1000;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_STATE(seq, STATE_SCHEDULED);
    uint64_t other = put_priority(e, "q", 0);
    advance(e, 1000);
    EXPECT_INT(take(e, "q").seq, other);
    EXPECT_INT(take(e, "q").seq, seq);
}

static void fail_with_priority(struct env *e)
{
    uint64_t seq = put_priority(e, "q", 1);
    struct op op = ranked(OP_FAIL, take(e, "q"), 9);
    op.lease.no_retry = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_STATE(seq, STATE_DEAD);
    EXPECT_INT(get(e, seq)->job.priority, 9);
    EXPECT_OUT(requeue(e, seq), OUT_OK);
    EXPECT_INT(get(e, seq)->job.priority, 9);
}

static void priority_needs_the_lease(struct env *e)
{
    uint64_t seq = put_priority(e, "q", 1);
    struct held h = take(e, "q");
    EXPECT_OUT(release(e, h), OUT_OK);
    EXPECT_OUT(run(e, ranked(OP_FAIL, h, 9)), OUT_LEASE_LOST);
    EXPECT_INT(get(e, seq)->job.priority, 1);
}

static void priority_survives(struct env *e)
{
    uint64_t back = put_priority(e, "q", 1);
    EXPECT_OUT(run(e, ranked(OP_RELEASE, take(e, "q"), 3)), OUT_OK);
    uint64_t dead = put_priority(e, "p", 1);
    struct op op = ranked(OP_FAIL, take(e, "p"), -3);
    op.lease.no_retry = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    env_restart(e);
    EXPECT_INT(get(e, back)->job.priority, 3);
    EXPECT_INT(get(e, dead)->job.priority, -3);
    const struct reply *listed = list(e, (struct op_list){.limit = 10});
    EXPECT_INT(listed->job_count, 2);
    for (uint32_t i = 0; i < 2; i++)
        EXPECT_INT(listed->jobs[i].job.priority, listed->jobs[i].job.seq == back ? 3 : -3);
}

static void outcomes_are_counted(struct env *e)
{
    struct queue_policy p = test_policy();
    p.max_crashes = 0;
    queue_make(e, "q", &p);
    uint64_t seq = put(e, "q");
    EXPECT_INT(get(e, seq)->outcome_counts.claims, 0);
    EXPECT_OUT(release(e, take(e, "q")), OUT_OK);
    take(e, "q");
    advance(e, 10000); /* the lease ends */
    struct op back = lease_op(OP_RELEASE, take(e, "q"));
    back.lease.unsaid = true;
    EXPECT_OUT(run(e, back), OUT_OK);
    struct op bury = lease_op(OP_FAIL, take(e, "q"));
    bury.lease.no_retry = true;
    EXPECT_OUT(run(e, bury), OUT_OK);
    EXPECT_OUT(requeue(e, seq), OUT_OK);
    const struct job_view *v = get(e, seq);
    EXPECT_INT(v->outcome_counts.claims, 4);
    EXPECT_INT(v->outcome_counts.releases, 1);
    EXPECT_INT(v->outcome_counts.timeouts, 1);
    EXPECT_INT(v->outcome_counts.rejections, 1);
    EXPECT_INT(v->outcome_counts.requeues, 1);
}

static uint64_t urgent(struct env *e)
{
    return queue_get(e, "q")->counts.urgent;
}

static void urgent_ready_jobs(struct env *e)
{
    uint64_t low = put_priority(e, "q", PRIORITY_URGENT);
    EXPECT_INT(urgent(e), 0);
    put_priority(e, "q", PRIORITY_URGENT + 1);
    put_delayed(e, "q", 1000); /* not ready */
    EXPECT_INT(urgent(e), 1);
    struct held h = take(e, "q");
    EXPECT_INT(urgent(e), 0);
    EXPECT_OUT(release(e, h), OUT_OK);
    EXPECT_INT(urgent(e), 1);
    struct op patch = {.kind = OP_PATCH,
                       .patch = {.job = {.seq = low}, .has_priority = true, .priority = 0}};
    EXPECT_OUT(run(e, patch), OUT_OK);
    EXPECT_INT(urgent(e), 2);
    patch.patch.priority = PRIORITY_URGENT;
    patch.patch.has_run_at = true;
    patch.patch.run_at = now_plus(e, 500);
    EXPECT_OUT(run(e, patch), OUT_OK); /* both at once */
    EXPECT_INT(urgent(e), 1);
    advance(e, 1000);
    EXPECT_INT(urgent(e), 2); /* the delayed one */
    EXPECT_OUT(run(e, queue_op(OP_PURGE, "q")), OUT_OK);
    EXPECT_INT(urgent(e), 0);
}

static void lease_it_would_get(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    struct op op = enqueue_op("q");
    struct job_options options = {.lease_ms = 77000};
    op.enqueue.options = &options;
    uint64_t own = put_op(e, op), plain = put(e, "q");
    EXPECT_INT(get(e, own)->own_lease_ms, 77000);
    EXPECT_INT(get(e, plain)->own_lease_ms, 10000);
    EXPECT_INT(peek(e, "q", STATE_READY, 1)->jobs[0].own_lease_ms, 77000);
}

static void only_from_these_states(struct env *e)
{
    uint64_t done = job_in(e, "q", STATE_DONE, NULL),
             cancelled = job_in(e, "q", STATE_CANCELLED, NULL);
    struct op remove = job_op(OP_REMOVE, done);
    remove.job.states = STATES_WAITING | STATE_BIT(STATE_DEAD);
    EXPECT_OUT(run(e, remove), OUT_ILLEGAL);
    EXPECT_STATE(done, STATE_DONE);
    struct op back = job_op(OP_REQUEUE, cancelled);
    back.job.states = STATE_BIT(STATE_DEAD) | STATE_BIT(STATE_SCHEDULED);
    EXPECT_OUT(run(e, back), OUT_ILLEGAL);
    EXPECT_STATE(cancelled, STATE_CANCELLED);
    uint64_t dead = job_in(e, "q", STATE_DEAD, NULL);
    back.job.job.seq = dead;
    EXPECT_OUT(run(e, back), OUT_OK);
    remove.job.job.seq = dead;
    EXPECT_OUT(run(e, remove), OUT_OK);
    EXPECT_STATE(dead, STATE_NONE);
}

static struct op delete_empty(const char *owner)
{
    struct op op = queue_op(OP_QUEUE_DELETE, "q");
    op.queue.only_empty = true;
    op.queue.has_owner = owner != NULL;
    op.queue.owner = span_text(owner);
    return op;
}

static void delete_only_empty(struct env *e)
{
    uint64_t seq = put(e, "q");
    EXPECT_OUT(run(e, delete_empty(NULL)), OUT_ILLEGAL);
    EXPECT_STATE(seq, STATE_READY);
    EXPECT_OUT(run(e, job_op(OP_REMOVE, seq)), OUT_OK);
    EXPECT_OUT(run(e, delete_empty("somebody")), OUT_ILLEGAL);
    EXPECT_OUT(run(e, delete_empty("")), OUT_OK); /* a queue without an owner */
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_GET, "q")), OUT_NO_QUEUE);
}

static const struct conform_case cases[] = {
    CASE("HF-4 a release with a priority changes the order", release_with_priority, EXACT),
    CASE("HF-4 a release with delay and priority", release_later_with_priority, EXACT),
    CASE("HF-4 a fail with a priority", fail_with_priority),
    CASE("HF-4 a priority needs the lease", priority_needs_the_lease, EXACT),
    CASE("HF-4 a priority that ended a lease survives a restart", priority_survives, RESTART),
    CASE("HF-4 the outcomes of a job's attempts are counted", outcomes_are_counted, EXACT),
    CASE("HF-4 urgent ready jobs are counted", urgent_ready_jobs, EXACT),
    CASE("HF-4 a view shows the lease that a claim would get", lease_it_would_get),
    CASE("HF-4 remove and requeue only from the states named", only_from_these_states, EXACT),
    CASE("HF-4 only an empty queue is deleted", delete_only_empty, EXACT),
};
TOPIC(topic_beanstalk, cases);
