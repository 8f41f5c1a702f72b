/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all queues, which two commands show.
 *
 * src/cli/commands has the commands that talk to a server, one file for each subject, which
 * cli/client/client_commands.h declares. They may use cli/client, cli/transfer and the layers
 * below, and do not open a store. */
#pragma once

#include "cli/client/session.h"

/* Reads every page and prints one table, or with --json one line for each page. Returns the exit
 * status. */
int client_queues_list(struct client_session *s);
