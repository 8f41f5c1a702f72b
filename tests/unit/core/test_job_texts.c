/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a job's texts: its rows, and the limit of each. */
#include "core/job_texts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char bytes[LIMIT_ATTRIBUTES_BYTES + 1];

static void test_each_row_is_its_member(void **state)
{
    (void)state;
    struct job_extra x = {.unique = SPAN_LITERAL("a"),
                          .group = SPAN_LITERAL("bb"),
                          .correlation = SPAN_LITERAL("ccc"),
                          .label = SPAN_LITERAL("dddd"),
                          .attributes = SPAN_LITERAL("eeeee")};
    assert_int_equal(JOB_TEXTS, 5);
    for (size_t i = 0; i < JOB_TEXTS; i++) {
        assert_int_equal(job_text_of(&x, i).len, i + 1);
        assert_ptr_equal(job_text_at(&x, i)->at, job_text_of(&x, i).at);
    }
    assert_int_equal(job_texts_bytes(&x), 15);
    assert_int_equal(job_texts_check(&x, NULL), 0);
}

static void test_each_has_its_limit(void **state)
{
    (void)state;
    memset(bytes, 'x', sizeof bytes);
    for (size_t i = 0; i < JOB_TEXTS; i++) {
        struct job_extra x = {0};
        struct err_note note = {""};
        assert_int_equal(job_texts_check(&x, &note), 0);
        *job_text_at(&x, i) = span_of(bytes, job_texts[i].max);
        assert_int_equal(job_texts_check(&x, &note), 0);
        *job_text_at(&x, i) = span_of(bytes, job_texts[i].max + 1);
        assert_true(job_texts_check(&x, &note) < 0);
        if (!strstr(note.text, job_texts[i].name))
            fail_msg("the note does not name %s: %s", job_texts[i].name, note.text);
        *job_text_at(&x, i) = SPAN_LITERAL("a\0b");
        assert_true(job_texts_check(&x, &note) < 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_row_is_its_member),
        cmocka_unit_test(test_each_has_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
