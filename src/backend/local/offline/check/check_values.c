/* SPDX-License-Identifier: Apache-2.0 */
/* Every value of every table against its rule. Jobs are left to check_job.c: there a value must
 * also fit the job's state. */
#include "backend/local/offline/check/check_impl.h"
#include "backend/local/sqlite/rules.h"

static void check_row_values(struct check *c, enum table_id table, sqlite3_stmt *st)
{
    const struct table_rule *t = &table_rules[table];
    for (int i = 0; i < t->count; i++) {
        struct err_note note = {""};
        i = row_bad_among(table, st, i, i, t->count);
        if (i < 0)
            return;
        (void)!row_refuse(table, st, 0, i, &note);
        check_problem(c, t->job ? ADVICE_JOB : ADVICE_ROWS, "%s", note.text);
    }
}

static int check_table_values(struct check *c, enum table_id table)
{
    char *columns = rule_columns(table);
    char *sql =
        columns ? sqlite3_mprintf("SELECT %s FROM %s NOT INDEXED", columns, table_rules[table].name)
                : NULL;
    sqlite3_stmt *st = sql ? check_prepare(c, sql) : NULL;
    while (check_step(c, st))
        check_row_values(c, table, st);
    sqlite3_finalize(st);
    sqlite3_free(columns);
    bool done = sql != NULL;
    sqlite3_free(sql);
    return done ? 0 : -ERR_NOMEM;
}

int check_values(struct check *c)
{
    int rc = 0;
    for (int t = 0; t < TABLE_COUNT && rc == 0; t++)
        if (t != TABLE_JOBS && t != TABLE_META)
            rc = check_table_values(c, (enum table_id)t);
    return rc;
}
