/* SPDX-License-Identifier: Apache-2.0 */
/* Table `hour`: what happened in a queue in an hour; hour 0 is the sum of all since it was made. */
#pragma once

/* In the order of enum tally_field. */
#define HOUR_COLUMNS                                                                               \
    "enqueued, claimed, acked, failed_app, failed_business, crashed, released, died, cancelled, "  \
    "waited_ms, done_ms, failed_ms, died_ms"
#define HOUR_COLUMN(name) " " #name " INTEGER NOT NULL,"
#define SCHEMA_HOUR                                                                                \
    "CREATE TABLE hour ("                                                                          \
    " queue INTEGER NOT NULL,"                                                                     \
    " hour INTEGER NOT NULL," /* since 1970 */                                                     \
        HOUR_COLUMN(enqueued) HOUR_COLUMN(claimed) HOUR_COLUMN(acked) HOUR_COLUMN(failed_app)      \
            HOUR_COLUMN(failed_business) HOUR_COLUMN(crashed) HOUR_COLUMN(released)                \
                HOUR_COLUMN(died) HOUR_COLUMN(cancelled) HOUR_COLUMN(waited_ms)                    \
                    HOUR_COLUMN(done_ms) HOUR_COLUMN(failed_ms)                                    \
                        HOUR_COLUMN(died_ms) " PRIMARY KEY (queue, hour)"                          \
                                             ") STRICT, WITHOUT ROWID;"

/* A sum stops at what the column may hold (STORE_COUNT_MAX), whatever the row held before. */
#define HOUR_SUM(column, at) #column " = min(" #column " + ?" #at ", 1152921504606846976)"
#define HOUR_STMTS(X)                                                                                                                                                \
    X(HOUR_ADD,                                                                                                                                                      \
      "INSERT INTO hour (queue, hour, " HOUR_COLUMNS ") VALUES "                                                                                                     \
      "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) "                                                                                          \
      "ON CONFLICT (queue, hour) DO UPDATE SET " HOUR_SUM(enqueued, 3) ", " HOUR_SUM(claimed, 4) ", " HOUR_SUM(acked, 5) ", " HOUR_SUM(failed_app, 6) ", " HOUR_SUM( \
          failed_business,                                                                                                                                           \
          7) ", " HOUR_SUM(crashed,                                                                                                                                  \
                           8) ", " HOUR_SUM(released,                                                                                                                \
                                            9) ", " HOUR_SUM(died,                                                                                                   \
                                                             10) ", " HOUR_SUM(cancelled,                                                                            \
                                                                               11) ", " HOUR_SUM(waited_ms,                                                          \
                                                                                                 12) ", " HOUR_SUM(done_ms,                                          \
                                                                                                                   13) ", " HOUR_SUM(failed_ms,                      \
                                                                                                                                     14) ", " HOUR_SUM(died_ms,      \
                                                                                                                                                       15))          \
    X(HOURS_OLD, "DELETE FROM hour WHERE queue = ?1 AND hour > 0 AND hour <= ?2")                                                                                    \
    X(HOURS_GONE, "DELETE FROM hour WHERE queue = ?1")
