/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus text: families, labels, histograms that add up. */
#include "unit/base/support.h"

#include "api/v1/server/metrics.h"

static const struct metric family = {"x_seconds", "histogram", NULL, "Help."};

static void expect_text(struct buf *b, const char *text)
{
    assert_int_equal(buf_append(b, "", 1), 0);
    assert_string_equal(b->data, text);
    buf_clear(b);
}

static void expect_label(struct span value, const char *text)
{
    char out[METRIC_LABEL_BYTES(16, 5)];
    assert_true(value.len <= 16);
    metric_label(out, "queue", value);
    assert_string_equal(out, text);
}

static void labels_are_escaped(void **state)
{
    (void)state;
    expect_label(SPAN_LITERAL("a"), "queue=\"a\"");
    expect_label(SPAN_LITERAL(""), "queue=\"\"");
    expect_label(SPAN_LITERAL("a\"b\\c\nd"), "queue=\"a\\\"b\\\\c\\nd\"");
    /* The longest: exactly what METRIC_LABEL_BYTES allows. */
    expect_label(SPAN_LITERAL("\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\""),
                 "queue=\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\"");
}

static void samples(void **state)
{
    (void)state;
    struct buf b;
    struct metrics m = {.out = &b};
    buf_init(&b);
    metric_family(&m, &family);
    expect_text(&b, "# HELP x_seconds Help.\n# TYPE x_seconds histogram\n");
    metric_count(&m, &family, NULL, UINT64_MAX);
    expect_text(&b, "x_seconds 18446744073709551615\n");
    metric_value(&m, &family, "a=\"b\"", 0.25);
    expect_text(&b, "x_seconds{a=\"b\"} 0.25\n");
    buf_done(&b);
}

/* Buckets count everything at or below their bound, also what lies between those shown. */
static void histograms_add_up(void **state)
{
    (void)state;
    static const struct metric_scale scale = {1, 5, 2, 0.5};
    struct histogram h = {0};
    struct buf b;
    struct metrics m = {.out = &b};
    buf_init(&b);
    histogram_add(&h, 1);
    histogram_add(&h, 2);
    histogram_add(&h, 3);
    histogram_add(&h, 32);
    histogram_add(&h, 1000);
    metric_histogram(&m, &family, "q=\"a\"", &h, &scale);
    expect_text(&b, "x_seconds_bucket{q=\"a\",le=\"1\"} 2\nx_seconds_bucket{q=\"a\",le=\"4\"} 3\n"
                    "x_seconds_bucket{q=\"a\",le=\"16\"} 4\n"
                    "x_seconds_bucket{q=\"a\",le=\"+Inf\"} 5\nx_seconds_sum{q=\"a\"} 519\n"
                    "x_seconds_count{q=\"a\"} 5\n");
    metric_histogram(&m, &family, NULL, &h, &scale);
    expect_text(&b, "x_seconds_bucket{le=\"1\"} 2\nx_seconds_bucket{le=\"4\"} 3\n"
                    "x_seconds_bucket{le=\"16\"} 4\nx_seconds_bucket{le=\"+Inf\"} 5\n"
                    "x_seconds_sum 519\nx_seconds_count 5\n");
    assert_int_equal(m.error, 0);
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_escaped),
        cmocka_unit_test(samples),
        cmocka_unit_test(histograms_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
