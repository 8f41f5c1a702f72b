/* SPDX-License-Identifier: Apache-2.0 */
/* Confirmation of commands that delete something, or change jobs that are not named one by one.
 *
 * On a terminal (standard input and standard error) the command shows what it would change and
 * asks. Elsewhere there is no one to ask: a command that can change many jobs then needs --yes.
 * --yes skips the question everywhere. */
#pragma once

#include "cli/client/session.h"

#define CLIENT_YES_OPTION                                                                          \
    {                                                                                              \
        "yes", 'y', NULL, "do not ask for confirmation", OPTION_FLAG                               \
    }

/* CLIENT_DONE when --yes was given or there is a terminal; else CLIENT_USAGE, and a complaint that
 * names the command ("queues delete") and --yes. */
int client_confirm_possible(const struct client_session *s, const char *command);
/* True when the command must show what it would change and ask. */
bool client_confirm_wanted(const struct client_session *s);
/* The sum of the members of the last answer's object at `path`. Those that are not 0 are printed on
 * standard error: "NAME: 3 ready, 2 dead". */
int64_t client_confirm_counts(struct client_session *s, const char *name, const char *path);
/* Asks the question, followed by " [y/N] ". CLIENT_DONE for y or yes; else CLIENT_REFUSED, after
 * printing that nothing was changed. */
int client_confirm(const char *format, ...) __attribute__((format(printf, 1, 2)));
