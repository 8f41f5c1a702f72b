/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules, what they have raised, notices and breakers in SQLite: converts records to rows and
 * rows to records. */
#pragma once

#include "backend/local/sqlite/store_sqlite.h"

/* A record about one of them; -ERR_VERSION if it is about something else. */
MUST_CHECK int write_notice_record(struct store_sqlite *q, const struct record *r,
                                   struct err_note *note);
/* Load the rules, and the rest, as the records that would create them, in the order of store.h. */
MUST_CHECK int load_alert_records(sqlite3 *db, const struct store_sink *sink,
                                  struct err_note *note);
MUST_CHECK int load_notice_records(sqlite3 *db, const struct store_sink *sink,
                                   struct err_note *note);
