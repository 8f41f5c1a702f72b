/* SPDX-License-Identifier: Apache-2.0 */
/* Leases that begin when the reply to their claim leaves, and cancels that come before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/backend/local/engine/engine_rig.h"

static const struct span q0 = SPAN_LITERAL("q0");

struct held_job {
    uint64_t seq;
    struct job_token token;
};

/* A job whose claim is not answered yet, and a cancel of it. */
static struct held_job claimed_and_cancelled(struct engine_rig *r,
                                             const struct queue_policy *policy)
{
    struct engine_config config;
    engine_config_default(&config);
    config.seed = 7;
    config.leases_wait = true;
    config.policy = *policy;
    engine_rig_open(r, &config);
    struct op op = engine_rig_enqueue(q0);
    assert_int_equal(engine_rig_step(r, &op)->outcome, OUT_OK);
    op = engine_rig_claim(&q0, 1);
    const struct reply *reply = engine_rig_step(r, &op);
    assert_int_equal(reply->job_count, 1);
    struct held_job held = {reply->jobs[0].job.seq, reply->jobs[0].token};
    engine_rig_pass(r, 50);
    op = (struct op){.kind = OP_CANCEL, .job.job.seq = held.seq};
    reply = engine_rig_step(r, &op);
    assert_int_equal(reply->outcome, OUT_OK);
    assert_int_equal(reply->state, STATE_RUNNING);
    return held;
}

static enum job_state state_of(struct engine_rig *r, uint64_t seq)
{
    struct op op = {.kind = OP_GET, .job.job.seq = seq};
    const struct reply *reply = engine_rig_step(r, &op);
    assert_int_equal(reply->job_count, 1);
    return (enum job_state)reply->jobs[0].job.state;
}

/* The lease ends after this time, and not a millisecond earlier; the rig is then closed. */
static void ends_after(struct engine_rig *r, uint64_t seq, int64_t ms)
{
    engine_rig_pass(r, ms - 1);
    engine_rig_quiet(r);
    assert_int_equal(state_of(r, seq), STATE_RUNNING);
    engine_rig_pass(r, 1);
    engine_rig_quiet(r);
    assert_int_equal(state_of(r, seq), STATE_CANCELLED);
    engine_rig_close(r);
}

static void lease_runs_from_its_answer(void **state)
{
    (void)state;
    struct engine_rig r;
    struct queue_policy policy;
    policy_default(&policy);
    policy.lease_ms = 100;
    policy.cancel_grace_ms = 30000;
    struct held_job held = claimed_and_cancelled(&r, &policy);
    engine_rig_pass(&r, 300); /* longer than the lease */
    engine_rig_quiet(&r);
    assert_int_equal(state_of(&r, held.seq), STATE_RUNNING);
    engine_lease_started(r.engine, held.seq, held.token, r.now);
    ends_after(&r, held.seq, 100);
}

static void grace_ends_a_lease_without_answer(void **state)
{
    (void)state;
    struct engine_rig r;
    struct queue_policy policy;
    policy_default(&policy);
    policy.cancel_grace_ms = 200;
    struct held_job held = claimed_and_cancelled(&r, &policy);
    ends_after(&r, held.seq, 200);
}

static void timeout_ends_before_the_grace_time(void **state)
{
    (void)state;
    struct engine_rig r;
    struct queue_policy policy;
    policy_default(&policy);
    policy.timeout_ms = 300;
    policy.cancel_grace_ms = 30000;
    struct held_job held = claimed_and_cancelled(&r, &policy);
    engine_lease_started(r.engine, held.seq, held.token, r.now);
    ends_after(&r, held.seq, 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lease_runs_from_its_answer),
        cmocka_unit_test(grace_ends_a_lease_without_answer),
        cmocka_unit_test(timeout_ends_before_the_grace_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
