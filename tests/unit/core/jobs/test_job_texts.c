/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a job's texts: its rows, and the limit of each. */
#include "core/jobs/job_texts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/records/record.h"
#include "core/records/wire.h"

static char bytes[LIMIT_ATTRIBUTES_BYTES + 1];

static void test_each_row_is_its_member(void **state)
{
    (void)state;
    struct job_extra x = {.unique = SPAN_LITERAL("a"),
                          .group = SPAN_LITERAL("bb"),
                          .correlation = SPAN_LITERAL("ccc"),
                          .label = SPAN_LITERAL("dddd"),
                          .attributes = SPAN_LITERAL("eeeee"),
                          .kind = SPAN_LITERAL("ffffff"),
                          .headers = SPAN_LITERAL("{\"\": 1}")};
    assert_int_equal(JOB_TEXTS, 7);
    for (size_t i = 0; i < JOB_TEXTS; i++) {
        assert_int_equal(job_text_of(&x, i).len, i + 1);
        assert_ptr_equal(job_text_at(&x, i)->at, job_text_of(&x, i).at);
    }
    assert_int_equal(job_texts_bytes(&x), 28);
}

static void test_each_has_its_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < JOB_TEXTS; i++) {
        struct job_extra x = {0};
        struct err_note note = {""};
        assert_int_equal(job_texts_check(&x, &note), 0);
        memset(bytes, 'x', sizeof bytes);
        if (job_texts[i].kind == JOB_TEXT_HEADERS) {
            memcpy(bytes, "{\"a\":\"", 6);
            memcpy(bytes + job_texts[i].max - 2, "\"}", 2);
        }
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

/* ---- HF-20: what is not there costs nothing ---- */

static size_t stored_bytes(const struct job_extra *x)
{
    uint8_t out[4096];
    assert_true(job_extra_bytes_max(x) <= sizeof out);
    return (size_t)(job_extra_put(out, x) - out);
}

static void test_what_is_not_there_costs_nothing(void **state)
{
    (void)state;
    struct record r = {
        .kind = REC_JOB_NEW,
        .job_new = {.job = {.seq = 1, .id_hi = 1, .queue = 1, .state = STATE_READY}}};
    struct buf out;
    buf_init(&out);
    assert_int_equal(record_encode(&r, &out), 0);
    /* kind and length of the record; sequence, id, priority, two times, queue, three counters,
     * state, reason, kind of the payload, "no extra", length of the payload */
    assert_int_equal(out.len, 2 + 1 + 8 + 1 + 2 + 1 + 3 + 1 + 1 + 1 + 1 + 1);
    buf_done(&out);
    /* One byte says what a job has; a second one is needed by kind and headers alone. */
    struct job_extra x = {.unique = SPAN_LITERAL("u")};
    assert_int_equal(stored_bytes(&x), 1 + 2);
    x = (struct job_extra){.unique = SPAN_LITERAL("u"),
                           .group = SPAN_LITERAL("g"),
                           .correlation = SPAN_LITERAL("c"),
                           .label = SPAN_LITERAL("l"),
                           .attributes = SPAN_LITERAL("0"),
                           .expires_at = {1}};
    assert_int_equal(stored_bytes(&x), 1 + 5 * 2 + 1);
    x = (struct job_extra){.kind = SPAN_LITERAL("k")};
    assert_int_equal(stored_bytes(&x), 2 + 2);
}

static void test_stored_form_comes_back(void **state)
{
    (void)state;
    uint8_t out[256];
    struct job_extra x = {.kind = SPAN_LITERAL("k"), .headers = SPAN_LITERAL("{\"a\":\"b\"}")},
                     back;
    struct wire_in in = {.rest = span_of(out, (size_t)(job_extra_put(out, &x) - out))};
    job_extra_take(&in, &back);
    assert_true(wire_ended(&in));
    assert_true(span_equal(back.kind, x.kind) && span_equal(back.headers, x.headers));
    out[2] = 0; /* a text that is said to be there and is empty */
    in = (struct wire_in){.rest = span_of(out, 3)};
    job_extra_take(&in, &back);
    assert_true(in.bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_row_is_its_member),
        cmocka_unit_test(test_each_has_its_limit),
        cmocka_unit_test(test_what_is_not_there_costs_nothing),
        cmocka_unit_test(test_stored_form_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
