/* SPDX-License-Identifier: Apache-2.0 */
/* The tables (sql/schema.sql), and the checks before they are used.
 *
 * There is one version of the schema. If several nodes start at once, one creates the tables in one
 * transaction under a lock, and the others find them. */
#pragma once

#include <libpq-fe.h>

#include "backend/postgres/connection/url.h"
#include "backend/postgres/sql/version.h"
#include "backend/shared/shared.h"

/* pg: connected and idle. -ERR_VERSION: created by a newer version or by a draft; -ERR_INVALID: the
 * database cannot be used as a store. The note says why and what to do; nothing is changed then. */
MUST_CHECK int pg_schema_prepare(PGconn *pg, const struct pg_url *url, struct store_facts *ret,
                                 struct err_note *note);
