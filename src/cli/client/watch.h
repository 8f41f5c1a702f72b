/* SPDX-License-Identifier: Apache-2.0 */
/* Polls GET /v1/server on a separate connection while another request is under way, for a
 * progress bar. If this fails, no bar is shown. */
#pragma once

#include "cli/client/session.h"

struct client_watch {
    struct client *client; /* NULL: does not poll */
    struct client_reply reply;
    uint64_t looked_ns;
};

/* Polls the server of the session, only if `wanted`. */
void client_watch_open(struct client_watch *w, const struct client_session *s, bool wanted);
void client_watch_close(struct client_watch *w);
/* Polls at most twice a second, and returns whether there is an answer to be read. It blocks
 * only briefly, because the server answers this request at once. */
bool client_watch_due(struct client_watch *w);
/* A number in the answer; 0 if absent. */
int64_t client_watch_int(const struct client_watch *w, const char *path);
