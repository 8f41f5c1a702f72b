/* SPDX-License-Identifier: Apache-2.0 */
/* The marks of removed jobs whose rows are still there. Where marks cannot be read, jobs that were
 * removed come back: better than to lose jobs that were not. */
#include <inttypes.h>

#include "backend/local/offline/salvage/salvage_impl.h"
#include "base/mem.h"

#define PATIENCE 4096u

/* Keys are one more than the block: neither the walk nor the map has a 0. */
static void lost(void *ctx, uint64_t from, uint64_t to)
{
    struct salvage *s = ctx;
    s->report->removals++;
    salvage_problem(s,
                    "which jobs with the sequences %" PRIu64 " to %" PRIu64
                    " have been removed cannot be read; such jobs may be among those exported",
                    (from - 1) << 6, (to << 6) - 1);
}

static int gone_row(void *ctx, sqlite3_stmt *st)
{
    struct salvage *s = ctx;
    uint64_t *gone = mem_more(s->gone, s->gone_count, &s->gone_room, sizeof *gone);
    if (!gone)
        return -ERR_NOMEM;
    s->gone = gone;
    s->gone[s->gone_count++] = (uint64_t)sqlite3_column_int64(st, 1);
    return map64_put(&s->gone_places, (uint64_t)sqlite3_column_int64(st, 0),
                     (uint32_t)s->gone_count);
}

bool salvage_is_gone(const struct salvage *s, uint64_t seq)
{
    uint32_t place = map64_get(&s->gone_places, (seq >> 6) + 1);
    return place && (s->gone[place - 1] >> (seq & 63) & 1);
}

int salvage_gone_read(struct salvage *s)
{
    struct err_note ignored;
    uint64_t last = (salvage_seq_last(s) >> 6) + 1;
    struct row_walk w = {.row = gone_row, .lost = lost, .ctx = s, .patience = PATIENCE};
    int rc = sql_prepare(s->db,
                         "SELECT block + 1, bits FROM gone WHERE block BETWEEN ?1 - 1 AND ?2 - 1 "
                         "ORDER BY block",
                         &w.st, &ignored);
    if (rc == -ERR_CORRUPT || rc == -ERR_IO) {
        lost(s, 1, last);
        rc = 0;
    } else if (rc == 0) {
        rc = row_walk(&w, 1, last, s->note);
    }
    sqlite3_finalize(w.st);
    return rc;
}
