/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of base: cmocka with its includes, and seeds.
 *
 * HF_SEED=n repeats a run; otherwise each run tries new numbers and prints its seed. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest/random.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static inline uint64_t seed_pick(void)
{
    uint64_t seed;
    const char *given = getenv("HF_SEED");
    if (given)
        return strtoull(given, NULL, 10);
    assert_int_equal(random_bytes(&seed, sizeof seed), 0);
    return seed >> 32;
}

static inline void seeded(struct random *r, const char *test)
{
    uint64_t seed = seed_pick();
    fprintf(stderr, "# %s: HF_SEED=%llu\n", test, (unsigned long long)seed);
    random_seed(r, seed);
}

/* As assert_true, but cheap and without a call in loops of millions. */
#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0))                                                     \
            _assert_true(0, #condition, __FILE__, __LINE__);                                       \
    } while (0)
