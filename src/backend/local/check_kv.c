/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with the key-value store. */
#include <inttypes.h>

#include "backend/local/check_impl.h"
#include "core/kvkey.h"
#include "core/limits.h"

static void check_keys(struct check *c)
{
    sqlite3_stmt *st =
        check_prepare(c, "SELECT key, version, expires_at, kind, length(value) FROM kv");
    while (check_step(c, st)) {
        int64_t version = sqlite3_column_int64(st, 1), expires_at = sqlite3_column_int64(st, 2);
        int64_t kind = sqlite3_column_int64(st, 3), bytes = sqlite3_column_int64(st, 4);
        if (kvkey_check(column_span(st, 0)) != 0)
            check_problem(c, ADVICE_ROWS, "a key of the key-value store is none");
        else if (version < 1 || (uint64_t)version > c->meta.position)
            check_problem(c, ADVICE_ROWS,
                          "a key of the key-value store has version %" PRId64
                          ", which no record has yet",
                          version);
        else if (expires_at < 0 || expires_at > LIMIT_WALL_MS || kind < PAYLOAD_NONE ||
                 kind > PAYLOAD_BYTES || bytes > (int64_t)LIMIT_PAYLOAD_BYTES ||
                 (kind == PAYLOAD_NONE && bytes != 0))
            check_problem(c, ADVICE_ROWS, "a key of the key-value store has a value out of range");
    }
    sqlite3_finalize(st);
}

static void check_undelivered(struct check *c)
{
    sqlite3_stmt *st = check_prepare(c, "SELECT u.seq, u.keys, j.seq IS NULL FROM undelivered u"
                                        " LEFT JOIN jobs j ON j.seq = u.seq AND " ROW_NOT_GONE);
    while (check_step(c, st)) {
        int64_t seq = sqlite3_column_int64(st, 0);
        struct span keys = column_span(st, 1), key;
        bool good = keys.len > 0;
        while (good && keys.len > 0)
            good = record_span_next(&keys, &key) == 0 && kvkey_check(key) == 0;
        if (!good)
            check_problem(c, ADVICE_ROWS, "job %" PRId64 ": its keys cannot be read", seq);
        if (sqlite3_column_int64(st, 2))
            check_problem(c, ADVICE_ROWS, "there are keys of job %" PRId64 ", which is not there",
                          seq);
    }
    sqlite3_finalize(st);
}

void check_kv(struct check *c)
{
    check_keys(c);
    check_undelivered(c);
}
