/* SPDX-License-Identifier: Apache-2.0 */
/* Counters by the hour, as rows.
 *
 * A frame has one record for each queue. They are added up and written with the batch: one row for
 * the hour and one for all time. When a queue is written to, its hours of more than 30 days ago are
 * removed; an idle queue keeps them, which is a bounded number, and readers ask for newer ones. */
#include <stdlib.h>

#include "backend/local/sqlite/read.h"
#include "backend/local/sqlite/rules.h"
#include "base/mem.h"

#define COUNTERS_MAX 8192u

static int by_queue(const void *a, const void *b)
{
    const struct rec_counters *x = a, *y = b;
    if (x->queue != y->queue)
        return x->queue < y->queue ? -1 : 1;
    return x->hour < y->hour ? -1 : x->hour > y->hour;
}

/* Merges records of the same queue and hour. */
static void counters_merge(struct change_set *f)
{
    uint32_t n = 0;
    if (f->counters_count == 0)
        return;
    qsort(f->counters, f->counters_count, sizeof *f->counters, by_queue);
    for (uint32_t i = 1; i < f->counters_count; i++) {
        if (by_queue(&f->counters[n], &f->counters[i]) == 0)
            counters_add(&f->counters[n].add, &f->counters[i].add);
        else
            f->counters[++n] = f->counters[i];
    }
    f->counters_count = n + 1;
}

int change_set_count(struct store_sqlite *q, const struct rec_counters *r, struct err_note *note)
{
    struct change_set *f = &q->change_set;
    int rc = 0;
    /* A busy queue is in every frame. */
    for (uint32_t back = 1; back <= 4 && back <= f->counters_count; back++) {
        struct rec_counters *t = &f->counters[f->counters_count - back];
        if (t->queue != r->queue || t->hour != r->hour)
            continue;
        counters_add(&t->add, &r->add);
        return 0;
    }
    if (f->counters_count == COUNTERS_MAX)
        counters_merge(f);
    if (f->counters_count > COUNTERS_MAX / 2)
        rc = write_counters(q, note);
    if (rc != 0)
        return rc;
    struct rec_counters *grown =
        mem_more(f->counters, f->counters_count, &f->counters_room, sizeof *grown);
    if (!grown)
        return -ERR_NOMEM;
    f->counters = grown;
    f->counters[f->counters_count++] = *r;
    return 0;
}

/* ---- writing ---- */

static int write_hour(struct store_sqlite *q, uint32_t queue, uint32_t hour,
                      const struct counters *t, struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_HOUR_ADD];
    bind_number(st, 1, queue);
    bind_number(st, 2, hour);
    for (int i = 0; i < COUNTER_COUNT; i++)
        bind_number(st, 3 + i, t->of[i]);
    return sql_run(st, "write", note);
}

static int write_queue_counters(struct store_sqlite *q, const struct rec_counters *t,
                                struct err_note *note)
{
    sqlite3_stmt *old = q->stmts[STMT_HOURS_OLD];
    int rc = write_hour(q, t->queue, t->hour, &t->add, note);
    if (rc == 0)
        rc = write_hour(q, t->queue, 0, &t->add, note);
    if (rc != 0 || t->hour <= HISTORY_HOURS)
        return rc;
    bind_number(old, 1, t->queue);
    bind_number(old, 2, t->hour - HISTORY_HOURS);
    return sql_run(old, "write", note);
}

int write_counters(struct store_sqlite *q, struct err_note *note)
{
    struct change_set *f = &q->change_set;
    int rc = 0;
    counters_merge(f);
    for (uint32_t i = 0; i < f->counters_count && rc == 0; i++)
        rc = write_queue_counters(q, &f->counters[i], note);
    f->counters_count = 0;
    return rc;
}

/* ---- reading ---- */

/* From the columns of hour_columns (sql/parts.sql), of which the first is `first`. */
static void row_counters(sqlite3_stmt *st, int first, struct counters *ret)
{
    for (int i = 0; i < COUNTER_COUNT; i++)
        ret->of[i] = (uint64_t)sqlite3_column_int64(st, first + i);
}

static int total_row(sqlite3_stmt *st, const struct store_sink *sink)
{
    struct counters totals;
    row_counters(st, 2, &totals);
    return sink->counters(sink->ctx, (uint32_t)sqlite3_column_int64(st, 0), &totals);
}

int sqlite_load_counters(sqlite3 *db, const struct store_sink *sink, struct err_note *note)
{
    return load_scan(db, TABLE_HOUR, "WHERE hour = 0 AND queue IN (SELECT number FROM queues)",
                     total_row, sink, note);
}

static int hour_rows(struct reader_sqlite *r, uint32_t queue, const struct op_history *query,
                     struct hour_view *hours, uint32_t *ret_count)
{
    sqlite3_stmt *st = r->stmts[READ_HOURS];
    int rc;
    bind_number(st, 1, queue);
    bind_number(st, 2, query->from ? query->from : 1);
    bind_number(st, 3, query->to);
    bind_number(st, 4, HISTORY_HOURS + 1);
    while ((rc = read_row(r, st)) == 0) {
        if (row_bad_column(TABLE_HOUR, st, 0) >= 0)
            continue; /* damaged: nothing is known about that hour */
        struct hour_view *h = &hours[(*ret_count)++];
        h->hour = (uint32_t)sqlite3_column_int64(st, 1);
        row_counters(st, 2, &h->counters);
    }
    sqlite3_reset(st);
    return rc == -ERR_NOT_FOUND ? 0 : rc;
}

int sqlite_history(struct store_reader *reader, const struct op_history *query, struct arena *arena,
                   struct hour_view **ret, uint32_t *ret_count)
{
    struct reader_sqlite *r = reader_sqlite_of(reader);
    uint32_t queue = 0, count = 0;
    struct hour_view *hours = arena_array(arena, HISTORY_HOURS + 1, sizeof *hours);
    if (!hours)
        return -ERR_NOMEM;
    int rc = read_begin(r);
    if (rc == 0)
        rc = read_queue(r, query->queue, &queue);
    if (rc == 0 && queue != 0)
        rc = hour_rows(r, queue, query, hours, &count);
    rc = read_end(r, rc);
    *ret = hours;
    *ret_count = count;
    return rc;
}
