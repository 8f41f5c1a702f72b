/* SPDX-License-Identifier: Apache-2.0 */
/* Queries during the start, one after the other. They block, because the loop does not run yet. */
#pragma once

#include <libpq-fe.h>
#include <stdint.h>

/* Sends a query (one statement or several), waits for its last result and returns it to the caller,
 * who owns it. NULL: the connection was lost, or nothing arrived for patience_ms; it cannot be used
 * any more. */
PGresult *pg_exec(PGconn *pg, const char *query, int64_t patience_ms);
/* A value as text; "" if the value is missing, whatever the server returned. */
const char *pg_text_at(const PGresult *r, int row, int col);
