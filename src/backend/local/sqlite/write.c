/* SPDX-License-Identifier: Apache-2.0 */
/* Writes changes and records as rows.
 *
 * Rows are written by increasing sequence. Consecutive jobs with the same change (claimed by one
 * worker, acked in one batch, removed) share one statement, which covers most of what a busy queue
 * does; the cost of a statement is mainly its start. A table without rows in a range is not
 * accessed. The rows changed by a statement are counted: a record about something that does not
 * exist, or is not in an allowed initial state, means damage. */
#include <inttypes.h>

#include "backend/local/sqlite/damage.h"
#include "backend/local/sqlite/notices.h"
#include "backend/local/sqlite/rules.h"
#include "core/jobs/steps.h"

static int write_run(struct store_sqlite *q, enum stmt_id id, struct err_note *note)
{
    return sql_run(q->stmts[id], "write", note);
}

int write_one(struct store_sqlite *q, enum stmt_id id, const char *what, uint64_t number,
              struct err_note *note)
{
    int rc = write_run(q, id, note);
    if (rc != 0 || sqlite3_changes(q->db) == 1)
        return rc;
    return err_note_set(note, -ERR_CORRUPT, "a record does not fit %s %" PRIu64, what, number);
}

void bounds_add(struct seq_bounds *b, uint64_t seq)
{
    if (seq < b->min)
        b->min = seq;
    if (seq > b->max)
        b->max = seq;
}

bool bounds_meet(const struct seq_bounds *b, uint64_t first, uint64_t last)
{
    return first <= b->max && last >= b->min;
}

static int write_range(struct store_sqlite *q, enum stmt_id id, uint64_t first, uint64_t last,
                       struct err_note *note)
{
    bind_number(q->stmts[id], 1, first);
    bind_number(q->stmts[id], 2, last);
    return write_run(q, id, note);
}

/* ---- one job ---- */

static void bind_state(sqlite3_stmt *st, int first, const struct change *c)
{
    bind_number(st, first + JOB_STATE, c->job.state);
    bind_number(st, first + JOB_MARKS, job_marks(&c->job));
    bind_number(st, first + JOB_SINCE, (uint64_t)c->job.since.ms);
}

/* For an ack of a claim of an earlier batch the statement computes the value, because it has the
 * row. */
static uint64_t lease_column(const struct change *c)
{
    if (c->job.state != STATE_DONE)
        return c->lease_ms;
    if (c->started_at.ms == 0)
        return 0;
    return (uint64_t)(c->job.since.ms - c->started_at.ms) << 1 | 1;
}

static void bind_lease(sqlite3_stmt *st, int first, const struct change *c)
{
    bind_number(st, first + JOB_TOKEN_EPOCH, c->token.epoch);
    bind_number(st, first + JOB_TOKEN_COUNTER, c->token.counter);
    bind_number(st, first + JOB_LEASE_MS, lease_column(c));
    bind_text(st, first + JOB_WORKER, c->worker);
}

static void bind_limits(sqlite3_stmt *st, int first, const struct change *c)
{
    bind_number(st, first + JOB_LIMITS, job_limits(&c->limits));
    bind_number(st, first + JOB_CANCEL_AT, (uint64_t)c->limits.cancel_at.ms);
}

static void bind_rest(sqlite3_stmt *st, int first, const struct job *j)
{
    bind_number(st, first + JOB_RUN_AT, (uint64_t)j->run_at.ms);
    bind_number(st, first + JOB_PRIORITY, (uint64_t)j->priority);
    bind_number(st, first + JOB_COUNTS, job_counts(j));
    bind_number(st, first + JOB_PAYLOAD, job_payload(j));
}

static int write_extra(struct store_sqlite *q, const struct change *c, struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_EXTRA_NEW];
    const struct job_extra *x = &c->extra;
    bind_number(st, 1, c->seq);
    for (int i = 0; i < JOB_TEXTS; i++)
        bind_text(st, 2 + i, job_text_of(x, (size_t)i));
    bind_number(st, 2 + JOB_TEXTS, (uint64_t)x->expires_at.ms);
    if (x->options.len)
        bind_bytes(st, 3 + JOB_TEXTS, x->options);
    else
        sqlite3_bind_null(st, 3 + JOB_TEXTS);
    bounds_add(&q->extras, c->seq);
    return write_run(q, STMT_EXTRA_NEW, note);
}

static int write_noted(struct store_sqlite *q, const struct change *c, struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_EXTRA_NOTE];
    bind_number(st, 1, c->seq);
    bind_text(st, 2, c->extra.label);
    bind_text(st, 3, c->extra.attributes);
    bind_number(st, 4, (c->flags & CHANGE_LABEL) != 0);
    bind_number(st, 5, (c->flags & CHANGE_ATTRIBUTES) != 0);
    bounds_add(&q->extras, c->seq);
    return write_run(q, STMT_EXTRA_NOTE, note);
}

/* Writes a payload that replaces another. */
static int write_payload(struct store_sqlite *q, const struct change *c, struct err_note *note)
{
    bool unreadable;
    int rc = damage_payload(q, c->seq, &unreadable, note);
    if (rc == 0 && unreadable)
        damage_dropped(q, c->seq);
    if (rc != 0 || unreadable)
        return rc;
    if (c->payload.len == 0)
        return write_range(q, STMT_PAYLOADS_GONE, c->seq, c->seq, note);
    bind_number(q->stmts[STMT_PAYLOAD_PUT], 1, c->seq);
    bind_body(q->stmts[STMT_PAYLOAD_PUT], 2, c->payload);
    return write_run(q, STMT_PAYLOAD_PUT, note);
}

static int write_result(struct store_sqlite *q, const struct change *c, struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_RESULT_PUT];
    bind_number(st, 1, c->seq);
    bind_number(st, 2, c->result_kind);
    bind_body(st, 3, c->result);
    bounds_add(&q->outcomes, c->seq);
    return write_run(q, STMT_RESULT_PUT, note);
}

static int write_error(struct store_sqlite *q, const struct change *c, struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_ERROR_PUT];
    bind_number(st, 1, c->seq);
    bind_number(st, 2, c->error_kind);
    bind_text(st, 3, c->error);
    bounds_add(&q->outcomes, c->seq);
    return write_run(q, STMT_ERROR_PUT, note);
}

static int write_report(struct store_sqlite *q, const struct change *c, struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_REPORT_PUT];
    const struct span texts[] = {c->report->progress, c->report->log};
    bind_number(st, 1, c->seq);
    for (int i = 0; i < 2; i++) {
        if (texts[i].len)
            bind_bytes(st, 2 + i, texts[i]);
        else
            sqlite3_bind_null(st, 2 + i);
    }
    bounds_add(&q->reports, c->seq);
    return write_run(q, STMT_REPORT_PUT, note);
}

static int write_steps(struct store_sqlite *q, const struct change *c, struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_STEP_PUT];
    struct step s;
    int rc = 0;
    bounds_add(&q->steps, c->seq);
    for (const struct change_steps *at = c->steps; at && rc == 0; at = at->next) {
        struct span list = at->list;
        while (rc == 0 && steps_next(&list, &s)) {
            bind_number(st, 1, c->seq);
            bind_text(st, 2, s.name);
            bind_body(st, 3, s.result);
            rc = write_run(q, STMT_STEP_PUT, note);
        }
    }
    return rc;
}

static int write_aside(struct store_sqlite *q, const struct change *c, struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_ASIDE_PUT];
    if (STATE_BIT(c->job.state) & STATES_ASIDE) {
        bind_number(st, 1, c->seq);
        bind_number(st, 2, c->job.queue);
        bind_number(st, 3, c->job.state);
        bounds_add(&q->asides, c->seq);
        return write_run(q, STMT_ASIDE_PUT, note);
    }
    if (c->flags & CHANGE_NEW || !bounds_meet(&q->asides, c->seq, c->seq))
        return 0;
    return write_range(q, STMT_ASIDES_GONE, c->seq, c->seq, note);
}

static int write_set(struct store_sqlite *q, const struct change *c, struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_JOB_SET];
    bind_number(st, 1, c->seq);
    bind_state(st, 1, c);
    bind_lease(st, 1, c);
    bind_limits(st, 1, c);
    bind_rest(st, 1, &c->job);
    int rc = write_one(q, STMT_JOB_SET, "job", c->seq, note);
    return rc ? rc : write_aside(q, c, note);
}

/* Writes what belongs to the job besides its row. */
static int write_bytes(struct store_sqlite *q, const struct change *c, struct err_note *note)
{
    int rc = 0;
    if ((c->flags & (CHANGE_PAYLOAD | CHANGE_NEW)) == CHANGE_PAYLOAD)
        rc = write_payload(q, c, note);
    if (rc == 0 && !(c->flags & CHANGE_NEW) && (c->flags & (CHANGE_LABEL | CHANGE_ATTRIBUTES)))
        rc = write_noted(q, c, note);
    if (rc == 0 && (c->flags & CHANGE_RESULT))
        rc = write_result(q, c, note);
    if (rc == 0 && (c->flags & CHANGE_ERROR))
        rc = write_error(q, c, note);
    if (rc == 0 && (c->flags & CHANGE_REPORT))
        rc = write_report(q, c, note);
    if (rc == 0 && (c->flags & CHANGE_STEPS))
        rc = write_steps(q, c, note);
    return rc;
}

/* ---- new jobs ---- */

struct group {
    const struct change *jobs[GROUP];
    int count;
};

static void bind_new(sqlite3_stmt *st, int first, const struct change *c)
{
    bind_number(st, first + JOB_SEQ, c->seq);
    bind_number(st, first + JOB_QUEUE, c->job.queue);
    bind_state(st, first, c);
    bind_lease(st, first, c);
    bind_limits(st, first, c);
    bind_rest(st, first, &c->job);
    bind_number(st, first + JOB_ID_HI, c->job.id_hi);
}

static void bind_payload(sqlite3_stmt *st, int first, const struct change *c)
{
    bind_number(st, first, c->seq);
    bind_body(st, first + 1, c->payload);
}

/* One statement if the group is full, otherwise one for each row. */
static int write_rows(struct store_sqlite *q, const struct group *g, enum stmt_id whole,
                      enum stmt_id single, int columns,
                      void (*bind)(sqlite3_stmt *st, int first, const struct change *c),
                      struct err_note *note)
{
    if (g->count == GROUP) {
        for (int i = 0; i < GROUP; i++)
            bind(q->stmts[whole], 1 + i * columns, g->jobs[i]);
        return write_run(q, whole, note);
    }
    int rc = 0;
    for (int i = 0; i < g->count && rc == 0; i++) {
        bind(q->stmts[single], 1, g->jobs[i]);
        rc = write_run(q, single, note);
    }
    return rc;
}

static int group_end(struct store_sqlite *q, struct group *g, struct err_note *note)
{
    struct group bodies = {.count = 0};
    q->next_figures.rows += g->count;
    int rc = write_rows(q, g, STMT_JOBS_NEW, STMT_JOB_NEW, JOB_COLUMN_COUNT, bind_new, note);
    for (int i = 0; i < g->count && rc == 0; i++) {
        const struct change *c = g->jobs[i];
        if (c->payload.len > 0)
            bodies.jobs[bodies.count++] = c;
        if (c->job.flags & JOB_HAS_EXTRA)
            rc = write_extra(q, c, note);
        if (rc == 0)
            rc = write_aside(q, c, note);
    }
    if (rc == 0)
        rc = write_rows(q, &bodies, STMT_PAYLOADS_NEW, STMT_PAYLOAD_NEW, 3, bind_payload, note);
    g->count = 0;
    return rc;
}

static int group_add(struct store_sqlite *q, struct group *g, const struct change *c,
                     struct err_note *note)
{
    g->jobs[g->count++] = c;
    bounds_add(&q->jobs, c->seq);
    return g->count == GROUP ? group_end(q, g, note) : 0;
}

/* ---- runs of consecutive jobs with the same change ---- */

struct run {
    enum stmt_id id;
    const struct change *first; /* NULL = none */
    uint64_t last;
};

static enum stmt_id change_stmt(const struct change *c)
{
    if (c->flags & CHANGE_GONE)
        return STMT_JOBS_GONE;
    if (c->flags & CHANGE_NEW)
        return STMT_JOB_NEW;
    if (c->flags & CHANGE_REST)
        return STMT_JOB_SET;
    if (c->flags & CHANGE_TOKEN)
        return STMT_JOBS_CLAIMED;
    return c->flags & CHANGE_STATE ? STMT_JOBS_DONE : STMT_JOBS_EXTENDED;
}

/* Whether the statement would write the same to c as to the first of the run. */
static bool run_takes(const struct run *run, enum stmt_id id, const struct change *c)
{
    const struct change *f = run->first;
    if (!f || run->id != id || c->seq != run->last + 1)
        return false;
    if (id == STMT_JOBS_GONE)
        return true;
    if (c->from != f->from || c->lease_ms != f->lease_ms)
        return false;
    if (id == STMT_JOBS_EXTENDED)
        return true;
    if (c->job.state != f->job.state || c->job.reason != f->job.reason ||
        c->job.since.ms != f->job.since.ms || c->job.flags != f->job.flags)
        return false;
    return id == STMT_JOBS_DONE ||
           (c->token.epoch == f->token.epoch &&
            c->token.counter - f->token.counter == c->seq - f->seq &&
            c->started_at.ms == f->started_at.ms && c->limits.cancel_at.ms == 0 &&
            f->limits.cancel_at.ms == 0 && c->limits.timeout_ms == f->limits.timeout_ms &&
            span_equal(c->worker, f->worker));
}

/* Deletes the rare rows of removed jobs in any case. */
static int write_rare_gone(struct store_sqlite *q, uint64_t first, uint64_t last,
                           struct err_note *note)
{
    int rc = 0;
    if (bounds_meet(&q->attempts, first, last))
        rc = write_range(q, STMT_ATTEMPTS_GONE, first, last, note);
    if (rc == 0 && bounds_meet(&q->undelivered, first, last))
        rc = write_range(q, STMT_UNDELIVERED_GONE, first, last, note);
    if (rc == 0 && bounds_meet(&q->links, first, last))
        rc = write_range(q, STMT_LINKS_GONE, first, last, note);
    if (rc == 0 && bounds_meet(&q->reports, first, last))
        rc = write_range(q, STMT_REPORTS_GONE, first, last, note);
    if (rc == 0 && bounds_meet(&q->steps, first, last))
        rc = write_range(q, STMT_STEPS_GONE, first, last, note);
    return rc;
}

static int write_gone(struct store_sqlite *q, uint64_t first, uint64_t last, struct err_note *note)
{
    int rc = write_range(q, STMT_PAYLOADS_GONE, first, last, note);
    q->next_figures.rows -= (int64_t)(last - first + 1);
    if (rc == 0 && bounds_meet(&q->extras, first, last))
        rc = write_range(q, STMT_EXTRAS_GONE, first, last, note);
    if (rc == 0 && bounds_meet(&q->outcomes, first, last))
        rc = write_range(q, STMT_OUTCOMES_GONE, first, last, note);
    return rc ? rc : write_rare_gone(q, first, last, note);
}

/* Keeps the rows that most jobs have for now. */
static int write_marked(struct store_sqlite *q, struct gone_group *marks, uint64_t seq,
                        struct err_note *note)
{
    int rc = gone_add(q, marks, seq, note);
    if (rc == 0)
        rc = write_rare_gone(q, seq, seq, note);
    if (rc == 0 && bounds_meet(&q->asides, seq, seq))
        rc = write_range(q, STMT_ASIDES_GONE, seq, seq, note);
    return rc;
}

static int run_end(struct store_sqlite *q, struct run *run, struct err_note *note)
{
    const struct change *c = run->first;
    sqlite3_stmt *st = q->stmts[run->id];
    if (!c)
        return 0;
    run->first = NULL;
    if (run->id != STMT_JOBS_GONE) {
        bind_state(st, 1, c);
        bind_lease(st, 1, c);
        bind_number(st, 10, c->from);
    }
    if (run->id == STMT_JOBS_CLAIMED)
        bind_limits(st, 1, c);
    int rc = gone_none(q, c->seq, run->last, note);
    if (rc == 0)
        rc = write_range(q, run->id, c->seq, run->last, note);
    if (rc == 0 && (uint64_t)sqlite3_changes64(q->db) != run->last - c->seq + 1)
        rc = err_note_set(note, -ERR_CORRUPT, "records do not fit the jobs %" PRIu64 " to %" PRIu64,
                          c->seq, run->last);
    if (rc == 0 && run->id == STMT_JOBS_GONE)
        rc = write_gone(q, c->seq, run->last, note);
    /* None of them is dead or cancelled any more. */
    if (rc == 0 && bounds_meet(&q->asides, c->seq, run->last))
        rc = write_range(q, STMT_ASIDES_GONE, c->seq, run->last, note);
    return rc;
}

/* A job that was created and removed within the batch has no row; its rows in other tables are
 * deleted. */
static int write_transient(struct store_sqlite *q, uint64_t seq, struct err_note *note)
{
    int rc = 0;
    if (bounds_meet(&q->undelivered, seq, seq))
        rc = write_range(q, STMT_UNDELIVERED_GONE, seq, seq, note);
    if (rc == 0 && bounds_meet(&q->links, seq, seq))
        rc = write_range(q, STMT_LINKS_GONE, seq, seq, note);
    return rc;
}

/* The groups and runs that are continued from one change to the next. */
struct pending {
    struct run run;
    struct group group;
    struct gone_group marks;
};

/* Writes one change. */
static int write_change(struct store_sqlite *q, const struct change *c, struct pending *open,
                        struct err_note *note)
{
    enum stmt_id id = change_stmt(c);
    if (id == STMT_JOBS_GONE && (c->flags & CHANGE_NEW))
        return write_transient(q, c->seq, note);
    if (c->flags & CHANGE_MARKED)
        return write_marked(q, &open->marks, c->seq, note);
    int rc = 0;
    if (id == STMT_JOB_NEW) {
        rc = group_add(q, &open->group, c, note);
    } else if (id == STMT_JOB_SET) {
        rc = write_set(q, c, note);
    } else if (run_takes(&open->run, id, c)) {
        open->run.last = c->seq;
    } else {
        rc = run_end(q, &open->run, note);
        open->run = (struct run){id, c, c->seq};
    }
    return rc || id == STMT_JOBS_GONE ? rc : write_bytes(q, c, note);
}

static int write_jobs(struct store_sqlite *q, struct err_note *note)
{
    const struct change_set *f = &q->change_set;
    struct pending open = {.run = {.first = NULL}};
    int rc = 0;
    for (uint32_t i = 0; i < f->count && rc == 0; i++)
        rc = write_change(q, &f->changes[f->order[i]], &open, note);
    if (rc == 0)
        rc = run_end(q, &open.run, note);
    if (rc == 0)
        rc = group_end(q, &open.group, note);
    return rc ? rc : gone_group_end(q, &open.marks, note);
}

int write_changes(struct store_sqlite *q, struct err_note *note)
{
    change_set_sort(&q->change_set);
    gone_choose(q);
    int rc = write_jobs(q, note);
    if (rc == 0)
        rc = write_attempts(q, note);
    if (rc == 0)
        rc = write_counters(q, note);
    change_set_clear(&q->change_set);
    return rc;
}

/* ---- everything else ---- */

int write_numbers(struct store_sqlite *q, uint32_t queue, uint32_t schedule, struct err_note *note)
{
    bind_number(q->stmts[STMT_NUMBERS], 1, queue);
    bind_number(q->stmts[STMT_NUMBERS], 2, schedule);
    return write_run(q, STMT_NUMBERS, note);
}

static int write_queue_put(struct store_sqlite *q, const struct rec_queue_put *r,
                           struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_QUEUE_PUT];
    bind_number(st, 1, r->queue);
    bind_text(st, 2, r->name);
    bind_number(st, 3, r->generation);
    bind_number(st, 4, (uint64_t)r->created_at.ms);
    bind_number(st, 5, (uint64_t)r->updated_at.ms);
    bind_number(st, 6, (uint64_t)r->paused_until.ms);
    bind_bytes(st, 7, r->policy);
    bind_text(st, 8, r->owner);
    bind_text(st, 9, r->note);
    bind_text(st, 10, r->attributes);
    int rc = write_one(q, STMT_QUEUE_PUT, "queue", r->queue, note);
    return rc ? rc : write_numbers(q, r->queue, 0, note);
}

static int write_queue(struct store_sqlite *q, enum stmt_id id, uint32_t queue,
                       struct err_note *note)
{
    bind_number(q->stmts[id], 1, queue);
    return write_one(q, id, "queue", queue, note);
}

/* Deletes a queue with its counters. */
static int write_queue_end(struct store_sqlite *q, uint32_t queue, struct err_note *note)
{
    int rc = write_counters(q, note);
    bind_number(q->stmts[STMT_HOURS_GONE], 1, queue);
    if (rc == 0)
        rc = write_run(q, STMT_HOURS_GONE, note);
    return rc ? rc : write_queue(q, STMT_QUEUE_END, queue, note);
}

static int write_purged(struct store_sqlite *q, const struct rec_purged *r, struct err_note *note)
{
    bind_number(q->stmts[STMT_QUEUE_PURGED], 2, r->generation);
    return write_queue(q, STMT_QUEUE_PURGED, r->queue, note);
}

static int write_bulk_begin(struct store_sqlite *q, const struct rec_bulk_begin *r,
                            struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_BULK_BEGIN];
    bind_number(st, 1, r->bulk);
    bind_number(st, 2, r->action);
    bind_number(st, 3, (uint64_t)r->at.ms);
    bind_number(st, 4, r->queue);
    bind_number(st, 5, r->states);
    bind_text(st, 6, r->group);
    bind_text(st, 7, r->kind);
    bind_number(st, 8, r->seq_max);
    return write_one(q, STMT_BULK_BEGIN, "bulk action", r->bulk, note);
}

static int write_bulk_step(struct store_sqlite *q, const struct rec_bulk_step *r,
                           struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_BULK_STEP];
    bind_number(st, 1, r->bulk);
    bind_number(st, 2, r->cursor);
    bind_number(st, 3, r->changed);
    bind_number(st, 4, r->refused);
    return write_one(q, STMT_BULK_STEP, "bulk action", r->bulk, note);
}

static int write_bulk_end(struct store_sqlite *q, const struct rec_bulk_step *r,
                          struct err_note *note)
{
    bind_number(q->stmts[STMT_BULK_END], 1, r->bulk);
    return write_one(q, STMT_BULK_END, "bulk action", r->bulk, note);
}

static int write_key_new(struct store_sqlite *q, const struct rec_key_new *r, struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_KEY_NEW];
    bind_number(st, 1, (uint64_t)r->expires_at.ms);
    bind_number(st, 2, r->key.hi);
    bind_number(st, 3, r->key.lo);
    bind_number(st, 4, r->fingerprint);
    bind_number(st, 5, r->seq);
    bind_number(st, 6, r->id_hi);
    return write_run(q, STMT_KEY_NEW, note);
}

static int write_keys_gone(struct store_sqlite *q, const struct rec_keys_gone *r,
                           struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_KEY_GONE];
    struct span list = r->keys;
    struct wall_time previous = {0};
    struct record_key gone;
    int rc = 0;
    while (rc == 0 && list.len > 0) {
        rc = record_key_next(&list, &previous, &gone);
        if (rc != 0)
            return err_note_set(note, rc, "a list of keys cannot be read");
        bind_number(st, 1, (uint64_t)gone.expires_at.ms);
        bind_number(st, 2, gone.key.hi);
        bind_number(st, 3, gone.key.lo);
        rc = write_one(q, STMT_KEY_GONE, "idempotency key", gone.key.hi, note);
    }
    return rc;
}

int write_record(struct store_sqlite *q, const struct record *r, struct err_note *note)
{
    switch ((int)r->kind) {
    case REC_EPOCH:
        q->next.epoch = r->epoch.epoch;
        return 0;
    case REC_SEQ_BLOCK:
        q->next.seq_upto = r->seq_block.upto;
        return 0;
    case REC_QUEUE_PUT:
        return write_queue_put(q, &r->queue_put, note);
    case REC_QUEUE_GONE:
        return write_queue(q, STMT_QUEUE_GONE, r->queue.queue, note);
    case REC_QUEUE_END:
        return write_queue_end(q, r->queue.queue, note);
    case REC_PURGED:
        return write_purged(q, &r->purged, note);
    case REC_BULK_BEGIN:
        return write_bulk_begin(q, &r->bulk_begin, note);
    case REC_BULK_STEP:
        return write_bulk_step(q, &r->bulk_step, note);
    case REC_BULK_END:
        return write_bulk_end(q, &r->bulk_step, note);
    case REC_KEY_NEW:
        return write_key_new(q, &r->key_new, note);
    case REC_KEYS_GONE:
        return write_keys_gone(q, &r->keys_gone, note);
    default:
        if (r->kind >= REC_SCHEDULE_PUT && r->kind <= REC_JOB_LINKED)
            return write_schedule_record(q, r, note);
        if (r->kind >= REC_DEPENDENT_PUT && r->kind <= REC_PARENT_ENDED)
            return write_dependency_record(q, r, note);
        return write_notice_record(q, r, note);
    }
}
