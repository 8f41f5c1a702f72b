/* SPDX-License-Identifier: Apache-2.0 */
/* Planted defects: proof that the checks see what they are for. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Switches on each defect of defects.h in turn and runs seeds until a check of the history finds it.
 * Prints a line for each. True when all were caught. Needs a build with HF_TEST_HOOKS. */
bool planted_run(FILE *out);
