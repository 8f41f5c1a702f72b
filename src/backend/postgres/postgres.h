/* SPDX-License-Identifier: Apache-2.0 */
/* A store in a PostgreSQL database that any number of nodes share.
 *
 * The URL is libpq's, with three settings of our own among its parameters:
 *   schema=NAME          where the tables are; default holdfast
 *   durability=relaxed   start although the server does not sync what it commits
 *   pooler=yes           a pooler in transaction mode stands in between: nothing is kept in a
 *                        session, and signals of other nodes come by the slow poll alone */
#pragma once

#include "backend/backend_impl.h"

/* The part of the URL behind the scheme and its colon. Blocks until the database has answered and
 * its tables are as this version needs them; makes them where they are missing. Nothing is touched
 * when it fails. */
MUST_CHECK int backend_open_postgres(const char *rest, const struct backend_config *config,
                                     struct backend **ret, struct err_note *note);
/* As backend_check: whether the server accepts this user and database. */
MUST_CHECK int backend_check_postgres(const char *rest, const struct backend_config *config,
                                      struct err_note *note);
