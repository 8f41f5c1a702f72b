/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/postgres/sql/sql.h"

#include "base/buf.h"
#include "base/mem.h"

char *pg_sql_with_schema(const char *text, const char *schema)
{
    struct buf b;
    char *done = NULL;
    int err = 0;
    buf_init(&b);
    for (; *text && !err; text++) {
        if (*text != '@') {
            err = buf_append(&b, text, 1);
            continue;
        }
        err = buf_append_text(&b, schema);
        if (text[1] == '@')
            text++;
        else if (!err)
            err = buf_append(&b, ".", 1);
    }
    if (!err)
        done = mem_text(b.data, b.len);
    buf_done(&b);
    return done;
}

int pg_sql_fill(struct sql_text *ret, const char *schema)
{
    for (size_t i = 0; i < SQL_COUNT; i++) {
        ret->text[i] = pg_sql_with_schema(pg_sql_source[i], schema);
        if (!ret->text[i])
            return -ERR_NOMEM;
    }
    return 0;
}

void pg_sql_done(struct sql_text *t)
{
    for (size_t i = 0; i < SQL_COUNT; i++)
        mem_free(t->text[i]);
}
