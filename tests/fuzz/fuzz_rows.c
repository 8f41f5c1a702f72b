/* SPDX-License-Identifier: Apache-2.0 */
/* Rows from anybody: the rules of the columns and the decoders behind them break over nothing, and
 * what the rules let through can be shown.
 *
 * An input is the number of a table, then a value for each of its columns: a type (NULL, number,
 * text, bytes), and eight bytes of a number, or a length of two bytes and as many bytes. What is
 * missing at the end is NULL. */
#include <string.h>

#include "api/v1/jobs/job_view.h"
#include "backend/local/sqlite/rules.h"
#include "base/check.h"
#include "base/json/json.h"
#include "core/schedules/schedule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static sqlite3 *db;
static sqlite3_stmt *stmts[TABLE_COUNT]; /* SELECT ?1, ?2 … */

static void prepare(void)
{
    CHECK(sqlite3_open(":memory:", &db) == SQLITE_OK);
    for (int t = 0; t < TABLE_COUNT; t++) {
        char sql[256] = "SELECT ?1";
        size_t at = strlen(sql);
        for (int c = 1; c < table_rules[t].count; c++)
            at += (size_t)snprintf(sql + at, sizeof sql - at, ", ?%d", c + 1);
        CHECK(sqlite3_prepare_v2(db, sql, -1, &stmts[t], NULL) == SQLITE_OK);
    }
}

static bool take(struct span *in, void *out, size_t len)
{
    if (in->len < len)
        return false;
    memcpy(out, in->at, len);
    *in = span_of(in->at + len, in->len - len);
    return true;
}

static void value_bind(sqlite3_stmt *st, int at, struct span *in)
{
    uint8_t type = 0;
    int64_t number = 0;
    uint16_t len = 0;
    if (!take(in, &type, 1) || type % 4 == 0) {
        sqlite3_bind_null(st, at);
    } else if (type % 4 == 1) {
        (void)take(in, &number, sizeof number);
        sqlite3_bind_int64(st, at, number);
    } else {
        (void)take(in, &len, sizeof len);
        len = len < in->len ? len : (uint16_t)in->len;
        if (type % 4 == 2)
            sqlite3_bind_text(st, at, in->at, len, SQLITE_STATIC);
        else
            sqlite3_bind_blob(st, at, len ? in->at : "", len, SQLITE_STATIC);
        *in = span_of(in->at + len, in->len - len);
    }
}

/* ---- what the rules let through ---- */

static void json_right(struct json_writer *w, struct buf *text)
{
    CHECK(w->error == 0);
    CHECK(json_check(buf_span(text), NULL, NULL) == 0);
    buf_done(text);
}

static void show_job(const struct job_view *v)
{
    struct buf text;
    struct json_writer w;
    buf_init(&text);
    json_writer_init(&w, &text);
    job_view_write(&w, v, (struct wall_time){1790000000000}, 0);
    json_right(&w, &text);
}

static void job_row(sqlite3_stmt *st)
{
    struct stored_job j;
    struct err_note note;
    int64_t values[JOB_COLUMN_COUNT];
    for (int i = 0; i < JOB_COLUMN_COUNT; i++)
        values[i] = i == JOB_WORKER ? 0 : sqlite3_column_int64(st, i);
    int bad = job_bad_number(values);
    if (bad >= 0) {
        CHECK(row_job(st, 0, &j) != 0 && job_refuse(values, bad, &note) != 0);
        return;
    }
    CHECK(row_job(st, 0, &j) == 0);
    struct job_view v = {.job = j.job, .started_at = j.started_at, .worker = j.worker};
    show_job(&v);
}

static void extra_row(sqlite3_stmt *st)
{
    struct job_view v = {.job = {.seq = 1, .state = STATE_READY}};
    CHECK(row_extra(st, 1, &v.extra) == 0);
    v.expires_at = v.extra.expires_at;
    show_job(&v);
}

static void queue_row(sqlite3_stmt *st)
{
    bool gone;
    struct queue_policy policy;
    struct rec_queue_put put = row_queue(st, &gone);
    CHECK(policy_decode(put.policy, &policy) == 0);
    CHECK(put.attributes.len == 0 || json_check(put.attributes, NULL, NULL) == 0);
}

static void schedule_row(sqlite3_stmt *st)
{
    char id[ID_ULID_BYTES];
    struct rec_schedule_put put;
    struct schedule_spec spec;
    CHECK(row_schedule(st, &put) == 0);
    CHECK(schedule_decode(put.spec, &spec) == 0);
    id_ulid(id_make(put.state.id_hi, put.state.seq), id);
    id_ulid(id_make(put.state.id_hi, put.state.item), id);
}

static void row_show(enum table_id table, sqlite3_stmt *st)
{
    if (table == TABLE_JOBS)
        job_row(st);
    else if (table == TABLE_EXTRA)
        extra_row(st);
    else if (table == TABLE_QUEUES)
        queue_row(st);
    else if (table == TABLE_SCHEDULES)
        schedule_row(st);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span in = span_of((const char *)data, size);
    struct err_note note;
    uint8_t table = 0;
    if (!db)
        prepare();
    if (!take(&in, &table, 1))
        return 0;
    table = (uint8_t)(table % TABLE_COUNT);
    sqlite3_stmt *st = stmts[table];
    for (int c = 0; c < table_rules[table].count; c++)
        value_bind(st, c + 1, &in);
    CHECK(sqlite3_step(st) == SQLITE_ROW);
    int bad = row_bad_column((enum table_id)table, st, 0);
    if (bad >= 0)
        CHECK(row_refuse((enum table_id)table, st, 0, bad, &note) != 0);
    else
        row_show((enum table_id)table, st);
    sqlite3_reset(st);
    return 0;
}
