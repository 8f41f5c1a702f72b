/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast migrate: copies a whole store into another. */
#pragma once

#include "cli/commands.h"

extern const struct option migrate_options[5];
int migrate_command(const struct command *cmd, const struct arguments *args);
