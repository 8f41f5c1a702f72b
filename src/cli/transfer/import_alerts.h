/* SPDX-License-Identifier: Apache-2.0 */
/* Imports the alert rules of an export into a running server. */
#pragma once

#include "cli/client/session.h"

struct import_alerts {
    struct client_session *s;
    uint64_t seen, made, kept;
};

/* Whether an object of this name exists: GET folder + name. CLIENT_DONE, or another status after
 * a message. */
int import_find(struct client_session *s, const char *folder, const char *name, bool *ret);
/* An existing rule stays unchanged. A rule that had a secret is created switched off, and named,
 * because the receiver of its notices would not accept them. CLIENT_DONE, or another status
 * after a message. */
int import_alert(struct import_alerts *a, struct span alert);
