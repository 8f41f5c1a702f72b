/* SPDX-License-Identifier: Apache-2.0 */
/* PDQ-7: failover from a primary that is switched off and on to a spool, and the way back: what
 * works during an outage, what is refused, and that every job is in the primary once afterwards,
 * under its id. */
#include "unit/backend/failover/failover_rig.h"

#include "core/jobs/steps.h"

static void test_while_the_primary_is_available(void **state)
{
    (void)state;
    fr_begin();
    struct job_ref id = fr_enqueue();
    assert_int_equal(id.seq, 1);
    assert_int_equal(fr_claim(5)->job_count, 1);
    assert_int_equal(fr_get(id)->jobs[0].job.state, STATE_RUNNING);
    assert_true(fr_figures().primary_up);
    assert_int_equal(fr_figures().spool_jobs, 0);
    fr_end();
}

static void test_an_outage_is_visible(void **state)
{
    (void)state;
    fr_begin();
    int64_t started = fr_health().since.ms;
    assert_int_equal(started, fr.clock.at.wall.ms);
    assert_string_equal(fr_health().trouble, "");
    fr.clock.at.wall.ms += 5000;
    fr_outage();
    assert_true(fr_health().spooling);
    assert_int_equal(fr_health().since.ms, started + 5000);
    assert_string_equal(fr_health().trouble, "the switch is off");
    fr.clock.at.wall.ms += 5000;
    switched_set(fr.primary, SWITCH_ON);
    fr_until_up(true);
    assert_int_equal(fr_health().since.ms, started + 10000);
    assert_string_equal(fr_health().trouble, "switched off"); /* what it answered when it failed */
    fr_end();
}

/* HF-12 PDQ-7: the spool's lists say that the shared store's part is missing; a queue counts once.
 */
static void test_queries_to_the_spool_are_marked(void **state)
{
    static const struct span q = {"q", 1};
    static const struct op queries[] = {
        {.kind = OP_QUEUE_LIST},
        {.kind = OP_BREAKER_LIST},
        {.kind = OP_QUEUE_GET, .queue = {.name = {"q", 1}}},
        {.kind = OP_LIST, .list = {.limit = 10}},
        {.kind = OP_PEEK, .peek = {.queue = {"q", 1}, .state = STATE_READY, .limit = 10}},
        {.kind = OP_WORKERS},
        {.kind = OP_EXCEPTIONS},
        {.kind = OP_HISTORY, .history = {.queue = {"q", 1}, .to = UINT32_MAX}},
        {.kind = OP_ALERT_LIST},
        {.kind = OP_NOTICE_LIST},
    };
    size_t count = sizeof queries / sizeof queries[0];
    (void)state;
    fr_begin();
    fr_enqueue();
    for (size_t i = 0; i < count; i++)
        assert_int_equal(fr_run(queries[i])->left_out, 0);
    fr_outage();
    fr_enqueue();
    assert_int_equal(fr_figures().queues, 1);
    for (size_t i = 0; i < count; i++) {
        const struct reply *r = fr_run(queries[i]);
        assert_int_equal(r->outcome, OUT_OK);
        assert_int_equal(r->left_out, 1);
    }
    assert_int_equal(
        fr_run((struct op){.kind = OP_QUEUE_LIST})->queues[0].counts.by_state[STATE_READY], 1);
    /* That the spool does not have a queue says nothing about the primary. */
    const struct reply *r =
        fr_run((struct op){.kind = OP_QUEUE_GET, .queue = {.name = SPAN_LITERAL("other")}});
    assert_int_equal(r->outcome, OUT_NO_QUEUE);
    assert_int_equal(r->left_out, 1);
    r = fr_run(
        (struct op){.kind = OP_CLAIM, .claim = {.queues = &q, .queue_count = 1, .count = 1}});
    assert_int_equal(fr_run(fr_lease_op(OP_RELEASE, &r->jobs[0]))->outcome, OUT_OK);
    switched_set(fr.primary, SWITCH_ON);
    fr_until_moved();
    for (size_t i = 0; i < count; i++)
        assert_int_equal(fr_run(queries[i])->left_out, 0);
    assert_int_equal(fr_figures().queues, 1);
    fr_end();
}

static void test_no_enqueue_is_refused_when_the_primary_fails(void **state)
{
    (void)state;
    fr_begin();
    struct job_ref held = fr_enqueue();
    const struct job_view *v = &fr_claim(1)->jobs[0];
    switched_set(fr.primary, SWITCH_OFF);
    /* The request that notices the outage is served, too. */
    const struct reply *r = fr_run(fr_enqueue_op());
    assert_int_equal(r->outcome, OUT_OK);
    assert_true(r->spooled);
    assert_true(id_spooled(r->seq));
    assert_int_equal(id_node(r->id_hi), FR_NODE);
    struct job_ref id = {r->seq, r->id_hi};
    assert_false(fr_figures().primary_up);
    /* What only the primary can decide. */
    struct op op = fr_enqueue_op();
    op.enqueue.extra.unique = SPAN_LITERAL("u");
    r = fr_run(op);
    assert_int_equal(r->outcome, OUT_UNAVAILABLE);
    assert_non_null(strstr(r->note, "unique key"));
    op = fr_enqueue_op();
    op.enqueue.idempotency_key = SPAN_LITERAL("k");
    r = fr_run(op);
    assert_int_equal(r->outcome, OUT_UNAVAILABLE);
    assert_non_null(strstr(r->note, "idempotency key"));
    op = fr_enqueue_op();
    op.enqueue.instead_of = held;
    r = fr_run(op);
    assert_int_equal(r->outcome, OUT_UNAVAILABLE);
    assert_non_null(strstr(r->note, "dead job"));
    r = fr_run(fr_lease_op(OP_ACK, v));
    assert_int_equal(r->outcome, OUT_UNAVAILABLE);
    assert_non_null(strstr(r->note, "holds this job"));
    assert_int_equal(fr_get(held)->outcome, OUT_UNAVAILABLE);
    assert_int_equal(
        fr_run((struct op){.kind = OP_PURGE, .queue = {.name = SPAN_LITERAL("q")}})->outcome,
        OUT_UNAVAILABLE);
    /* Jobs of the spool are served, and end there. */
    r = fr_claim(5);
    assert_int_equal(r->job_count, 1);
    assert_int_equal(r->jobs[0].job.seq, id.seq);
    assert_int_equal(fr_run(fr_lease_op(OP_EXTEND, &r->jobs[0]))->outcome, OUT_OK);
    assert_int_equal(fr_run(fr_lease_op(OP_ACK, &r->jobs[0]))->outcome, OUT_OK);
    assert_int_equal(fr_get(id)->jobs[0].job.state, STATE_DONE);
    /* When the primary is back, its job is unchanged. */
    switched_set(fr.primary, SWITCH_ON);
    fr_until_up(true);
    assert_int_equal(fr_run(fr_lease_op(OP_ACK, v))->outcome, OUT_OK);
    assert_int_equal(fr_get(id)->jobs[0].job.state, STATE_DONE);
    fr_end();
}

static void test_jobs_are_moved_unchanged(void **state)
{
    (void)state;
    fr_begin();
    fr_outage();
    struct op op = fr_enqueue_op();
    struct job_options options = {.max_attempts = 4};
    op.enqueue.has_priority = true;
    op.enqueue.priority = 7;
    op.enqueue.extra.label = SPAN_LITERAL("high");
    op.enqueue.extra.group = SPAN_LITERAL("g");
    op.enqueue.extra.correlation = SPAN_LITERAL("c-1");
    op.enqueue.options = &options;
    struct job_ref ready = fr_enqueue_this(op);
    op = fr_enqueue_op();
    op.enqueue.delay_ms = 3600000;
    struct job_ref later = fr_enqueue_this(op);
    int64_t run_at_ms = fr_get(later)->jobs[0].job.run_at.ms;
    struct job_ref many[150];
    for (size_t i = 0; i < 150; i++)
        many[i] = fr_enqueue();
    assert_int_equal(fr_figures().spool_jobs, 152);
    switched_set(fr.primary, SWITCH_ON);
    fr_until_moved();
    const struct reply *r = fr_get_at_primary(ready);
    assert_int_equal(r->outcome, OUT_OK);
    const struct job_view *v = &r->jobs[0];
    assert_int_equal(v->job.state, STATE_READY);
    assert_int_equal(v->job.priority, 7);
    assert_int_equal(v->job.failures + v->job.crashes, 0);
    assert_true(span_equal(v->extra.label, SPAN_LITERAL("high")));
    assert_true(span_equal(v->extra.group, SPAN_LITERAL("g")));
    assert_true(span_equal(v->extra.correlation, SPAN_LITERAL("c-1")));
    assert_true(v->extra.options.len > 0);
    assert_true(span_equal(v->payload, SPAN_LITERAL("{\"n\":1}")));
    r = fr_get_at_primary(later);
    assert_int_equal(r->jobs[0].job.state, STATE_SCHEDULED);
    assert_int_equal(r->jobs[0].job.run_at.ms, run_at_ms);
    for (size_t i = 0; i < 150; i++)
        assert_int_equal(fr_get_at_primary(many[i])->outcome, OUT_OK);
    /* The jobs are claimed in the order in which they were enqueued, and can be ended. */
    r = fr_claim(1000);
    assert_int_equal(r->job_count, 151);
    assert_int_equal(r->jobs[0].job.seq, ready.seq);
    for (size_t i = 0; i < 150; i++)
        assert_int_equal(r->jobs[1 + i].job.seq, many[i].seq);
    assert_int_equal(fr_run(fr_lease_op(OP_ACK, &r->jobs[150]))->outcome, OUT_OK);
    assert_int_equal(fr_get_at_primary(many[149])->jobs[0].job.state, STATE_DONE);
    /* The primary gives its own ids to new jobs. */
    assert_false(id_spooled(fr_enqueue().seq));
    fr_end();
}

static void test_a_running_job_ends_in_the_spool(void **state)
{
    (void)state;
    fr_begin();
    fr_outage();
    struct job_ref a = fr_enqueue(), b = fr_enqueue(), c = fr_enqueue();
    const struct reply *r = fr_claim(3);
    assert_int_equal(r->job_count, 3);
    switched_set(fr.primary, SWITCH_ON);
    fr_until_up(true);
    assert_int_equal(fr_figures().spool_jobs, 3);
    assert_int_equal(fr_get(a)->jobs[0].job.state, STATE_RUNNING);
    assert_int_equal(fr_run(fr_lease_op(OP_ACK, &r->jobs[0]))->outcome, OUT_OK);
    struct op fail = fr_lease_op(OP_FAIL, &r->jobs[1]);
    fail.lease.error = SPAN_LITERAL("no luck");
    assert_int_equal(fr_run(fail)->outcome, OUT_OK);
    fail = fr_lease_op(OP_FAIL, &r->jobs[2]);
    fail.lease.no_retry = true;
    assert_int_equal(fr_run(fail)->outcome, OUT_OK);
    fr_until_moved();
    assert_int_equal(fr_get_at_primary(a)->outcome, OUT_NOT_FOUND);
    assert_int_equal(fr_get(a)->jobs[0].job.state, STATE_DONE);
    r = fr_get_at_primary(b);
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->jobs[0].job.failures, 1);
    assert_true(span_equal(r->jobs[0].error, SPAN_LITERAL("no luck")));
    r = fr_get_at_primary(c);
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->jobs[0].job.state, STATE_DEAD);
    fr_end();
}

static void test_a_job_moves_with_its_steps(void **state)
{
    (void)state;
    fr_begin();
    fr_outage();
    struct job_ref id = fr_enqueue();
    const struct reply *r = fr_claim(1);
    assert_int_equal(r->job_count, 1);
    struct op op = fr_lease_op(OP_STEP, &r->jobs[0]);
    op.lease.step = SPAN_LITERAL("pay");
    op.lease.result = SPAN_LITERAL("[7]");
    op.lease.result_kind = PAYLOAD_JSON;
    assert_int_equal(fr_run(op)->outcome, OUT_OK);
    assert_int_equal(fr_run(fr_lease_op(OP_RELEASE, &r->jobs[0]))->outcome, OUT_OK);
    switched_set(fr.primary, SWITCH_ON);
    fr_until_moved();
    op = (struct op){.kind = OP_GET, .job = {.job = id, .want_steps = true}};
    r = fr_run_at(switched_backend(fr.primary), op);
    assert_int_equal(r->outcome, OUT_OK);
    struct span list = r->jobs[0].steps;
    struct step s;
    assert_true(steps_next(&list, &s));
    assert_true(span_equal(s.name, SPAN_LITERAL("pay")));
    assert_true(span_equal(s.result, SPAN_LITERAL("[7]")));
    assert_false(steps_next(&list, &s));
    fr_end();
}

/* A job of the spool can hand off to jobs that the spool takes; keys are in the primary alone. */
static void test_a_job_in_the_spool_hands_off(void **state)
{
    (void)state;
    fr_begin();
    fr_outage();
    struct job_ref a = fr_enqueue();
    struct op_enqueue next[2] = {fr_enqueue_op().enqueue, fr_enqueue_op().enqueue};
    struct kv_set set = {.key = SPAN_LITERAL("x")};
    struct op_kv_commit handoff = {.enqueues = next, .enqueue_count = 1};
    struct op op = fr_lease_op(OP_ACK, &fr_claim(1)->jobs[0]);
    op.lease.handoff = &handoff;
    next[0].idempotency_key = SPAN_LITERAL("k");
    const struct reply *r = fr_run(op);
    assert_int_equal(r->outcome, OUT_UNAVAILABLE);
    assert_non_null(strstr(r->note, "idempotency key"));
    next[0].idempotency_key = (struct span){NULL, 0};
    handoff.sets = &set;
    handoff.set_count = 1;
    r = fr_run(op);
    assert_int_equal(r->outcome, OUT_UNAVAILABLE);
    assert_non_null(strstr(r->note, "key-value store"));
    assert_int_equal(fr_get(a)->jobs[0].job.state, STATE_RUNNING);
    handoff.set_count = 0;
    r = fr_run(op);
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->handoff->enqueued_count, 1);
    struct job_ref b = {r->handoff->enqueued[0].seq, r->handoff->enqueued[0].id_hi};
    assert_int_equal(fr_get(a)->jobs[0].job.state, STATE_DONE);
    assert_int_equal(fr_get(b)->jobs[0].job.state, STATE_READY);
    switched_set(fr.primary, SWITCH_ON);
    fr_until_moved();
    assert_int_equal(fr_get_at_primary(b)->jobs[0].job.seq, b.seq);
    fr_end();
}

/* The spool has moved the job, and after a restart the node does not remember that it has. */
static void test_a_moved_job_hands_off_in_the_primary(void **state)
{
    (void)state;
    fr_begin_with(true);
    fr.on_disk = true;
    fr_open();
    fr_outage();
    fr_enqueue();
    switched_set(fr.primary, SWITCH_ON);
    fr_until_moved();
    fr_close();
    fr_open();
    struct kv_set set = {.key = SPAN_LITERAL("x")};
    struct op_kv_commit handoff = {.sets = &set, .set_count = 1};
    struct op op = fr_lease_op(OP_ACK, &fr_claim(1)->jobs[0]);
    op.lease.handoff = &handoff;
    assert_int_not_equal(fr_run(op)->outcome, OUT_UNAVAILABLE);
    fr_end();
}

/* The reply to the second step of a move is lost, whether the step was done or not. */
static void move_unknown(enum switched_mode mode, bool restart)
{
    fr_begin_with(true);
    fr.on_disk = restart;
    fr_open();
    fr_put_queue(SPAN_LITERAL("q"), NULL, SPAN_LITERAL(""));
    fr_outage();
    struct job_ref id = fr_enqueue();
    fr_lose_move(mode);
    /* It is not known whether the primary has it, so it is not given out here. */
    assert_int_equal(fr_claim(5)->job_count, 0);
    assert_int_equal(fr_run((struct op){.kind = OP_CANCEL, .job = {.job = id}})->outcome,
                     OUT_UNAVAILABLE);
    assert_int_equal(switched_passed(fr.primary, OP_ENQUEUE) > 0, mode == SWITCH_LOST);
    if (restart) {
        fr_close();
        fr_listening = false;
        fr_open();
        assert_int_equal(fr_claim(5)->job_count, 0);
        fr_listening = true;
    } else {
        switched_set(fr.primary, SWITCH_ON);
    }
    fr_until_moved();
    const struct reply *r = fr_claim(5);
    assert_int_equal(r->job_count, 1);
    assert_int_equal(r->jobs[0].job.seq, id.seq);
    assert_int_equal(r->jobs[0].job.id_hi, id.hi);
    assert_int_equal(fr_run(fr_lease_op(OP_ACK, &r->jobs[0]))->outcome, OUT_OK);
    assert_int_equal(fr_claim(5)->job_count, 0);
    fr_end();
}

static void test_a_move_whose_reply_is_lost(void **state)
{
    (void)state;
    move_unknown(SWITCH_LOST, false);
}

static void test_a_move_that_is_dropped(void **state)
{
    (void)state;
    move_unknown(SWITCH_DROPPED, false);
}

static void test_an_unknown_move_over_a_restart(void **state)
{
    (void)state;
    move_unknown(SWITCH_LOST, true);
    move_unknown(SWITCH_DROPPED, true);
}

/* The job was moved, done and removed before the spool got the reply: the primary recognises its
 * key. */
static void test_an_unknown_move_of_a_job_that_has_ended(void **state)
{
    static const struct span queue = {"q", 1};
    (void)state;
    fr_begin();
    fr_put_queue(SPAN_LITERAL("q"), NULL, SPAN_LITERAL(""));
    fr_outage();
    fr_enqueue();
    fr_lose_move(SWITCH_LOST);
    switched_set(fr.primary, SWITCH_ON);
    struct op op = {.kind = OP_CLAIM, .claim = {.queues = &queue, .queue_count = 1, .count = 5}};
    const struct reply *r = fr_run_at(switched_backend(fr.primary), op);
    assert_int_equal(r->job_count, 1);
    struct job_ref there = {r->jobs[0].job.seq, r->jobs[0].job.id_hi};
    assert_int_equal(
        fr_run_at(switched_backend(fr.primary), fr_lease_op(OP_ACK, &r->jobs[0]))->outcome, OUT_OK);
    fr_run_at(switched_backend(fr.primary), (struct op){.kind = OP_REMOVE, .job = {.job = there}});
    fr_until_moved();
    assert_int_equal(fr_claim(5)->job_count, 0);
    fr_end();
}

/* The rules of a queue also apply during an outage. */
static void test_queues_are_known_in_the_spool(void **state)
{
    struct queue_policy policy;
    const struct reply *r;
    (void)state;
    policy_default(&policy);
    policy.lease_ms = 4321;
    fr_begin_with(true);
    fr_open();
    struct op op = {.kind = OP_QUEUE_PUT,
                    .queue = {.name = SPAN_LITERAL("q"),
                              .policy = &policy,
                              .has_owner = true,
                              .owner = SPAN_LITERAL("keyval")}};
    assert_int_equal(fr_run(op)->outcome, OUT_OK);
    fr_outage(); /* the queues are read when the primary is available again, at the latest */
    switched_set(fr.primary, SWITCH_ON);
    fr_until_up(true);
    while (switched_passed(fr.primary, OP_QUEUE_LIST) == 0)
        uv_run(&fr.loop, UV_RUN_ONCE);
    for (;;) {
        switched_set(fr.primary, SWITCH_OFF);
        r = fr_run((struct op){.kind = OP_QUEUE_GET, .queue = {.name = SPAN_LITERAL("q")}});
        if (r->outcome == OUT_OK)
            break;
        switched_set(fr.primary, SWITCH_ON);
        fr_until_up(true);
    }
    assert_int_equal(r->queues[0].policy->lease_ms, 4321);
    assert_true(span_equal(r->queues[0].owner, SPAN_LITERAL("keyval")));
    fr_enqueue();
    assert_int_equal(fr_claim(1)->jobs[0].lease_ms, 4321);
    fr_end();
}

static void test_unavailable_at_the_start(void **state)
{
    (void)state;
    fr_begin_with(false);
    fr_open();
    assert_false(fr_figures().primary_up);
    assert_int_equal(fr_health().since.ms, fr.clock.at.wall.ms);
    assert_string_equal(fr_health().trouble, "no server listens at its address");
    struct job_ref id = fr_enqueue();
    assert_true(id_spooled(id.seq));
    assert_int_equal(fr_claim(1)->job_count, 1);
    struct job_ref other = fr_enqueue();
    fr.unusable = "wrong password"; /* while the node runs, it goes on, too */
    fr_listening = true;
    while (fr.opens == 0)
        uv_run(&fr.loop, UV_RUN_ONCE);
    fr.unusable = NULL;
    fr_until_up(true);
    while (fr_get_at_primary(other)->outcome != OUT_OK)
        uv_run(&fr.loop, UV_RUN_ONCE);
    assert_int_equal(fr_get(id)->jobs[0].job.state, STATE_RUNNING);
    fr_end();
}

static void test_unusable_at_the_start(void **state)
{
    struct err_note note = {""};
    (void)state;
    fr_begin_with(true);
    fr.unusable = "wrong password";
    assert_int_equal(fr_try_open(&note), -ERR_INVALID);
    assert_string_equal(note.text, "wrong password");
    fr_end_closed();
}

static void count_cb(void *ctx)
{
    ++*(unsigned *)ctx;
}

/* Another spool with the same node number gave the sequence: no job is mistaken for the other. */
static void test_an_id_that_another_job_has(void **state)
{
    struct job_past past = {.state = STATE_READY};
    (void)state;
    fr_begin();
    fr_outage();
    struct job_ref first = fr_enqueue();
    switched_set(fr.primary, SWITCH_ON);
    fr_until_moved();
    struct op op = fr_enqueue_op();
    op.enqueue.past = &past;
    op.enqueue.id = (struct job_ref){first.seq + 1, first.hi - (UINT64_C(99) << 16)};
    assert_int_equal(fr_run_at(switched_backend(fr.primary), op)->outcome, OUT_OK);
    fr_outage();
    assert_int_equal(fr_enqueue().seq, first.seq + 1);
    switched_set(fr.primary, SWITCH_ON);
    fr_until_moved();
    const struct reply *r = fr_claim(9);
    assert_int_equal(r->job_count, 3);
    assert_false(id_spooled(r->jobs[0].job.seq)); /* the job that got another id */
    fr_end();
}

static void test_watches_are_signalled(void **state)
{
    struct backend_watch *watch;
    unsigned signals = 0;
    (void)state;
    fr_begin();
    assert_int_equal(backend_watch(fr.b, SPAN_LITERAL("q"), count_cb, &signals, &watch), 0);
    fr_outage();
    while (signals == 0)
        uv_run(&fr.loop, UV_RUN_ONCE);
    signals = 0;
    fr_enqueue();
    while (signals == 0)
        uv_run(&fr.loop, UV_RUN_ONCE);
    signals = 0;
    switched_set(fr.primary, SWITCH_ON);
    fr_until_moved();
    while (signals == 0)
        uv_run(&fr.loop, UV_RUN_ONCE);
    backend_unwatch(fr.b, watch);
    fr_end();
}

static void test_a_primary_that_does_not_answer(void **state)
{
    (void)state;
    fr_begin_with(true);
    struct err_note note;
    struct failover_setup setup = {
        .kind = "test", .open = fr_open_primary, .reachable = fr_reachable, .health_ms = 40};
    assert_int_equal(fr_open_store("spool", &fr.spool), 0);
    assert_int_equal(backend_open_failover(fr.spool, &setup, &fr.config, &fr.b, &note), 0);
    switched_set(fr.primary, SWITCH_SILENT);
    fr_until_up(false);
    assert_true(id_spooled(fr_enqueue().seq));
    switched_set(fr.primary, SWITCH_ON);
    fr_until_moved();
    assert_int_equal(fr_claim(5)->job_count, 1);
    fr_end();
}

static void test_events_of_both(void **state)
{
    struct backend_event v[16];
    uint64_t oldest, start, count = 0;
    (void)state;
    fr_begin();
    start = backend_events_last(fr.b);
    fr_outage();
    struct job_ref id = fr_enqueue();
    size_t n = 0;
    while (n == 0) {
        uv_run(&fr.loop, UV_RUN_ONCE);
        n = backend_events(fr.b, start, UINT64_C(1) << EVENT_ENQUEUED, v, 16, &oldest);
    }
    for (size_t i = 0; i < n; i++)
        count += v[i].seq == id.seq && v[i].id_hi == id.hi;
    assert_int_equal(count, 1);
    fr_end();
}

/* --- a primary that may lose jobs --- */

/* PDQ-6 PDQ-7: it is checked on another thread, less and less often, and opened when it can be
 * used. */
static void test_an_unsafe_primary_is_checked_with_backoff(void **state)
{
    uint64_t before = 0, now, gaps[2];
    (void)state;
    fr_begin_with(false);
    fr_unsafe = true;
    fr_open();
    fr_listening = true;
    for (unsigned n = 1; n <= 3; n++) {
        while (fr_checks < n)
            uv_run(&fr.loop, UV_RUN_ONCE);
        now = uv_hrtime() / 1000000;
        if (n > 1)
            gaps[n - 2] = now - before;
        before = now;
    }
    assert_true(gaps[0] >= 900);
    assert_true(gaps[1] >= 1900);
    assert_int_equal(fr.opens, 0);
    assert_false(fr_checked_on_loop);
    assert_string_equal(fr_health().trouble, "appendonly is no");
    fr_unsafe = false;
    fr_until_up(true);
    assert_int_equal(fr.opens, 1);
    fr_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_while_the_primary_is_available),
        cmocka_unit_test(test_an_outage_is_visible),
        cmocka_unit_test(test_queries_to_the_spool_are_marked),
        cmocka_unit_test(test_no_enqueue_is_refused_when_the_primary_fails),
        cmocka_unit_test(test_jobs_are_moved_unchanged),
        cmocka_unit_test(test_a_running_job_ends_in_the_spool),
        cmocka_unit_test(test_a_job_moves_with_its_steps),
        cmocka_unit_test(test_a_job_in_the_spool_hands_off),
        cmocka_unit_test(test_a_moved_job_hands_off_in_the_primary),
        cmocka_unit_test(test_a_move_whose_reply_is_lost),
        cmocka_unit_test(test_a_move_that_is_dropped),
        cmocka_unit_test(test_an_unknown_move_over_a_restart),
        cmocka_unit_test(test_an_unknown_move_of_a_job_that_has_ended),
        cmocka_unit_test(test_queues_are_known_in_the_spool),
        cmocka_unit_test(test_unavailable_at_the_start),
        cmocka_unit_test(test_unusable_at_the_start),
        cmocka_unit_test(test_an_id_that_another_job_has),
        cmocka_unit_test(test_watches_are_signalled),
        cmocka_unit_test(test_a_primary_that_does_not_answer),
        cmocka_unit_test(test_events_of_both),
        cmocka_unit_test(test_an_unsafe_primary_is_checked_with_backoff),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
