/* SPDX-License-Identifier: Apache-2.0 */
/* `holdfast restore`: creates a store from a backup, without a server. */
#pragma once

#include "cli/commands.h"

extern const struct option restore_options[1];
int restore_command(const struct command *cmd, const struct arguments *args);
