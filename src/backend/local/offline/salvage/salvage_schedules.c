/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules out of a store: its table, and what the journal says about them. */
#include <inttypes.h>

#include "backend/local/offline/salvage/salvage_impl.h"
#include "base/mem.h"

#define PATIENCE 200

static struct rec_schedule_put *schedule_of(const struct salvage *s, uint32_t number)
{
    for (size_t i = 0; i < s->schedule_count; i++)
        if (s->schedules[i].schedule == number)
            return &s->schedules[i];
    return NULL;
}

/* Copies the definition; replaces what it was. */
static int schedule_set(struct salvage *s, const struct rec_schedule_put *from)
{
    struct rec_schedule_put put = *from, *there = schedule_of(s, from->schedule);
    int rc = salvage_text_keep(s, &put.name);
    if (rc == 0)
        rc = salvage_text_keep(s, &put.spec);
    if (rc == 0)
        rc = salvage_text_keep(s, &put.note);
    if (rc == 0)
        rc = salvage_text_keep(s, &put.owner);
    if (rc != 0)
        return rc;
    if (!there) {
        struct rec_schedule_put *grown =
            mem_more(s->schedules, s->schedule_count, &s->schedule_room, sizeof *grown);
        if (!grown)
            return -ERR_NOMEM;
        s->schedules = grown;
        there = &s->schedules[s->schedule_count++];
    }
    put.attributes = span_of(NULL, 0); /* an export does not show them */
    *there = put;
    return 0;
}

static void lost(void *ctx, uint64_t from, uint64_t to)
{
    struct salvage *s = ctx;
    s->report->schedules += to - from < LIMIT_SCHEDULES ? to - from + 1 : LIMIT_SCHEDULES;
    salvage_problem(s, "schedules with the numbers %" PRIu64 " to %" PRIu64 " cannot be read", from,
                    to);
}

static int schedule_row(void *ctx, sqlite3_stmt *st)
{
    struct salvage *s = ctx;
    struct rec_schedule_put put;
    uint64_t number = (uint64_t)sqlite3_column_int64(st, 0);
    if (row_schedule(st, &put) != 0) {
        lost(s, number, number);
        return -ERR_CORRUPT;
    }
    return schedule_set(s, &put);
}

int salvage_schedules_read(struct salvage *s)
{
    struct err_note ignored;
    int64_t last = 0;
    struct row_walk w = {.row = schedule_row, .lost = lost, .ctx = s, .patience = PATIENCE};
    int rc = sql_prepare(s->db,
                         "SELECT " SCHEDULE_COLUMNS
                         " FROM schedules WHERE number BETWEEN ?1 AND ?2 ORDER BY number",
                         &w.st, &ignored);
    if (rc == 0)
        rc = sql_number(s->db, "SELECT max(number) FROM schedules", &last, &ignored);
    if (rc == -ERR_CORRUPT || rc == -ERR_IO) {
        salvage_problem(s, "the table of schedules cannot be read");
        s->report->schedules++;
        rc = 0;
    } else if (rc == 0 && last > 0) {
        rc = row_walk(&w, 1, last < UINT32_MAX ? (uint64_t)last : UINT32_MAX, s->note);
    }
    sqlite3_finalize(w.st);
    return rc;
}

int salvage_schedule_record(struct salvage *s, const struct record *r)
{
    if (r->kind == REC_SCHEDULE_PUT)
        return schedule_set(s, &r->schedule_put);
    struct rec_schedule_put *there = schedule_of(s, r->schedule_gone.schedule);
    if (there)
        there->schedule = 0;
    return 0;
}

int salvage_schedules_give(struct salvage *s)
{
    int rc = 0;
    for (size_t i = 0; i < s->schedule_count && rc == 0; i++) {
        const struct rec_schedule_put *p = &s->schedules[i];
        struct schedule_view view = {.number = p->schedule,
                                     .name = p->name,
                                     .owner = p->owner,
                                     .note = p->note,
                                     .paused = p->paused,
                                     .created_at = p->created_at,
                                     .updated_at = p->updated_at,
                                     .state = p->state};
        if (p->schedule == 0)
            continue;
        if (schedule_decode(p->spec, &view.spec) == 0)
            rc = s->sink->schedule(s->sink->ctx, &view);
        else
            lost(s, p->schedule, p->schedule);
    }
    return rc;
}
