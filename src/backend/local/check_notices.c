/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with alert rules, what they have raised, notices and breakers. */
#include <inttypes.h>

#include "backend/local/check_impl.h"
#include "core/validate.h"
#include "core/webhook.h"

static bool within(sqlite3_stmt *st, int at, int64_t min, int64_t max)
{
    int64_t v = sqlite3_column_int64(st, at);
    return v >= min && v <= max;
}

static bool time_good(sqlite3_stmt *st, int at)
{
    return within(st, at, 0, LIMIT_WALL_MS);
}

static bool rule_good(sqlite3_stmt *st)
{
    for (int i = 3; i <= 10; i++)
        if (i != 6 && !within(st, i, 0, UINT32_MAX))
            return false;
    struct alert_rule rule = {.on = (uint8_t)sqlite3_column_int64(st, 3),
                              .enabled = sqlite3_column_int64(st, 4) != 0,
                              .with_payload = sqlite3_column_int64(st, 5) != 0,
                              .queue = column_span(st, 11),
                              .depth = (uint64_t)sqlite3_column_int64(st, 6),
                              .percent = (uint32_t)sqlite3_column_int64(st, 7),
                              .window_ms = (uint32_t)sqlite3_column_int64(st, 8),
                              .min_ends = (uint32_t)sqlite3_column_int64(st, 9),
                              .after_ms = (uint32_t)sqlite3_column_int64(st, 10),
                              .url = column_span(st, 12),
                              .secret = column_span(st, 13)};
    return within(st, 3, 1, ALERT_ON_COUNT - 1) && alert_rule_check(&rule, NULL) == 0;
}

static void check_alerts(struct check *c)
{
    sqlite3_stmt *st = check_prepare(
        c, "SELECT name, created_at, updated_at, kind, enabled, with_payload, depth, percent,"
           " window_ms, min_ends, after_ms, queue, url, secret FROM alerts");
    while (check_step(c, st)) {
        struct span name = column_span(st, 0);
        if (alert_name_check(name, NULL) != 0 || !time_good(st, 1) || !time_good(st, 2) ||
            !rule_good(st))
            check_problem(c, ADVICE_ROWS, "alert %.*s: a value is out of range",
                          (int)(name.len < 100 ? name.len : 100), name.len ? name.at : "");
    }
    sqlite3_finalize(st);
}

static void check_raised(struct check *c)
{
    sqlite3_stmt *st =
        check_prepare(c, "SELECT r.since, r.queue, a.name IS NULL FROM raised r LEFT JOIN alerts a"
                         " ON a.name = r.alert");
    while (check_step(c, st)) {
        if (!time_good(st, 0) || column_span(st, 1).len > LIMIT_QUEUE_NAME_BYTES)
            check_problem(c, ADVICE_ROWS, "table raised has a value out of range");
        if (sqlite3_column_int64(st, 2))
            check_problem(c, ADVICE_ROWS,
                          "table raised has a row for an alert that does not exist");
    }
    sqlite3_finalize(st);
}

enum notice_column {
    NO_NUMBER,
    NO_KIND,
    NO_EDGE,
    NO_AT,
    NO_JOB_SEQ,
    NO_REASON,
    NO_STATE,
    NO_SINCE,
    NO_DUE,
    NO_STATUS,
    NO_QUEUE,
    NO_SUBJECT,
    NO_TEXT,
    NO_ERROR,
    NO_URL, /* of its alert; NULL = there is none to deliver it to */
};

static bool notice_good(const struct check *c, sqlite3_stmt *st)
{
    return within(st, NO_NUMBER, 1, (int64_t)c->meta.position) &&
           within(st, NO_KIND, 1, ALERT_ON_COUNT - 1) && within(st, NO_EDGE, 0, EDGE_COUNT - 1) &&
           time_good(st, NO_AT) && within(st, NO_JOB_SEQ, 0, (int64_t)LIMIT_SEQ) &&
           within(st, NO_REASON, 0, REASON_COUNT - 1) &&
           within(st, NO_STATE, 0, NOTICE_STATE_COUNT - 1) && time_good(st, NO_SINCE) &&
           time_good(st, NO_DUE) && within(st, NO_STATUS, 0, UINT16_MAX) &&
           column_span(st, NO_QUEUE).len <= LIMIT_QUEUE_NAME_BYTES &&
           column_span(st, NO_SUBJECT).len <= LIMIT_QUEUE_NAME_BYTES &&
           column_span(st, NO_TEXT).len <= LIMIT_NOTICE_TEXT_BYTES &&
           column_span(st, NO_ERROR).len <= LIMIT_NOTICE_ERROR_BYTES;
}

static void check_outbox(struct check *c)
{
    sqlite3_stmt *st = check_prepare(
        c, "SELECT n.number, n.kind, n.edge, n.at, n.job_seq, n.reason, n.state, n.since, n.due,"
           " n.status, n.queue, n.subject, n.text, n.error, a.url"
           " FROM notices n LEFT JOIN alerts a ON a.name = n.alert");
    while (check_step(c, st)) {
        int64_t number = sqlite3_column_int64(st, NO_NUMBER);
        if (!notice_good(c, st))
            check_problem(c, ADVICE_ROWS, "notice %" PRId64 ": a value is out of range", number);
        if (sqlite3_column_type(st, NO_URL) == SQLITE_NULL)
            check_problem(c, ADVICE_ROWS, "notice %" PRId64 " belongs to no alert with a webhook",
                          number);
    }
    sqlite3_finalize(st);
}

static void check_breakers(struct check *c)
{
    sqlite3_stmt *st =
        check_prepare(c, "SELECT state, failures, probes, until, changed_at, target FROM breakers");
    while (check_step(c, st)) {
        size_t len = column_span(st, 5).len;
        if (!within(st, 0, 0, BREAKER_STATE_COUNT - 1) || !within(st, 1, 0, UINT32_MAX) ||
            !within(st, 2, 0, UINT32_MAX) || !time_good(st, 3) || !time_good(st, 4) || len == 0 ||
            len >= WEBHOOK_TARGET_BYTES)
            check_problem(c, ADVICE_ROWS, "a breaker has a value out of range");
    }
    sqlite3_finalize(st);
}

void check_notices(struct check *c)
{
    check_alerts(c);
    check_raised(c);
    check_outbox(c);
    check_breakers(c);
}
