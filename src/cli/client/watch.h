/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at GET /v1/server on a connection of its own while another request is under way, for a
 * progress bar. If anything goes wrong with it, there is no bar. */
#pragma once

#include "cli/client/session.h"

struct client_watch {
    struct client *client; /* NULL: does not look */
    struct client_reply reply;
    uint64_t looked_ns;
};

/* Of the session's server; looks only when `wanted`. */
void client_watch_open(struct client_watch *w, const struct client_session *s, bool wanted);
void client_watch_close(struct client_watch *w);
/* Twice a second at most: asks, and says whether there is an answer to be read. Blocks for a moment
 * only, since the server answers this one at once. */
bool client_watch_due(struct client_watch *w);
/* A number of the answer, 0 when it is not there. */
int64_t client_watch_int(const struct client_watch *w, const char *path);
