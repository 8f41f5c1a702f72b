/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers: a seed repeats, ranges are kept and even. */
#include "unit/base/support.h"

static void a_seed_repeats(void **state)
{
    (void)state;
    struct random a, b, c;
    random_seed(&a, 42);
    random_seed(&b, 42);
    random_seed(&c, 43);
    size_t same = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t v = random_next(&a);
        assert_int_equal(v, random_next(&b));
        same += v == random_next(&c);
    }
    assert_int_equal(same, 0);
}

/* What the authors' own code gives from this state. */
static void known_first_numbers(void **state)
{
    (void)state;
    struct random r = {{1, 2, 3, 4}};
    assert_int_equal(random_next(&r), 11520);
    assert_int_equal(random_next(&r), 0);
    assert_int_equal(random_next(&r), 1509978240);
    assert_int_equal(random_next(&r), 1215971899390074240);
}

static void below_is_even(void **state)
{
    (void)state;
    struct random r;
    size_t hits[7] = {0};
    seeded(&r, "below");
    for (int i = 0; i < 700000; i++) {
        uint64_t v = random_below(&r, 7);
        assert_true(v < 7);
        hits[v]++;
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(hits[i], 98000, 102000); /* more than six standard deviations */
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(random_below(&r, 1), 0);
        assert_true(random_below(&r, UINT64_MAX) < UINT64_MAX);
        assert_true(random_below(&r, (UINT64_C(1) << 63) + 1) <= UINT64_C(1) << 63);
    }
}

static void between_includes_both(void **state)
{
    (void)state;
    struct random r;
    bool low = false, high = false;
    seeded(&r, "between");
    for (int i = 0; i < 1000; i++) {
        int64_t v = random_between(&r, -3, 3);
        assert_true(v >= -3 && v <= 3);
        low |= v == -3;
        high |= v == 3;
        assert_int_equal(random_between(&r, INT64_MIN, INT64_MIN), INT64_MIN);
        assert_int_equal(random_between(&r, INT64_MAX, INT64_MAX), INT64_MAX);
        random_between(&r, INT64_MIN, INT64_MAX);
        assert_true(random_between(&r, INT64_MIN, 0) <= 0);
    }
    assert_true(low && high);
}

static void chance(void **state)
{
    (void)state;
    struct random r;
    size_t hits = 0;
    seeded(&r, "chance");
    for (int i = 0; i < 100000; i++) {
        hits += (size_t)random_chance(&r, 30);
        assert_false(random_chance(&r, 0));
        assert_true(random_chance(&r, 100));
    }
    assert_in_range(hits, 29000, 31000);
}

static void bytes_from_the_kernel(void **state)
{
    (void)state;
    unsigned char a[600] = {0}, b[600] = {0};
    assert_int_equal(random_bytes(a, sizeof a), 0);
    assert_int_equal(random_bytes(b, sizeof b), 0);
    assert_memory_not_equal(a, b, sizeof a);
    assert_int_equal(random_bytes(a, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_repeats), cmocka_unit_test(known_first_numbers),
        cmocka_unit_test(below_is_even),  cmocka_unit_test(between_includes_both),
        cmocka_unit_test(chance),         cmocka_unit_test(bytes_from_the_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
