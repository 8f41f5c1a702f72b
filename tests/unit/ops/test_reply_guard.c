/* SPDX-License-Identifier: Apache-2.0 */
/* The guard detects when a field of another family of operations is set or read. */
#include "unit/base/support.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ops/op.h"

static const uint64_t pattern = UINT64_C(0xa5a5a5a5a5a5a5a5);

static void test_own_fields_stay(void **state)
{
    (void)state;
    struct job_view job = {.lease_ms = 5};
    struct reply r = {.kind = OP_LIST, .outcome = OUT_OK, .seq = 3, .jobs = &job, .job_count = 1};
    r.cursor = 4;
    r.as_of = 5;
    reply_guard(&r);
    assert_int_equal(r.kind, OP_LIST);
    assert_int_equal(r.seq, 3);
    assert_ptr_equal(r.jobs, &job);
    assert_int_equal(r.job_count, 1);
    assert_int_equal(r.cursor, 4);
    assert_int_equal(r.as_of, 5);
}

static void test_fields_of_others_are_filled(void **state)
{
    (void)state;
    struct reply r = {.kind = OP_KV_LIST, .kv_as_of = 7};
    reply_guard(&r);
    assert_int_equal(r.kv_as_of, 7);
    assert_int_equal(r.as_of, pattern);
    assert_int_equal(r.queue.len, pattern);
    assert_int_equal(r.job_count, (uint32_t)pattern);
    assert_int_equal(r.change_mark, pattern);
    assert_memory_equal(&r.alerts, &pattern, sizeof r.alerts);
}

/* A wrapper delivers the fields that the inner backend has filled. */
static void test_twice(void **state)
{
    (void)state;
    struct reply r = {.kind = OP_ENQUEUE, .replaced_seq = 9};
    reply_guard(&r);
    reply_guard(&r);
    assert_int_equal(r.replaced_seq, 9);
    assert_int_equal(r.changed, pattern);
}

/* Which kinds have which family: a reply without fields has all of them filled. */
static void test_every_kind(void **state)
{
    (void)state;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        struct reply r = {.kind = (enum op_kind)kind};
        enum reply_family family = reply_family(&r);
        assert_true(family < REPLY_FAMILY_COUNT);
        reply_guard(&r);
        assert_int_equal(r.job_count == 0, family == REPLY_JOBS);
        assert_int_equal(r.ran_ms == 0, family == REPLY_CHANGE);
        assert_int_equal(r.schedule_count == 0, family == REPLY_SCHEDULES);
        assert_int_equal(r.notice_cursor == 0, family == REPLY_NOTICES);
    }
}

static void test_set_by_mistake(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        struct reply r = {.kind = OP_KV_LIST};
        r.as_of = 7;
        reply_guard(&r);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_fields_stay), cmocka_unit_test(test_fields_of_others_are_filled),
        cmocka_unit_test(test_twice),           cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_set_by_mistake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
