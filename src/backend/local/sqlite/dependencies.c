/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that depend on others. Their records are written at once, not folded: a row of `dependents`
 * or `dependencies` does not depend on the row of its job. */
#include <inttypes.h>

#include "backend/local/sqlite/rules.h"
#include "backend/local/sqlite/store_sqlite.h"

static int write_put(struct store_sqlite *q, const struct rec_dependent_put *r,
                     struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_DEPENDENT_PUT];
    const struct dependent *d = &r->dependent;
    bind_number(st, 1, r->seq);
    bind_number(st, 2, d->rule);
    bind_number(st, 3, d->open);
    for (int i = 0; i < DEPENDENCY_END_COUNT; i++)
        bind_number(st, 4 + i, d->counts[i]);
    return sql_run(st, "write", note);
}

static int write_new(struct store_sqlite *q, const struct rec_dependencies_new *r,
                     struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_DEPENDENCY_NEW];
    struct span list = r->parents;
    uint64_t previous = 0, parent;
    int rc = 0;
    for (uint32_t i = 0; i < r->count && rc == 0; i++) {
        rc = record_seq_next(&list, &previous, &parent);
        if (rc != 0)
            return err_note_set(note, rc, "a list of jobs cannot be read");
        bind_number(st, 1, r->seq);
        bind_number(st, 2, parent);
        rc = sql_run(st, "write", note);
    }
    if (rc != 0)
        return rc;
    bind_number(q->stmts[STMT_DEPENDENT_MORE], 1, r->seq);
    bind_number(q->stmts[STMT_DEPENDENT_MORE], 2, r->count);
    return write_one(q, STMT_DEPENDENT_MORE, "dependent job", r->seq, note);
}

static int write_end(struct store_sqlite *q, const struct rec_dependency_end *r,
                     struct err_note *note)
{
    bind_number(q->stmts[STMT_DEPENDENCY_END], 1, r->seq);
    bind_number(q->stmts[STMT_DEPENDENCY_END], 2, r->parent);
    int rc = write_one(q, STMT_DEPENDENCY_END, "dependency of job", r->seq, note);
    if (rc == 0 && r->how != DEPENDENCY_END_NONE) {
        bind_number(q->stmts[STMT_DEPENDENT_COUNT], 1, r->seq);
        bind_number(q->stmts[STMT_DEPENDENT_COUNT], 2, r->how);
        rc = write_one(q, STMT_DEPENDENT_COUNT, "dependent job", r->seq, note);
    }
    if (rc == 0 && r->last) {
        bind_number(q->stmts[STMT_PARENT_FORGET], 1, r->parent);
        rc = write_one(q, STMT_PARENT_FORGET, "end of job", r->parent, note);
    }
    return rc;
}

int write_dependency_record(struct store_sqlite *q, const struct record *r, struct err_note *note)
{
    switch ((int)r->kind) {
    case REC_DEPENDENT_PUT:
        return write_put(q, &r->dependent_put, note);
    case REC_DEPENDENT_GONE:
        bind_number(q->stmts[STMT_DEPENDENT_GONE], 1, r->dependent.seq);
        return write_one(q, STMT_DEPENDENT_GONE, "dependent job", r->dependent.seq, note);
    case REC_DEPENDENCIES_NEW:
        return write_new(q, &r->dependencies_new, note);
    case REC_DEPENDENCY_END:
        return write_end(q, &r->dependency_end, note);
    case REC_PARENT_ENDED:
        bind_number(q->stmts[STMT_PARENT_ENDED], 1, r->dependent.seq);
        bind_number(q->stmts[STMT_PARENT_ENDED], 2, r->dependent.how);
        return sql_run(q->stmts[STMT_PARENT_ENDED], "write", note);
    default:
        return err_note_set(note, -ERR_VERSION, "a record of kind %d is of a newer version",
                            (int)r->kind);
    }
}

/* ---- loading ---- */

static uint64_t number(sqlite3_stmt *st, int at)
{
    return (uint64_t)sqlite3_column_int64(st, at);
}

static int dependent_row(sqlite3_stmt *st, const struct store_sink *sink)
{
    struct rec_dependent_put put = {
        .seq = number(st, 0),
        .dependent = {.rule = (uint8_t)number(st, 1), .open = number(st, 2) != 0}};
    for (int i = 0; i < DEPENDENCY_END_COUNT; i++)
        put.dependent.counts[i] = (uint32_t)number(st, 3 + i);
    return dependent_fits(&put.dependent, 0) ? sink->dependent(sink->ctx, &put) : -ERR_CORRUPT;
}

static int dependency_row(sqlite3_stmt *st, const struct store_sink *sink)
{
    return sink->dependency(sink->ctx, number(st, 0), number(st, 1));
}

static int parent_row(sqlite3_stmt *st, const struct store_sink *sink)
{
    return sink->parent_ended(sink->ctx, number(st, 0), (uint8_t)number(st, 1));
}

int load_dependencies(sqlite3 *db, const struct store_sink *sink, struct err_note *note)
{
    int rc = load_scan(db, TABLE_DEPENDENTS, "ORDER BY seq", dependent_row, sink, note);
    if (rc == 0)
        rc = load_scan(db, TABLE_DEPENDENCIES, "ORDER BY seq, parent", dependency_row, sink, note);
    return rc ? rc : load_scan(db, TABLE_PARENTS_ENDED, "ORDER BY seq", parent_row, sink, note);
}
