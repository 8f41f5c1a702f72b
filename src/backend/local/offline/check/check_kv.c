/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with the key-value store. */
#include <inttypes.h>

#include "backend/local/offline/check/check_impl.h"
#include "backend/local/sqlite/rules.h"

static void check_keys(struct check *c)
{
    sqlite3_stmt *st = check_prepare(c, "SELECT version, kind, value, crc FROM kv");
    while (check_step(c, st)) {
        int64_t version = sqlite3_column_int64(st, 0), kind = sqlite3_column_int64(st, 1);
        struct span value = column_span(st, 2);
        if ((uint64_t)version > c->meta.position)
            check_problem(c, ADVICE_ROWS,
                          "a key of the key-value store has version %" PRId64
                          ", which no record has yet",
                          version);
        if (kind == PAYLOAD_NONE && value.len != 0)
            check_problem(c, ADVICE_VALUE, "a value of version %" PRId64 " has no kind", version);
        else if (!body_good(value, sqlite3_column_int64(st, 3), (uint8_t)kind))
            check_problem(c, ADVICE_VALUE,
                          "the value of version %" PRId64
                          " is not what was written (checksum or JSON)",
                          version);
    }
    sqlite3_finalize(st);
}

void check_kv(struct check *c)
{
    check_keys(c);
    check_query(c, "SELECT printf('there are keys of job %d, which does not exist', u.seq)"
                   " FROM undelivered u LEFT JOIN jobs j ON j.seq = u.seq AND " ROW_NOT_GONE
                   " WHERE j.seq IS NULL");
}
