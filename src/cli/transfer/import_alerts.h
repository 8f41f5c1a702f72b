/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules of an export into a running server. */
#pragma once

#include "cli/client/session.h"

struct import_alerts {
    struct client_session *s;
    uint64_t seen, made, kept;
};

/* Whether there is something of this name: GET folder + name. CLIENT_DONE, or said. */
int import_find(struct client_session *s, const char *folder, const char *name, bool *ret);
/* A rule that is there already stays as it is. One that was signed and comes without its secret is
 * created switched off, and named: the receiver of its notices would not accept them. CLIENT_DONE,
 * or what the server said was said. */
int import_alert(struct import_alerts *a, struct span alert);
