/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of jobs by filter.
 *
 * A page is a range of sequences, read in order until it is full. Its rows come from:
 *   jobs          everything: costs the rows between two matches
 *   aside         only dead or cancelled jobs are wanted: costs the dead and cancelled jobs between
 *                 two matches
 *   aside, queue  … of one queue, in one state: O(log n + page)
 *   extra         a text is given: costs the jobs that have any text (docs/decisions says why
 *                 there is no index)
 * A query that takes longer than the reader's limit ends with -ERR_TIMEOUT. */
#include "backend/local/sqlite/read.h"

#include "core/limits.h"

_Static_assert(READ_COUNT - READ_LIST == 2 * PLAN_COUNT, "two lists for each plan");

static int list_stmt(struct reader_sqlite *r, enum list_plan plan, bool newest_first,
                     sqlite3_stmt **ret)
{
    size_t id = READ_LIST + 2 * (size_t)plan + newest_first;
    int rc = r->stmts[id] ? 0 : sql_prepare(r->db, read_sql[id], &r->stmts[id], NULL);
    *ret = r->stmts[id];
    return rc;
}

/* ---- the query ---- */

static enum list_plan list_plan(const struct job_filter *f)
{
    if (job_texts_bytes(f) > 0)
        return PLAN_EXTRA;
    if (f->states == 0 || (f->states & ~STATES_ASIDE))
        return PLAN_JOBS;
    return f->queue && f->states != STATES_ASIDE ? PLAN_ASIDE_QUEUE : PLAN_ASIDE;
}

static void bind_range(sqlite3_stmt *st, const struct op_list *q)
{
    uint64_t low = q->filter.seq_min, high = q->filter.seq_max ? q->filter.seq_max : INT64_MAX;
    if (q->newest_first && q->after != 0 && q->after - 1 < high)
        high = q->after - 1;
    if (!q->newest_first && q->after != 0 && q->after >= low)
        low = q->after + 1;
    bind_number(st, 1, low > INT64_MAX ? INT64_MAX : low);
    bind_number(st, 2, high > INT64_MAX ? INT64_MAX : high);
}

static void bind_filter(sqlite3_stmt *st, const struct job_filter *f, enum list_plan plan)
{
    bind_number(st, 3, f->queue);
    bind_number(st, 4, f->states ? f->states : STATES_ALL);
    bind_number(st, 5, f->reasons ? f->reasons : UINT16_MAX);
    bind_number(st, 6, (uint64_t)(f->has_priority ? f->priority_min : INT64_MIN));
    bind_number(st, 7, (uint64_t)(f->has_priority ? f->priority_max : INT64_MAX));
    bind_number(st, 8, (uint64_t)(f->created_from.ms ? f->created_from.ms : INT64_MIN));
    bind_number(st, 9, (uint64_t)(f->created_to.ms ? f->created_to.ms - 1 : INT64_MAX));
    if (plan == PLAN_ASIDE_QUEUE)
        bind_number(st, 10, f->states & STATE_BIT(STATE_DEAD) ? STATE_DEAD : STATE_CANCELLED);
    for (int i = 0; plan == PLAN_EXTRA && i < JOB_TEXTS; i++)
        bind_text(st, 11 + i, job_text_of(f, (size_t)i));
}

/* ---- the result ---- */

static int view_expires_at(struct reader_sqlite *r, struct job_view *view)
{
    sqlite3_stmt *st = r->stmts[READ_EXPIRES_AT];
    bind_number(st, 1, view->job.seq);
    int rc = read_row(r, st);
    int64_t expires_at = rc == 0 ? sqlite3_column_int64(st, 0) : 0;
    if (expires_at >= 0 && expires_at <= LIMIT_WALL_MS)
        view->expires_at.ms = expires_at;
    sqlite3_reset(st);
    return rc == -ERR_NOT_FOUND || rc == -ERR_CORRUPT ? 0 : rc; /* its body reports the damage */
}

static int view_body(struct reader_sqlite *r, struct arena *arena, struct job_view *view)
{
    struct stored_body body;
    int rc = read_body(r, view->job.seq, false, arena, &body);
    stored_body_show(&body, view);
    view->expires_at = body.extra.expires_at;
    view->damage = body.damage;
    return rc;
}

static int view_make(struct reader_sqlite *r, sqlite3_stmt *st, bool want_body, struct arena *arena,
                     struct job_view *ret)
{
    struct stored_job j;
    int rc = row_job(st, 0, &j);
    *ret = (struct job_view){.job = j.job, .started_at = j.started_at};
    if (rc == 0)
        rc = read_span(st, JOB_COLUMN_COUNT, arena, &ret->queue);
    if (rc == 0 && j.job.state == STATE_RUNNING) {
        ret->token = j.token;
        ret->lease_ms = j.lease_ms;
        ret->limits = j.limits;
        ret->lease_left_ms = -1; /* only the engine knows it */
        rc = read_span(st, JOB_WORKER, arena, &ret->worker);
    }
    if (rc == 0 && want_body)
        rc = view_body(r, arena, ret);
    else if (rc == 0 && (j.job.flags & JOB_HAS_EXTRA))
        rc = view_expires_at(r, ret);
    return rc;
}

/* Fills the page, which ends early when its bodies reach LIMIT_ANSWER_BYTES; one more row shows
 * whether there is another page. */
static int list_rows(struct reader_sqlite *r, sqlite3_stmt *st, const struct op_list *query,
                     struct arena *arena, struct job_view *views, uint32_t limit,
                     uint32_t *ret_count, uint64_t *ret_cursor)
{
    uint32_t count = 0;
    size_t bytes = 0;
    int rc;
    while ((rc = read_row(r, st)) == 0) {
        if (count == limit || bytes >= LIMIT_ANSWER_BYTES) {
            *ret_cursor = views[count - 1].job.seq;
            break;
        }
        rc = view_make(r, st, query->want_body, arena, &views[count]);
        if (rc != 0)
            break;
        bytes += views[count].payload.len + views[count].result.len;
        count++;
    }
    sqlite3_reset(st);
    *ret_count = count;
    return rc == -ERR_NOT_FOUND ? 0 : rc;
}

static int list_page(struct reader_sqlite *r, const struct op_list *query, struct arena *arena,
                     struct job_view *views, uint32_t limit, uint32_t *ret_count,
                     uint64_t *ret_cursor)
{
    struct op_list q = *query;
    sqlite3_stmt *st;
    int rc = query->queue.len ? read_queue(r, query->queue, &q.filter.queue) : 0;
    if (rc != 0 || (query->queue.len && q.filter.queue == 0))
        return rc;
    enum list_plan plan = list_plan(&q.filter);
    rc = list_stmt(r, plan, q.newest_first, &st);
    if (rc != 0)
        return rc;
    bind_range(st, &q);
    bind_filter(st, &q.filter, plan);
    return list_rows(r, st, &q, arena, views, limit, ret_count, ret_cursor);
}

int list_position(struct reader_sqlite *r, uint64_t *ret)
{
    sqlite3_stmt *st = r->stmts[READ_POSITION];
    int rc = read_row(r, st);
    if (rc == 0)
        *ret = (uint64_t)sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    return rc == -ERR_NOT_FOUND ? -ERR_CORRUPT : rc;
}

int sqlite_list(struct store_reader *reader, const struct op_list *query, struct arena *arena,
                struct job_view **ret_jobs, uint32_t *ret_count, uint64_t *ret_cursor,
                uint64_t *ret_as_of)
{
    struct reader_sqlite *r = reader_sqlite_of(reader);
    uint32_t limit = query->limit == 0 || query->limit > LIMIT_BATCH ? LIMIT_BATCH : query->limit;
    uint32_t count = 0;
    uint64_t cursor = 0, position = 0;
    struct job_view *views = arena_array(arena, limit, sizeof *views);
    if (!views)
        return -ERR_NOMEM;
    int rc = read_begin(r);
    if (rc == 0)
        rc = list_position(r, &position);
    if (rc == 0)
        rc = list_page(r, query, arena, views, limit, &count, &cursor);
    rc = read_end(r, rc);
    if (rc != 0)
        return rc;
    *ret_jobs = views;
    *ret_count = count;
    *ret_cursor = cursor;
    *ret_as_of = position;
    return 0;
}
