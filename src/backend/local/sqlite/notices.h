/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules, what they have raised, notices and breakers in SQLite: the tables, records into
 * rows, rows into records. */
#pragma once

#include "backend/local/sqlite/store_sqlite.h"

#define SCHEMA_NOTICES                                                                             \
    "CREATE TABLE alerts ("                                                                        \
    " name TEXT PRIMARY KEY,"                                                                      \
    " created_at INTEGER NOT NULL,"                                                                \
    " updated_at INTEGER NOT NULL,"                                                                \
    " kind INTEGER NOT NULL," /* enum alert_on */                                                  \
    " enabled INTEGER NOT NULL,"                                                                   \
    " with_payload INTEGER NOT NULL,"                                                              \
    " queue TEXT NOT NULL,"                                                                        \
    " depth INTEGER NOT NULL,"                                                                     \
    " percent INTEGER NOT NULL,"                                                                   \
    " window_ms INTEGER NOT NULL,"                                                                 \
    " min_ends INTEGER NOT NULL,"                                                                  \
    " after_ms INTEGER NOT NULL,"                                                                  \
    " url TEXT,"                                                                                   \
    " secret TEXT"                                                                                 \
    ") STRICT, WITHOUT ROWID;"                                                                     \
    "CREATE TABLE raised (" /* conditions that hold */                                             \
    " alert TEXT NOT NULL,"                                                                        \
    " queue TEXT NOT NULL," /* '' = the whole server */                                            \
    " since INTEGER NOT NULL,"                                                                     \
    " value INTEGER NOT NULL,"                                                                     \
    " mark INTEGER NOT NULL,"                                                                      \
    " PRIMARY KEY (alert, queue)"                                                                  \
    ") STRICT, WITHOUT ROWID;"                                                                     \
    "CREATE TABLE notices (" /* the outbox */                                                      \
    " number INTEGER PRIMARY KEY,"                                                                 \
    " id_hi INTEGER NOT NULL,"                                                                     \
    " kind INTEGER NOT NULL,"                                                                      \
    " edge INTEGER NOT NULL,"                                                                      \
    " at INTEGER NOT NULL,"                                                                        \
    " alert TEXT NOT NULL,"                                                                        \
    " queue TEXT,"                                                                                 \
    " job_seq INTEGER NOT NULL,"                                                                   \
    " job_hi INTEGER NOT NULL,"                                                                    \
    " reason INTEGER NOT NULL,"                                                                    \
    " attempts INTEGER NOT NULL,"                                                                  \
    " value INTEGER NOT NULL,"                                                                     \
    " mark INTEGER NOT NULL,"                                                                      \
    " subject TEXT,"                                                                               \
    " text TEXT,"                                                                                  \
    " state INTEGER NOT NULL DEFAULT 0,"                                                           \
    " tries INTEGER NOT NULL DEFAULT 0,"                                                           \
    " since INTEGER NOT NULL,"                                                                     \
    " due INTEGER NOT NULL,"                                                                       \
    " status INTEGER NOT NULL DEFAULT 0,"                                                          \
    " error TEXT"                                                                                  \
    ") STRICT;"                                                                                    \
    "CREATE TABLE breakers ("                                                                      \
    " target TEXT PRIMARY KEY,"                                                                    \
    " state INTEGER NOT NULL,"                                                                     \
    " failures INTEGER NOT NULL,"                                                                  \
    " probes INTEGER NOT NULL,"                                                                    \
    " until INTEGER NOT NULL,"                                                                     \
    " changed_at INTEGER NOT NULL"                                                                 \
    ") STRICT, WITHOUT ROWID;"

/* A record about one of them; -ERR_VERSION when it is about something else. */
MUST_CHECK int write_notice_record(struct store_sqlite *q, const struct record *r,
                                   struct err_note *note);
/* All of them, as the records that would make them, in the order that store.h says. */
/* The rules alone. */
MUST_CHECK int load_alert_records(sqlite3 *db, const struct store_sink *sink,
                                  struct err_note *note);
MUST_CHECK int load_notice_records(sqlite3 *db, const struct store_sink *sink,
                                   struct err_note *note);
