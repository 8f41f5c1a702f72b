/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with alert rules, what they have raised, notices and breakers. */
#include <inttypes.h>

#include "backend/local/offline/check/check_impl.h"
#include "core/alerts/alert.h"

static void check_alerts(struct check *c)
{
    sqlite3_stmt *st = check_prepare(
        c, "SELECT name, kind, enabled, with_payload, queue, depth, percent, window_ms, min_ends,"
           " after_ms, url, secret FROM alerts");
    while (check_step(c, st)) {
        struct alert_rule rule = {.on = (uint8_t)sqlite3_column_int64(st, 1),
                                  .enabled = sqlite3_column_int64(st, 2) != 0,
                                  .with_payload = sqlite3_column_int64(st, 3) != 0,
                                  .queue = column_span(st, 4),
                                  .depth = (uint64_t)sqlite3_column_int64(st, 5),
                                  .percent = (uint32_t)sqlite3_column_int64(st, 6),
                                  .window_ms = (uint32_t)sqlite3_column_int64(st, 7),
                                  .min_ends = (uint32_t)sqlite3_column_int64(st, 8),
                                  .after_ms = (uint32_t)sqlite3_column_int64(st, 9),
                                  .url = column_span(st, 10),
                                  .secret = column_span(st, 11)};
        struct span name = column_span(st, 0);
        struct err_note note = {""};
        if (alert_name_check(name, &note) != 0 || alert_rule_check(&rule, &note) != 0)
            check_problem(c, ADVICE_ROWS, "an alert rule cannot be one: %s", note.text);
    }
    sqlite3_finalize(st);
}

#define RAISED_BY_NONE                                                                             \
    "SELECT 'table raised has a row for an alert that does not exist'"                             \
    " FROM raised r LEFT JOIN alerts a ON a.name = r.alert WHERE a.name IS NULL"

static void check_outbox(struct check *c)
{
    sqlite3_stmt *st = check_prepare(
        c, "SELECT n.number, a.url FROM notices n LEFT JOIN alerts a ON a.name = n.alert");
    while (check_step(c, st)) {
        int64_t number = sqlite3_column_int64(st, 0);
        if ((uint64_t)number > c->meta.position)
            check_problem(c, ADVICE_ROWS, "notice %" PRId64 " is of a record not applied yet",
                          number);
        if (sqlite3_column_type(st, 1) == SQLITE_NULL)
            check_problem(c, ADVICE_ROWS, "notice %" PRId64 " belongs to no alert with a webhook",
                          number);
    }
    sqlite3_finalize(st);
}

void check_notices(struct check *c)
{
    check_alerts(c);
    check_query(c, RAISED_BY_NONE);
    check_outbox(c);
}
