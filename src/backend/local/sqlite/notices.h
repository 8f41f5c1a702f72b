/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules, what they have raised, notices and breakers in SQLite: the tables, records into
 * rows, rows into records. */
#pragma once

#include "backend/local/sqlite/store_sqlite.h"

/* A record about one of them; -ERR_VERSION when it is about something else. */
MUST_CHECK int write_notice_record(struct store_sqlite *q, const struct record *r,
                                   struct err_note *note);
/* All of them, as the records that would make them, in the order that store.h says. */
/* The rules alone. */
MUST_CHECK int load_alert_records(sqlite3 *db, const struct store_sink *sink,
                                  struct err_note *note);
MUST_CHECK int load_notice_records(sqlite3 *db, const struct store_sink *sink,
                                   struct err_note *note);
