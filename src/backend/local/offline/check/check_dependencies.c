/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with jobs that depend on others.
 *
 * After a crash a dependency may lead to a job that has been removed, and a removed job may still
 * have its row in `dependents`: the next start continues there. So the former is only a warning,
 * and the latter is not reported. */
#include "backend/local/offline/check/check_impl.h"
#include "backend/local/sqlite/rules.h"
#include "core/jobs/dependency.h"

static long long number(sqlite3_stmt *st, int at)
{
    return (long long)sqlite3_column_int64(st, at);
}

static void check_edges(struct check *c)
{
    sqlite3_stmt *st = check_prepare(
        c, "SELECT e.seq, e.parent, d.seq IS NULL FROM dependencies e"
           " LEFT JOIN dependents d ON d.seq = e.seq"
           " LEFT JOIN (SELECT j.seq FROM jobs j WHERE " ROW_NOT_GONE ") p ON p.seq = e.parent"
           " LEFT JOIN parents_ended x ON x.seq = e.parent"
           " WHERE d.seq IS NULL OR (p.seq IS NULL AND x.seq IS NULL)");
    while (check_step(c, st)) {
        if (number(st, 2))
            check_problem(c, ADVICE_ROWS,
                          "job %lld waits for job %lld, but table dependents has no row for it",
                          number(st, 0), number(st, 1));
        else
            check_warning(c, ADVICE_PARENT,
                          "job %lld waits for job %lld, which is not there; the next start takes "
                          "it for removed",
                          number(st, 0), number(st, 1));
    }
    sqlite3_finalize(st);
}

#define WAITS "(SELECT count(*) FROM dependencies e WHERE e.seq = d.seq)"
#define ENDED "d.done + d.dead + d.cancelled + d.removed"

void check_dependencies(struct check *c)
{
    check_query(c, "SELECT printf('job %d is blocked, but table dependents has no row for it:"
                   " nothing will make it ready', j.seq)"
                   " FROM jobs j LEFT JOIN dependents d ON d.seq = j.seq"
                   " WHERE j.state = :blocked AND d.seq IS NULL AND " ROW_NOT_GONE);
    check_edges(c);
    check_query(c, "SELECT printf('job %d depends on %d jobs, but %d have ended, and it waits for"
                   " %d', d.seq, d.total, " ENDED ", " WAITS ") FROM dependents d"
                   " WHERE d.total < " ENDED " + " WAITS);
    /* Of a job that is blocked the counts are exact. */
    check_query(c,
                "SELECT printf('job %d is blocked and depends on %d jobs, of which %d have"
                " ended and %d are left: dependencies are missing', d.seq, d.total, " ENDED
                ", " WAITS ") FROM dependents d JOIN jobs j ON j.seq = d.seq"
                " WHERE j.state = :blocked AND d.total > " ENDED " + " WAITS " AND " ROW_NOT_GONE);
    check_query(c, "SELECT printf('table parents_ended has a row for job %d, for which no job"
                   " waits', x.seq) FROM parents_ended x"
                   " WHERE NOT EXISTS (SELECT 1 FROM dependencies e WHERE e.parent = x.seq)");
}
