/* SPDX-License-Identifier: Apache-2.0 */
/* `holdfast serve`: the server, from its settings to an orderly end. src/server puts the parts
 * together; it may use everything except the command line (src/cli). */
#pragma once

struct arguments;
struct command;

/* The row's function. Returns when the server has stopped. */
int serve_command(const struct command *cmd, const struct arguments *args);
