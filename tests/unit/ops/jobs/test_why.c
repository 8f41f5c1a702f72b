/* SPDX-License-Identifier: Apache-2.0 */
/* HF-5: the reasons why a job is not running, and when it is expected to start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/limits.h"
#include "ops/jobs/why.h"

#define NOW INT64_C(1767225600000) /* 2026-01-01T00:00:00Z */
#define AT(s) ((struct wall_time){NOW + 1000 * (s)})

static struct arena arena;
static struct why_answer answer;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_done(&arena);
    return 0;
}

static struct job_wait wait;
static struct job_view view;

/* A job in this state, of a queue of which a claim waits. */
static struct why_facts facts_of(enum job_state state)
{
    wait = (struct job_wait){.ready = 1};
    view = (struct job_view){.queue = SPAN_LITERAL("mail")};
    view.job.state = (uint8_t)state;
    view.job.seq = 7;
    view.job.since = AT(-60);
    if (STATE_BIT(state) & STATES_WAITING)
        view.wait = &wait;
    return (struct why_facts){.job = &view,
                              .now = {NOW},
                              .claims = {.waiting = true, .since = AT(-3600), .recent_ms = 60000}};
}

/* The codes, separated by spaces. */
static const char *codes(const struct why_facts *f)
{
    static char text[400];
    size_t len = 0;
    assert_true(why_decide(f, &arena, &answer));
    for (uint32_t i = 0; i < answer.count && len < sizeof text; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", i ? " " : "",
                                why_code_name(answer.reasons[i].code));
    return text;
}

static void says(size_t i, const char *detail)
{
    assert_true(i < answer.count);
    char *text = arena_text(&arena, answer.reasons[i].detail);
    assert_non_null(text);
    assert_string_equal(text, detail);
}

static void by(size_t i, const char *text)
{
    assert_int_equal(answer.reasons[i].by.len, strlen(text));
    assert_memory_equal(answer.reasons[i].by.at, text, strlen(text));
}

static void test_a_job_that_is_next(void **state)
{
    (void)state;
    struct why_facts f = facts_of(STATE_READY);
    assert_string_equal(codes(&f), "behind");
    assert_int_equal(answer.reasons[0].count, 0);
    says(0, "No ready job comes before it: the next claim of the queue can get it.");
    assert_int_equal(answer.expected_start.ms, 0);
}

static void test_jobs_before(void **state)
{
    (void)state;
    struct why_facts f = facts_of(STATE_READY);
    wait.before = 1;
    assert_string_equal(codes(&f), "behind");
    says(0, "1 ready job comes before it.");
    wait.before = 4000;
    wait.before_kind = COUNT_ESTIMATE;
    codes(&f);
    says(0, "About 4000 ready jobs come before it.");
    assert_true(answer.reasons[0].counts);
    assert_int_equal(answer.reasons[0].count, 4000);
    wait.before_kind = COUNT_AT_LEAST;
    wait.grouped = true;
    wait.ready = 9000;
    codes(&f);
    says(0, "At least 4000 ready jobs of its group come before it. 9000 jobs of the queue are "
            "ready, and its groups share it.");
    assert_int_equal(answer.expected_start.ms, 0);
}

static void test_claims(void **state)
{
    (void)state;
    struct why_facts f = facts_of(STATE_READY);
    f.claims.waiting = false;
    assert_string_equal(codes(&f), "no_workers");
    says(0, "No claim is known that asked for jobs of the queue mail since "
            "2025-12-31T23:00:00.000Z, when this server started.");
    f.claims.last = AT(-61);
    wait.running = 2;
    assert_string_equal(codes(&f), "no_workers");
    says(0, "No claim has asked for jobs of the queue mail for 61 s; the last one did at "
            "2025-12-31T23:58:59.000Z. 2 of its jobs are running, which may occupy all workers.");
    f.claims.last = AT(-60);
    assert_string_equal(codes(&f), "behind");
}

static void test_an_open_breaker(void **state)
{
    (void)state;
    struct why_breaker open = {SPAN_LITERAL("pay"), AT(30)};
    struct why_facts f = facts_of(STATE_READY);
    f.claims.waiting = false;
    f.claims.breakers = &open;
    f.claims.breaker_count = 1;
    assert_string_equal(codes(&f), "breaker_open");
    assert_int_equal(answer.reasons[0].until.ms, AT(30).ms);
    by(0, "pay");
    assert_int_equal(answer.expected_start.ms, AT(30).ms);
    wait.before = 3;
    assert_string_equal(codes(&f), "breaker_open behind");
    assert_int_equal(answer.expected_start.ms, 0);
}

static void test_a_pause(void **state)
{
    (void)state;
    struct why_facts f = facts_of(STATE_READY);
    wait.paused_until = AT(90);
    assert_string_equal(codes(&f), "queue_paused");
    says(0, "The queue mail is paused until 2026-01-01T00:01:30.000Z.");
    assert_int_equal(answer.expected_start.ms, AT(90).ms);
    wait.paused_until.ms = LIMIT_WALL_MS;
    assert_string_equal(codes(&f), "queue_paused");
    says(0, "The queue mail is paused until it is resumed.");
    assert_int_equal(answer.reasons[0].until.ms, 0);
    assert_int_equal(answer.expected_start.ms, 0);
}

static void test_limits(void **state)
{
    (void)state;
    struct queue_policy p;
    policy_default(&p);
    p.max_running = 2;
    p.max_running_per_group = 1;
    p.claim_rate = (struct rate_limit){RATE_GROUP, 1, 10000};
    struct why_facts f = facts_of(STATE_READY);
    struct claim_use queue = {2, 0}, group = {1, 4000000};
    job_wait_limits(&wait, &p, &queue, &group, 1000000);
    assert_string_equal(codes(&f), "queue_limit group_limit claim_rate");
    says(0, "Running jobs of the queue mail: 2; its max_running is 2.");
    says(1, "Running jobs of the group: 1; max_running_per_group of the queue mail is 1.");
    says(2, "The claim_rate of the queue mail lets the next job of the group start at "
            "2026-01-01T00:00:03.000Z.");
    assert_int_equal(answer.reasons[2].until.ms, AT(3).ms);
    assert_int_equal(answer.expected_start.ms, 0);
    queue.running = 1;
    group.running = 0;
    job_wait_limits(&wait, &p, &queue, &group, 1000000);
    assert_string_equal(codes(&f), "claim_rate");
    assert_int_equal(answer.expected_start.ms, AT(3).ms);
    wait.ready = 2; /* a job of another group may get the token */
    assert_string_equal(codes(&f), "claim_rate behind");
    assert_int_equal(answer.expected_start.ms, 0);
}

static void test_a_time(void **state)
{
    (void)state;
    struct why_facts f = facts_of(STATE_SCHEDULED);
    view.job.run_at = AT(60);
    wait.paused_until = AT(30);
    wait.before = 5; /* of no meaning for a job that is not ready */
    assert_string_equal(codes(&f), "not_due queue_paused");
    says(0, "The job is scheduled for 2026-01-01T00:01:00.000Z.");
    assert_int_equal(answer.expected_start.ms, AT(60).ms);
    wait.paused_until = AT(90);
    codes(&f);
    assert_int_equal(answer.expected_start.ms, AT(90).ms);
    wait.paused_until.ms = 0;
    view.job.failures = 1;
    view.job.crashes = 1;
    assert_string_equal(codes(&f), "retry_wait");
    says(0, "The job waits until 2026-01-01T00:01:00.000Z for its next attempt: 2 have failed.");
    view.job.failures = view.job.crashes = 0;
    view.job.reason = REASON_RELEASED;
    assert_string_equal(codes(&f), "retry_wait");
    assert_int_equal(answer.reasons[0].until.ms, AT(60).ms);
}

static void test_dependencies(void **state)
{
    (void)state;
    struct job_ref parents[12];
    struct why_facts f = facts_of(STATE_BLOCKED);
    for (uint32_t i = 0; i < 12; i++)
        parents[i] = (struct job_ref){.seq = 100 + i, .hi = 1};
    view.parents = parents;
    view.parent_count = view.waits = 1;
    assert_string_equal(codes(&f), "depends_on");
    char id[ID_ULID_BYTES];
    id_ulid(id_make(1, 100), id);
    by(0, id);
    assert_int_equal(answer.expected_start.ms, 0);
    view.job.run_at = AT(60);
    assert_string_equal(codes(&f), "depends_on not_due");
    view.job.run_at.ms = 0;
    view.parent_count = 12;
    view.waits = 10000;
    view.dependent.open = true;
    codes(&f);
    assert_int_equal(answer.count, WHY_PARENTS_SHOWN + 2);
    says(10, "The job waits for 9990 more jobs that have not ended.");
    says(11, "The job is open: dependencies can be added to it until it is closed.");
    view.parent_count = 0; /* a store that does not say which */
    view.waits = 3;
    view.dependent.open = false;
    assert_string_equal(codes(&f), "depends_on");
    says(0, "The job waits for 3 jobs that have not ended.");
}

static void test_a_running_job(void **state)
{
    (void)state;
    struct why_facts f = facts_of(STATE_RUNNING);
    view.worker = SPAN_LITERAL("w1");
    view.lease_left_ms = 30000;
    view.job.failures = 1;
    assert_string_equal(codes(&f), "running");
    says(0, "The worker w1 runs the job, attempt 2; its lease ends at 2026-01-01T00:00:30.000Z "
            "unless it is extended.");
    by(0, "w1");
    assert_int_equal(answer.reasons[0].until.ms, AT(30).ms);
    assert_int_equal(answer.expected_start.ms, 0);
    view.worker.len = 0;
    view.lease_left_ms = -1;
    view.limits = (struct lease_limits){.cancel_at = AT(-1), .cancel_grace_ms = 5000};
    codes(&f);
    says(0, "A worker without a name runs the job, attempt 2. A cancel is requested and takes "
            "effect at 2026-01-01T00:00:04.000Z at the latest.");
}

static void test_an_item_of_a_trigger(void **state)
{
    (void)state;
    struct why_facts f = facts_of(STATE_RUNNING);
    view.holder = (struct job_ref){.seq = 9, .hi = 1};
    assert_string_equal(codes(&f), "held_by_trigger");
    char id[ID_ULID_BYTES];
    id_ulid(id_make(1, 9), id);
    by(0, id);
}

static void test_a_job_that_has_ended(void **state)
{
    (void)state;
    struct why_facts f = facts_of(STATE_DONE);
    assert_string_equal(codes(&f), "ended");
    says(0, "The job has been done since 2025-12-31T23:59:00.000Z.");
    f = facts_of(STATE_DEAD);
    view.job.reason = REASON_CRASH_LOOP;
    assert_string_equal(codes(&f), "ended");
    says(0, "The job has been dead since 2025-12-31T23:59:00.000Z, reason crash_loop.");
}

static void test_a_store_that_does_not_answer(void **state)
{
    (void)state;
    struct why_facts f = {.now = {NOW},
                          .store = {true, AT(-5), SPAN_LITERAL("connection refused")}};
    assert_string_equal(codes(&f), "store_away");
    assert_null(answer.job);
    says(0, "The store that has the job has not answered since 2025-12-31T23:59:55.000Z "
            "(connection refused). The state of the job is not known until it answers.");
    f = facts_of(STATE_READY);
    f.store.away = true;
    assert_string_equal(codes(&f), "store_away");
    says(0, "The shared store has not answered. The job is in the spool of this node, and only "
            "claims through this node get it.");
    wait.before = 2;
    assert_string_equal(codes(&f), "store_away behind");
    f = facts_of(STATE_SCHEDULED);
    f.store.away = true;
    view.job.run_at = AT(60);
    assert_string_equal(codes(&f), "store_away not_due");
    assert_int_equal(answer.expected_start.ms, AT(60).ms);
}

static void test_every_code_has_a_name_and_a_meaning(void **state)
{
    (void)state;
    for (unsigned i = 0; i < WHY_CODE_COUNT; i++) {
        assert_true(strlen(why_code_name((enum why_code)i)) > 3);
        const char *meaning = why_code_meaning((enum why_code)i);
        assert_int_equal(meaning[strlen(meaning) - 1], '.');
    }
}

/* Names of any length and content are cut off, not written beyond the end. */
static void test_long_names(void **state)
{
    (void)state;
    char long_name[4000];
    memset(long_name, 'x', sizeof long_name);
    struct why_facts f = facts_of(STATE_RUNNING);
    view.worker = span_of(long_name, sizeof long_name);
    view.lease_left_ms = 1;
    assert_string_equal(codes(&f), "running");
    assert_true(answer.reasons[0].detail.len < 1000);
}

static uint64_t count_of(const struct queue_view *q, enum why_code code)
{
    struct why_count counts[WHY_COUNTS_MAX];
    uint32_t n = why_counts(q, (struct wall_time){NOW}, counts);
    for (uint32_t i = 0; i < n; i++)
        if (counts[i].code == code)
            return counts[i].count;
    return UINT64_MAX;
}

static void test_counts_of_a_queue(void **state)
{
    (void)state;
    struct queue_policy policy = {0};
    struct queue_view q = {.policy = &policy};
    q.counts.by_state[STATE_READY] = 10;
    q.counts.by_state[STATE_SCHEDULED] = 4;
    q.counts.by_state[STATE_BLOCKED] = 3;
    q.counts.by_state[STATE_RUNNING] = 2;
    assert_int_equal(count_of(&q, WHY_DEPENDS_ON), 3);
    assert_int_equal(count_of(&q, WHY_NOT_DUE), 4);
    assert_int_equal(count_of(&q, WHY_QUEUE_PAUSED), 0);
    assert_int_equal(count_of(&q, WHY_BEHIND), 10);
    assert_int_equal(count_of(&q, WHY_GROUP_LIMIT), UINT64_MAX);
    policy.max_running_per_group = 1;
    q.counts.limited[CLAIM_GROUP_LIMIT] = 6;
    q.counts.limited[CLAIM_RATE] = 1;
    assert_int_equal(count_of(&q, WHY_QUEUE_LIMIT), 0);
    assert_int_equal(count_of(&q, WHY_GROUP_LIMIT), 6);
    assert_int_equal(count_of(&q, WHY_CLAIM_RATE), 1);
    assert_int_equal(count_of(&q, WHY_BEHIND), 3);
    q.counts.limited[CLAIM_GROUP_LIMIT] = 11; /* counted before some of them were claimed */
    assert_int_equal(count_of(&q, WHY_GROUP_LIMIT), 10);
    assert_int_equal(count_of(&q, WHY_CLAIM_RATE), 0);
    assert_int_equal(count_of(&q, WHY_BEHIND), 0);
    q.paused_until = AT(1);
    assert_int_equal(count_of(&q, WHY_QUEUE_PAUSED), 10);
    assert_int_equal(count_of(&q, WHY_GROUP_LIMIT), 0);
    assert_int_equal(count_of(&q, WHY_BEHIND), 0);
    q.paused_until = AT(0); /* has ended */
    assert_int_equal(count_of(&q, WHY_QUEUE_PAUSED), 0);
}

/* The view of a queue and the reasons of a job name limits alike. */
static void test_limits_have_one_name(void **state)
{
    (void)state;
    struct queue_policy policy = {.max_running = 1};
    struct queue_view q = {.policy = &policy};
    struct why_count counts[WHY_COUNTS_MAX];
    assert_int_equal(why_counts(&q, (struct wall_time){NOW}, counts), WHY_COUNTS_MAX);
    for (unsigned b = CLAIM_FREE + 1; b < CLAIM_BLOCK_COUNT; b++)
        assert_string_equal(why_code_name(counts[2 + b].code),
                            claim_block_name((enum claim_block)b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_job_that_is_next, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_jobs_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_claims, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_open_breaker, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_pause, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_limits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dependencies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_running_job, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_item_of_a_trigger, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_job_that_has_ended, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_store_that_does_not_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_every_code_has_a_name_and_a_meaning, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_long_names, set_up, tear_down),
        cmocka_unit_test(test_counts_of_a_queue),
        cmocka_unit_test(test_limits_have_one_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
