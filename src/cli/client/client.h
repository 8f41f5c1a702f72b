/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that use the API of a server: their rows for the command table.
 *
 * src/cli/client has what these commands share: session, requests, tables, text. It may use
 * libcurl, config, core and base, and opens no store. */
#pragma once

#include <stddef.h>

#include "cli/commands.h"

/* Exit status of a client command. */
enum client_status {
    CLIENT_DONE = EXIT_DONE,
    CLIENT_REFUSED = EXIT_FAILED, /* the server refused the request */
    CLIENT_USAGE = EXIT_USAGE,
    CLIENT_UNREACHABLE = 3, /* the server is unreachable, or answered with 5xx */
    CLIENT_NOTHING = 4,     /* claim found no job */
};

extern const struct command client_commands[];
extern const size_t client_command_count;
