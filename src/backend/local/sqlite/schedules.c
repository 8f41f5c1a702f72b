/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules as rows, and the job to which a trigger gave an item. */
#include <inttypes.h>

#include "backend/local/sqlite/rules.h"

enum { NUMBER, NAME, CREATED, UPDATED, PAUSED, SPEC, OWNER, NOTE, ATTRIBUTES, STATE };

static void bind_state(sqlite3_stmt *st, const struct schedule_state *s)
{
    const uint64_t values[] = {(uint64_t)s->next_at.ms,
                               (uint64_t)s->retry_at.ms,
                               (uint64_t)s->last_at.ms,
                               (uint64_t)s->fired_at.ms,
                               s->seq,
                               s->id_hi,
                               s->item,
                               s->fired,
                               s->missed,
                               s->failures,
                               s->error};
    for (int i = 0; i < (int)(sizeof values / sizeof *values); i++)
        bind_number(st, STATE + 1 + i, values[i]);
}

static struct schedule_state row_state(sqlite3_stmt *st)
{
    int64_t v[11];
    for (int i = 0; i < 11; i++)
        v[i] = sqlite3_column_int64(st, STATE + i);
    return (struct schedule_state){
        .next_at = {v[0]},
        .retry_at = {v[1]},
        .last_at = {v[2]},
        .fired_at = {v[3]},
        .seq = (uint64_t)v[4],
        .id_hi = (uint64_t)v[5],
        .item = (uint64_t)v[6],
        .fired = (uint64_t)v[7],
        .missed = (uint64_t)v[8],
        .failures = (uint32_t)v[9],
        .error = (uint8_t)v[10],
    };
}

int row_schedule(sqlite3_stmt *st, struct rec_schedule_put *ret)
{
    *ret = (struct rec_schedule_put){
        .schedule = (uint32_t)sqlite3_column_int64(st, NUMBER),
        .paused = sqlite3_column_int64(st, PAUSED) != 0,
        .created_at = {sqlite3_column_int64(st, CREATED)},
        .updated_at = {sqlite3_column_int64(st, UPDATED)},
        .state = row_state(st),
        .name = column_span(st, NAME),
        .spec = column_span(st, SPEC),
        .owner = column_span(st, OWNER),
        .note = column_span(st, NOTE),
        .attributes = column_span(st, ATTRIBUTES),
    };
    return row_bad_column(TABLE_SCHEDULES, st, 0) < 0 ? 0 : -ERR_CORRUPT;
}

static int write_put(struct store_sqlite *q, const struct rec_schedule_put *r,
                     struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_SCHEDULE_PUT];
    bind_number(st, NUMBER + 1, r->schedule);
    bind_text(st, NAME + 1, r->name);
    bind_number(st, CREATED + 1, (uint64_t)r->created_at.ms);
    bind_number(st, UPDATED + 1, (uint64_t)r->updated_at.ms);
    bind_number(st, PAUSED + 1, r->paused);
    bind_bytes(st, SPEC + 1, r->spec);
    bind_text(st, OWNER + 1, r->owner);
    bind_text(st, NOTE + 1, r->note);
    bind_text(st, ATTRIBUTES + 1, r->attributes);
    bind_state(st, &r->state);
    return write_one(q, STMT_SCHEDULE_PUT, "schedule", r->schedule, note);
}

static int write_state(struct store_sqlite *q, const struct rec_schedule_state *r,
                       struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_SCHEDULE_SET];
    bind_number(st, NUMBER + 1, r->schedule);
    bind_state(st, &r->state);
    return write_one(q, STMT_SCHEDULE_SET, "schedule", r->schedule, note);
}

/* The change set, which has the claims, checks whether the items exist. */
static int write_links(struct store_sqlite *q, const struct rec_job_linked *r,
                       struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_LINK_PUT];
    struct span list = r->items;
    uint64_t previous = 0, item;
    int rc = 0;
    for (uint32_t i = 0; i < r->count && rc == 0; i++) {
        rc = record_seq_next(&list, &previous, &item);
        if (rc != 0)
            return err_note_set(note, rc, "a list of items cannot be read");
        bind_number(st, 1, item);
        bind_number(st, 2, r->seq);
        bind_number(st, 3, r->id_hi);
        rc = sql_run(st, "write", note);
        bounds_add(&q->links, item);
    }
    return rc;
}

int write_schedule_record(struct store_sqlite *q, const struct record *r, struct err_note *note)
{
    int rc;
    switch ((int)r->kind) {
    case REC_SCHEDULE_PUT:
        rc = write_put(q, &r->schedule_put, note);
        return rc ? rc : write_numbers(q, 0, r->schedule_put.schedule, note);
    case REC_SCHEDULE_GONE:
        bind_number(q->stmts[STMT_SCHEDULE_GONE], 1, r->schedule_gone.schedule);
        return write_one(q, STMT_SCHEDULE_GONE, "schedule", r->schedule_gone.schedule, note);
    case REC_SCHEDULE_FIRED:
    case REC_SCHEDULE_PASSED:
    case REC_SCHEDULE_FAILED:
        return write_state(q, &r->schedule_state, note);
    case REC_JOB_LINKED:
        return write_links(q, &r->job_linked, note);
    default:
        return err_note_set(note, -ERR_VERSION, "a record of kind %d is of a newer version",
                            (int)r->kind);
    }
}

/* ---- loading ---- */

static int schedule_row(sqlite3_stmt *st, const struct store_sink *sink)
{
    struct rec_schedule_put put;
    int rc = row_schedule(st, &put);
    return rc ? rc : sink->schedule(sink->ctx, &put);
}

static int link_row(sqlite3_stmt *st, const struct store_sink *sink)
{
    struct stored_link link = {.item = (uint64_t)sqlite3_column_int64(st, 0),
                               .job = (uint64_t)sqlite3_column_int64(st, 1),
                               .job_hi = (uint64_t)sqlite3_column_int64(st, 2)};
    return sink->link(sink->ctx, &link);
}

int sqlite_load_schedules(sqlite3 *db, const struct store_sink *sink, struct err_note *note)
{
    int rc = load_scan(db, TABLE_SCHEDULES, "ORDER BY number", schedule_row, sink, note);
    return rc ? rc : load_scan(db, TABLE_LINKS, "ORDER BY item", link_row, sink, note);
}
