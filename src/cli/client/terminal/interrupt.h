/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C for commands that run until they are interrupted: the signal is blocked and polled, so
 * that the command ends cleanly (exit status 0) without a handler or a global. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Blocks SIGINT and SIGTERM. Threads that are started later inherit this. */
void client_interrupt_hold(void);
/* Waits this long, or until interrupted; true if interrupted. 0 only polls. */
bool client_interrupt_wait(int64_t ms);
/* true if interrupted; leaves the signal pending, so that the next call returns the same. */
bool client_interrupt_pending(void);
