/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with the steps of jobs. */
#include <inttypes.h>

#include "backend/local/offline/check/check_impl.h"
#include "backend/local/sqlite/rules.h"
#include "core/limits.h"

static void check_results(struct check *c)
{
    sqlite3_stmt *st = check_prepare(c, "SELECT seq, name, result, crc FROM steps");
    while (check_step(c, st)) {
        struct span name = column_span(st, 1);
        if (body_good(column_span(st, 2), sqlite3_column_int64(st, 3), PAYLOAD_JSON))
            continue;
        check_problem(c, ADVICE_JOB,
                      "job %" PRId64 ": the result of its step \"%.*s\" is not what was written"
                      " (checksum or JSON)",
                      (int64_t)sqlite3_column_int64(st, 0), (int)name.len, name.at);
    }
    sqlite3_finalize(st);
}

void check_steps(struct check *c)
{
    check_results(c);
    check_query(c,
                "SELECT DISTINCT printf('there are steps of job %d, which does not exist', s.seq)"
                " FROM steps s LEFT JOIN jobs j ON j.seq = s.seq AND " ROW_NOT_GONE
                " WHERE j.seq IS NULL");
    check_query(c, "SELECT printf('job %d has %d steps of %d bytes, more than a job can have', seq,"
                   " count(*), sum(length(CAST(name AS BLOB)) + length(result))) FROM steps"
                   " GROUP BY seq HAVING count(*) > 1000 OR"
                   " sum(length(CAST(name AS BLOB)) + length(result)) > 1048576");
}
_Static_assert(LIMIT_STEPS == 1000 && LIMIT_STEPS_BYTES == 1048576, "the query has these limits");
