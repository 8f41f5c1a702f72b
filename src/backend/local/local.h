/* SPDX-License-Identifier: Apache-2.0 */
/* The local backend, for its own tests: it is opened on a given store and journal, with all threads
 * of sqlite:. Other code opens a store through backend/backend.h.
 *
 * src/backend/local is the embedded store: the engine decides in memory, the journal makes the
 * records durable, and a store (sqlite/ or memory/) has what survives a restart. It may use ops,
 * core, base, libuv and SQLite, and no other store. local_impl.h names its files. */
#pragma once

#include "backend/backend.h"
#include "backend/local/journal/files.h"
#include "backend/local/store/store.h"

struct disk_reserve;

/* Owns store, files (the journal's directory) and reserve (may be NULL), also on failure. The
 * store's apply runs on the applier thread, and each of its readers on a separate thread. */
MUST_CHECK int backend_open_on_store(struct store *store, struct files *files,
                                     struct disk_reserve *reserve,
                                     const struct backend_config *config, struct backend **ret,
                                     struct err_note *note);
