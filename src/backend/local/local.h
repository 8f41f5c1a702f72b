/* SPDX-License-Identifier: Apache-2.0 */
/* The local backend on a store and a journal of the caller's choice, with all threads of sqlite:.
 */
#pragma once

#include "backend/backend.h"
#include "backend/local/journal/files.h"
#include "backend/local/store.h"

struct ballast;

/* Owns store, files (the journal's directory) and ballast (may be NULL), also on failure. The
 * store's apply runs on the applier's thread, its readers each on a thread of their own. */
MUST_CHECK int backend_open_on_store(struct store *store, struct files *files,
                                     struct ballast *ballast, const struct backend_config *config,
                                     struct backend **ret, struct err_note *note);
