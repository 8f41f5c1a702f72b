/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a command: that of the runner without its own settings and access tokens,
 * and variables about the job. Text of the job is used only for values; the names are fixed. */
#pragma once

#include "base/err.h"
#include "cli/client/http/endpoint.h"
#include "cli/work/job.h"

#define WORK_PROGRESS_FD 3

/* A NULL-terminated list for execve, in the job's arena; inherited variables are borrowed.
 * HOLDFAST_SERVER is the server of the runner, and HOLDFAST_CACERT the file with which it verifies
 * it; its own certificate is not passed on. Values with a NUL byte are left out. -ERR_NOMEM. */
MUST_CHECK int environment_of(struct work_job *job, const struct client_endpoint *to,
                              char *const *inherited, char ***ret);

#define WORK_VARIABLE_BYTES 160
/* "HOLDFAST_HEADER_" and the name in capitals, with `_` for everything except letters and
 * digits. A longer name is truncated. Returns out. */
const char *environment_header_name(struct span name, char out[WORK_VARIABLE_BYTES]);
