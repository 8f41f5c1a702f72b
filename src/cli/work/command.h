/* SPDX-License-Identifier: Apache-2.0 */
/* The command target: starts the command of the plan under a supervisor, feeds it the payload, and
 * reads what it writes. */
#pragma once

#include <uv.h>

#include "cli/work/job.h"
#include "cli/work/options.h"
#include "cli/work/target.h"

struct command_run;

/* Starts the command for a job, which must outlive it. -ERR_IO with a sentence: it was not started,
 * and the owner is told nothing. -ERR_NOMEM. */
MUST_CHECK int command_start(uv_loop_t *loop, const struct work_plan *plan, struct work_job *job,
                             struct target_owner owner, struct command_run **ret,
                             struct err_note *note);
/* SIGTERM for the whole tree, and SIGKILL after this time. The owner is told when it has ended. */
void command_terminate(struct command_run *c, int64_t kill_after_ms);
/* The runner ends: the supervisor is left to end the tree, and the owner is told nothing more. */
void command_abandon(struct command_run *c);
