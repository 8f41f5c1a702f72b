/* SPDX-License-Identifier: Apache-2.0 */
/* The command target: starts the command of the plan under a supervisor, writes the payload to
 * it and reads its output. */
#pragma once

#include <uv.h>

#include "cli/work/job.h"
#include "cli/work/options.h"
#include "cli/work/targets/target.h"

struct command_run;

/* Starts the command for a job, which must outlive it. -ERR_IO with a sentence: it was not
 * started, and the owner is not called. -ERR_NOMEM. */
MUST_CHECK int command_start(uv_loop_t *loop, const struct work_plan *plan, struct work_job *job,
                             struct target_owner owner, struct command_run **ret,
                             struct err_note *note);
/* Sends SIGTERM to the whole tree, and SIGKILL after this time. The owner is called when it has
 * ended. */
void command_terminate(struct command_run *c, int64_t kill_after_ms);
/* Whether the command itself has ended; what it has left behind may still run. */
bool command_has_ended(const struct command_run *c);
/* The runner ends: the supervisor terminates the tree, and the owner is not called any more. */
void command_abandon(struct command_run *c);
