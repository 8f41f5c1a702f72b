/* SPDX-License-Identifier: Apache-2.0 */
/* From the settings to the one backend of a server: a store, or wrappers round several. */
#pragma once

#include "backend/backend.h"
#include "backend/router/router.h"
#include "config/config.h"

/* What the stores write their log lines to where there are several: each line says which. */
struct stores {
    struct log logs[ROUTER_NUMBER_MAX + 1]; /* by number */
};

/* As backend_open; base holds everything that all stores share. s and base->log must outlive what
 * is opened. Stores that were opened before one could not be are closed again, for which the loop
 * has to run. */
MUST_CHECK int stores_open(struct stores *s, const struct config *c,
                           const struct backend_config *base, struct backend **ret,
                           struct err_note *note);
