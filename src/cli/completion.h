/* SPDX-License-Identifier: Apache-2.0 */
/* Completion scripts for shells, generated from the tables of commands: names, options, choices,
 * and file or directory names where these are expected. */
#pragma once

#include "cli/commands.h"

int completion_command(const struct command *cmd, const struct arguments *args);
