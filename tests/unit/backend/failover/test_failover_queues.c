/* SPDX-License-Identifier: Apache-2.0 */
/* PDQ-7: the queues of an outage: those that an API creates with its first job, the keys that no
 * job holds, and the numbers that the primary gave. */
#include "unit/backend/failover/failover_rig.h"

/* --- enqueues that bring a queue along, or a key that no job holds --- */

/* PDQ-7: the queue that an API creates with its first job is created in the primary, too, as it is
 * in the spool, and each job goes there once. */
static void test_a_queue_of_an_api_is_created_in_the_primary(void **state)
{
    struct queue_policy policy;
    (void)state;
    policy_default(&policy);
    policy.lease_ms = 7654;
    policy.by_due = policy.ranked = true;
    fr_begin();
    fr_outage();
    struct op create = {.kind = OP_QUEUE_PUT,
                        .queue = {.name = SPAN_LITERAL("q"),
                                  .policy = &policy,
                                  .has_owner = true,
                                  .owner = SPAN_LITERAL("tasks"),
                                  .has_attributes = true,
                                  .attributes = SPAN_LITERAL("{\"a\":1}")}};
    const struct reply *r = fr_run(create);
    assert_int_equal(r->outcome, OUT_UNAVAILABLE); /* an operator defines queues in the primary */
    assert_non_null(strstr(r->note, "queue"));
    create.queue.implied = true;
    assert_int_equal(fr_run(create)->outcome, OUT_OK);
    struct op op = fr_enqueue_op();
    op.enqueue.no_create = op.enqueue.has_priority = true;
    op.enqueue.priority = -10;
    struct job_ref ids[100];
    for (size_t i = 0; i < 100; i++)
        ids[i] = fr_enqueue_this(op);
    switched_set(fr.primary, SWITCH_ON);
    fr_until_moved();
    r = fr_run_at(switched_backend(fr.primary),
                  (struct op){.kind = OP_QUEUE_GET, .queue = {.name = SPAN_LITERAL("q")}});
    assert_int_equal(r->outcome, OUT_OK);
    assert_true(span_equal(r->queues[0].owner, SPAN_LITERAL("tasks")));
    assert_true(span_equal(r->queues[0].attributes, SPAN_LITERAL("{\"a\":1}")));
    assert_int_equal(r->queues[0].policy->lease_ms, 7654);
    assert_int_equal(r->queues[0].counts.by_state[STATE_READY], 100);
    r = fr_claim(1000);
    assert_int_equal(r->job_count, 100);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(r->jobs[i].job.seq, ids[i].seq);
        assert_int_equal(view_priority(&fr_get_at_primary(ids[i])->jobs[0]), -10);
    }
    fr_end();
}

/* The primary says nothing about the queue that is created there, or about the job. */
static void test_a_queue_is_created_although_replies_are_lost(void **state)
{
    static const enum switched_mode modes[] = {SWITCH_LOST, SWITCH_DROPPED};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        fr_begin();
        fr_outage();
        struct job_ref id = fr_enqueue();
        fr_lose_move(modes[i]);
        assert_int_equal(fr_claim(5)->job_count, 0);
        switched_set(fr.primary, SWITCH_ON);
        fr_until_moved();
        const struct reply *r = fr_claim(5);
        assert_int_equal(r->job_count, 1);
        assert_int_equal(r->jobs[0].job.seq, id.seq);
        fr_end();
    }
}

/* PDQ-7: a unique key is accepted only where no job holds one, and stays with the job. */
static void test_a_key_that_no_job_holds(void **state)
{
    struct queue_policy policy;
    (void)state;
    policy_default(&policy);
    policy.unique_scope = UNIQUE_NONE;
    fr_begin();
    fr_put_queue(SPAN_LITERAL("q"), &policy, SPAN_LITERAL("orchestrator"));
    fr_put_queue(SPAN_LITERAL("held"), NULL, SPAN_LITERAL(""));
    fr_until_copied();
    fr_outage();
    struct op op = fr_enqueue_op();
    op.enqueue.extra.unique = SPAN_LITERAL("u");
    struct job_ref id = fr_enqueue_this(op);
    assert_true(id_spooled(id.seq));
    fr_enqueue_this(op);
    op.enqueue.queue = SPAN_LITERAL("held");
    const struct reply *r = fr_run(op);
    assert_int_equal(r->outcome, OUT_UNAVAILABLE);
    assert_non_null(strstr(r->note, "unique key"));
    op.enqueue.queue = SPAN_LITERAL("unknown");
    assert_int_equal(fr_run(op)->outcome, OUT_UNAVAILABLE);
    switched_set(fr.primary, SWITCH_ON);
    fr_until_moved();
    r = fr_get_at_primary(id);
    assert_int_equal(r->outcome, OUT_OK);
    assert_true(span_equal(r->jobs[0].extra.unique, SPAN_LITERAL("u")));
    assert_int_equal(fr_claim(9)->job_count, 2);
    fr_end();
}

/* --- numbers of queues --- */

/* PDQ-7: a queue has the number that the primary gave it, also after a restart in an outage. */
static void test_numbers_of_queues(void **state)
{
    struct span names[] = {SPAN_LITERAL("zeta"), SPAN_LITERAL("alpha"), SPAN_LITERAL("q")};
    uint32_t numbers[3];
    (void)state;
    fr_begin_with(true);
    fr.on_disk = true;
    fr_open();
    for (size_t i = 0; i < 3; i++) {
        fr_put_queue(names[i], NULL, SPAN_LITERAL("orchestrator"));
        numbers[i] = fr_run((struct op){.kind = OP_QUEUE_GET, .queue = {.name = names[i]}})
                         ->queues[0]
                         .number;
    }
    fr_until_copied();
    for (int restart = 0; restart < 2; restart++) {
        if (restart) {
            fr_close();
            fr_listening = false;
            fr_open();
            while (((struct failover *)fr.b)->mirror.busy)
                uv_run(&fr.loop, UV_RUN_ONCE);
        } else {
            fr_outage();
        }
        for (size_t i = 0; i < 3; i++) {
            struct op op = {.kind = OP_QUEUE_GET, .queue = {.number = numbers[i]}};
            const struct reply *r = fr_run(op);
            assert_int_equal(r->outcome, OUT_OK);
            assert_true(span_equal(r->queues[0].name, names[i]));
            assert_int_equal(r->queues[0].number, numbers[i]);
            assert_int_equal(r->queues[0].note.len, 0);
        }
        struct job_ref id = fr_enqueue();
        assert_int_equal(fr_get(id)->jobs[0].job.queue, numbers[2]);
        const struct reply *r = fr_run(
            (struct op){.kind = OP_LIST, .list = {.filter = {.queue = numbers[2]}, .limit = 10}});
        assert_int_equal(r->job_count, 1 + restart);
        r = fr_run((struct op){.kind = OP_QUEUE_GET, .queue = {.number = 77}});
        assert_int_equal(r->outcome, OUT_UNAVAILABLE); /* only the primary knows */
        assert_non_null(strstr(r->note, "number"));
    }
    fr_listening = true;
    fr_until_moved();
    fr_end();
}

/* A queue that was deleted in the primary is not known during the next outage. */
static void test_a_deleted_queue(void **state)
{
    (void)state;
    fr_begin();
    fr_put_queue(SPAN_LITERAL("gone"), NULL, SPAN_LITERAL("orchestrator"));
    fr_put_queue(SPAN_LITERAL("kept"), NULL, SPAN_LITERAL("orchestrator"));
    struct op get = {.kind = OP_QUEUE_GET, .queue = {.name = SPAN_LITERAL("gone")}};
    uint32_t number = fr_run(get)->queues[0].number;
    fr_until_copied();
    assert_int_equal(fr_run_at(fr.spool, get)->outcome, OUT_OK);
    struct op delete = {.kind = OP_QUEUE_DELETE, .queue = {.name = SPAN_LITERAL("gone")}};
    assert_int_equal(fr_run(delete)->outcome, OUT_OK);
    fr_until_copied();
    assert_int_equal(fr_run_at(fr.spool, get)->outcome, OUT_NO_QUEUE);
    get.queue.name = SPAN_LITERAL("kept");
    assert_int_equal(fr_run_at(fr.spool, get)->outcome, OUT_OK);
    fr_outage();
    assert_int_equal(
        fr_run((struct op){.kind = OP_QUEUE_GET, .queue = {.number = number}})->outcome,
        OUT_UNAVAILABLE);
    fr_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_queue_of_an_api_is_created_in_the_primary),
        cmocka_unit_test(test_a_queue_is_created_although_replies_are_lost),
        cmocka_unit_test(test_a_key_that_no_job_holds),
        cmocka_unit_test(test_numbers_of_queues),
        cmocka_unit_test(test_a_deleted_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
