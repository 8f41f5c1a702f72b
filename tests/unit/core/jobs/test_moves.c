/* SPDX-License-Identifier: Apache-2.0 */
/* The rules: what each transition decides, at its boundaries, and what applying it does. */
#include "core/jobs/moves.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/limits.h"

#define NOW ((struct wall_time){1700000000000})
#define GENERATION 7

static struct random random_source;
static char text_room[LEASE_END_TEXT_BYTES];

static struct job running_job(uint16_t failures, uint16_t crashes)
{
    return (struct job){
        .seq = 42,
        .priority = -3,
        .run_at = {1699999999000},
        .since = {1699999999500},
        .queue = 5,
        .failures = failures,
        .crashes = crashes,
        .generation = 2,
        .state = STATE_RUNNING,
        .flags = JOB_BOUND | JOB_HAS_EXTRA,
    };
}

/* One, two, four seconds … without jitter. */
static const struct backoff doubling = {
    .kind = BACKOFF_EXPONENTIAL, .base_ms = 1000, .max_ms = 3600000};

static struct job_rules rules_with(enum lease_end lease_end, uint32_t max_attempts,
                                   uint32_t max_crashes)
{
    return (struct job_rules){
        .lease_ms = 30000,
        .max_attempts = max_attempts,
        .max_crashes = max_crashes,
        .lease_end = lease_end,
        .backoff = &doubling,
    };
}

static struct record fail_of(const struct job *j, const struct job_rules *rules,
                             const struct fail_request *f)
{
    struct record r;
    decide_fail(j, rules, f, GENERATION, NOW, &random_source, &r);
    return r;
}

static struct record lease_end_of(const struct job *j, const struct job_rules *rules, bool lost)
{
    struct record r;
    decide_lease_end(j, rules, lost, GENERATION, NOW, &random_source, text_room, &r);
    return r;
}

static void assert_back(const struct record *r, enum job_state state, enum job_reason reason,
                        int64_t wait_ms)
{
    assert_int_equal(r->kind, REC_JOB_BACK);
    assert_int_equal(r->job_back.seq, 42);
    assert_int_equal(r->job_back.state, state);
    assert_int_equal(r->job_back.reason, reason);
    assert_int_equal(r->job_back.generation, GENERATION);
    assert_int_equal(r->job_back.at.ms, NOW.ms);
    /* ready at once keeps the job's own run_at */
    assert_int_equal(r->job_back.run_at.ms,
                     state == STATE_READY ? running_job(0, 0).run_at.ms : NOW.ms + wait_ms);
}

static void assert_dead(const struct record *r, enum job_reason reason)
{
    assert_int_equal(r->kind, REC_JOB_DEAD);
    assert_int_equal(r->job_dead.seq, 42);
    assert_int_equal(r->job_dead.reason, reason);
    assert_int_equal(r->job_dead.at.ms, NOW.ms);
}

/* ---- rules_of ---- */

static void test_rules_are_the_queues_unless_the_job_says(void **state)
{
    (void)state;
    struct queue_policy policy;
    struct job_rules rules;
    policy_default(&policy);
    policy.lease_end = LEASE_END_COUNTED;
    rules_of(&policy, NULL, &rules);
    assert_int_equal(rules.lease_ms, 30000);
    assert_int_equal(rules.max_attempts, 10);
    assert_int_equal(rules.max_crashes, 5);
    assert_int_equal(rules.lease_end, LEASE_END_COUNTED);
    assert_ptr_equal(rules.backoff, &policy.backoff);

    struct job_options options = {0};
    rules_of(&policy, &options, &rules);
    assert_int_equal(rules.max_attempts, 10);
    assert_ptr_equal(rules.backoff, &policy.backoff);

    options = (struct job_options){
        .max_attempts = 2, .max_crashes = 3, .lease_ms = 5000, .has_backoff = true};
    rules_of(&policy, &options, &rules);
    assert_int_equal(rules.lease_ms, 5000);
    assert_int_equal(rules.max_attempts, 2);
    assert_int_equal(rules.max_crashes, 3);
    assert_ptr_equal(rules.backoff, &options.backoff);
}

/* ---- fail ---- */

static void test_fail_waits_by_the_back_off(void **state)
{
    (void)state;
    struct job_rules rules = rules_with(LEASE_END_REQUEUE, 4, 0);
    struct fail_request f = {.error = SPAN_LITERAL("no route"), .error_kind = ERROR_BUSINESS};
    for (uint16_t failures = 0; failures < 3; failures++) {
        struct job j = running_job(failures, 100); /* crashes do not count here */
        struct record r = fail_of(&j, &rules, &f);
        assert_back(&r, STATE_SCHEDULED, REASON_FAILED, INT64_C(1000) << failures);
        assert_int_equal(r.job_back.failures, failures + 1);
        assert_int_equal(r.job_back.crashes, 100);
        assert_int_equal(r.job_back.error_kind, ERROR_BUSINESS);
        assert_true(span_equal(r.job_back.error, SPAN_LITERAL("no route")));
    }
    struct job j = running_job(3, 100);
    struct record r = fail_of(&j, &rules, &f);
    assert_dead(&r, REASON_FAILED);
    assert_int_equal(r.job_dead.failures, 4);
    assert_int_equal(r.job_dead.crashes, 100);
    assert_int_equal(r.job_dead.error_kind, ERROR_BUSINESS);
    assert_true(span_equal(r.job_dead.error, SPAN_LITERAL("no route")));
}

static void test_fail_shares_the_count_when_crashes_are_counted(void **state)
{
    (void)state;
    struct job_rules rules = rules_with(LEASE_END_COUNTED, 4, 0);
    struct fail_request f = {0};
    struct job j = running_job(1, 1);
    struct record r = fail_of(&j, &rules, &f);
    assert_back(&r, STATE_SCHEDULED, REASON_FAILED, 4000); /* the third use of an attempt */
    j = running_job(1, 2);
    r = fail_of(&j, &rules, &f);
    assert_dead(&r, REASON_FAILED);
    assert_int_equal(r.job_dead.failures, 2);
    assert_int_equal(r.job_dead.crashes, 2);
}

static void test_fail_without_wait_is_ready_at_once(void **state)
{
    (void)state;
    const struct backoff none = {.kind = BACKOFF_LIST};
    struct job_rules rules = rules_with(LEASE_END_REQUEUE, 10, 0);
    rules.backoff = &none;
    struct fail_request f = {0};
    struct job j = running_job(0, 0);
    struct record r = fail_of(&j, &rules, &f);
    assert_back(&r, STATE_READY, REASON_FAILED, 0);
    assert_int_equal(r.job_back.failures, 1);
    assert_int_equal(r.job_back.error.len, 0);
}

static void test_fail_without_retry_is_rejected(void **state)
{
    (void)state;
    struct job_rules rules = rules_with(LEASE_END_REQUEUE, 10, 0);
    struct fail_request f = {.no_retry = true, .has_run_at = true, .run_at = {NOW.ms + 5}};
    struct job j = running_job(0, 0);
    struct record r = fail_of(&j, &rules, &f);
    assert_dead(&r, REASON_REJECTED);
    assert_int_equal(r.job_dead.failures, 1);
    /* also on the last attempt: it is what the worker asked for */
    j = running_job(9, 0);
    r = fail_of(&j, &rules, &f);
    assert_dead(&r, REASON_REJECTED);
}

/* PDQ-14 (fail, release): a time given by the worker overrides the back-off, not max_attempts. */
static void test_pdq_14_fail_with_run_at(void **state)
{
    (void)state;
    struct job_rules rules = rules_with(LEASE_END_REQUEUE, 2, 0);
    struct fail_request f = {.has_run_at = true, .run_at = {NOW.ms + 77777}};
    struct job j = running_job(0, 0);
    struct record r = fail_of(&j, &rules, &f);
    assert_back(&r, STATE_SCHEDULED, REASON_FAILED, 77777);
    f.run_at = NOW;
    r = fail_of(&j, &rules, &f);
    assert_back(&r, STATE_READY, REASON_FAILED, 0);
    f.run_at = (struct wall_time){NOW.ms + 1};
    r = fail_of(&j, &rules, &f);
    assert_back(&r, STATE_SCHEDULED, REASON_FAILED, 1);
    f.run_at = (struct wall_time){0};
    r = fail_of(&j, &rules, &f);
    assert_back(&r, STATE_READY, REASON_FAILED, 0);
    f.run_at = (struct wall_time){INT64_MAX};
    r = fail_of(&j, &rules, &f);
    assert_int_equal(r.job_back.run_at.ms, LIMIT_WALL_MS);
    j = running_job(1, 0);
    r = fail_of(&j, &rules, &f);
    assert_dead(&r, REASON_FAILED);
}

static void test_pdq_14_release_with_run_at(void **state)
{
    (void)state;
    struct job j = running_job(3, 4);
    struct record r;
    decide_release(&j, (struct wall_time){NOW.ms + 60000}, GENERATION, NOW, &r);
    assert_back(&r, STATE_SCHEDULED, REASON_RELEASED, 60000);
    assert_int_equal(r.job_back.failures, 3); /* uncounted */
    assert_int_equal(r.job_back.crashes, 4);
    decide_release(&j, (struct wall_time){0}, GENERATION, NOW, &r);
    assert_back(&r, STATE_READY, REASON_RELEASED, 0);
    decide_release(&j, (struct wall_time){INT64_MAX}, GENERATION, NOW, &r);
    assert_int_equal(r.job_back.state, STATE_SCHEDULED);
    assert_int_equal(r.job_back.run_at.ms, LIMIT_WALL_MS);
}

/* PDQ-14 (PATCH): priority, run_at, payload of a waiting job; since only with the state. */
static void test_pdq_14_patch(void **state)
{
    (void)state;
    struct job j = running_job(1, 2);
    j.state = STATE_SCHEDULED;
    j.flags = JOB_HAS_EXTRA;
    j.reason = REASON_FAILED;
    j.payload_kind = PAYLOAD_BYTES;
    j.payload_bytes = 9;
    struct job before = j;
    struct rec_job_patched p = {.seq = 42,
                                .state = STATE_SCHEDULED,
                                .priority = 10,
                                .run_at = {NOW.ms + 9},
                                .at = NOW,
                                .generation = 3};
    assert_int_equal(apply_patched(&j, &p), 0);
    assert_int_equal(j.since.ms, before.since.ms);
    assert_int_equal(j.priority, 10);
    assert_int_equal(j.run_at.ms, NOW.ms + 9);
    assert_int_equal(j.generation, 3);
    assert_int_equal(j.payload_kind, PAYLOAD_BYTES);
    assert_int_equal(j.payload_bytes, 9);
    assert_int_equal(j.reason, REASON_FAILED);
    assert_int_equal(j.failures, 1);
    assert_int_equal(j.crashes, 2);

    p.state = STATE_READY;
    p.has_payload = true;
    p.payload_kind = PAYLOAD_JSON;
    p.payload = SPAN_LITERAL("{}");
    assert_int_equal(apply_patched(&j, &p), 0);
    assert_int_equal(j.state, STATE_READY);
    assert_int_equal(j.since.ms, NOW.ms);
    assert_int_equal(j.payload_kind, PAYLOAD_JSON);
    assert_int_equal(j.payload_bytes, 2);
}

/* KV-12: N back-off entries give N retries, N+1 deliveries; [] = dead on the first nack. */
static void test_kv_12_deliveries_by_length_of_the_list(void **state)
{
    (void)state;
    static const uint32_t printed[] = {1000, 5000, 10000};
    for (uint8_t n = 0; n <= 3; n++) {
        struct queue_policy policy;
        policy_default(&policy);
        struct job_options options = {
            .max_attempts = (uint16_t)(n + 1),
            .has_backoff = true,
            .backoff = {.kind = BACKOFF_LIST, .step_count = n},
        };
        memcpy(options.backoff.step_ms, printed, n * sizeof printed[0]);
        struct job_rules rules;
        rules_of(&policy, &options, &rules);

        struct job j = running_job(0, 0);
        unsigned deliveries = 1;
        struct fail_request nack = {0};
        struct record r = fail_of(&j, &rules, &nack);
        while (r.kind == REC_JOB_BACK) {
            assert_back(&r, STATE_SCHEDULED, REASON_FAILED, printed[deliveries - 1]);
            assert_int_equal(apply_back(&j, &r.job_back), 0);
            assert_int_equal(job_attempts(&j), deliveries);
            struct rec_job_claimed claim = {.seq = 42, .token = {deliveries + 1, 1}, .at = NOW};
            assert_int_equal(apply_claimed(&j, &claim), 0);
            deliveries++;
            assert_int_equal(job_attempts(&j), deliveries);
            j.run_at = running_job(0, 0).run_at;
            r = fail_of(&j, &rules, &nack);
        }
        assert_dead(&r, REASON_FAILED);
        assert_int_equal(apply_dead(&j, &r.job_dead), 0);
        assert_int_equal(deliveries, n + 1);
        assert_int_equal(job_attempts(&j), n + 1);
    }
}

static void test_error_texts_are_cut_at_a_character(void **state)
{
    (void)state;
    struct job_rules rules = rules_with(LEASE_END_REQUEUE, 2, 0);
    static char text[LIMIT_ERROR_BYTES + 10];
    memset(text, 'e', sizeof text);
    struct fail_request f = {.error = span_of(text, sizeof text)};
    struct job j = running_job(0, 0);
    struct record r = fail_of(&j, &rules, &f);
    assert_int_equal(r.job_back.error.len, LIMIT_ERROR_BYTES);
    memcpy(text + LIMIT_ERROR_BYTES - 1, "\xc3\xa4", 2); /* would be split */
    r = fail_of(&j, &rules, &f);
    assert_int_equal(r.job_back.error.len, LIMIT_ERROR_BYTES - 1);
    j = running_job(1, 0);
    r = fail_of(&j, &rules, &f);
    assert_dead(&r, REASON_FAILED);
    assert_int_equal(r.job_dead.error.len, LIMIT_ERROR_BYTES - 1);
    f.error = SPAN_LITERAL("fine\xff then not");
    r = fail_of(&j, &rules, &f);
    assert_true(span_equal(r.job_dead.error, SPAN_LITERAL("fine")));
}

/* ---- lease end ---- */

/* HF-17 `requeue`, KV-6: ready again at that time; expiries are counted and end in crash_loop. */
static void test_hf_17_requeue_kv_6_crash_loop(void **state)
{
    (void)state;
    struct job_rules rules = rules_with(LEASE_END_REQUEUE, 1, 5);
    for (uint16_t crashes = 0; crashes < 4; crashes++) {
        struct job j = running_job(50, crashes); /* failures and max_attempts do not count here */
        struct record r = lease_end_of(&j, &rules, false);
        assert_back(&r, STATE_READY, REASON_LEASE_EXPIRED, 0);
        assert_int_equal(r.job_back.crashes, crashes + 1);
        assert_int_equal(r.job_back.failures, 50);
        assert_int_equal(r.job_back.error.len, 0);
    }
    struct job j = running_job(50, 4);
    struct record r = lease_end_of(&j, &rules, false);
    assert_dead(&r, REASON_CRASH_LOOP);
    assert_int_equal(r.job_dead.crashes, 5);
    assert_int_equal(r.job_dead.failures, 50);

    rules.max_crashes = 1;
    j = running_job(0, 0);
    r = lease_end_of(&j, &rules, false);
    assert_dead(&r, REASON_CRASH_LOOP);

    rules.max_crashes = 0; /* no limit */
    j = running_job(0, 60000);
    r = lease_end_of(&j, &rules, false);
    assert_back(&r, STATE_READY, REASON_LEASE_EXPIRED, 0);
}

/* The core's part of KV-3: a lost connection returns the job at once the first time, with the
 * back-off from the second time on. */
static void test_lost_connections_back_off_from_the_second_on(void **state)
{
    (void)state;
    struct job_rules rules = rules_with(LEASE_END_REQUEUE, 1, 5);
    struct job j = running_job(9, 0);
    struct record r = lease_end_of(&j, &rules, true);
    assert_back(&r, STATE_READY, REASON_LEASE_EXPIRED, 0);
    assert_int_equal(r.job_back.crashes, 1);
    j = running_job(9, 1);
    r = lease_end_of(&j, &rules, true);
    assert_back(&r, STATE_SCHEDULED, REASON_LEASE_EXPIRED, 1000);
    j = running_job(9, 2);
    r = lease_end_of(&j, &rules, true);
    assert_back(&r, STATE_SCHEDULED, REASON_LEASE_EXPIRED, 2000);
    j = running_job(9, 4);
    r = lease_end_of(&j, &rules, true);
    assert_dead(&r, REASON_CRASH_LOOP);
}

/* HF-17 `requeue_counted`: like a failure, one count for both, back-off applies. */
static void test_hf_17_requeue_counted(void **state)
{
    (void)state;
    struct job_rules rules = rules_with(LEASE_END_COUNTED, 4, 0);
    struct job j = running_job(0, 0);
    struct record r = lease_end_of(&j, &rules, false);
    assert_back(&r, STATE_SCHEDULED, REASON_LEASE_EXPIRED, 1000);
    assert_int_equal(r.job_back.crashes, 1);
    assert_int_equal(r.job_back.failures, 0);
    j = running_job(1, 1);
    r = lease_end_of(&j, &rules, false);
    assert_back(&r, STATE_SCHEDULED, REASON_LEASE_EXPIRED, 4000);
    j = running_job(2, 1);
    r = lease_end_of(&j, &rules, false);
    assert_dead(&r, REASON_CRASH_LOOP);
    assert_int_equal(r.job_dead.failures, 2);
    assert_int_equal(r.job_dead.crashes, 2);
    /* max_crashes holds as well */
    rules.max_crashes = 2;
    j = running_job(0, 1);
    r = lease_end_of(&j, &rules, false);
    assert_dead(&r, REASON_CRASH_LOOP);
}

/* TF-5, its counts: MAX_RETRIES 3 = 4 runs, crashes and failures sharing the count, whichever way
 * each run ends. */
static void test_tf_5_four_runs_however_they_end(void **state)
{
    (void)state;
    struct job_rules rules = rules_with(LEASE_END_COUNTED, 3 + 1, 5);
    struct fail_request f = {0};
    for (unsigned ways = 0; ways < 16; ways++) {
        struct job j = running_job(0, 0);
        unsigned runs = 0;
        for (;;) {
            bool crash = ways >> runs & 1;
            runs++;
            assert_int_equal(job_attempts(&j), runs);
            struct record r = crash ? lease_end_of(&j, &rules, false) : fail_of(&j, &rules, &f);
            if (r.kind == REC_JOB_DEAD) {
                assert_dead(&r, crash ? REASON_CRASH_LOOP : REASON_FAILED);
                break;
            }
            assert_int_equal(r.job_back.state, STATE_SCHEDULED);
            assert_int_equal(r.job_back.run_at.ms, NOW.ms + (INT64_C(1000) << (runs - 1)));
            assert_int_equal(apply_back(&j, &r.job_back), 0);
            struct rec_job_claimed claim = {.seq = 42, .token = {runs, 1}, .at = NOW};
            assert_int_equal(apply_claimed(&j, &claim), 0);
        }
        assert_int_equal(runs, 4);
    }
}

/* HF-17 `fail`, NOM-9 its text: dead at once with `Timeout after 300s`. */
static void test_hf_17_fail_nom_9_timeout_text(void **state)
{
    (void)state;
    static const struct {
        uint32_t lease_ms;
        const char *text;
    } cases[] = {
        {300000, "Timeout after 300s"},
        {30000, "Timeout after 30s"},
        {1000, "Timeout after 1s"},
        {100, "Timeout after 0.1s"},
        {1500, "Timeout after 1.5s"},
        {1050, "Timeout after 1.05s"},
        {1005, "Timeout after 1.005s"},
        {2010, "Timeout after 2.01s"},
        {999, "Timeout after 0.999s"},
        {LIMIT_LEASE_MS, "Timeout after 86400s"},
        {UINT32_MAX, "Timeout after 4294967.295s"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct job_rules rules = rules_with(LEASE_END_FAIL, 10, 5);
        rules.lease_ms = cases[i].lease_ms;
        struct job j = running_job(2, 0);
        struct record r = lease_end_of(&j, &rules, false);
        assert_dead(&r, REASON_LEASE_EXPIRED);
        assert_int_equal(r.job_dead.crashes, 1);
        assert_int_equal(r.job_dead.failures, 2);
        assert_true(span_equal(r.job_dead.error, span_text(cases[i].text)));
    }
    struct job_rules rules = rules_with(LEASE_END_FAIL, 10, 5);
    struct job j = running_job(0, 0);
    struct record r = lease_end_of(&j, &rules, true);
    assert_dead(&r, REASON_LEASE_EXPIRED);
    assert_true(span_equal(r.job_dead.error, SPAN_LITERAL("Connection lost")));
}

/* ---- bounds ---- */

static void test_counters_stay_at_their_end(void **state)
{
    (void)state;
    struct job_rules rules = rules_with(LEASE_END_REQUEUE, UINT32_MAX, 0);
    struct fail_request f = {0};
    struct job j = running_job(UINT16_MAX, UINT16_MAX);
    struct record r = fail_of(&j, &rules, &f);
    assert_int_equal(r.job_back.failures, UINT16_MAX);
    r = lease_end_of(&j, &rules, false);
    assert_int_equal(r.job_back.crashes, UINT16_MAX);
    rules = rules_with(LEASE_END_COUNTED, 60000, 0);
    r = lease_end_of(&j, &rules, false);
    assert_dead(&r, REASON_CRASH_LOOP);
    assert_int_equal(r.job_dead.crashes, UINT16_MAX);
    r = fail_of(&j, &rules, &f);
    assert_dead(&r, REASON_FAILED);
    assert_int_equal(r.job_dead.failures, UINT16_MAX);
    rules = rules_with(LEASE_END_FAIL, 60000, 0);
    r = lease_end_of(&j, &rules, false);
    assert_int_equal(r.job_dead.crashes, UINT16_MAX);
}

static void test_waits_stay_within_the_calendar(void **state)
{
    (void)state;
    struct job_rules rules = rules_with(LEASE_END_COUNTED, 100, 0);
    struct fail_request f = {0};
    struct job j = running_job(0, 0);
    struct record r;
    struct wall_time late = {LIMIT_WALL_MS - 10};
    decide_fail(&j, &rules, &f, GENERATION, late, &random_source, &r);
    assert_int_equal(r.job_back.state, STATE_SCHEDULED);
    assert_int_equal(r.job_back.run_at.ms, LIMIT_WALL_MS);
    decide_lease_end(&j, &rules, false, GENERATION, late, &random_source, text_room, &r);
    assert_int_equal(r.job_back.run_at.ms, LIMIT_WALL_MS);
    late.ms = LIMIT_WALL_MS;
    decide_fail(&j, &rules, &f, GENERATION, late, &random_source, &r);
    assert_int_equal(r.job_back.state, STATE_READY); /* no later moment is left */
    assert_int_equal(r.job_back.run_at.ms, j.run_at.ms);
}

/* ---- requeue, expire ---- */

static void test_requeue(void **state)
{
    (void)state;
    struct job j = running_job(3, 4);
    struct record r;
    j.state = STATE_DEAD;
    j.reason = REASON_FAILED;
    decide_requeue(&j, (struct wall_time){0}, GENERATION, NOW, &r);
    assert_int_equal(r.kind, REC_JOB_REQUEUED);
    assert_int_equal(r.job_requeued.state, STATE_READY);
    assert_int_equal(r.job_requeued.run_at.ms, 0);
    assert_int_equal(r.job_requeued.generation, GENERATION);
    decide_requeue(&j, (struct wall_time){NOW.ms + 1}, GENERATION, NOW, &r);
    assert_int_equal(r.job_requeued.state, STATE_SCHEDULED);
    assert_int_equal(r.job_requeued.run_at.ms, NOW.ms + 1);

    assert_int_equal(apply_requeued(&j, &r.job_requeued), 0);
    assert_int_equal(j.state, STATE_SCHEDULED);
    assert_int_equal(j.reason, REASON_NONE);
    assert_int_equal(j.failures, 0);
    assert_int_equal(j.crashes, 0);
    assert_int_equal(j.generation, GENERATION);
    assert_int_equal(j.run_at.ms, NOW.ms + 1);
    assert_int_equal(j.since.ms, NOW.ms);
    decide_requeue(&j, (struct wall_time){INT64_MAX}, GENERATION, NOW, &r);
    assert_int_equal(r.job_requeued.run_at.ms, LIMIT_WALL_MS);
}

static void test_expire(void **state)
{
    (void)state;
    struct job j = running_job(3, 4);
    struct record r;
    j.state = STATE_READY;
    decide_expire(&j, NOW, &r);
    assert_dead(&r, REASON_EXPIRED);
    assert_int_equal(r.job_dead.failures, 3);
    assert_int_equal(r.job_dead.crashes, 4);
    assert_int_equal(r.job_dead.error.len, 0);
    assert_int_equal(apply_dead(&j, &r.job_dead), 0);
    assert_int_equal(j.state, STATE_DEAD);
    assert_int_equal(j.reason, REASON_EXPIRED);
}

/* ---- applying ---- */

static void test_apply_ready(void **state)
{
    (void)state;
    struct job j = running_job(1, 2), before;
    j.state = STATE_SCHEDULED;
    j.reason = REASON_FAILED;
    before = j;
    assert_int_equal(apply_ready(&j, &(struct rec_job_ready){42, NOW}), 0);
    assert_int_equal(j.state, STATE_READY);
    assert_int_equal(j.since.ms, NOW.ms);
    assert_int_equal(j.reason, REASON_FAILED);
    assert_int_equal(j.run_at.ms, before.run_at.ms);
    assert_int_equal(j.generation, before.generation);
}

static void test_apply_claimed(void **state)
{
    (void)state;
    static const enum job_state from[] = {STATE_READY, STATE_SCHEDULED, STATE_DEAD};
    for (size_t i = 0; i < 6; i++) {
        bool bound = i >= 3;
        struct job j = running_job(3, 4);
        j.state = (uint8_t)from[i % 3];
        j.reason = REASON_FAILED;
        j.flags = JOB_HAS_EXTRA;
        struct rec_job_claimed r = {.seq = 42, .token = {1, 1}, .bound = bound, .at = NOW};
        assert_int_equal(apply_claimed(&j, &r), 0);
        assert_int_equal(j.state, STATE_RUNNING);
        assert_int_equal(j.since.ms, NOW.ms);
        assert_int_equal(j.reason, REASON_NONE);
        assert_int_equal(j.failures, 3);
        assert_int_equal(j.crashes, 4);
        assert_int_equal(j.flags, JOB_HAS_EXTRA | (bound ? JOB_BOUND : 0));
    }
}

static void test_apply_back(void **state)
{
    (void)state;
    struct job j = running_job(0, 0);
    struct rec_job_back r = {.seq = 42,
                             .state = STATE_SCHEDULED,
                             .reason = REASON_LEASE_EXPIRED,
                             .failures = 8,
                             .crashes = 9,
                             .generation = 10,
                             .run_at = {NOW.ms + 5},
                             .at = NOW};
    assert_int_equal(apply_back(&j, &r), 0);
    assert_int_equal(j.state, STATE_SCHEDULED);
    assert_int_equal(j.reason, REASON_LEASE_EXPIRED);
    assert_int_equal(j.failures, 8);
    assert_int_equal(j.crashes, 9);
    assert_int_equal(j.generation, 10);
    assert_int_equal(j.run_at.ms, NOW.ms + 5);
    assert_int_equal(j.since.ms, NOW.ms);
    assert_int_equal(j.flags, JOB_HAS_EXTRA);
    /* dead is a legal end of fail, but not of this record */
    j = running_job(0, 0);
    r.state = STATE_DEAD;
    assert_int_equal(apply_back(&j, &r), -ERR_CORRUPT);
    assert_int_equal(j.state, STATE_RUNNING);
}

static void test_apply_ends(void **state)
{
    (void)state;
    struct job j = running_job(3, 4);
    assert_int_equal(apply_done(&j, &(struct rec_job_done){.seq = 42, .at = NOW}), 0);
    assert_int_equal(j.state, STATE_DONE);
    assert_int_equal(j.reason, REASON_NONE);
    assert_int_equal(j.since.ms, NOW.ms);
    assert_int_equal(j.flags, JOB_HAS_EXTRA);
    assert_int_equal(job_attempts(&j), 8);

    j = running_job(3, 4);
    struct rec_job_dead dead = {42, REASON_CRASH_LOOP, 3, 5, NOW, ERROR_APP, {NULL, 0}};
    assert_int_equal(apply_dead(&j, &dead), 0);
    assert_int_equal(j.state, STATE_DEAD);
    assert_int_equal(j.reason, REASON_CRASH_LOOP);
    assert_int_equal(j.crashes, 5);
    assert_int_equal(j.since.ms, NOW.ms);
    assert_int_equal(j.flags, JOB_HAS_EXTRA);
    assert_int_equal(job_attempts(&j), 8);

    j = running_job(3, 4);
    struct rec_job_cancelled cancelled = {42, REASON_REPLACED, NOW};
    assert_int_equal(apply_cancelled(&j, &cancelled), 0);
    assert_int_equal(j.state, STATE_CANCELLED);
    assert_int_equal(j.reason, REASON_REPLACED);
    assert_int_equal(j.since.ms, NOW.ms);
    assert_int_equal(j.flags, JOB_HAS_EXTRA);
}

static int apply_nth(unsigned nth, struct job *j)
{
    switch (nth) {
    case 0:
        return apply_ready(j, &(struct rec_job_ready){42, NOW});
    case 1:
        return apply_claimed(j, &(struct rec_job_claimed){.seq = 42, .at = NOW});
    case 2:
        return apply_extended(j, &(struct rec_job_extended){42, 1000});
    case 3:
        return apply_back(
            j, &(struct rec_job_back){.seq = 42, .state = STATE_READY, .reason = REASON_FAILED});
    case 4:
        return apply_done(j, &(struct rec_job_done){.seq = 42});
    case 5:
        return apply_dead(j, &(struct rec_job_dead){.seq = 42, .reason = REASON_FAILED});
    case 6:
        return apply_dead(j, &(struct rec_job_dead){.seq = 42, .reason = REASON_EXPIRED});
    case 7:
        return apply_cancelled(j, &(struct rec_job_cancelled){.seq = 42});
    case 8:
        return apply_requeued(j, &(struct rec_job_requeued){.seq = 42, .state = STATE_READY});
    case 9:
        return apply_patched(j, &(struct rec_job_patched){.seq = 42, .state = STATE_READY});
    case 10:
        return apply_patched(j, &(struct rec_job_patched){.seq = 42, .state = STATE_BLOCKED});
    case 11:
        return apply_unblocked(j, &(struct rec_job_unblocked){.seq = 42, .state = STATE_READY});
    case 12:
        return apply_dead(j, &(struct rec_job_dead){.seq = 42, .reason = REASON_DEPENDENCY_FAILED});
    default:
        return apply_cancelled(
            j, &(struct rec_job_cancelled){.seq = 42, .reason = REASON_DEPENDENCY_FAILED});
    }
}

/* A blocked job becomes ready, or scheduled if its time has not come. */
static void test_unblocking(void **state)
{
    (void)state;
    struct record r;
    struct job j = {.seq = 42, .state = STATE_BLOCKED};
    decide_unblock(&j, NOW, &r);
    assert_int_equal(r.kind, REC_JOB_UNBLOCKED);
    assert_int_equal(r.job_unblocked.state, STATE_READY);
    j.run_at.ms = NOW.ms + 1;
    decide_unblock(&j, NOW, &r);
    assert_int_equal(r.job_unblocked.state, STATE_SCHEDULED);
    assert_int_equal(apply_unblocked(&j, &r.job_unblocked), 0);
    assert_int_equal(j.state, STATE_SCHEDULED);
    assert_int_equal(j.since.ms, NOW.ms);
    j.state = STATE_BLOCKED;
    decide_dependency_failed(&j, false, NOW, &r);
    assert_int_equal(r.kind, REC_JOB_CANCELLED);
    assert_int_equal(r.job_cancelled.reason, REASON_DEPENDENCY_FAILED);
    decide_dependency_failed(&j, true, NOW, &r);
    assert_int_equal(r.kind, REC_JOB_DEAD);
    assert_int_equal(r.job_dead.reason, REASON_DEPENDENCY_FAILED);
}

/* Every record on every state: applied where the listing says, else refused and nothing changed. */
static void test_apply_refuses_what_the_table_does_not_allow(void **state)
{
    (void)state;
    static const char *const starts[] = {
        /* letters of the states: n s r R(unning) D(one) d(ead) c b(locked) */
        "s", "srd", "R", "R", "R", "R", "srb", "srRb", "sdc", "sr", "b", "b", "b", "b",
    };
    static const char letters[] = "nsrRDdcb";
    for (unsigned nth = 0; nth < sizeof starts / sizeof starts[0]; nth++) {
        for (unsigned from = 0; from < STATE_COUNT + 3u; from++) {
            struct job j = running_job(1, 2);
            j.state = (uint8_t)from;
            struct job before = j;
            bool legal = from < STATE_COUNT && strchr(starts[nth], letters[from]);
            assert_int_equal(apply_nth(nth, &j), legal ? 0 : -ERR_CORRUPT);
            if (!legal)
                assert_memory_equal(&j, &before, sizeof j);
        }
    }
}

static void test_apply_refuses_ends_out_of_range(void **state)
{
    (void)state;
    for (unsigned to = 0; to < 256; to++) {
        bool waiting = to == STATE_READY || to == STATE_SCHEDULED;
        int expected = waiting ? 0 : -ERR_CORRUPT;
        struct job j = running_job(0, 0);
        struct rec_job_back back = {.seq = 42, .state = (uint8_t)to, .reason = REASON_FAILED};
        assert_int_equal(apply_back(&j, &back), expected);
        j.state = STATE_DEAD;
        struct rec_job_requeued requeued = {.seq = 42, .state = (uint8_t)to};
        assert_int_equal(apply_requeued(&j, &requeued), expected);
        j.state = STATE_READY;
        struct rec_job_patched patched = {.seq = 42, .state = (uint8_t)to};
        assert_int_equal(apply_patched(&j, &patched), expected);
    }
}

/* Behind an imported job's JOB_NEW: the record must say what the job is, or it is no repeat. */
static void test_apply_repeats(void **state)
{
    (void)state;
    struct job j = running_job(1, 2);
    j.state = STATE_READY;
    j.reason = REASON_FAILED;
    const struct rec_job_back back = {.seq = j.seq,
                                      .state = STATE_READY,
                                      .reason = REASON_FAILED,
                                      .failures = 1,
                                      .crashes = 2,
                                      .generation = j.generation,
                                      .run_at = j.run_at,
                                      .at = j.since};
    struct job before = j;
    assert_int_equal(apply_back(&j, &back), 0);
    assert_memory_equal(&j, &before, sizeof j);
    struct rec_job_back other[] = {back, back, back, back, back, back};
    other[0].state = STATE_SCHEDULED;
    other[1].failures++;
    other[2].crashes++;
    other[3].generation++;
    other[4].run_at.ms++;
    other[5].at.ms++;
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        assert_int_equal(apply_back(&j, &other[i]), -ERR_CORRUPT);

    struct job running = running_job(1, 2);
    struct rec_job_back none = {.seq = 42, .state = STATE_READY, .reason = REASON_NONE};
    assert_int_equal(apply_back(&running, &none), -ERR_CORRUPT);

    j.state = STATE_DEAD;
    struct rec_job_dead dead = {
        .seq = j.seq, .reason = REASON_FAILED, .failures = 1, .crashes = 2, .at = j.since};
    assert_int_equal(apply_dead(&j, &dead), 0);
    dead.failures++;
    assert_int_equal(apply_dead(&j, &dead), -ERR_CORRUPT);
}

static int seed_random(void **state)
{
    (void)state;
    random_seed(&random_source, 20260131);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_are_the_queues_unless_the_job_says),
        cmocka_unit_test(test_fail_waits_by_the_back_off),
        cmocka_unit_test(test_fail_shares_the_count_when_crashes_are_counted),
        cmocka_unit_test(test_fail_without_wait_is_ready_at_once),
        cmocka_unit_test(test_fail_without_retry_is_rejected),
        cmocka_unit_test(test_pdq_14_fail_with_run_at),
        cmocka_unit_test(test_pdq_14_release_with_run_at),
        cmocka_unit_test(test_pdq_14_patch),
        cmocka_unit_test(test_kv_12_deliveries_by_length_of_the_list),
        cmocka_unit_test(test_error_texts_are_cut_at_a_character),
        cmocka_unit_test(test_hf_17_requeue_kv_6_crash_loop),
        cmocka_unit_test(test_lost_connections_back_off_from_the_second_on),
        cmocka_unit_test(test_hf_17_requeue_counted),
        cmocka_unit_test(test_tf_5_four_runs_however_they_end),
        cmocka_unit_test(test_hf_17_fail_nom_9_timeout_text),
        cmocka_unit_test(test_counters_stay_at_their_end),
        cmocka_unit_test(test_waits_stay_within_the_calendar),
        cmocka_unit_test(test_requeue),
        cmocka_unit_test(test_expire),
        cmocka_unit_test(test_apply_ready),
        cmocka_unit_test(test_apply_claimed),
        cmocka_unit_test(test_apply_back),
        cmocka_unit_test(test_apply_ends),
        cmocka_unit_test(test_apply_repeats),
        cmocka_unit_test(test_unblocking),
        cmocka_unit_test(test_apply_refuses_what_the_table_does_not_allow),
        cmocka_unit_test(test_apply_refuses_ends_out_of_range),
    };
    return cmocka_run_group_tests(tests, seed_random, NULL);
}
