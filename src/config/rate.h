/* SPDX-License-Identifier: Apache-2.0 */
/* A rate in the notation of users: "100/1m", "10/s/group" or "none". */
#pragma once

#include "config/units.h"
#include "core/queues/policy.h"

/* COUNT/DURATION, optionally followed by /PER, which is one of the names in `pers`
 * ("queue|group"); the default is the first. A duration without a number is one unit,
 * and one without a unit is refused.
 * -ERR_SYNTAX, or -ERR_RANGE if a number is beyond its limit, with *ret unchanged. */
MUST_CHECK int rate_parse(struct span text, const char *pers, struct rate_limit *ret);

#define RATE_TEXT_MAX 96
/* Writes the rate in a form that rate_parse reads. Returns out. */
const char *rate_text(const struct rate_limit *r, const char *pers, char out[RATE_TEXT_MAX]);
/* What would be right, for a message: "none, or …". Returns out. */
#define RATE_EXPECTED_MAX 256
const char *rate_expected(const char *pers, char out[RATE_EXPECTED_MAX]);
