/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a store that may be damaged.
 *
 * A page that is damaged without being malformed goes unnoticed by SQLite. What a job consists of
 * is therefore held against itself (numbers in range, payload as long as the job says, JSON that is
 * JSON), and left out when it cannot be. */
#include "backend/local/offline/salvage/salvage_impl.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include "backend/local/pages/vfs.h"
#include "backend/local/pages/wal.h"
#include "backend/local/sqlite/rules.h"
#include "base/check.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "core/jobs/job_error.h"
#include "core/jobs/job_texts.h"
#include "core/validate.h"

#define JOBS_PATIENCE 200000u
#define QUEUES_PATIENCE 4096u
#define JOBS_TOLD 20 /* damaged jobs that are named, and as many that are given in part */

static const char *const salvage_sql[SALVAGE_STMT_COUNT] = {
    [SALVAGE_QUEUES] = "SELECT " QUEUE_COLUMNS " FROM queues NOT INDEXED"
                       " WHERE number BETWEEN ?1 AND ?2 ORDER BY number",
    [SALVAGE_JOBS] = JOB_ROWS,
    [SALVAGE_JOB] = "SELECT " JOB_COLUMNS " FROM jobs NOT INDEXED WHERE seq = ?1",
    [SALVAGE_PAYLOAD] = "SELECT body, crc FROM payload WHERE seq = ?1",
    [SALVAGE_EXTRA] = "SELECT " EXTRA_COLUMNS " FROM extra WHERE seq = ?1",
    [SALVAGE_OUTCOME] =
        "SELECT result_kind, result, error_kind, error, result_crc FROM outcome WHERE seq = ?1",
    [SALVAGE_REPORT] = "SELECT r.progress, r.log, j.token_epoch, j.token_counter FROM report r"
                       " CROSS JOIN jobs j NOT INDEXED ON j.seq = r.seq WHERE r.seq = ?1",
    [SALVAGE_STEPS] = "SELECT name, result, crc FROM steps WHERE seq = ?1",
    [SALVAGE_DEPENDENT] = "SELECT rule, open, total, done, dead, cancelled, removed"
                          " FROM dependents WHERE seq = ?1",
    [SALVAGE_WAITS] = "SELECT parent FROM dependencies WHERE seq = ?1 ORDER BY parent",
    [SALVAGE_ENDED] = "SELECT how FROM parents_ended WHERE seq = ?1",
};

void salvage_problem(struct salvage *s, const char *format, ...)
{
    char text[sizeof s->note->text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    s->sink->problem(s->sink->ctx, text);
}

/* ---- opening ---- */

/* SQLite ends a damaged WAL at the damage and says nothing. */
static void wal_look(struct salvage *s)
{
    struct err_note why = {""};
    struct dbpage_wal wal;
    if (dbpage_wal_check(s->dir.db_path, &wal, &why) != 0) {
        salvage_problem(s, "%s", why.text);
        s->report->wal = true;
    }
    dbpage_wal_done(&wal);
}

/* What someone else added is not read; a table of ours that is not as we create it could be
 * anything, even a view that never ends. One that is missing is told of where it is read. */
static int fault_cb(void *ctx, const char *type, const char *name, enum schema_fault fault,
                    struct err_note *note)
{
    struct salvage *s = ctx;
    if (!schema_matters(type, fault) || fault == SCHEMA_MISSING)
        return 0;
    int rc = schema_refuse(s->dir.db_path, type, name, fault, note);
    if (fault != SCHEMA_FOREIGN)
        return rc;
    salvage_problem(s, "the %s \"%.60s\" was not created by Holdfast and is left out", type, name);
    return 0;
}

/* The number of the format is on page 1. Where that is not to be trusted, the tables tell. */
static int version_check(struct salvage *s)
{
    int rc = schema_format(s->db, s->dir.db_path, s->note);
    if (rc != 0 && dbpage_vfs_trusted(s->db).kind == DBPAGE_FINE)
        return rc;
    return schema_compare(s->db, fault_cb, s, s->note);
}

/* Of a file with a damaged header the rest may be whole. */
static bool has_page(const struct salvage *s)
{
    struct stat st;
    return fstatat(s->dir.fd, "holdfast.db", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_size >= DBPAGE_BYTES;
}

static int dir_open(struct salvage *s, const char *dir)
{
    int rc = store_dir_open_read(dir, &s->dir, s->note);
    if (rc == 0)
        rc = schema_probe(&s->dir, s->note);
    if (rc == -ERR_CORRUPT && has_page(s))
        return 0;
    if (rc == -ERR_NOT_FOUND && s->dir.path && store_dir_journaled(dir))
        rc = store_dir_lost(dir, s->note);
    else if (rc == -ERR_NOT_FOUND && s->dir.path)
        rc = err_note_set(s->note, rc, "there is no store in %s (no holdfast.db)", dir);
    return rc;
}

static int meta_read(struct salvage *s)
{
    struct err_note why;
    if (sqlite_load_meta(s->db, &s->meta, &why) == 0)
        return 0;
    s->meta = (struct store_meta){.seq_upto = STORE_SEQ_ANY, .position = UINT64_MAX};
    salvage_problem(s, "%s; the journal cannot be used", why.text);
    s->report->journal = true;
    return 0;
}

/* What describes the store: the header of the file, the schema, table meta. It is read even where
 * checksums do not match, since nothing can be read without it; tables that are not exactly ours
 * are refused, and meta must fit the journal. */
static int description_read(struct salvage *s)
{
    int rc = version_check(s);
    for (int i = 0; i < SALVAGE_STMT_COUNT && rc == 0; i++)
        rc = sql_prepare(s->db, salvage_sql[i], &s->stmts[i], s->note);
    return rc ? rc : meta_read(s);
}

/* Says what was trusted; where that was in vain, it is the reason. */
static int trust_tell(struct salvage *s, int rc)
{
    char text[100];
    struct dbpage_fault fault = dbpage_vfs_trusted(s->db);
    if (fault.kind == DBPAGE_FINE || rc == -ERR_NOMEM)
        return rc;
    dbpage_fault_text(&fault, text, sizeof text);
    if (rc != 0)
        return err_note_set(s->note, -ERR_CORRUPT, "%s: %s", s->dir.db_path, text);
    s->report->description = true;
    salvage_problem(s,
                    "%s: %s; it describes the store and is used as it is, because nothing could be "
                    "read without it: compare what is exported with what you know",
                    s->dir.db_path, text);
    return 0;
}

static int open_all(struct salvage *s, const char *dir)
{
    int rc = dir_open(s, dir);
    if (rc != 0)
        return rc;
    wal_look(s);
    rc = reading_open(&s->dir, true, &s->db, s->note);
    if (rc != 0)
        return rc;
    rc = trust_tell(s, description_read(s));
    dbpage_vfs_trust_end(s->db);
    return rc;
}

/* ---- queues ---- */

struct salvage_queue *salvage_queue_of(const struct salvage *s, uint32_t number)
{
    uint32_t place = number ? map64_get(&s->queue_places, number) : 0;
    return place ? &s->queues[place - 1] : NULL;
}

int salvage_text_keep(struct salvage *s, struct span *text)
{
    char *copy = arena_copy(&s->arena, text->at, text->len);
    *text = span_of(copy, copy ? text->len : 0);
    return copy ? 0 : -ERR_NOMEM;
}

int salvage_queue_set(struct salvage *s, const struct rec_queue_put *put, bool gone)
{
    struct salvage_queue *q = salvage_queue_of(s, put->queue);
    if (!q) {
        struct salvage_queue *queues =
            mem_more(s->queues, s->queue_count, &s->queue_room, sizeof *queues);
        if (!queues)
            return -ERR_NOMEM;
        s->queues = queues;
        if (map64_put(&s->queue_places, put->queue, (uint32_t)s->queue_count + 1) != 0)
            return -ERR_NOMEM;
        q = &s->queues[s->queue_count++];
    }
    *q = (struct salvage_queue){.put = *put, .gone = gone};
    if (salvage_text_keep(s, &q->put.name) != 0 || salvage_text_keep(s, &q->put.policy) != 0 ||
        salvage_text_keep(s, &q->put.owner) != 0 || salvage_text_keep(s, &q->put.attributes) != 0)
        return -ERR_NOMEM;
    return salvage_text_keep(s, &q->put.note);
}

static bool json_good(struct span text)
{
    return json_check(text, NULL, NULL) == 0;
}

static void queues_lost(void *ctx, uint64_t from, uint64_t to)
{
    struct salvage *s = ctx;
    s->report->queues++;
    salvage_problem(s,
                    "queues with the numbers %" PRIu64 " to %" PRIu64
                    " cannot be read; their jobs go to queues named recovered-NUMBER",
                    from, to);
}

#define QUEUE_OWNER 8 /* the first of the columns that describe a queue */

/* A queue is worth having without what it is described by. */
static void queue_describe(struct salvage *s, sqlite3_stmt *st, struct rec_queue_put *put)
{
    static const char *const names[] = {"owner", "note", "attributes"};
    struct span *const texts[] = {&put->owner, &put->note, &put->attributes};
    bool whole = true;
    for (int i = 0; i < 3; i++) {
        int at = QUEUE_OWNER + i;
        if (row_bad_among(TABLE_QUEUES, st, at, at, at + 1) < 0)
            continue;
        *texts[i] = span_of(NULL, 0);
        whole = false;
        salvage_problem(s, "queue %.*s: its %s cannot be read; the queue is exported without it",
                        (int)put->name.len, put->name.at, names[i]);
    }
    s->report->queues_partial += !whole;
}

static int queue_row(void *ctx, sqlite3_stmt *st)
{
    struct salvage *s = ctx;
    bool gone;
    struct rec_queue_put put = row_queue(st, &gone);
    if (row_bad_among(TABLE_QUEUES, st, 0, 0, QUEUE_OWNER) >= 0) {
        queues_lost(s, put.queue, put.queue);
        return -ERR_CORRUPT;
    }
    queue_describe(s, st, &put);
    return salvage_queue_set(s, &put, gone);
}

static int queues_read(struct salvage *s)
{
    struct row_walk w = {.st = s->stmts[SALVAGE_QUEUES],
                         .row = queue_row,
                         .lost = queues_lost,
                         .ctx = s,
                         .patience = QUEUES_PATIENCE};
    return row_walk(&w, 1, UINT32_MAX, s->note);
}

static int queues_give(struct salvage *s)
{
    int rc = 0;
    for (size_t i = 0; i < s->queue_count && rc == 0; i++) {
        struct salvage_queue *q = &s->queues[i];
        struct queue_policy policy;
        if (q->gone || q->guessed)
            continue;
        if (policy_decode(q->put.policy, &policy) != 0) {
            s->report->queues++;
            salvage_problem(s, "queue %.*s: its policy cannot be read; its jobs are exported",
                            (int)q->put.name.len, q->put.name.at);
            continue;
        }
        q->by_due = policy.by_due;
        struct queue_view view = {.number = q->put.queue,
                                  .name = q->put.name,
                                  .owner = q->put.owner,
                                  .note = q->put.note,
                                  .attributes = q->put.attributes,
                                  .policy = &policy,
                                  .created_at = q->put.created_at,
                                  .updated_at = q->put.updated_at,
                                  .paused_until = q->put.paused_until,
                                  .counts = {.oldest_ready_ms = -1}};
        rc = s->sink->queue(s->sink->ctx, &view);
    }
    return rc;
}

/* A queue whose row was lost: a job that names it must still go somewhere. */
static int queue_guess(struct salvage *s, const struct job *j, struct salvage_queue **ret)
{
    char name[40];
    int len = snprintf(name, sizeof name, "recovered-%" PRIu32, j->queue);
    struct rec_queue_put put = {
        .queue = j->queue, .name = span_of(name, (size_t)len), .generation = j->generation};
    int rc = salvage_queue_set(s, &put, false);
    if (rc != 0)
        return rc;
    *ret = salvage_queue_of(s, j->queue);
    CHECK(*ret); /* it has just been set */
    (*ret)->guessed = true;
    return 0;
}

/* ---- one job ---- */

static int job_damaged(struct salvage *s, uint64_t seq, const char *what)
{
    if (s->report->jobs_damaged++ < JOBS_TOLD)
        salvage_problem(s, "job %" PRIu64 ": %s", seq, what);
    return -ERR_CORRUPT;
}

int salvage_side_row(struct salvage *s, enum salvage_stmt which, uint64_t seq)
{
    bind_number(s->stmts[which], 1, seq);
    return salvage_row_next(s, which);
}

int salvage_row_next(struct salvage *s, enum salvage_stmt which)
{
    int step = sqlite3_step(s->stmts[which]);
    if (step == SQLITE_ROW)
        return 0;
    if (step == SQLITE_DONE)
        return -ERR_NOT_FOUND;
    return (step & 0xff) == SQLITE_NOMEM ? -ERR_NOMEM : -ERR_CORRUPT;
}

int salvage_payload(struct salvage *s, uint64_t seq, struct span *ret)
{
    sqlite3_stmt *st = s->stmts[SALVAGE_PAYLOAD];
    int rc = salvage_side_row(s, SALVAGE_PAYLOAD, seq);
    if (rc == 0)
        *ret = column_span(st, 0);
    if (rc == 0 && !body_good(*ret, sqlite3_column_int64(st, 1), PAYLOAD_BYTES))
        rc = -ERR_CORRUPT;
    return rc;
}

static int payload_take(struct salvage *s, const struct salvage_job *over, struct job_view *v)
{
    const struct job *j = &v->job;
    if (over && over->has_payload)
        v->payload = over->payload;
    else if (j->payload_bytes > 0) {
        int rc = salvage_payload(s, j->seq, &v->payload);
        if (rc == -ERR_NOMEM)
            return rc;
        if (rc != 0)
            return job_damaged(s, j->seq, "its payload cannot be read");
    }
    bool good = v->payload.len == j->payload_bytes &&
                (j->payload_kind != PAYLOAD_JSON || json_good(v->payload)) &&
                (j->payload_kind != PAYLOAD_NONE || v->payload.len == 0);
    return good ? 0 : job_damaged(s, j->seq, "its payload is damaged");
}

static bool extra_good(const struct job_extra *x)
{
    struct job_options options;
    for (size_t i = 0; i < JOB_TEXTS; i++) {
        struct span text = job_text_of(x, i);
        if (job_texts[i].kind == JOB_TEXT_OWN && text.len > 0 && !json_good(text))
            return false;
    }
    return job_texts_check(x, NULL) == 0 &&
           (x->options.len == 0 || options_decode(x->options, &options) == 0);
}

static int extra_take(struct salvage *s, const struct salvage_job *over, struct job_view *v)
{
    if (over && over->fresh) {
        v->extra = over->extra;
    } else if (v->job.flags & JOB_HAS_EXTRA) {
        int rc = salvage_side_row(s, SALVAGE_EXTRA, v->job.seq);
        if (rc == -ERR_NOMEM)
            return rc;
        /* What the journal alone knows of has no row yet. */
        bool unwritten = over && (over->has_label || over->has_attributes);
        if (!(rc == -ERR_NOT_FOUND && unwritten) &&
            (rc != 0 || row_extra(s->stmts[SALVAGE_EXTRA], 1, &v->extra) != 0))
            return job_damaged(s, v->job.seq, "its keys and options cannot be read");
    }
    if (over && over->has_label)
        v->extra.label = over->extra.label;
    if (over && over->has_attributes)
        v->extra.attributes = over->extra.attributes;
    v->expires_at = v->extra.expires_at;
    return extra_good(&v->extra) ? 0
                                 : job_damaged(s, v->job.seq, "its keys or options are damaged");
}

/* What of a job's outcome cannot be given. */
enum { LOST_RESULT = 1, LOST_ERROR = 2, LOST_REPORT = 4 };

static void outcome_lost(struct salvage *s, uint64_t seq, unsigned lost)
{
    if (lost != 0 && s->report->jobs_partial++ < JOBS_TOLD)
        salvage_problem(
            s, "job %" PRIu64 ": its %s%s%s%s%s cannot be read; the job is exported without", seq,
            lost & LOST_RESULT ? "result" : "",
            (lost & LOST_RESULT) && (lost & LOST_ERROR) ? " and " : "",
            lost & LOST_ERROR ? "error text" : "", lost > LOST_REPORT ? " and " : "",
            lost & LOST_REPORT ? "progress and log" : "");
}

/* Returns what is lost of the row. */
static unsigned outcome_row(sqlite3_stmt *st, struct job_view *v)
{
    int64_t result = sqlite3_column_int64(st, 0), error = sqlite3_column_int64(st, 2);
    struct span text = column_span(st, 3);
    unsigned lost = 0;
    if (result < PAYLOAD_NONE || result > PAYLOAD_BYTES ||
        (result != PAYLOAD_NONE &&
         !body_good(column_span(st, 1), sqlite3_column_int64(st, 4), (uint8_t)result)))
        lost |= LOST_RESULT;
    if (error < ERROR_APP || error > ERROR_BUSINESS ||
        validate_text("error", text, JOB_ERROR_PACKED_MAX, NULL) != 0)
        lost |= LOST_ERROR;
    if (!(lost & LOST_RESULT) && result != PAYLOAD_NONE) {
        v->result_kind = (uint8_t)result;
        v->result = column_span(st, 1);
    }
    v->error_kind = error == ERROR_BUSINESS ? ERROR_BUSINESS : ERROR_APP;
    v->error = job_error_cut(text);
    return lost;
}

/* What the journal says replaces what the row said, or could not say. */
static unsigned outcome_over(const struct salvage_job *over, struct job_view *v, unsigned lost)
{
    if (over->has_result) {
        v->result_kind = over->result_kind;
        v->result = over->result;
        lost &= ~(unsigned)LOST_RESULT;
    }
    if (over->has_error) {
        v->error_kind = over->error_kind;
        v->error = job_error_cut(over->error);
        lost &= ~(unsigned)LOST_ERROR;
    }
    if (v->result_kind <= PAYLOAD_BYTES && (v->result_kind != PAYLOAD_JSON || json_good(v->result)))
        return lost;
    v->result_kind = PAYLOAD_NONE;
    return lost | LOST_RESULT;
}

/* A job is worth having without the text of its last error, or its result, but not without a word
 * about it. Whether a job has such a row is known only from the row itself. */
static int outcome_take(struct salvage *s, const struct salvage_job *over, struct job_view *v)
{
    int rc =
        over && over->fresh ? -ERR_NOT_FOUND : salvage_side_row(s, SALVAGE_OUTCOME, v->job.seq);
    if (rc == -ERR_NOMEM)
        return rc;
    unsigned lost = rc == -ERR_NOT_FOUND ? 0 : LOST_RESULT | LOST_ERROR;
    if (rc == 0)
        lost = outcome_row(s->stmts[SALVAGE_OUTCOME], v);
    if (over)
        lost = outcome_over(over, v, lost);
    bool report_lost;
    rc = salvage_report_take(s, over, v, &report_lost);
    if (rc != 0)
        return rc;
    lost |= report_lost ? LOST_REPORT : 0;
    outcome_lost(s, v->job.seq, lost);
    return 0;
}

/* An import refuses a blocked job without them. */
static int depends_take(struct salvage *s, struct job_view *v)
{
    bool lost;
    int rc = salvage_depends_take(s, v, &lost);
    if (rc == 0 && lost && s->report->jobs_partial++ < JOBS_TOLD)
        salvage_problem(s,
                        "job %" PRIu64 ": what it depends on cannot be read; the job is exported "
                        "without",
                        v->job.seq);
    return rc;
}

/* A job without a result of its steps would repeat the step, so an import refuses it. */
static int steps_take(struct salvage *s, const struct salvage_job *over, struct job_view *v)
{
    bool lost;
    int rc = salvage_steps_take(s, over, v, &lost);
    if (rc == 0 && lost && s->report->jobs_partial++ < JOBS_TOLD)
        salvage_problem(s,
                        "job %" PRIu64 ": results of its steps cannot be read; the job is exported "
                        "without them",
                        v->job.seq);
    return rc;
}

static int job_take(struct salvage *s, const struct salvage_job *over, struct job_view *v)
{
    int rc = payload_take(s, over, v);
    if (rc == 0)
        rc = extra_take(s, over, v);
    if (rc == 0)
        rc = outcome_take(s, over, v);
    if (rc == 0)
        rc = steps_take(s, over, v);
    if (rc == 0)
        rc = depends_take(s, v);
    if (rc == 0)
        rc = s->sink->job(s->sink->ctx, v);
    for (int i = SALVAGE_PAYLOAD; i <= SALVAGE_STEPS; i++)
        sqlite3_reset(s->stmts[i]);
    return rc;
}

static bool purged(const struct job *j, const struct salvage_queue *q)
{
    bool waiting = STATE_BIT(j->state) & STATES_WAITING;
    return q->gone || (waiting && j->generation != q->put.generation && !q->guessed);
}

bool salvage_was_purged(const struct salvage *s, const struct job *j)
{
    const struct salvage_queue *q = salvage_queue_of(s, j->queue);
    return q && purged(j, q);
}

/* -ERR_CORRUPT: it is left out and counted. */
static int job_give(struct salvage *s, const struct job *j, const struct salvage_job *over)
{
    struct salvage_queue *q = salvage_queue_of(s, j->queue);
    if (!q && s->report->queues == 0)
        return job_damaged(s, j->seq, "its queue does not exist");
    if (!q && queue_guess(s, j, &q) != 0)
        return -ERR_NOMEM;
    if (purged(j, q) || !s->sink->wanted(s->sink->ctx, j, q->put.name))
        return 0;
    if (!reason_fits((enum job_state)j->state, (enum job_reason)j->reason))
        return job_damaged(s, j->seq, "its row is damaged");
    struct job_view view = {.job = *j, .queue = q->put.name, .by_due = q->by_due, .has_body = true};
    return job_take(s, over, &view);
}

/* ---- all jobs ---- */

static int job_row(void *ctx, sqlite3_stmt *st)
{
    struct salvage *s = ctx;
    struct stored_job row;
    const struct salvage_job *over = salvage_job_of(s, (uint64_t)sqlite3_column_int64(st, JOB_SEQ));
    /* One that the journal created is given afterwards. If the position in meta, which may be
     * damaged, is too low, the database has it, too. */
    if ((over && (over->gone || over->fresh)) ||
        salvage_is_gone(s, (uint64_t)sqlite3_column_int64(st, JOB_SEQ)))
        return 0;
    if ((over && over->broken) || row_job(st, 0, &row) != 0)
        return job_damaged(s, (uint64_t)sqlite3_column_int64(st, JOB_SEQ), "its row is damaged");
    return job_give(s, over ? &over->job : &row.job, over);
}

static void jobs_lost(void *ctx, uint64_t from, uint64_t to)
{
    struct salvage *s = ctx;
    s->report->ranges++;
    s->report->sequences += to - from + 1;
    if (s->report->ranges <= JOBS_TOLD)
        salvage_problem(s, "jobs with the sequences %" PRIu64 " to %" PRIu64 " cannot be read",
                        from, to);
}

uint64_t salvage_seq_last(struct salvage *s)
{
    struct err_note ignored;
    int64_t there = 0;
    uint64_t last = s->meta.seq_upto;
    int rc = sql_number(s->db, "SELECT max(seq) FROM jobs", &there, &ignored);
    if (rc == 0 && there > 0 && (uint64_t)there > last)
        last = (uint64_t)there;
    if (rc != 0 && last == 0)
        last = STORE_SEQ_ANY;
    return last > STORE_SEQ_ANY ? STORE_SEQ_ANY : last;
}

static int jobs_give(struct salvage *s)
{
    struct row_walk w = {.st = s->stmts[SALVAGE_JOBS],
                         .row = job_row,
                         .lost = jobs_lost,
                         .ctx = s,
                         .patience = JOBS_PATIENCE};
    uint64_t last = salvage_seq_last(s);
    int rc = last > 0 ? row_walk(&w, 1, last, s->note) : 0;
    for (size_t i = 0; i < s->job_count && rc == 0; i++) {
        const struct salvage_job *over = &s->jobs[i];
        if (over->fresh && !over->gone)
            rc = over->broken ? job_damaged(s, over->seq, "a record about it is damaged")
                              : job_give(s, &over->job, over);
        rc = rc == -ERR_CORRUPT ? 0 : rc;
    }
    return rc;
}

static void close_all(struct salvage *s)
{
    for (int i = 0; i < SALVAGE_STMT_COUNT; i++)
        sqlite3_finalize(s->stmts[i]);
    sqlite3_close(s->db);
    store_dir_close(&s->dir);
    map64_done(&s->queue_places);
    map64_done(&s->job_places);
    map64_done(&s->gone_places);
    mem_free(s->queues);
    mem_free(s->jobs);
    mem_free(s->schedules);
    mem_free(s->alerts);
    mem_free(s->keys);
    map128_done(&s->key_places);
    salvage_dependents_done(s);
    mem_free(s->gone);
    arena_done(&s->arena);
}

int salvage_run(const char *dir, const struct salvage_sink *sink, struct salvage_report *ret,
                struct err_note *note)
{
    struct salvage s = {.dir = STORE_DIR_NONE, .sink = sink, .report = ret, .note = note};
    *ret = (struct salvage_report){0};
    arena_init(&s.arena);
    map64_init(&s.queue_places);
    map64_init(&s.job_places);
    map128_init(&s.key_places);
    map64_init(&s.gone_places);
    map64_init(&s.dependent_places);
    map64_init(&s.ended);
    int rc = open_all(&s, dir);
    if (rc == 0)
        rc = queues_read(&s);
    if (rc == 0)
        rc = salvage_gone_read(&s);
    if (rc == 0)
        rc = salvage_schedules_read(&s);
    if (rc == 0)
        rc = salvage_alerts_read(&s);
    if (rc == 0)
        rc = salvage_journal(&s);
    if (rc == 0)
        rc = queues_give(&s);
    if (rc == 0)
        rc = salvage_keys_give(&s);
    if (rc == 0)
        rc = jobs_give(&s);
    if (rc == 0)
        rc = salvage_schedules_give(&s);
    if (rc == 0)
        rc = salvage_alerts_give(&s);
    if (rc == -ERR_NOMEM)
        (void)err_note_set(note, rc, "out of memory");
    close_all(&s);
    return rc;
}
