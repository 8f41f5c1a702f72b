/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP target: sends a job to an address that the operator has given. */
#pragma once

#include "base/buf.h"
#include "cli/work/job.h"
#include "cli/work/options.h"
#include "cli/work/runner/calls.h"
#include "cli/work/targets/target.h"

struct http_run;

/* Sends the job. NULL: no memory. */
struct http_run *http_target_start(struct calls *calls, const struct work_plan *plan,
                                   struct work_job *job, struct target_owner owner);
/* Cancels the request; the owner is not called. */
void http_target_stop(struct http_run *h);

/* One header line, "NAME: value", NUL-terminated, with all bytes percent-encoded that a header
 * value must not have. */
MUST_CHECK int http_target_header(struct buf *line, const char *name, struct span value);
