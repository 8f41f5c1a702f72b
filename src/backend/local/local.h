/* SPDX-License-Identifier: Apache-2.0 */
/* The local backend on a store of the caller's choice: applier and reader threads as for sqlite:.
 */
#pragma once

#include "backend/backend.h"
#include "backend/local/store.h"

/* Owns the store, also on failure. Its apply runs on the applier's thread, its readers each on a
 * thread of their own. */
MUST_CHECK int backend_open_on_store(struct store *store, const struct backend_config *config,
                                     struct backend **ret, struct err_note *note);
