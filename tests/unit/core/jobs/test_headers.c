/* SPDX-License-Identifier: Apache-2.0 */
/* HF-20: headers of a job, and the trace context among them. */
#include "core/jobs/headers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/limits.h"

#define PARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static struct arena arena;

static void assert_span(struct span s, const char *text)
{
    if (!span_equal(s, span_text(text)))
        fail_msg("is %.*s, not %s", (int)s.len, s.at, text);
}

static void test_read(void **state)
{
    (void)state;
    struct span out;
    struct err_note note = {""};
    assert_int_equal(
        headers_read(SPAN_LITERAL(" { \"X-A\" : \"\\u00e9\" , \"b\":\"\" } "), &arena, &out, &note),
        0);
    assert_span(out, "{\"X-A\":\"é\",\"b\":\"\"}");
    assert_int_equal(headers_read(SPAN_LITERAL("{}"), &arena, &out, &note), 0);
    assert_int_equal(out.len, 0);
    assert_int_equal(headers_read(SPAN_LITERAL("{\"a\":\"1\",\"A\":\"2\"}"), &arena, &out, &note),
                     0);
}

static void test_refusals(void **state)
{
    (void)state;
    static const char *const bad[] = {"[]",
                                      "null",
                                      "{\"a\":1}",
                                      "{\"a\":\"\",\"a\":\"\"}",
                                      "{\"a b\":\"\"}",
                                      "{\"\":\"\"}",
                                      "{\"a\":\"\\n\"}",
                                      "{\"a\":\"\\u0085\"}",
                                      "{\"a\":{}}",
                                      "{\"a:\":\"\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err_note note = {""};
        struct span out;
        assert_int_equal(headers_check(span_text(bad[i]), &note), -ERR_INVALID);
        assert_memory_equal(note.text, "headers", 7);
        assert_int_equal(headers_read(span_text(bad[i]), &arena, &out, &note), -ERR_INVALID);
    }
}

static void test_trace_is_added(void **state)
{
    (void)state;
    struct span h = {NULL, 0};
    assert_int_equal(headers_add_trace(&h, SPAN_LITERAL(PARENT), SPAN_LITERAL("a=\"b"), &arena), 0);
    assert_span(h, "{\"traceparent\":\"" PARENT "\",\"tracestate\":\"a=\\\"b\"}");
    assert_span(headers_trace_id(h), "0af7651916cd43dd8448eb211c80319c");
    h = SPAN_LITERAL("{\"x\":\"1\",\"tracestate\":\"mine\"}");
    assert_int_equal(headers_add_trace(&h, SPAN_LITERAL(PARENT), SPAN_LITERAL("a=b"), &arena), 0);
    assert_span(h, "{\"x\":\"1\",\"tracestate\":\"mine\",\"traceparent\":\"" PARENT "\"}");
    h = SPAN_LITERAL("{\"traceparent\":\"mine\"}");
    assert_int_equal(headers_add_trace(&h, SPAN_LITERAL(PARENT), SPAN_LITERAL("a=b"), &arena), 0);
    assert_span(h, "{\"traceparent\":\"mine\"}");
    assert_int_equal(headers_trace_id(h).len, 0);
}

static void test_what_is_no_trace(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
                                      PARENT "x",
                                      PARENT "-x",
                                      "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                                      "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                                      "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                      "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct span h = {NULL, 0};
        assert_int_equal(headers_add_trace(&h, span_text(bad[i]), SPAN_LITERAL("a=b"), &arena), 0);
        assert_int_equal(h.len, 0);
    }
    struct span later = {NULL, 0}; /* a later version may have more */
    assert_int_equal(
        headers_add_trace(&later,
                          SPAN_LITERAL("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x"),
                          SPAN_LITERAL(""), &arena),
        0);
    assert_true(later.len > 0);
}

static void test_trace_that_does_not_fit(void **state)
{
    (void)state;
    static char full[LIMIT_HEADERS_BYTES];
    memset(full, 'v', sizeof full);
    memcpy(full, "{\"a\":\"", 6);
    memcpy(full + sizeof full - 2, "\"}", 2);
    struct span h = span_of(full, sizeof full);
    assert_int_equal(headers_check(h, NULL), 0);
    assert_int_equal(headers_add_trace(&h, SPAN_LITERAL(PARENT), SPAN_LITERAL("a=b"), &arena), 0);
    assert_int_equal(h.len, sizeof full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_trace_is_added),
        cmocka_unit_test(test_what_is_no_trace),
        cmocka_unit_test(test_trace_that_does_not_fit),
    };
    arena_init(&arena);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_done(&arena);
    return failed;
}
