/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the SQLite store that its SQL uses, too (cmake/embed_names.c). */
#pragma once

#include <stdint.h>

#define STORE_COUNT_MAX (INT64_C(1) << 60) /* sums that only increase */

/* The column marks of `jobs`: the reason, with the flags in the higher bits. */
#define MARKS_REASON 15
#define MARKS_FLAGS_SHIFT 4
