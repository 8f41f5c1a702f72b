/* SPDX-License-Identifier: Apache-2.0 */
/* `holdfast serve`: reads the settings and runs the server. */
#pragma once

#include "app/commands.h"

int serve_command(const struct command *cmd, const struct arguments *args);
