/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that speak to a server over its API: their rows for the command table. */
#pragma once

#include <stddef.h>

#include "cli/commands.h"

/* Exit status of a client command. */
enum client_status {
    CLIENT_DONE = EXIT_DONE,
    CLIENT_REFUSED = EXIT_FAILED, /* the server said no, and why */
    CLIENT_USAGE = EXIT_USAGE,
    CLIENT_UNREACHABLE = 3, /* no server, or it answered that it cannot (5xx) */
    CLIENT_NOTHING = 4,     /* claim found no job */
};

extern const struct command client_commands[];
extern const size_t client_command_count;
