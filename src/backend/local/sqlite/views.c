/* SPDX-License-Identifier: Apache-2.0 */
/* The views: what `sqlite3 -readonly DIR/holdfast.db` shows to people, beside a running server.
 *
 * A view is one row of the table below. Each shows only what exists: no jobs of deleted queues,
 * none that a purge has taken, none that are removed while their rows are still there. Writing to
 * one fails, and the error names the command to use instead. */
#include "backend/local/sqlite/read.h"

struct view {
    const char *name;
    const char *sql;
    const char *insert, *update, *delete; /* what to do instead */
};

static const struct view views[] = {
    {
        .name = "job",
        .sql =
            "SELECT"
            " j.seq AS id,"
            " q.name AS queue,"
            " CASE j.state WHEN 1 THEN 'scheduled' WHEN 2 THEN 'ready' WHEN 3 THEN 'running'"
            "  WHEN 4 THEN 'done' WHEN 5 THEN 'dead' WHEN 6 THEN 'cancelled' END AS state,"
            " CASE j.marks & 15 WHEN 1 THEN 'failed' WHEN 2 THEN 'rejected'"
            "  WHEN 3 THEN 'crash_loop' WHEN 4 THEN 'timed_out' WHEN 5 THEN 'expired'"
            "  WHEN 6 THEN 'cancelled' WHEN 7 THEN 'replaced' WHEN 8 THEN 'released'"
            "  WHEN 9 THEN 'restarted' WHEN 10 THEN 'discarded' WHEN 11 THEN 'damaged' END AS "
            "reason,"
            " j.priority AS priority,"
            " (j.counts & 65535) + (j.counts >> 16 & 65535) + (j.state IN (3, 4)) AS attempts,"
            " j.counts & 65535 AS failures,"
            " j.counts >> 16 & 65535 AS crashes,"
            " strftime('%Y-%m-%dT%H:%M:%fZ', (j.id_hi >> 16) / 1000.0, 'unixepoch')"
            "  AS created_at,"
            " strftime('%Y-%m-%dT%H:%M:%fZ', j.since / 1000.0, 'unixepoch') AS since,"
            " strftime('%Y-%m-%dT%H:%M:%fZ', nullif(j.run_at, 0) / 1000.0, 'unixepoch')"
            "  AS run_at,"
            " strftime('%Y-%m-%dT%H:%M:%fZ', nullif(" ROW_STARTED_AT ", 0) / 1000.0, 'unixepoch')"
            "  AS started_at,"
            " strftime('%Y-%m-%dT%H:%M:%fZ', nullif(x.expires_at, 0) / 1000.0, 'unixepoch')"
            "  AS expires_at,"
            " iif(j.state = 3, j.lease_ms, NULL) AS lease_ms,"
            " j.worker AS worker,"
            " x.unique_key AS unique_key,"
            " x.group_key AS group_key,"
            " x.correlation AS correlation,"
            " x.label AS label,"
            " x.attributes AS attributes,"
            " j.payload >> 2 AS payload_bytes,"
            " iif(j.payload & 3 = 1, CAST(p.body AS TEXT), p.body) AS payload,"
            " iif(o.result_kind = 1, CAST(o.result AS TEXT), o.result) AS result,"
            " CASE WHEN o.error IS NULL THEN NULL WHEN o.error_kind = 1 THEN 'business'"
            "  ELSE 'app' END AS error_kind,"
            " o.error AS error"
            " FROM jobs j JOIN queues q ON q.number = j.queue"
            " LEFT JOIN extra x ON x.seq = j.seq"
            " LEFT JOIN payload p ON p.seq = j.seq"
            " LEFT JOIN outcome o ON o.seq = j.seq"
            " WHERE " ROW_SHOWN,
        .insert = "holdfast enqueue, or POST /v1/queues/QUEUE/jobs",
        .update = "holdfast ack or holdfast fail, or PATCH /v1/jobs/ID",
        .delete = "DELETE /v1/jobs/ID, or POST /v1/jobs/ID/cancel",
    },
    {
        .name = "attempt",
        .sql = "SELECT"
               " a.seq AS id,"
               " q.name AS queue,"
               " a.number AS number,"
               " CASE a.outcome WHEN 0 THEN 'running' WHEN 1 THEN 'done' WHEN 2 THEN 'failed'"
               "  WHEN 3 THEN 'crashed' WHEN 4 THEN 'released' WHEN 5 THEN 'cancelled' END"
               "  AS outcome,"
               " a.worker AS worker,"
               " strftime('%Y-%m-%dT%H:%M:%fZ', nullif(a.started_at, 0) / 1000.0, 'unixepoch')"
               "  AS started_at,"
               " strftime('%Y-%m-%dT%H:%M:%fZ', nullif(a.ended_at, 0) / 1000.0, 'unixepoch')"
               "  AS ended_at,"
               " CASE WHEN a.error IS NULL THEN NULL WHEN a.error_kind = 1 THEN 'business'"
               "  ELSE 'app' END AS error_kind,"
               " a.error AS error"
               " FROM (SELECT seq, position, number, outcome, worker, started_at, ended_at,"
               "   error_kind, error FROM attempts"
               "  UNION ALL SELECT j.seq, 9223372036854775807,"
               "   (j.counts & 65535) + (j.counts >> 16 & 65535) + 1, j.state = 4, j.worker,"
               "   " ROW_STARTED_AT ", iif(j.state = 4, j.since, 0), 0, NULL FROM jobs j"
               "   WHERE j.state IN (3, 4) AND j.lease_ms <> 0) a"
               " JOIN jobs j ON j.seq = a.seq JOIN queues q ON q.number = j.queue"
               " WHERE " ROW_SHOWN " ORDER BY a.seq, a.position",
        .insert = "holdfast claim, or POST /v1/queues/QUEUE/claim",
        .update = "holdfast ack or holdfast fail, or POST /v1/jobs/ID/ack",
        .delete = "DELETE /v1/jobs/ID",
    },
    {
        /* Jobs of the API webqueue in its words; times are Unix seconds. */
        .name = "queue",
        .sql = "SELECT"
               " j.seq AS id,"
               " CAST(x.group_key AS INTEGER) AS library_id,"
               " CASE j.payload & 3 WHEN 1 THEN json_extract(CAST(p.body AS TEXT), '$')"
               "  WHEN 2 THEN CAST(p.body AS TEXT) ELSE x.unique_key END AS path,"
               " substr(q.name, 10) AS queue_type,"
               " CASE j.state WHEN 3 THEN 'running' WHEN 4 THEN 'completed' WHEN 5 THEN 'error'"
               "  ELSE 'pending' END AS status,"
               " j.priority AS priority,"
               " CASE WHEN j.state <> 5 THEN NULL WHEN o.error IS NOT NULL THEN o.error"
               "  ELSE CASE j.marks & 15 WHEN 1 THEN 'failed' WHEN 2 THEN 'rejected'"
               "   WHEN 3 THEN 'crash_loop' WHEN 4 THEN 'timed_out' WHEN 5 THEN 'expired' WHEN 11 "
               "THEN 'damaged' END END"
               "  AS error,"
               " iif(j.state = 4, CAST(o.result AS TEXT), NULL) AS results_json,"
               " ifnull(json_extract(x.attributes, '$.enqueued_at'), (j.id_hi >> 16) / 1000)"
               "  AS enqueued_at,"
               " iif(j.state < 3, NULL, nullif(" ROW_STARTED_AT ", 0) / 1000) AS started_at,"
               " iif(j.state IN (4, 5), j.since / 1000, NULL) AS completed_at"
               " FROM jobs j JOIN queues q ON q.number = j.queue"
               " LEFT JOIN extra x ON x.seq = j.seq"
               " LEFT JOIN payload p ON p.seq = j.seq"
               " LEFT JOIN outcome o ON o.seq = j.seq"
               " WHERE substr(q.name, 1, 9) = 'webqueue.' AND j.state <> 6 AND " ROW_SHOWN,
        .insert = "holdfast enqueue, or POST /api/web/queue/enqueue",
        .update = "holdfast requeue ID, or POST /api/web/queue/requeue, complete or fail",
        .delete = "DELETE /v1/jobs/ID, or POST /api/web/queue/clear-completed or clear-errors",
    },
};

#define OBJECTS 4 /* of a view: itself and a trigger for each verb */

/* The SQL of one of a view's objects, for sqlite3_free; its name is given back, too. */
static char *object_sql(const struct view *v, int object, char **ret_name)
{
    const char *const verbs[OBJECTS] = {NULL, "INSERT", "UPDATE", "DELETE"};
    const char *const instead[OBJECTS] = {NULL, v->insert, v->update, v->delete};
    if (object == 0) {
        *ret_name = sqlite3_mprintf("%s", v->name);
        return sqlite3_mprintf("CREATE VIEW %s AS %s", v->name, v->sql);
    }
    *ret_name = sqlite3_mprintf("%s_%s", v->name, verbs[object]);
    return sqlite3_mprintf("CREATE TRIGGER %s_%s INSTEAD OF %s ON %s BEGIN SELECT "
                           "RAISE(ABORT, '%q can only be read; use: %q'); END",
                           v->name, verbs[object], verbs[object], v->name, v->name,
                           instead[object]);
}

/* Calls fn for every object there should be. */
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

/* ---- are they there? ---- */

/* -ERR_NOT_FOUND when it is not there or not the same. */
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

/* ---- making them ---- */

/* Drops every view there is: only those of Holdfast can be there. Their triggers go with them. */
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
    if (rc != 0) /* the first error is the one to tell */
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}
