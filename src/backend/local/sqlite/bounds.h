/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the SQLite store that its SQL uses, too (cmake/embed_names.c). */
#pragma once

#include <stdint.h>

#define STORE_COUNT_MAX (INT64_C(1) << 60) /* sums that rise by what happens */

/* The column marks of `jobs`: the reason, and above it the flags. */
#define MARKS_REASON 15
#define MARKS_FLAGS_SHIFT 4
