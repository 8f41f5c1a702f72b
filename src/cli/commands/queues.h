/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all queues, which two commands show. */
#pragma once

#include "cli/client/session.h"

/* Reads every page and prints one table, or with --json one line for each page. Returns the exit
 * status. */
int client_queues_list(struct client_session *s);
