/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with the counters by the hour. */
#include <inttypes.h>

#include "backend/local/offline/check/check_impl.h"

/* A queue that is new has none; what is there must be of a queue. */
void check_hours(struct check *c)
{
    sqlite3_stmt *st = check_prepare(
        c, "SELECT DISTINCT h.queue FROM hour h LEFT JOIN queues q ON q.number = h.queue"
           " WHERE q.number IS NULL");
    while (check_step(c, st)) {
        int64_t queue = sqlite3_column_int64(st, 0);
        check_problem(c, ADVICE_ROWS,
                      "table hour has a row for queue %" PRId64 ", which does not exist", queue);
    }
    sqlite3_finalize(st);
}
