/* SPDX-License-Identifier: Apache-2.0 */
/* Lists that the server returns page by page. */
#pragma once

#include "cli/client/session.h"

struct client_list {
    const char *path;  /* takes limit and cursor */
    const char *items; /* the member of an answer that holds them */
    const struct client_column *columns;
    size_t column_count;
    void (*row)(struct client_table *t, struct span item, struct arena *arena);
};

/* Prints all pages: as one table, or with --json one line for each page. `prefix` is the parameter
 * of this name; NULL = none. Returns the exit status. */
int client_list_print(struct client_session *s, const struct client_list *list, const char *prefix);
