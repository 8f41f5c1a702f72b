/* SPDX-License-Identifier: Apache-2.0 */
/* The engine and the model, side by side: the same operations at the same times, every reply
 * compared. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* About this many steps in all, over as many seeds (from `from`) as that takes. Returns the number
 * of runs in which the two disagreed; each prints the command that repeats it. */
uint64_t lockstep_run(uint64_t from, uint64_t steps, bool progress);
