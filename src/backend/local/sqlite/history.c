/* SPDX-License-Identifier: Apache-2.0 */
/* The history of attempts, as rows: written with the batch that ends them, read with their job. */
#include "backend/local/sqlite/read.h"

#include "backend/local/sqlite/rules.h"

#include "core/limits.h"

/* ---- writing ---- */

static int write_attempt(struct store_sqlite *q, const struct ended_attempt *a, const struct job *j,
                         struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_ATTEMPT_NEW];
    bind_number(st, 1, j->seq);
    bind_number(st, 2, a->position);
    bind_number(st, 3, j->queue);
    bind_number(st, 4, a->end.number);
    bind_number(st, 5, (uint64_t)a->started_at.ms);
    bind_number(st, 6, (uint64_t)a->end.at.ms);
    bind_number(st, 7, a->end.outcome);
    bind_number(st, 8, a->end.error_kind);
    bind_text(st, 9, a->worker);
    bind_text(st, 10, a->end.error);
    bounds_add(&q->attempts, j->seq);
    return sql_run(st, "write", note);
}

/* Numbers are reused and start again, so only the rows show how many there are. A query is cheaper
 * than a statement that would usually remove nothing. */
static int trim_attempts(struct store_sqlite *q, uint64_t seq, struct err_note *note)
{
    sqlite3_stmt *old = q->stmts[STMT_ATTEMPTS_OLD], *trim = q->stmts[STMT_ATTEMPTS_TRIM];
    bind_number(old, 1, seq);
    bind_number(old, 2, LIMIT_ATTEMPTS_KEPT);
    int step = sqlite3_step(old);
    int64_t position = step == SQLITE_ROW ? sqlite3_column_int64(old, 0) : 0;
    int rc = step == SQLITE_ROW || step == SQLITE_DONE ? 0 : sql_error(q->db, "read", note);
    sqlite3_reset(old);
    if (rc != 0 || position == 0)
        return rc;
    bind_number(trim, 1, seq);
    bind_number(trim, 2, (uint64_t)position);
    return sql_run(trim, "write", note);
}

int write_attempts(struct store_sqlite *q, struct err_note *note)
{
    const struct change_set *f = &q->change_set;
    int rc = 0;
    for (uint32_t i = 0; i < f->ended_count && rc == 0; i++) {
        const struct change *c = &f->changes[f->ended[i].change];
        if (c->flags & CHANGE_GONE)
            continue;
        rc = write_attempt(q, &f->ended[i], &c->job, note);
        if (rc == 0)
            rc = trim_attempts(q, c->seq, note);
    }
    return rc;
}

/* ---- reading ---- */

#define AT_NUMBER 3 /* the column of `attempts` with which those of row_attempt begin */

static bool attempt_good(sqlite3_stmt *st)
{
    return row_bad_among(TABLE_ATTEMPTS, st, 0, AT_NUMBER, table_rules[TABLE_ATTEMPTS].count) < 0;
}

/* From the columns number, started_at, ended_at, outcome, error_kind, worker, error. */
static int row_attempt(sqlite3_stmt *st, struct arena *arena, struct attempt_view *ret)
{
    ret->number = (uint32_t)sqlite3_column_int64(st, 0);
    ret->started_at.ms = sqlite3_column_int64(st, 1);
    ret->ended_at.ms = sqlite3_column_int64(st, 2);
    ret->outcome = (uint8_t)sqlite3_column_int64(st, 3);
    ret->error_kind = (uint8_t)sqlite3_column_int64(st, 4);
    int rc = read_span(st, 5, arena, &ret->worker);
    return rc ? rc : read_span(st, 6, arena, &ret->error);
}

/* The job that the attempts belong to and, in *newest, the attempt that its own row describes;
 * *ret_has says whether there is one. */
static int read_newest(struct reader_sqlite *r, uint64_t seq, struct arena *arena,
                       struct attempt_view *newest, bool *ret_has)
{
    sqlite3_stmt *st = r->stmts[READ_NEWEST];
    bind_number(st, 1, seq);
    int rc = read_row(r, st);
    if (rc == 0) {
        uint64_t counts = (uint64_t)sqlite3_column_int64(st, 1);
        struct job j = {.state = (uint8_t)sqlite3_column_int64(st, 0),
                        .failures = (uint16_t)counts,
                        .crashes = (uint16_t)(counts >> 16),
                        .since = {sqlite3_column_int64(st, 2)}};
        *ret_has = attempt_of_job(&j, (struct wall_time){sqlite3_column_int64(st, 4)}, newest);
        newest->seq = seq;
        newest->id_hi = (uint64_t)sqlite3_column_int64(st, 5);
        rc = read_span(st, 6, arena, &newest->queue);
        if (rc == 0 && *ret_has)
            rc = read_span(st, 3, arena, &newest->worker);
    }
    sqlite3_reset(st);
    return rc;
}

/* Filled from the end, because the newest is known first. */
int read_attempts(struct reader_sqlite *r, uint64_t seq, struct arena *arena,
                  struct stored_body *ret)
{
    sqlite3_stmt *st = r->stmts[READ_ATTEMPTS];
    struct attempt_view newest = {0};
    uint32_t at = LIMIT_ATTEMPTS_KEPT;
    bool has = false;
    struct attempt_view *views = arena_array(arena, at, sizeof *views);
    int rc = views ? read_newest(r, seq, arena, &newest, &has) : -ERR_NOMEM;
    if (rc != 0)
        return rc;
    if (has)
        views[--at] = newest;
    bind_number(st, 1, seq);
    bind_number(st, 2, at);
    while (rc == 0 && at > 0 && (rc = read_row(r, st)) == 0) {
        if (!attempt_good(st)) {
            ret->damage |= DAMAGE_HISTORY;
            continue;
        }
        views[--at] =
            (struct attempt_view){.seq = seq, .id_hi = newest.id_hi, .queue = newest.queue};
        rc = row_attempt(st, arena, &views[at]);
    }
    sqlite3_reset(st);
    ret->attempts = views + at;
    ret->attempt_count = LIMIT_ATTEMPTS_KEPT - at;
    if (rc == -ERR_CORRUPT) /* on one of their pages: what was read stays */
        ret->damage |= DAMAGE_HISTORY;
    return rc == -ERR_NOT_FOUND || rc == -ERR_CORRUPT ? 0 : rc;
}

/* ---- failed attempts ---- */

static int exception_rows(struct reader_sqlite *r, uint32_t queue, uint32_t limit,
                          struct arena *arena, struct attempt_view *views, uint32_t *ret_count)
{
    sqlite3_stmt *st = r->stmts[READ_EXCEPTIONS];
    int rc = 0;
    bind_number(st, 1, queue);
    bind_number(st, 2, limit);
    while (rc == 0 && *ret_count < limit && (rc = read_row(r, st)) == 0) {
        if (!attempt_good(st))
            continue;
        struct attempt_view *v = &views[(*ret_count)++];
        v->seq = (uint64_t)sqlite3_column_int64(st, 7);
        v->id_hi = (uint64_t)sqlite3_column_int64(st, 8);
        rc = read_span(st, 9, arena, &v->queue);
        if (rc == 0)
            rc = row_attempt(st, arena, v);
    }
    sqlite3_reset(st);
    return rc == -ERR_NOT_FOUND ? 0 : rc;
}

int sqlite_exceptions(struct store_reader *reader, const struct op_exceptions *query,
                      struct arena *arena, struct attempt_view **ret, uint32_t *ret_count)
{
    struct reader_sqlite *r = reader_sqlite_of(reader);
    uint32_t limit =
        query->limit == 0 || query->limit > LIMIT_EXCEPTIONS ? LIMIT_EXCEPTIONS : query->limit;
    uint32_t queue = 0, count = 0;
    struct attempt_view *views = arena_array(arena, limit, sizeof *views);
    if (!views)
        return -ERR_NOMEM;
    int rc = read_begin(r);
    if (rc == 0 && query->queue.len)
        rc = read_queue(r, query->queue, &queue);
    if (rc == 0 && (query->queue.len == 0 || queue != 0))
        rc = exception_rows(r, queue, limit, arena, views, &count);
    rc = read_end(r, rc);
    *ret = views;
    *ret_count = count;
    return rc;
}
