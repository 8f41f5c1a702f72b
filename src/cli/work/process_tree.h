/* SPDX-License-Identifier: Apache-2.0 */
/* The descendants of this process at any depth, found in /proc.
 *
 * For a subreaper, these are all processes that a command has started, including daemons: an
 * orphan becomes its child, not that of init. The functions may be called after fork in a
 * process with threads: they use system calls and no allocator. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Sends the signal to every descendant. A process that is created at the same time may miss it,
 * so SIGKILL is repeated until no child is left. If /proc cannot be read, the process group of
 * `leader` gets the signal. */
void process_tree_signal(int signal, pid_t leader);
