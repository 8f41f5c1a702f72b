/* SPDX-License-Identifier: Apache-2.0 */
/* The breakers of webhook targets, for the delivery of notices. */
#pragma once

#include "ops/ops.h"

/* Whether the target may be called now; if not, *ret_until is when to look again, 0 = not known.
 * Lack of memory is a no. */
bool breaker_of_target_allows(struct ops *o, struct span target, const struct breaker_rules *rules,
                              struct wall_time *ret_until);
/* How a call ended. Where memory is short, the report is lost. */
void breaker_of_target_report(struct ops *o, struct span target, const struct breaker_rules *rules,
                              bool success);
