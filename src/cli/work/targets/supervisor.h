/* SPDX-License-Identifier: Apache-2.0 */
/* The process between the runner and a command: one per command, forked from the runner.
 *
 * It is the subreaper of all processes that the command starts, and has its own session, so that
 * Ctrl-C at the terminal of the runner does not reach the command. It ends when none of these
 * processes is left: when the command itself has ended, remaining processes get SIGTERM and,
 * after a time, SIGKILL. When the runner ends for any reason, its end of the control socket is
 * closed, and the supervisor terminates the whole tree in the same way.
 *
 * Messages over the control socket, a stream, have a fixed size. */
#pragma once

#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"

enum supervisor_what {
    SUPERVISOR_NOT_STARTED = 1, /* to the runner: value is the errno of execve */
    SUPERVISOR_ENDED,           /* to the runner: value is the status of waitpid */
    SUPERVISOR_TERMINATED,      /* the same, after SUPERVISOR_TERMINATE */
    SUPERVISOR_ABANDONED,       /* to the runner: some processes survive SIGKILL */
    SUPERVISOR_TERMINATE,       /* from the runner: SIGTERM now, SIGKILL after value ms */
};

struct supervisor_message {
    int32_t what;
    int32_t value;
};

/* The descriptors are those of the command's side; the runner closes them after the fork. */
struct supervisor_setup {
    char *const *argv;
    char *const *environment;
    int input, output, errors, progress;
    int control;
    int64_t kill_after_ms;
    struct rlimit files; /* the command's limit of open files */
};

/* Forks the supervisor, which starts the command. Returns the supervisor's pid, or -ERR_IO. */
MUST_CHECK pid_t supervisor_start(const struct supervisor_setup *setup);
