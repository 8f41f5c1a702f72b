/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast work: runs a command, or calls an address, for every job of some queues. This folder may
 * use cli/client, server/version.h, config, core, base, libuv and libcurl, and opens no store. */
#pragma once

#include "cli/commands.h"

/* A command_fn; its options are in options.h. */
int work_command(const struct command *cmd, const struct arguments *args);
