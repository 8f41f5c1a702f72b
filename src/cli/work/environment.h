/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a command: that of the runner without its own settings and access tokens, and
 * what is known about the job. Text of the job is only ever a value; the names are ours. */
#pragma once

#include "base/err.h"
#include "cli/work/job.h"

#define WORK_PROGRESS_FD 3

/* A NULL-terminated list for execve in the job's arena; what was inherited is borrowed. Values with
 * a NUL byte are left out. -ERR_NOMEM. */
MUST_CHECK int environment_of(struct work_job *job, char *const *inherited, char ***ret);

#define WORK_VARIABLE_BYTES 160
/* "HOLDFAST_HEADER_" and the name in capitals, with `_` for everything but letters and digits. A
 * longer name is cut. Returns out. */
const char *environment_header_name(struct span name, char out[WORK_VARIABLE_BYTES]);
