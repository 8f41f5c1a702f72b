/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the backend of a server from the settings: a store, or wrappers around several. */
#pragma once

#include "backend/backend.h"
#include "backend/router/router.h"
#include "config/config.h"

/* The logs of the stores if there are several: each line names its store. */
struct stores {
    struct log logs[ROUTER_NUMBER_MAX + 1]; /* by number */
};

/* Like backend_open; base has everything that all stores share. s and base->log must outlive the
 * backend. If a store cannot be opened, those that were opened before are closed again, for
 * which the loop has to run. */
MUST_CHECK int stores_open(struct stores *s, const struct config *c,
                           const struct backend_config *base, struct backend **ret,
                           struct err_note *note);
