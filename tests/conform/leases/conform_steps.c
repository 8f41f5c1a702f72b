/* SPDX-License-Identifier: Apache-2.0 */
/* Steps: when their results are accepted, what a claim contains, and for how long they stay. */
#include "core/jobs/steps.h"

#include <stdlib.h>
#include <string.h>

#include "conform/conform.h"
#include "core/limits.h"

static struct op step_op(struct held h, const char *name, const char *result)
{
    struct op op = lease_op(OP_STEP, h);
    op.lease.step = span_text(name);
    op.lease.result_kind = PAYLOAD_JSON;
    op.lease.result = span_text(result);
    return op;
}

static int by_name(const void *a, const void *b)
{
    return span_order(((const struct step *)a)->name, ((const struct step *)b)->name);
}

/* The steps as "name=result", by name, separated by blanks. */
static struct span listed(struct span list)
{
    static char text[400];
    struct step steps[8];
    size_t count = 0, used = 0;
    while (count < 8 && steps_next(&list, &steps[count]))
        count++;
    qsort(steps, count, sizeof *steps, by_name);
    text[0] = '\0';
    for (size_t i = 0; i < count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*s=%.*s", used ? " " : "",
                                 (int)steps[i].name.len, steps[i].name.at, (int)steps[i].result.len,
                                 steps[i].result.at);
    return span_of(text, strlen(text)); /* cut off if it is longer */
}

static struct span shown(struct env *e, uint64_t seq)
{
    struct op op = job_op(OP_GET, seq);
    op.job.want_steps = true;
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    return listed(r->jobs[0].steps);
}

/* Claims the only job; *ret: its steps as the claim gives them. */
static struct held claimed(struct env *e, struct span *ret)
{
    static const struct span queue = SPAN_LITERAL("q");
    struct op op = {.kind = OP_CLAIM,
                    .claim = {.queues = &queue, .queue_count = 1, .count = 1, .want_body = true}};
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->job_count, 1);
    const struct job_view *v = &r->jobs[0];
    *ret = listed(v->steps);
    EXPECT(v->has_body);
    return (struct held){.seq = v->job.seq, .token = v->token};
}

static struct held work(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    put(e, "q");
    return take(e, "q");
}

static void next_attempt_gets_them(struct env *e)
{
    struct span got;
    struct held h = work(e);
    const struct reply *r = run(e, step_op(h, "charge", "{\"id\":7}"));
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->state, STATE_RUNNING);
    EXPECT_TEXT(r->queue, "q");
    EXPECT_OUT(run(e, step_op(h, "mail it", "null")), OUT_OK);
    EXPECT_TEXT(shown(e, h.seq), "charge={\"id\":7} mail it=null");
    EXPECT_OUT(fail(e, h), OUT_OK);
    advance(e, 1000);
    h = claimed(e, &got);
    EXPECT_TEXT(got, "charge={\"id\":7} mail it=null");
    EXPECT_OUT(run(e, step_op(h, "pack", "[1]")), OUT_OK);
    EXPECT_OUT(release(e, h), OUT_OK);
    h = claimed(e, &got);
    EXPECT_TEXT(got, "charge={\"id\":7} mail it=null pack=[1]");
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_TEXT(shown(e, h.seq), "charge={\"id\":7} mail it=null pack=[1]");
}

static void crash_keeps_them(struct env *e)
{
    struct span got;
    struct held h = work(e);
    EXPECT_OUT(run(e, step_op(h, "a", "1")), OUT_OK);
    advance(e, 11000); /* the lease expires */
    struct held again = claimed(e, &got);
    EXPECT_INT(again.seq, h.seq);
    EXPECT_TEXT(got, "a=1");
}

static void other_jobs_have_none(struct env *e)
{
    struct span got;
    struct held h = work(e);
    EXPECT_OUT(run(e, step_op(h, "a", "1")), OUT_OK);
    put(e, "q");
    struct held other = claimed(e, &got);
    EXPECT(other.seq != h.seq);
    EXPECT_TEXT(got, "");
    EXPECT_TEXT(shown(e, other.seq), "");
}

static void name_replaces(struct env *e)
{
    struct span got;
    struct held h = work(e);
    EXPECT_OUT(run(e, step_op(h, "a", "1")), OUT_OK);
    EXPECT_OUT(run(e, step_op(h, "b", "2")), OUT_OK);
    EXPECT_OUT(run(e, step_op(h, "a", "\"longer\"")), OUT_OK);
    EXPECT_TEXT(shown(e, h.seq), "a=\"longer\" b=2");
    EXPECT_OUT(release(e, h), OUT_OK);
    h = claimed(e, &got);
    EXPECT_TEXT(got, "a=\"longer\" b=2");
    EXPECT_OUT(run(e, step_op(h, "a", "3")), OUT_OK);
    EXPECT_TEXT(shown(e, h.seq), "a=3 b=2");
}

static void needs_the_lease(struct env *e)
{
    struct span got;
    struct held h = work(e);
    EXPECT_OUT(run(e, step_op(h, "a", "1")), OUT_OK);
    EXPECT_OUT(release(e, h), OUT_OK);
    EXPECT_OUT(run(e, step_op(h, "a", "2")), OUT_LEASE_LOST);
    struct held now = claimed(e, &got);
    EXPECT_OUT(run(e, step_op(h, "a", "2")), OUT_LEASE_LOST);
    EXPECT_OUT(run(e, step_op(h, "b", "2")), OUT_LEASE_LOST);
    EXPECT_OUT(ack(e, now), OUT_OK);
    EXPECT_OUT(run(e, step_op(now, "b", "2")), OUT_LEASE_LOST);
    EXPECT_TEXT(shown(e, h.seq), "a=1");
    EXPECT_OUT(run(e, step_op((struct held){.seq = LIMIT_SEQ, .token = h.token}, "a", "1")),
               OUT_NOT_FOUND);
}

static void refuses_bad_values(struct env *e)
{
    static char wide[LIMIT_STEP_RESULT_BYTES + 1], name[LIMIT_STEP_NAME_BYTES + 1];
    memset(wide, '1', sizeof wide);
    memset(name, 'n', sizeof name);
    struct held h = work(e);
    struct op op = step_op(h, "", "1");
    EXPECT_OUT(run(e, op), OUT_INVALID);
    op.lease.step = span_of(name, sizeof name);
    EXPECT_OUT(run(e, op), OUT_INVALID);
    EXPECT_OUT(run(e, step_op(h, "a\nb", "1")), OUT_INVALID);
    EXPECT_OUT(run(e, step_op(h, "\xff", "1")), OUT_INVALID);
    EXPECT_OUT(run(e, step_op(h, "a", "{")), OUT_INVALID);
    EXPECT_OUT(run(e, step_op(h, "a", "")), OUT_INVALID);
    op = step_op(h, "a", "1");
    op.lease.result = span_of(wide, sizeof wide);
    EXPECT_OUT(run(e, op), OUT_INVALID);
    op.lease.result.len--;
    op.lease.step = span_of(name, sizeof name - 1);
    EXPECT_OUT(run(e, op), OUT_OK);
    op.lease.result_kind = PAYLOAD_BYTES;
    EXPECT_OUT(run(e, op), OUT_INVALID);
}

static void bounded_in_bytes(struct env *e)
{
    static char wide[LIMIT_STEP_RESULT_BYTES];
    char name[16];
    struct held h = work(e);
    memset(wide, '1', sizeof wide);
    struct op op = step_op(h, name, "1");
    op.lease.result = span_of(wide, sizeof wide);
    for (int i = 0; i < 15; i++) {
        snprintf(name, sizeof name, "%02d", i);
        op.lease.step = span_text(name);
        EXPECT_OUT(run(e, op), OUT_OK);
    }
    op.lease.step = SPAN_LITERAL("15");
    op.lease.result.len = LIMIT_STEP_RESULT_BYTES - 16 * 2 + 1;
    EXPECT_OUT(run(e, op), OUT_STEPS_FULL);
    op.lease.result.len--;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_OUT(run(e, step_op(h, "x", "1")), OUT_STEPS_FULL);
    /* a replaced result gives its bytes back */
    EXPECT_OUT(run(e, step_op(h, "15", "1")), OUT_OK);
    EXPECT_OUT(run(e, step_op(h, "x", "1")), OUT_OK);
    struct span got;
    EXPECT_OUT(release(e, h), OUT_OK);
    h = claimed(e, &got);
    op = step_op(h, "15", "1");
    op.lease.result = span_of(wide, LIMIT_STEP_RESULT_BYTES - 16 * 2);
    EXPECT_OUT(run(e, op), OUT_STEPS_FULL);
}

static void bounded_in_number(struct env *e)
{
    static struct op ops[LIMIT_STEPS];
    static const struct reply *replies[LIMIT_STEPS];
    static char names[LIMIT_STEPS][16];
    struct held h = work(e);
    for (int i = 0; i < LIMIT_STEPS; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        ops[i] = step_op(h, names[i], "0");
    }
    for (size_t from = 0; from < LIMIT_STEPS; from += 100)
        run_batch(e, ops + from, 100, replies + from);
    EXPECT_OUT(run(e, step_op(h, "more", "0")), OUT_STEPS_FULL);
    EXPECT_OUT(run(e, step_op(h, "17", "1")), OUT_OK);
}

static void several_in_one_batch(struct env *e)
{
    struct span got;
    struct held h = work(e);
    const struct reply *replies[4];
    struct op ops[] = {step_op(h, "a", "1"), step_op(h, "b", "2"), step_op(h, "a", "3"),
                       lease_op(OP_RELEASE, h)};
    run_batch(e, ops, 4, replies);
    for (size_t i = 0; i < 4; i++)
        EXPECT_OUT(replies[i], OUT_OK);
    claimed(e, &got);
    EXPECT_TEXT(got, "a=3 b=2");
}

/* A claim in the same batch gives them out. */
static void stored_and_claimed(struct env *e)
{
    static const struct span queue = SPAN_LITERAL("q");
    struct held h = work(e);
    const struct reply *replies[3];
    struct op ops[] = {
        step_op(h, "a", "1"), lease_op(OP_RELEASE, h),
        (struct op){.kind = OP_CLAIM,
                    .claim = {.queues = &queue, .queue_count = 1, .count = 1, .want_body = true}}};
    run_batch(e, ops, 3, replies);
    EXPECT_INT(replies[2]->job_count, 1);
    EXPECT_TEXT(listed(replies[2]->jobs[0].steps), "a=1");
}

static void requeue_keeps_them(struct env *e)
{
    struct span got;
    struct held h = work(e);
    EXPECT_OUT(run(e, step_op(h, "a", "1")), OUT_OK);
    struct op op = lease_op(OP_FAIL, h);
    op.lease.no_retry = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_STATE(h.seq, STATE_DEAD);
    EXPECT_OUT(run(e, job_op(OP_REQUEUE, h.seq)), OUT_OK);
    h = claimed(e, &got);
    EXPECT_TEXT(got, "a=1");
}

static void go_with_the_job(struct env *e)
{
    struct span got;
    struct held h = work(e);
    EXPECT_OUT(run(e, step_op(h, "a", "1")), OUT_OK);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_OUT(run(e, job_op(OP_REMOVE, h.seq)), OUT_OK);
    EXPECT_STATE(h.seq, STATE_NONE);
    put(e, "q");
    claimed(e, &got);
    EXPECT_TEXT(got, "");
}

static void survive_a_restart(struct env *e)
{
    struct span got;
    struct held h = work(e);
    EXPECT_OUT(run(e, step_op(h, "a", "1")), OUT_OK);
    EXPECT_OUT(run(e, step_op(h, "b", "2")), OUT_OK);
    env_restart(e);
    EXPECT_TEXT(shown(e, h.seq), "a=1 b=2");
    EXPECT_OUT(run(e, step_op(h, "a", "3")), OUT_OK);
    EXPECT_OUT(release(e, h), OUT_OK);
    env_restart(e);
    h = claimed(e, &got);
    EXPECT_TEXT(got, "a=3 b=2");
}

static void limits_survive_a_restart(struct env *e)
{
    static char wide[LIMIT_STEP_RESULT_BYTES];
    char name[16];
    struct held h = work(e);
    memset(wide, '1', sizeof wide);
    struct op op = step_op(h, name, "1");
    op.lease.result = span_of(wide, sizeof wide);
    for (int i = 0; i < 15; i++) {
        snprintf(name, sizeof name, "%02d", i);
        op.lease.step = span_text(name);
        EXPECT_OUT(run(e, op), OUT_OK);
    }
    env_restart(e);
    op.lease.step = SPAN_LITERAL("15");
    EXPECT_OUT(run(e, op), OUT_STEPS_FULL);
    EXPECT_OUT(run(e, step_op(h, "15", "1")), OUT_OK);
}

static void imported(struct env *e)
{
    struct span got;
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    struct job_past past = {.state = STATE_READY, .steps = SPAN_LITERAL("\1a\0011\1b\3[2]")};
    struct op op = enqueue_op("q");
    op.enqueue.past = &past;
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_TEXT(shown(e, r->seq), "a=1 b=[2]");
    struct held h = claimed(e, &got);
    EXPECT_TEXT(got, "a=1 b=[2]");
    EXPECT_OUT(run(e, step_op(h, "b", "3")), OUT_OK);
    EXPECT_TEXT(shown(e, h.seq), "a=1 b=3");
    past.steps = SPAN_LITERAL("no list");
    EXPECT_OUT(run(e, op), OUT_INVALID);
}

static const struct conform_case cases[] = {
    CASE("HF-10 the next attempt gets the results of steps", next_attempt_gets_them, EXACT),
    CASE("HF-10 steps stay when the lease expires", crash_keeps_them, EXACT),
    CASE("HF-10 another job has none of them", other_jobs_have_none, EXACT),
    CASE("HF-10 a step replaces the one of its name", name_replaces, EXACT),
    CASE("HF-10 a step needs the current lease", needs_the_lease, EXACT),
    CASE("HF-10 steps with bad values are refused", refuses_bad_values),
    CASE("HF-10 the steps of a job have at most 1 MiB", bounded_in_bytes, EXACT),
    CASE("HF-10 a job has at most 1,000 steps", bounded_in_number, EXACT),
    CASE("HF-10 several steps in one batch", several_in_one_batch, EXACT),
    CASE("HF-10 a step and the next claim in one batch", stored_and_claimed, EXACT),
    CASE("HF-10 a requeued job resumes after its steps", requeue_keeps_them, EXACT),
    CASE("HF-10 steps go with the job", go_with_the_job, EXACT),
    CASE("HF-10 steps survive a restart", survive_a_restart, EXACT | RESTART),
    CASE("HF-10 the limits of steps survive a restart", limits_survive_a_restart, EXACT | RESTART),
    CASE("HF-10 an imported job has its steps", imported, EXACT),
};

TOPIC(topic_steps, cases);
