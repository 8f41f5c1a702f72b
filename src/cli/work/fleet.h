/* SPDX-License-Identifier: Apache-2.0 */
/* The workers of a file: one process for each, with a parent that forwards signals. */
#pragma once

#include "cli/work/config.h"

/* Runs all workers until they have ended. If one gives up, the others are stopped. Returns the
 * first exit status that is not 0. */
int fleet_run(const struct work_entries *entries);
