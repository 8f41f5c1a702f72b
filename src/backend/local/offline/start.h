/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a server could start on a database: it is loaded as a start loads it. */
#pragma once

#include "backend/local/engine/engine.h"
#include "backend/local/sqlite/store_sqlite.h"

/* Loads everything into an engine, which the caller frees. -ERR_CORRUPT (the note says which row a
 * start would refuse, and why), -ERR_IO, -ERR_NOMEM. */
MUST_CHECK int start_load(sqlite3 *db, const struct store_meta *meta, struct engine **ret,
                          struct err_note *note);
/* The same for the database in a file that no other process uses; nothing is kept. */
MUST_CHECK int start_possible(const char *path, struct err_note *note);
