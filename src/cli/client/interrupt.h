/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C for commands that go on until interrupted: the signal is held back and asked about, so
 * that the command ends cleanly (exit status 0) without a handler or a global. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* From here on SIGINT and SIGTERM do not end the process. Threads started later inherit this. */
void client_interrupt_hold(void);
/* Waits this long, or until interrupted; true when interrupted. 0 only asks. */
bool client_interrupt_wait(int64_t ms);
/* True when interrupted; leaves the signal pending, so that asking again gives the same. */
bool client_interrupt_pending(void);
