/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets at their borders, and quantiles that name the right one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/containers/histogram.h"

static void test_borders(void **state)
{
    (void)state;
    static const struct {
        uint64_t value;
        unsigned bucket;
    } rows[] = {
        {0, 0},
        {1, 0},
        {2, 1},
        {3, 2},
        {4, 2},
        {5, 3},
        {UINT64_C(1) << 38, 38},
        {(UINT64_C(1) << 38) + 1, HISTOGRAM_BUCKETS - 1},
        {UINT64_C(1) << 39, HISTOGRAM_BUCKETS - 1},
        {UINT64_MAX, HISTOGRAM_BUCKETS - 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct histogram h = {0};
        histogram_add(&h, rows[i].value);
        for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++)
            assert_int_equal(h.bucket[b], b == rows[i].bucket);
        assert_int_equal(h.count, 1);
        assert_int_equal(h.sum, rows[i].value);
    }
}

static void test_quantiles(void **state)
{
    (void)state;
    struct histogram h = {0};
    assert_int_equal(histogram_quantile(&h, 0.5), 0);
    for (int i = 0; i < 90; i++)
        histogram_add(&h, 3); /* ≤ 4 */
    for (int i = 0; i < 9; i++)
        histogram_add(&h, 100); /* ≤ 128 */
    histogram_add(&h, UINT64_MAX / 2);
    assert_int_equal(histogram_quantile(&h, 0), 4);
    assert_int_equal(histogram_quantile(&h, -1), 4);
    assert_int_equal(histogram_quantile(&h, 0.5), 4);
    assert_int_equal(histogram_quantile(&h, 0.9), 4);
    assert_int_equal(histogram_quantile(&h, 0.91), 128);
    assert_int_equal(histogram_quantile(&h, 0.99), 128);
    assert_true(histogram_quantile(&h, 1) == UINT64_MAX);
    assert_true(histogram_quantile(&h, 7) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_borders),
        cmocka_unit_test(test_quantiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
