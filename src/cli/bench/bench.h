/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast bench: loads a server over its API and measures it. */
#pragma once

#include "cli/commands.h"

/* A command_fn; its options are in the table of client.c. */
int bench_command(const struct command *cmd, const struct arguments *args);
