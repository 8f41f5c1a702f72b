/* SPDX-License-Identifier: Apache-2.0 */
/* A store in a PostgreSQL database that any number of nodes share.
 *
 * The URL is that of libpq, with three parameters of Holdfast:
 *   schema=NAME          the schema with the tables; default holdfast
 *   durability=relaxed   start although the server does not sync what it commits
 *   pooler=yes           a pooler in transaction mode is used: no state is kept in a session, and
 *                        changes of other nodes are found only by the slow poll */
#pragma once

#include "backend/backend_impl.h"

/* rest: the part of the URL after the scheme and its colon. Blocks until the database has answered
 * and its tables are as this version needs them; creates them if they are missing. Changes nothing
 * if it fails. */
MUST_CHECK int backend_open_postgres(const char *rest, const struct backend_config *config,
                                     struct backend **ret, struct err_note *note);
/* As backend_check: whether the server accepts this user and database. */
MUST_CHECK int backend_check_postgres(const char *rest, const struct backend_config *config,
                                      struct err_note *note);
