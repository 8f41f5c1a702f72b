/* SPDX-License-Identifier: Apache-2.0 */
/* The descendants of this process at any depth, found in /proc.
 *
 * For a subreaper, these are all processes that a command has started, including daemons: an
 * orphan becomes its child, not that of init. The functions may be called after fork in a
 * process with threads: they use system calls and no allocator. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Sends the signal to every descendant that was started at this time (process_tree_now) or
 * later; 0 = to all. A process that is created during the call may miss it, so SIGTERM is sent
 * to newer processes when a child has ended, and SIGKILL is repeated until no child is left. If
 * /proc cannot be read, the process group of `leader` gets the signal. */
void process_tree_signal(int signal, pid_t leader, uint64_t since);
/* The current time, in the clock ticks of /proc since the start of the system. */
uint64_t process_tree_now(void);
