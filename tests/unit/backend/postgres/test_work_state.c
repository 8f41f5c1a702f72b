/* SPDX-License-Identifier: Apache-2.0 */
/* The states of the work on the write connection, and what may follow each. */
#include "backend/postgres/work_state.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void test_a_unit_commits(void **state)
{
    (void)state;
    struct work_progress p = {0};
    assert_true(work_idle(&p));
    work_begin(&p, WORK_UNIT);
    assert_false(work_outcome_unknown(&p));
    work_move(&p, WORK_STATE_COMMITTING);
    assert_true(work_outcome_unknown(&p));
    work_end(&p);
    assert_true(work_idle(&p));
    assert_int_equal(p.work, WORK_NONE);
}

static void test_the_next_unit_takes_over(void **state)
{
    (void)state;
    struct work_progress p = {0};
    work_begin(&p, WORK_UNIT);
    p.tries = 3;
    work_pass_on(&p); /* it only read */
    assert_int_equal(p.tries, 0);
    work_move(&p, WORK_STATE_COMMITTING);
    work_pass_on(&p);
    assert_int_equal(p.state, WORK_STATE_READING);
    assert_false(work_outcome_unknown(&p));
}

static void test_another_try_counts(void **state)
{
    (void)state;
    struct work_progress p = {0};
    work_begin(&p, WORK_UNIT);
    work_move(&p, WORK_STATE_COMMITTING);
    work_move(&p, WORK_STATE_RETRYING);
    assert_false(work_outcome_unknown(&p));
    p.tries++;
    work_begin(&p, WORK_UNIT);
    assert_int_equal(p.tries, 1);
    work_end(&p);
    assert_int_equal(p.tries, 0);
}

static void test_what_could_not_be_sent(void **state)
{
    (void)state;
    struct work_progress p = {0};
    work_begin(&p, WORK_VIEW);
    work_move(&p, WORK_STATE_READ_UNSENT);
    assert_true(work_unsent(&p));
    assert_false(work_outcome_unknown(&p));
    work_end(&p);
    work_begin(&p, WORK_UNIT);
    work_move(&p, WORK_STATE_COMMITTING);
    work_move(&p, WORK_STATE_COMMIT_UNSENT);
    assert_true(work_unsent(&p));
    assert_true(work_outcome_unknown(&p));
}

static bool ends_the_program(enum work_state from, enum work_state to)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        struct work_progress p = {.state = from};
        signal(SIGABRT, SIG_DFL);
        (void)!freopen("/dev/null", "w", stderr);
        work_move(&p, to);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void test_other_transitions_are_errors(void **state)
{
    (void)state;
    assert_false(ends_the_program(WORK_STATE_IDLE, WORK_STATE_READING));
    assert_true(ends_the_program(WORK_STATE_IDLE, WORK_STATE_COMMITTING));
    assert_true(ends_the_program(WORK_STATE_IDLE, WORK_STATE_IDLE));
    assert_true(ends_the_program(WORK_STATE_REFUSING, WORK_STATE_READING));
    assert_true(ends_the_program(WORK_STATE_READ_UNSENT, WORK_STATE_COMMITTING));
    assert_true(ends_the_program(WORK_STATE_LEAVING, WORK_STATE_READING));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_unit_commits),
        cmocka_unit_test(test_the_next_unit_takes_over),
        cmocka_unit_test(test_another_try_counts),
        cmocka_unit_test(test_what_could_not_be_sent),
        cmocka_unit_test(test_other_transitions_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
