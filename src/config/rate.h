/* SPDX-License-Identifier: Apache-2.0 */
/* A rate as people write it: "100/1m", "10/s/group" or "none". */
#pragma once

#include "config/units.h"
#include "core/policy.h"

/* COUNT/DURATION, perhaps followed by /PER, which is one of the words of `pers` ("queue|group");
 * without it the first. A duration without a number is one unit. -ERR_SYNTAX, or -ERR_RANGE when a
 * number is beyond its limit, with *ret untouched. */
MUST_CHECK int rate_parse(struct span text, const char *pers, struct rate_limit *ret);

#define RATE_TEXT_MAX 96
/* What rate_parse reads back. Returns out. */
const char *rate_text(const struct rate_limit *r, const char *pers, char out[RATE_TEXT_MAX]);
/* What would be right, for a message: "none, or …". Returns out. */
#define RATE_EXPECTED_MAX 256
const char *rate_expected(const char *pers, char out[RATE_EXPECTED_MAX]);
