/* SPDX-License-Identifier: Apache-2.0 */
/* HF-27: what each record of a job adds to the counters of its queue. */
#include "core/queues/counters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "core/records/record.h"

#define SINCE INT64_C(1700000000000)

static struct counters counted(struct record r, uint8_t state, bool expected)
{
    struct counters got = {0}, also = {0};
    struct job before = {
        .id_hi = id_hi((struct wall_time){SINCE - 500}, 1), .since = {SINCE}, .state = state};
    assert_int_equal(counters_add_record(got.of, also.of, &r, &before), expected);
    assert_memory_equal(&also, &got, sizeof got);
    return got;
}

static void expect(struct counters got, struct counters want)
{
    assert_memory_equal(&got, &want, sizeof want);
}

#define COUNTERS(...) ((struct counters){.of = {__VA_ARGS__}})

static void test_enqueue_claim_ack(void **state)
{
    (void)state;
    struct record new = {.kind = REC_JOB_NEW};
    struct record claimed = {.kind = REC_JOB_CLAIMED, .job_claimed = {.at = {SINCE + 20}}};
    struct record done = {.kind = REC_JOB_DONE, .job_done = {.at = {SINCE + 30}}};
    expect(counted(new, STATE_NONE, true), COUNTERS([COUNTER_ENQUEUED] = 1));
    expect(counted(claimed, STATE_READY, true),
           COUNTERS([COUNTER_CLAIMED] = 1, [COUNTER_WAITED_MS] = 20));
    expect(counted(claimed, STATE_DEAD, true), COUNTERS([COUNTER_CLAIMED] = 1));
    expect(counted(done, STATE_RUNNING, true),
           COUNTERS([COUNTER_ACKED] = 1, [COUNTER_DONE_MS] = 30));
}

static struct record back(uint8_t reason, uint8_t error_kind)
{
    return (struct record){
        .kind = REC_JOB_BACK,
        .job_back = {.reason = reason, .error_kind = error_kind, .at = {SINCE + 7}}};
}

static void test_attempts_that_are_repeated(void **state)
{
    (void)state;
    expect(counted(back(REASON_FAILED, ERROR_APP), STATE_RUNNING, true),
           COUNTERS([COUNTER_FAILED_APP] = 1, [COUNTER_FAILED_MS] = 7));
    expect(counted(back(REASON_TIMED_OUT, ERROR_BUSINESS), STATE_RUNNING, true),
           COUNTERS([COUNTER_FAILED_BUSINESS] = 1, [COUNTER_FAILED_MS] = 7));
    expect(counted(back(REASON_LEASE_EXPIRED, ERROR_APP), STATE_RUNNING, true),
           COUNTERS([COUNTER_CRASHED] = 1, [COUNTER_FAILED_MS] = 7));
    expect(counted(back(REASON_RELEASED, ERROR_APP), STATE_RUNNING, true),
           COUNTERS([COUNTER_RELEASED] = 1));
    expect(counted(back(REASON_RESTARTED, ERROR_APP), STATE_RUNNING, false), (struct counters){0});
}

static void test_ends(void **state)
{
    (void)state;
    struct record dead = {.kind = REC_JOB_DEAD,
                          .job_dead = {.reason = REASON_CRASH_LOOP, .at = {SINCE + 9}}};
    struct record cancelled = {.kind = REC_JOB_CANCELLED};
    expect(counted(dead, STATE_RUNNING, true),
           COUNTERS([COUNTER_CRASHED] = 1, [COUNTER_FAILED_MS] = 9, [COUNTER_DIED] = 1,
                    [COUNTER_DIED_MS] = 9));
    dead.job_dead.reason = REASON_EXPIRED;
    expect(counted(dead, STATE_READY, true), COUNTERS([COUNTER_DIED] = 1, [COUNTER_DIED_MS] = 509));
    expect(counted(cancelled, STATE_READY, true), COUNTERS([COUNTER_CANCELLED] = 1));
}

static void test_what_is_not_counted(void **state)
{
    (void)state;
    struct record early = {.kind = REC_JOB_DONE, .job_done = {.at = {SINCE - 1000}}};
    struct record ready = {.kind = REC_JOB_READY};
    expect(counted(early, STATE_RUNNING, true), COUNTERS([COUNTER_ACKED] = 1));
    expect(counted(ready, STATE_SCHEDULED, false), (struct counters){0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_enqueue_claim_ack),
        cmocka_unit_test(test_attempts_that_are_repeated),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_what_is_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
