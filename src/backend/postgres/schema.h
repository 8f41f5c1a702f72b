/* SPDX-License-Identifier: Apache-2.0 */
/* The tables, and what must be so before they are used.
 *
 * Each version of the schema is a step from the one before. Steps are taken in one transaction
 * under a lock, so that of several nodes that start at once one takes them and the others find
 * them taken. */
#pragma once

#include <libpq-fe.h>

#include "backend/postgres/url.h"
#include "backend/shared/shared.h"

#define SCHEMA_VERSION 1

/* pg: connected and idle. -ERR_VERSION: made by a newer version; -ERR_INVALID: it is not a store we
 * may use. The note says why and what would help; nothing is changed then. */
MUST_CHECK int pg_schema_prepare(PGconn *pg, const struct pg_url *url, struct store_facts *ret,
                                 struct err_note *note);
