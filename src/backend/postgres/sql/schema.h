/* SPDX-License-Identifier: Apache-2.0 */
/* The tables (sql/schema.sql), and what must be so before they are used.
 *
 * There is one version of the schema. Of several nodes that start at once, one creates the tables
 * in one transaction under a lock, and the others find them. */
#pragma once

#include <libpq-fe.h>

#include "backend/postgres/connection/url.h"
#include "backend/postgres/sql/version.h"
#include "backend/shared/shared.h"

/* pg: connected and idle. -ERR_VERSION: made by a newer version or by a
 * draft; -ERR_INVALID: it is not a store we
 * may use. The note says why and what would help; nothing is changed then. */
MUST_CHECK int pg_schema_prepare(PGconn *pg, const struct pg_url *url, struct store_facts *ret,
                                 struct err_note *note);
