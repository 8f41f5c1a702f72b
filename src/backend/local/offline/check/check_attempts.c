/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with the history of attempts. */
#include <inttypes.h>

#include "backend/local/offline/check/check_impl.h"

enum attempt_column {
    AT_SEQ,
    AT_POSITION,
    AT_QUEUE,
    AT_JOB_QUEUE, /* NULL = there is no such job */
};

static void check_attempt(struct check *c, sqlite3_stmt *st)
{
    int64_t seq = sqlite3_column_int64(st, AT_SEQ);
    if (sqlite3_column_type(st, AT_JOB_QUEUE) == SQLITE_NULL) {
        check_problem(c, ADVICE_ROWS,
                      "table attempts has a row for job %" PRId64 ", which does not exist", seq);
        return;
    }
    if ((uint64_t)sqlite3_column_int64(st, AT_POSITION) > c->meta.position)
        check_problem(c, ADVICE_JOB,
                      "job %" PRId64 ": a row in table attempts is of a record not applied yet",
                      seq);
    if (sqlite3_column_int64(st, AT_QUEUE) != sqlite3_column_int64(st, AT_JOB_QUEUE))
        check_problem(c, ADVICE_ROWS,
                      "job %" PRId64 ": a row in table attempts is of another queue", seq);
}

void check_attempts(struct check *c)
{
    sqlite3_stmt *st =
        check_prepare(c, "SELECT a.seq, a.position, a.queue, j.queue FROM attempts a NOT INDEXED "
                         "LEFT JOIN jobs j ON j.seq = a.seq AND " ROW_NOT_GONE " ORDER BY a.seq");
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
