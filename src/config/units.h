/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in the notation of users: "64MiB", "30s", "1.5h", "-5"; and values for messages. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

enum unit_kind {
    UNIT_NONE,     /* a whole number, with a sign */
    UNIT_BYTES,    /* plain: bytes; B kB MB GB TB KiB MiB GiB TiB */
    UNIT_MS,       /* plain: milliseconds; ms s m (or min) h d w */
    UNIT_DURATION, /* like UNIT_MS, but only 0 is plain: other numbers need their unit */
    UNIT_SECONDS, /* like UNIT_MS in milliseconds, but a plain number is seconds, for example 2.5 */
};

/* Parses the whole text as a number in the base unit. A fraction is allowed if the product is
 * whole ("1.5s"); leading zeros and group separators are not. -ERR_SYNTAX, -ERR_RANGE (beyond
 * int64), with *ret unchanged. */
MUST_CHECK int units_parse(struct span text, enum unit_kind kind, int64_t *ret);
/* What would be right, for a message: "bytes, such as 65536, 512KiB or 64MiB". Static. */
const char *units_expected(enum unit_kind kind);

#define UNITS_TEXT_MAX 32
/* Writes the shortest exact form, which units_parse reads. Returns out. */
const char *units_text(int64_t value, enum unit_kind kind, char out[UNITS_TEXT_MAX]);

#define QUOTED_MAX 96
/* Quotes external text for a message: in single quotes, shortened, with control characters and
 * bytes that are not UTF-8 replaced by '?', so that it cannot control a terminal. Returns out. */
const char *quoted(struct span text, char out[QUOTED_MAX]);
