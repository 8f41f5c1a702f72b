/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with the marks of removed jobs whose rows are still there. */
#include <inttypes.h>

#include "backend/local/offline/check/check_impl.h"
#include "backend/local/sqlite/rules.h"

bool check_gone(struct check *c, int64_t seq)
{
    struct err_note note;
    bool gone = false;
    if (c->gone.st && gone_scan_at(&c->gone, seq, &gone, &note) != 0) {
        check_problem(c, ADVICE_FILE, "%s", note.text);
        gone_scan_end(&c->gone);
    }
    return gone;
}

/* What these tables had of it went when it was removed. */
void check_gone_row(struct check *c, const struct check_row *row)
{
    if (row->sides[SIDE_ASIDE])
        check_problem(c, ADVICE_ROWS,
                      "table aside has a row for job %" PRId64 ", which has been removed",
                      row->seq);
    if (row->sides[SIDE_LINK])
        check_problem(c, ADVICE_ROWS,
                      "table links has a row for job %" PRId64 ", which has been removed",
                      row->seq);
}

static void check_block(struct check *c, sqlite3_stmt *rows, int64_t block, int64_t bits)
{
    if (bits == 0)
        check_problem(c, ADVICE_ROWS, "table gone, row %" PRId64 ": column bits is 0", block);
    if (block < 0 || block > STORE_SEQ_ANY >> 6)
        return; /* told already */
    int64_t first = block << 6;
    int marked = __builtin_popcountll((uint64_t)bits);
    sqlite3_bind_int64(rows, 1, first);
    sqlite3_bind_int64(rows, 2, bits);
    if (check_step(c, rows) && sqlite3_column_int64(rows, 0) != marked)
        check_problem(c, ADVICE_ROWS,
                      "table gone names %d jobs from %" PRId64 " to %" PRId64
                      ", of which %lld have a row",
                      marked, first, first + 63, (long long)sqlite3_column_int64(rows, 0));
    sqlite3_reset(rows);
}

void check_gones(struct check *c)
{
    sqlite3_stmt *st = check_prepare(c, "SELECT block, bits FROM gone ORDER BY block");
    sqlite3_stmt *rows = check_prepare(c, "SELECT count(*) FROM jobs " GONE_BLOCK);
    while (rows && check_step(c, st))
        check_block(c, rows, sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1));
    sqlite3_finalize(st);
    sqlite3_finalize(rows);
}
