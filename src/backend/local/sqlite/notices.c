/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/sqlite/notices.h"

#include <inttypes.h>

#include "backend/local/sqlite/rules.h"

/* ---- writing ---- */

/* Runs a statement that may change any number of rows. */
static int write_any(struct store_sqlite *q, enum stmt_id id, struct err_note *note)
{
    return sql_run(q->stmts[id], "write", note);
}

static int write_of(struct store_sqlite *q, enum stmt_id id, struct span alert,
                    struct err_note *note)
{
    bind_text(q->stmts[id], 1, alert);
    return write_any(q, id, note);
}

static int write_alert_put(struct store_sqlite *q, const struct rec_alert_put *r,
                           struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_ALERT_PUT];
    bind_text(st, 1, r->name);
    bind_number(st, 2, (uint64_t)r->created_at.ms);
    bind_number(st, 3, (uint64_t)r->updated_at.ms);
    bind_number(st, 4, r->rule.on);
    bind_number(st, 5, r->rule.enabled);
    bind_number(st, 6, r->rule.with_payload);
    bind_text(st, 7, r->rule.queue);
    bind_number(st, 8, r->rule.depth);
    bind_number(st, 9, r->rule.percent);
    bind_number(st, 10, r->rule.window_ms);
    bind_number(st, 11, r->rule.min_ends);
    bind_number(st, 12, r->rule.after_ms);
    bind_text(st, 13, r->rule.url);
    bind_text(st, 14, r->rule.secret);
    int rc = write_any(q, STMT_ALERT_PUT, note);
    if (rc == 0 && r->condition_changed)
        rc = write_of(q, STMT_RAISED_OF, r->name, note);
    if (rc == 0 && r->rule.url.len == 0)
        rc = write_of(q, STMT_NOTICES_OF, r->name, note);
    return rc;
}

static int write_alert_gone(struct store_sqlite *q, const struct rec_alert_gone *r,
                            struct err_note *note)
{
    bind_text(q->stmts[STMT_ALERT_GONE], 1, r->name);
    int rc = write_one(q, STMT_ALERT_GONE, "the alert deleted at", (uint64_t)r->at.ms, note);
    if (rc == 0)
        rc = write_of(q, STMT_RAISED_OF, r->name, note);
    return rc ? rc : write_of(q, STMT_NOTICES_OF, r->name, note);
}

static int write_alert_edge(struct store_sqlite *q, const struct rec_alert_edge *r,
                            struct err_note *note)
{
    enum stmt_id id = r->raised ? STMT_RAISED_NEW : STMT_RAISED_GONE;
    sqlite3_stmt *st = q->stmts[id];
    bind_text(st, 1, r->alert);
    bind_text(st, 2, r->queue);
    if (r->raised) {
        bind_number(st, 3, (uint64_t)r->at.ms);
        bind_number(st, 4, r->value);
        bind_number(st, 5, r->mark);
    }
    return write_one(q, id, "what an alert raised, at", (uint64_t)r->at.ms, note);
}

static int write_notice_new(struct store_sqlite *q, const struct rec_notice_new *r,
                            struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_NOTICE_NEW];
    bind_number(st, 1, r->number);
    bind_number(st, 2, r->id_hi);
    bind_number(st, 3, r->on);
    bind_number(st, 4, r->edge);
    bind_number(st, 5, (uint64_t)r->at.ms);
    bind_text(st, 6, r->alert);
    bind_text(st, 7, r->queue);
    bind_number(st, 8, r->job_seq);
    bind_number(st, 9, r->job_hi);
    bind_number(st, 10, r->reason);
    bind_number(st, 11, r->attempts);
    bind_number(st, 12, r->value);
    bind_number(st, 13, r->mark);
    bind_text(st, 14, r->subject);
    bind_text(st, 15, r->text);
    return write_one(q, STMT_NOTICE_NEW, "notice", r->number, note);
}

static int write_notice_tried(struct store_sqlite *q, const struct rec_notice_tried *r,
                              struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_NOTICE_TRIED];
    bind_number(st, 1, r->number);
    bind_number(st, 2, r->state);
    bind_number(st, 3, r->tries);
    bind_number(st, 4, (uint64_t)r->since.ms);
    bind_number(st, 5, (uint64_t)r->due.ms);
    bind_number(st, 6, r->status);
    bind_text(st, 7, r->error);
    return write_one(q, STMT_NOTICE_TRIED, "notice", r->number, note);
}

static int write_breaker_put(struct store_sqlite *q, const struct rec_breaker_put *r,
                             struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_BREAKER_PUT];
    bind_text(st, 1, r->target);
    bind_number(st, 2, r->breaker.state);
    bind_number(st, 3, r->breaker.failures);
    bind_number(st, 4, r->breaker.probes);
    bind_number(st, 5, (uint64_t)r->breaker.until.ms);
    bind_number(st, 6, (uint64_t)r->breaker.changed_at.ms);
    bind_number(st, 7, r->breaker.own.failure_threshold);
    bind_number(st, 8, r->breaker.own.open_cooldown_seconds);
    bind_number(st, 9, r->breaker.own.half_open_probe_count);
    bind_number(st, 10, (uint64_t)r->breaker.used_at.ms);
    return write_any(q, STMT_BREAKER_PUT, note);
}

int write_notice_record(struct store_sqlite *q, const struct record *r, struct err_note *note)
{
    switch ((int)r->kind) {
    case REC_ALERT_PUT:
        return write_alert_put(q, &r->alert_put, note);
    case REC_ALERT_GONE:
        return write_alert_gone(q, &r->alert_gone, note);
    case REC_ALERT_EDGE:
        return write_alert_edge(q, &r->alert_edge, note);
    case REC_NOTICE_NEW:
        return write_notice_new(q, &r->notice_new, note);
    case REC_NOTICE_TRIED:
        return write_notice_tried(q, &r->notice_tried, note);
    case REC_NOTICE_GONE:
        bind_number(q->stmts[STMT_NOTICE_GONE], 1, r->notice_gone.number);
        return write_one(q, STMT_NOTICE_GONE, "notice", r->notice_gone.number, note);
    case REC_BREAKER_PUT:
        return write_breaker_put(q, &r->breaker_put, note);
    case REC_BREAKER_GONE:
        bind_text(q->stmts[STMT_BREAKER_GONE], 1, r->breaker_gone.target);
        return write_one(q, STMT_BREAKER_GONE, "the breaker of record", q->at, note);
    default:
        return err_note_set(note, -ERR_VERSION, "a record of kind %d is of a newer version",
                            (int)r->kind);
    }
}

/* ---- loading ---- */

static struct wall_time column_time(sqlite3_stmt *st, int at)
{
    return (struct wall_time){sqlite3_column_int64(st, at)};
}

static int alert_row(sqlite3_stmt *st, const struct store_sink *sink)
{
    struct record rec = {.kind = REC_ALERT_PUT,
                         .alert_put = {.name = column_span(st, 0),
                                       .created_at = column_time(st, 1),
                                       .updated_at = column_time(st, 2),
                                       .rule = {.on = (uint8_t)sqlite3_column_int64(st, 3),
                                                .enabled = sqlite3_column_int64(st, 4) != 0,
                                                .with_payload = sqlite3_column_int64(st, 5) != 0,
                                                .queue = column_span(st, 6),
                                                .depth = (uint64_t)sqlite3_column_int64(st, 7),
                                                .percent = (uint32_t)sqlite3_column_int64(st, 8),
                                                .window_ms = (uint32_t)sqlite3_column_int64(st, 9),
                                                .min_ends = (uint32_t)sqlite3_column_int64(st, 10),
                                                .after_ms = (uint32_t)sqlite3_column_int64(st, 11),
                                                .url = column_span(st, 12),
                                                .secret = column_span(st, 13)}}};
    return alert_rule_check(&rec.alert_put.rule, NULL) == 0 ? sink->record(sink->ctx, &rec)
                                                            : -ERR_CORRUPT;
}

static int raised_row(sqlite3_stmt *st, const struct store_sink *sink)
{
    struct record rec = {.kind = REC_ALERT_EDGE,
                         .alert_edge = {.alert = column_span(st, 0),
                                        .queue = column_span(st, 1),
                                        .raised = true,
                                        .at = column_time(st, 2),
                                        .value = (uint64_t)sqlite3_column_int64(st, 3),
                                        .mark = (uint64_t)sqlite3_column_int64(st, 4)}};
    return sink->record(sink->ctx, &rec);
}

static int notice_row(sqlite3_stmt *st, const struct store_sink *sink)
{
    uint64_t number = (uint64_t)sqlite3_column_int64(st, 0);
    struct record rec = {.kind = REC_NOTICE_NEW,
                         .notice_new = {.number = number,
                                        .id_hi = (uint64_t)sqlite3_column_int64(st, 1),
                                        .on = (uint8_t)sqlite3_column_int64(st, 2),
                                        .edge = (uint8_t)sqlite3_column_int64(st, 3),
                                        .at = column_time(st, 4),
                                        .alert = column_span(st, 5),
                                        .queue = column_span(st, 6),
                                        .job_seq = (uint64_t)sqlite3_column_int64(st, 7),
                                        .job_hi = (uint64_t)sqlite3_column_int64(st, 8),
                                        .reason = (uint8_t)sqlite3_column_int64(st, 9),
                                        .attempts = (uint32_t)sqlite3_column_int64(st, 10),
                                        .value = (uint64_t)sqlite3_column_int64(st, 11),
                                        .mark = (uint64_t)sqlite3_column_int64(st, 12),
                                        .subject = column_span(st, 13),
                                        .text = column_span(st, 14)}};
    struct record tried = {.kind = REC_NOTICE_TRIED,
                           .notice_tried = {.number = number,
                                            .state = (uint8_t)sqlite3_column_int64(st, 15),
                                            .tries = (uint32_t)sqlite3_column_int64(st, 16),
                                            .since = column_time(st, 17),
                                            .due = column_time(st, 18),
                                            .status = (uint16_t)sqlite3_column_int64(st, 19),
                                            .error = column_span(st, 20)}};
    int rc = sink->record(sink->ctx, &rec);
    return rc ? rc : sink->record(sink->ctx, &tried);
}

static int breaker_row(sqlite3_stmt *st, const struct store_sink *sink)
{
    struct record rec = {
        .kind = REC_BREAKER_PUT,
        .breaker_put = {.target = column_span(st, 0),
                        .breaker = {.state = (uint8_t)sqlite3_column_int64(st, 1),
                                    .failures = (uint32_t)sqlite3_column_int64(st, 2),
                                    .probes = (uint32_t)sqlite3_column_int64(st, 3),
                                    .until = column_time(st, 4),
                                    .changed_at = column_time(st, 5),
                                    .own = {(uint32_t)sqlite3_column_int64(st, 6),
                                            (uint32_t)sqlite3_column_int64(st, 7),
                                            (uint32_t)sqlite3_column_int64(st, 8)},
                                    .used_at = column_time(st, 9)}}};
    return sink->record(sink->ctx, &rec);
}

int load_alert_records(sqlite3 *db, const struct store_sink *sink, struct err_note *note)
{
    return load_scan(db, TABLE_ALERTS, "ORDER BY name", alert_row, sink, note);
}

int load_notice_records(sqlite3 *db, const struct store_sink *sink, struct err_note *note)
{
    int rc = load_alert_records(db, sink, note);
    if (rc == 0)
        rc = load_scan(db, TABLE_RAISED, "ORDER BY alert, queue", raised_row, sink, note);
    if (rc == 0)
        rc = load_scan(db, TABLE_NOTICES, "ORDER BY number", notice_row, sink, note);
    return rc ? rc : load_scan(db, TABLE_BREAKERS, "ORDER BY target", breaker_row, sink, note);
}
