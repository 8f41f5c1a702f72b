/* SPDX-License-Identifier: Apache-2.0 */
/* Completion for shells, made from the tables of commands: names, options, choices, and where a
 * file or directory is expected its name. */
#pragma once

#include "cli/commands.h"

int completion_command(const struct command *cmd, const struct arguments *args);
