/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast work: runs a command, or calls an address, for every job of some queues. */
#pragma once

#include "cli/commands.h"

/* A command_fn; its options are in options.h. */
int work_command(const struct command *cmd, const struct arguments *args);
