/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/work/runner has the loop of holdfast work: claims, tasks, reports, leases. It may use the
 * rest of cli/work and cli/client.
 *
 * The runner: claims jobs, passes each to its target, renews leases, reports outcomes, and stops
 * in an orderly way. One process and one loop; only the log has its own thread. */
#pragma once

#include "cli/work/options.h"

/* Exit statuses of `holdfast work`, in addition to those of every command. */
enum work_status {
    WORK_DONE = 0,
    WORK_GAVE_UP = 1, /* problems of the worker: five pauses in a row, or one with --once; or the
                         server refused a claim */
    WORK_UNREACHABLE =
        3, /* the server is unreachable, or outcomes could not be reported before the end */
    WORK_NOTHING = 4,   /* --once: no job was ready */
    WORK_NOT_ACKED = 5, /* --once: the job was not acked */
    WORK_LEFT = 6, /* --until-empty or --once: stopped by a signal before the end, or a queue with
                      ready jobs is paused */
};

enum { STOP_SIGNALS = 3 };
extern const int stop_signals[STOP_SIGNALS];
/* Whether the process was started with this signal ignored. */
bool signal_ignored(int number);
/* Runs until a signal stops it, or until the plan is complete. Returns the exit status. */
int runner_run(const struct work_plan *plan);
