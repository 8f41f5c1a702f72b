/* SPDX-License-Identifier: Apache-2.0 */
/* HF-5: how many jobs come before a ready job: exact up to a number, then an estimate, whatever
 * stale entries the heap has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/digest/random.h"
#include "unit/backend/local/engine/engine_rig.h"

static const struct span q = {"q", 1};

static uint64_t put(struct engine_rig *r, int64_t priority)
{
    struct op op = engine_rig_enqueue(q);
    op.enqueue.has_priority = true;
    op.enqueue.priority = priority;
    const struct reply *reply = engine_rig_step(r, &op);
    assert_int_equal(reply->outcome, OUT_OK);
    return reply->seq;
}

static struct job_wait wait_of(struct engine_rig *r, uint64_t seq)
{
    struct op op = {.kind = OP_GET, .job = {.job = {.seq = seq}, .want_wait = true}};
    const struct reply *reply = engine_rig_step(r, &op);
    assert_int_equal(reply->outcome, OUT_OK);
    assert_non_null(reply->jobs[0].wait);
    return *reply->jobs[0].wait;
}

static void give_back(struct engine_rig *r, uint64_t seq)
{
    struct op op = engine_rig_claim(NULL, 1);
    op.claim.queue_count = 0;
    op.claim.one.seq = seq;
    const struct reply *reply = engine_rig_step(r, &op);
    assert_int_equal(reply->outcome, OUT_OK);
    op = (struct op){.kind = OP_RELEASE,
                     .lease = {.job = {.seq = seq}, .token = reply->jobs[0].token}};
    assert_int_equal(engine_rig_step(r, &op)->outcome, OUT_OK);
}

/* A job that was claimed by its id and released has two entries. */
static void a_job_is_counted_once(void **state)
{
    (void)state;
    struct engine_rig r;
    engine_rig_open(&r, NULL);
    uint64_t first = put(&r, 0), second = put(&r, 0), last = put(&r, 0);
    for (int i = 0; i < 3; i++) {
        give_back(&r, first);
        give_back(&r, second);
    }
    struct job_wait w = wait_of(&r, last);
    assert_int_equal(w.before, 2);
    assert_int_equal(w.before_kind, COUNT_EXACT);
    engine_rig_close(&r);
}

#define MANY 30000
static int64_t priorities[MANY];

/* By the definition: all jobs are compared. */
static uint64_t counted(uint64_t first_seq, size_t of)
{
    uint64_t n = 0;
    for (size_t i = 0; i < MANY; i++)
        n += priorities[i] > priorities[of] || (priorities[i] == priorities[of] && i < of);
    (void)first_seq;
    return n;
}

static void of_many_jobs(void **state)
{
    (void)state;
    struct engine_rig r;
    struct random random;
    random_seed(&random, 20260101);
    engine_rig_open(&r, NULL);
    uint64_t first = 0;
    for (size_t i = 0; i < MANY; i++) {
        priorities[i] = (int64_t)random_below(&random, 1000);
        uint64_t seq = put(&r, priorities[i]);
        first = first ? first : seq;
    }
    for (int round = 0; round < 200; round++) {
        size_t i = (size_t)random_below(&random, MANY);
        uint64_t should = counted(first, i);
        struct job_wait w = wait_of(&r, first + i);
        assert_int_equal(w.ready, MANY);
        assert_true(w.before < MANY);
        if (should <= BEFORE_COUNTED / 2)
            assert_int_equal(w.before_kind, COUNT_EXACT);
        if (w.before_kind == COUNT_EXACT)
            assert_int_equal(w.before, should);
        else
            assert_true(llabs((long long)w.before - (long long)should) < MANY / 20);
    }
    engine_rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_counted_once),
        cmocka_unit_test(of_many_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
