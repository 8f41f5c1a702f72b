/* SPDX-License-Identifier: Apache-2.0 */
/* The engine and the model, side by side: the same operations at the same times, every reply
 * compared. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* About this many steps in all, over as many seeds (from `from`) as that takes. Returns the number
 * of runs in which the two disagreed; each prints the command that repeats it. */
uint64_t lockstep_run(uint64_t from, uint64_t steps, bool progress);

/* With a planted defect (enum engine_defect): the first seed whose run disagrees; 0 = none of this
 * many does. */
uint64_t lockstep_hunt(unsigned defects, uint64_t seeds);
