/* SPDX-License-Identifier: Apache-2.0 */
/* The nearest known name to a mistyped one, for error messages. */
#pragma once

#include <stddef.h>

/* Returns the entry of names[0..count) that takes the fewest single-character changes to reach
 * from word, or NULL when none is near enough to be worth proposing (more than a third of the
 * word's length, or one change for short words). The result points into names. */
const char *suggest_nearest(const char *word, const char *const *names, size_t count);
