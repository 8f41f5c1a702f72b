/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with the tallies by the hour. */
#include <inttypes.h>

#include "backend/local/check_impl.h"

/* A store that was upgraded, or a queue that is new, has none; what is there must be of a queue. */
void check_hours(struct check *c)
{
    sqlite3_stmt *st =
        check_prepare(c, "SELECT h.queue, h.hour, q.number, min(" HOUR_COLUMNS ") FROM hour h"
                         " LEFT JOIN queues q ON q.number = h.queue GROUP BY h.queue, h.hour");
    while (check_step(c, st)) {
        int64_t queue = sqlite3_column_int64(st, 0), hour = sqlite3_column_int64(st, 1);
        if (sqlite3_column_type(st, 2) == SQLITE_NULL)
            check_problem(c, ADVICE_ROWS,
                          "table hour has a row for queue %" PRId64 ", which does not exist",
                          queue);
        else if (hour < 0 || hour > UINT32_MAX || sqlite3_column_int64(st, 3) < 0)
            check_problem(c, ADVICE_ROWS,
                          "queue %" PRId64 ": a row in table hour has a value out of range", queue);
    }
    sqlite3_finalize(st);
}
