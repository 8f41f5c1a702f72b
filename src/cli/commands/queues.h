/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all queues, which two commands show. */
#pragma once

#include "cli/client/session.h"

/* Asks for every page and prints one table, or with --json each page as a line. Exit status. */
int client_queues_list(struct client_session *s);
