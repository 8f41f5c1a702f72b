/* SPDX-License-Identifier: Apache-2.0 */
/* PDQ-10: message, class and stack of an error as one text. */
#include "core/jobs/job_error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define S JOB_ERROR_SEPARATOR

static struct arena arena;

static void test_there_and_back(void **state)
{
    (void)state;
    static const struct {
        const char *text, *type, *stack, *packed;
    } rows[] = {
        {"", "", "", ""},
        {"no", "", "", "no"},
        {"no", "E", "", "no" S "E"},
        {"", "E", "", S "E"},
        {"no", "", "at x", "no" S S "at x"},
        {"no", "E", "at x" S "y", "no" S "E" S "at x" S "y"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct job_error e = {span_text(rows[i].text), span_text(rows[i].type),
                              span_text(rows[i].stack)};
        struct span packed;
        assert_int_equal(job_error_pack(&e, &arena, &packed), 0);
        assert_true(span_equal(packed, span_text(rows[i].packed)));
        struct job_error back = job_error_split(packed);
        assert_true(span_equal(back.text, e.text) && span_equal(back.type, e.type) &&
                    span_equal(back.stack, e.stack));
        assert_true(span_equal(job_error_cut(packed), packed));
        assert_int_equal(job_error_check(packed, NULL), 0);
    }
}

/* PDQ-10: a message alone is stored as it is: nothing is added, nothing is copied. */
static void test_a_message_costs_no_more(void **state)
{
    (void)state;
    struct job_error e = {.text = SPAN_LITERAL("no route")};
    struct span packed;
    assert_int_equal(job_error_pack(&e, &arena, &packed), 0);
    assert_ptr_equal(packed.at, e.text.at);
    assert_int_equal(packed.len, e.text.len);
}

static void test_parts_are_cut(void **state)
{
    (void)state;
    static char big[LIMIT_STACK_BYTES + 10];
    memset(big, 'x', sizeof big);
    struct job_error e = {span_of(big, sizeof big), span_of(big, sizeof big),
                          span_of(big, sizeof big)};
    struct span packed;
    assert_int_equal(job_error_pack(&e, &arena, &packed), 0);
    assert_int_equal(packed.len, JOB_ERROR_PACKED_MAX);
    assert_int_equal(job_error_check(packed, NULL), 0);
    assert_int_equal(job_error_cut(span_of(big, sizeof big)).len, LIMIT_ERROR_BYTES);
    assert_true(job_error_check(span_of(big, sizeof big), NULL) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_a_message_costs_no_more),
        cmocka_unit_test(test_parts_are_cut),
    };
    arena_init(&arena);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_done(&arena);
    return failed;
}
