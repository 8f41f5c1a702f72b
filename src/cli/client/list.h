/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of named things, which a server gives page by page. */
#pragma once

#include "cli/client/session.h"

struct client_list {
    const char *path;  /* takes limit and cursor */
    const char *items; /* the member of an answer that holds them */
    const struct client_column *columns;
    size_t column_count;
    void (*row)(struct client_table *t, struct span item, struct arena *arena);
};

/* All pages: as one table, or with --json a line each. Returns the exit status. */
int client_list_print(struct client_session *s, const struct client_list *list);
