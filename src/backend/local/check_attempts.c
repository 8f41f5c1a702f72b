/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with the history of attempts. */
#include <inttypes.h>

#include "backend/local/check_impl.h"
#include "core/validate.h"

enum attempt_column {
    AT_SEQ,
    AT_POSITION,
    AT_QUEUE,
    AT_NUMBER,
    AT_STARTED_AT,
    AT_ENDED_AT,
    AT_OUTCOME,
    AT_ERROR_KIND,
    AT_WORKER,
    AT_ERROR,
    AT_JOB_QUEUE, /* NULL = there is no such job */
};

static bool within(sqlite3_stmt *st, int at, int64_t min, int64_t max)
{
    int64_t v = sqlite3_column_int64(st, at);
    return v >= min && v <= max;
}

static bool values_good(const struct check *c, sqlite3_stmt *st)
{
    return within(st, AT_POSITION, 1, (int64_t)c->meta.position) &&
           within(st, AT_NUMBER, 1, UINT16_MAX * INT64_C(2) + 1) &&
           within(st, AT_STARTED_AT, 0, LIMIT_WALL_MS) &&
           within(st, AT_ENDED_AT, 0, LIMIT_WALL_MS) &&
           within(st, AT_OUTCOME, ATTEMPT_DONE, ATTEMPT_CANCELLED) &&
           within(st, AT_ERROR_KIND, ERROR_APP, ERROR_BUSINESS) &&
           validate_text("worker", column_span(st, AT_WORKER), LIMIT_WORKER_BYTES, NULL) == 0 &&
           column_span(st, AT_ERROR).len <= LIMIT_ERROR_BYTES;
}

static void check_attempt(struct check *c, sqlite3_stmt *st)
{
    int64_t seq = sqlite3_column_int64(st, AT_SEQ);
    if (sqlite3_column_type(st, AT_JOB_QUEUE) == SQLITE_NULL) {
        check_problem(c, ADVICE_ROWS,
                      "table attempts has a row for job %" PRId64 ", which does not exist", seq);
        return;
    }
    if (!values_good(c, st))
        check_problem(c, ADVICE_ROWS,
                      "job %" PRId64 ": a row in table attempts has a value out of range", seq);
    if (sqlite3_column_int64(st, AT_QUEUE) != sqlite3_column_int64(st, AT_JOB_QUEUE))
        check_problem(c, ADVICE_ROWS,
                      "job %" PRId64 ": a row in table attempts is of another queue", seq);
}

void check_attempts(struct check *c)
{
    sqlite3_stmt *st = check_prepare(
        c, "SELECT a.seq, a.position, a.queue, a.number, a.started_at, a.ended_at, a.outcome,"
           " a.error_kind, a.worker, a.error, j.queue"
           " FROM attempts a NOT INDEXED LEFT JOIN jobs j ON j.seq = a.seq AND " ROW_NOT_GONE
           " ORDER BY a.seq");
    int64_t last = 0;
    uint32_t count = 0;
    while (check_step(c, st)) {
        int64_t seq = sqlite3_column_int64(st, AT_SEQ);
        count = seq == last ? count + 1 : 1;
        last = seq;
        if (count == LIMIT_ATTEMPTS_KEPT + 1)
            check_problem(c, ADVICE_ROWS, "job %" PRId64 " has more than %d rows in table attempts",
                          seq, LIMIT_ATTEMPTS_KEPT);
        check_attempt(c, st);
    }
    sqlite3_finalize(st);
}
