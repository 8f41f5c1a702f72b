/* SPDX-License-Identifier: Apache-2.0 */
/* Writes text to standard error from its own thread.
 *
 * Standard error may be a terminal that is stopped with Ctrl-S, or a pipe that is not read. A
 * write then blocks, and must not keep the loop from renewing leases. The descriptor must stay
 * blocking, because it may be shared with other processes. */
#pragma once

#include <stdbool.h>

#include "base/span.h"

struct log_writer;

/* NULL: no memory, or no thread could be created. */
struct log_writer *log_writer_open(void);
/* Never blocks. false: the text was dropped, because too much is waiting. */
bool log_writer_add(struct log_writer *w, struct span text);
/* Waits until everything is written, but at most two seconds. */
void log_writer_close(struct log_writer *w);
