/* SPDX-License-Identifier: Apache-2.0 */
/* The views, which `sqlite3 -readonly DIR/holdfast.db` shows beside a running server.
 *
 * A view is one row of the table below. Each shows only what exists: no jobs of deleted queues, no
 * purged jobs, and no removed jobs whose rows still exist. Writing to a view fails, and the error
 * names the command to use instead. */
#include "backend/local/sqlite/read.h"

struct view {
    const char *name;
    enum text_id sql;                     /* sql/views.sql */
    const char *insert, *update, *delete; /* the command to use instead */
};

static const struct view views[] = {
    {
        .name = "job",
        .sql = TEXT_VIEW_JOB,
        .insert = "holdfast enqueue, or POST /v1/queues/QUEUE/jobs",
        .update = "holdfast ack or holdfast fail, or PATCH /v1/jobs/ID",
        .delete = "DELETE /v1/jobs/ID, or POST /v1/jobs/ID/cancel",
    },
    {
        .name = "attempt",
        .sql = TEXT_VIEW_ATTEMPT,
        .insert = "holdfast claim, or POST /v1/queues/QUEUE/claim",
        .update = "holdfast ack or holdfast fail, or POST /v1/jobs/ID/ack",
        .delete = "DELETE /v1/jobs/ID",
    },
    {
        /* Jobs of the API webqueue in its own terms; times are Unix seconds. */
        .name = "queue",
        .sql = TEXT_VIEW_QUEUE,
        .insert = "holdfast enqueue, or POST /api/web/queue/enqueue",
        .update = "holdfast requeue ID, or POST /api/web/queue/requeue, complete or fail",
        .delete = "DELETE /v1/jobs/ID, or POST /api/web/queue/clear-completed or clear-errors",
    },
};

#define OBJECTS 4 /* of a view: the view itself and a trigger for each verb */

/* The SQL of one of a view's objects, to be freed with sqlite3_free; its name is returned, too. */
static char *object_sql(const struct view *v, int object, char **ret_name)
{
    const char *const verbs[OBJECTS] = {NULL, "INSERT", "UPDATE", "DELETE"};
    const char *const instead[OBJECTS] = {NULL, v->insert, v->update, v->delete};
    if (object == 0) {
        *ret_name = sqlite3_mprintf("%s", v->name);
        return sqlite3_mprintf("CREATE VIEW %s AS %s", v->name, sqlite_text[v->sql]);
    }
    *ret_name = sqlite3_mprintf("%s_%s", v->name, verbs[object]);
    return sqlite3_mprintf("CREATE TRIGGER %s_%s INSTEAD OF %s ON %s BEGIN SELECT "
                           "RAISE(ABORT, '%q can only be read; use: %q'); END",
                           v->name, verbs[object], verbs[object], v->name, v->name,
                           instead[object]);
}

/* Calls fn for every object that should exist. */
typedef int (*object_fn)(sqlite3 *db, const char *name, const char *sql, struct err_note *note);

static int objects_each(sqlite3 *db, object_fn fn, struct err_note *note)
{
    int rc = 0;
    for (size_t i = 0; i < OBJECTS * sizeof views / sizeof views[0] && rc == 0; i++) {
        char *name = NULL, *sql = object_sql(&views[i / OBJECTS], (int)(i % OBJECTS), &name);
        rc =
            name && sql ? fn(db, name, sql, note) : err_note_set(note, -ERR_NOMEM, "out of memory");
        sqlite3_free(name);
        sqlite3_free(sql);
    }
    return rc;
}

/* ---- do they exist? ---- */

/* -ERR_NOT_FOUND if it does not exist or differs. */
static int object_compare(sqlite3 *db, const char *name, const char *sql, struct err_note *note)
{
    sqlite3_stmt *st = NULL;
    int rc = sql_prepare(db, "SELECT 1 FROM sqlite_schema WHERE name = ?1 AND sql = ?2", &st, note);
    if (rc == 0) {
        bind_text(st, 1, span_text(name));
        bind_text(st, 2, span_text(sql));
        int step = sqlite3_step(st);
        rc = step == SQLITE_ROW    ? 0
             : step == SQLITE_DONE ? -ERR_NOT_FOUND
                                   : sql_error(db, "read the schema", note);
    }
    sqlite3_finalize(st);
    return rc;
}

static int views_compare(sqlite3 *db, struct err_note *note)
{
    int64_t count = 0;
    int rc = sql_number(db, "SELECT count(*) FROM sqlite_schema WHERE type = 'view'", &count, note);
    if (rc == 0 && count != sizeof views / sizeof views[0])
        return -ERR_NOT_FOUND;
    return rc ? rc : objects_each(db, object_compare, note);
}

/* ---- creating them ---- */

/* Drops all views: only those of Holdfast can exist. Their triggers are dropped with them. */
static int views_drop(sqlite3 *db, struct err_note *note)
{
    sqlite3_stmt *st = NULL;
    int rc = sql_prepare(db, "SELECT name FROM sqlite_schema WHERE type = 'view'", &st, note);
    while (rc == 0 && sqlite3_step(st) == SQLITE_ROW) {
        char *sql = sqlite3_mprintf("DROP VIEW \"%w\"", (const char *)sqlite3_column_text(st, 0));
        sqlite3_reset(
            st); /* the schema must not be in use while it changes; the scan starts over */
        rc = sql ? sql_exec(db, sql, note) : err_note_set(note, -ERR_NOMEM, "out of memory");
        sqlite3_free(sql);
    }
    sqlite3_finalize(st);
    return rc;
}

static int object_make(sqlite3 *db, const char *name, const char *sql, struct err_note *note)
{
    (void)name;
    return sql_exec(db, sql, note);
}

int schema_views(sqlite3 *db, struct err_note *note)
{
    int rc = views_compare(db, note);
    if (rc != -ERR_NOT_FOUND)
        return rc;
    rc = sql_exec(db, "BEGIN IMMEDIATE", note);
    if (rc == 0)
        rc = views_drop(db, note);
    if (rc == 0)
        rc = objects_each(db, object_make, note);
    if (rc == 0)
        rc = sql_exec(db, "COMMIT", note);
    if (rc != 0) /* report the first error */
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}
