/* SPDX-License-Identifier: Apache-2.0 */
/* Binary search in a sorted array. */
#pragma once

#include <stddef.h>

/* The index of the first of `count` elements for which `before` is false, or `count`. `before` is
 * an expression in the index `i`: whether that element comes before the wanted place. It must be
 * true for the elements up to some index and false for all others. */
/* NOLINTBEGIN(bugprone-macro-parentheses): `i` is a name */
#define SORTED_INDEX(count, i, before)                                                             \
    __extension__({                                                                                \
        size_t sorted_low = 0, sorted_high = (count);                                              \
        while (sorted_low < sorted_high) {                                                         \
            const size_t i = sorted_low + (sorted_high - sorted_low) / 2;                          \
            if (before)                                                                            \
                sorted_low = i + 1;                                                                \
            else                                                                                   \
                sorted_high = i;                                                                   \
        }                                                                                          \
        sorted_low;                                                                                \
    })
/* NOLINTEND(bugprone-macro-parentheses) */
