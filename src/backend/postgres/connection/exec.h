/* SPDX-License-Identifier: Apache-2.0 */
/* Queries at the start, one after the other, blocking: the loop does not run yet. */
#pragma once

#include <libpq-fe.h>
#include <stdint.h>

/* Sends a query (one statement or several) and waits for its last result; the caller's. NULL: the
 * connection broke, or the server said nothing for patience_ms; it is of no use then. */
PGresult *pg_exec(PGconn *pg, const char *query, int64_t patience_ms);
/* A value as text; "" where there is none, whatever the server answered. */
const char *pg_text_at(const PGresult *r, int row, int col);
