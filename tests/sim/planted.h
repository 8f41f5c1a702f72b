/* SPDX-License-Identifier: Apache-2.0 */
/* Planted defects: proof that the checks see what they are for. */
#pragma once

#include "sim/suite.h"

/* Switches on each defect of defects.h, journal.h and disk_journal.h in turn and runs seeds,
 * without engine_verify, until a check finds it; one case a defect. Needs a build with
 * HF_TEST_HOOKS. */
void planted_cases(selftest_fn *fn, void *ctx);
