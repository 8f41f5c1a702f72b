/* SPDX-License-Identifier: Apache-2.0 */
/* Offline verification of a SQLite store.
 *
 * In order: whose file it is, the checksum of each page, SQLite's own integrity check, the format,
 * then every row. Rows of
 * jobs are held against those of payload, extra, outcome, aside, links and gone in one pass: rising
 * scans, merged. What a row alone can get wrong is in check_job.c. Nothing is written and no file
 * is created (offline/reading.h), so a directory on a read-only mount can be checked; the lock of
 * the directory is held meanwhile, so that no server starts underneath. */
#include "backend/local/offline/check/check.h"

#include <inttypes.h>
#include <stdarg.h>

#include "backend/local/offline/check/check_impl.h"
#include "backend/local/offline/reading.h"
#include "backend/local/offline/row_walk.h"
#include "backend/local/sqlite/rules.h"
#include "base/containers/sorted.h"
#include "base/mem.h"
#include "core/validate.h"

#define PROBLEMS_SHOWN 20 /* of one sort */
#define JOBS_PATIENCE 4096

/* ---- findings ---- */

static const char *const advice_text[ADVICE_COUNT] = {
    [ADVICE_FILE] =
        "The file is damaged: keep a copy of the directory, check the disk, and restore "
        "the newest backup (holdfast restore BACKUP --data DIR), or save what can still be read "
        "(holdfast export --data DIR).",
    [ADVICE_ROWS] =
        "Rows contradict each other, or hold values out of range: keep a copy of the directory and "
        "restore the newest backup, or save what can still be read (holdfast export --data DIR). "
        "The server may refuse to start on them; if it starts, the jobs that are named can be "
        "deleted (DELETE /v1/jobs/ID).",
    [ADVICE_JOB] =
        "Single jobs are damaged: the server can be started; such a job becomes dead with the "
        "reason damaged when it is claimed. Delete it (DELETE /v1/jobs/ID) and enqueue it "
        "again.",
    [ADVICE_VALUE] =
        "Single values of the key-value store are damaged: the server can be started; reading "
        "them fails, all else works. Set these keys again, or delete them.",
    [ADVICE_KEYS] = "A unique key is held twice: decide which job to keep, and cancel the other "
                    "(POST /v1/jobs/ID/cancel).",
    [ADVICE_JOURNAL] =
        "The journal is damaged or missing: keep a copy of the directory, check the disk, and "
        "restore the newest backup (holdfast restore), or save what can still be read (holdfast "
        "export --data DIR).",
    [ADVICE_INCOMPLETE] =
        "The last entry of the journal is or was incomplete. After a power cut or kill -9 this is "
        "to be expected, and nothing confirmed is lost. If neither happened, confirmed work may be "
        "missing: check the disk, and compare with what your clients know. The server starts in "
        "either case. Remove the files journal/torn-N when you no longer need them.",
    [ADVICE_LOST] = "Keep a copy of the directory. The journal alone is not a store: it lacks what "
                    "was already in "
                    "holdfast.db.",
    [ADVICE_KEY_FILE] = "Check the disk: a sector of journal/key was damaged.",
    [ADVICE_PARENT] =
        "After a power cut or kill -9 it is to be expected that a job waits for one that has been "
        "removed: start the server. If neither happened, or check says so again afterwards, "
        "restore "
        "the newest backup.",
};

/* What is said in the same words is of one sort; when there is no room for another, the last takes
 * the rest. */
static struct check_sort *sort_of(struct check *c, const char *format)
{
    size_t i = 0;
    while (i + 1 < CHECK_SORTS && c->sorts[i].format && strcmp(c->sorts[i].format, format) != 0)
        i++;
    c->sorts[i].format = format;
    return &c->sorts[i];
}

/* One line, whatever the words of SQLite may hold. */
static void line_print(FILE *out, const char *text)
{
    for (; *text; text++)
        fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
    fputc('\n', out);
}

static void problem_report(struct check *c, enum check_advice advice, const char *sort_key,
                           const char *text)
{
    struct check_sort *sort = sort_of(c, sort_key);
    c->advised[advice] = true;
    c->problems++;
    if (++sort->count > PROBLEMS_SHOWN)
        return;
    if (sort->count == 1)
        snprintf(sort->first, sizeof sort->first, "%s", text);
    fputs("problem: ", c->out);
    line_print(c->out, text);
}

void check_problem(struct check *c, enum check_advice advice, const char *format, ...)
{
    va_list args;
    char text[sizeof c->sorts[0].first];
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    problem_report(c, advice, format, text);
}

void check_warning(struct check *c, enum check_advice advice, const char *format, ...)
{
    va_list args;
    char text[sizeof c->sorts[0].first];
    c->advised[advice] = true;
    c->warnings++;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fputs("warning: ", c->out);
    line_print(c->out, text);
}

static enum check_result verdict(struct check *c)
{
    for (size_t i = 0; i < CHECK_SORTS && c->sorts[i].format; i++) {
        if (c->sorts[i].count <= PROBLEMS_SHOWN)
            continue;
        fprintf(c->out, "… and %" PRIu64 " more like: ", c->sorts[i].count - PROBLEMS_SHOWN);
        line_print(c->out, c->sorts[i].first);
    }
    for (int i = 0; i < ADVICE_COUNT; i++)
        if (c->advised[i])
            fprintf(c->out, "to do: %s\n", advice_text[i]);
    char warned[48] = "";
    if (c->warnings > 0)
        snprintf(warned, sizeof warned, ", %" PRIu64 " warning%s", c->warnings,
                 c->warnings == 1 ? "" : "s");
    if (c->problems == 0)
        fprintf(c->out, "%s: no problems found%s (%" PRIu64 " job%s in %" PRIu64 " queue%s)\n",
                c->dir, warned, c->jobs, c->jobs == 1 ? "" : "s", c->queues_told,
                c->queues_told == 1 ? "" : "s");
    else
        fprintf(c->out, "%s: %" PRIu64 " problem%s found\n", c->dir, c->problems,
                c->problems == 1 ? "" : "s");
    if (c->problems > 0)
        return CHECK_PROBLEMS;
    return c->warnings > 0 ? CHECK_WARNED : CHECK_GOOD;
}

static enum check_result not_done(struct check *c, const char *why)
{
    if (c->problems == 0)
        snprintf(c->sorts[0].first, sizeof c->sorts[0].first, "%s", why);
    fprintf(c->out, "%s\n%s: could not be checked\n", why, c->dir);
    return CHECK_NOT_DONE;
}

/* ---- statements ---- */

sqlite3_stmt *check_prepare(struct check *c, const char *sql)
{
    struct err_note note;
    sqlite3_stmt *st = NULL;
    if (sql_prepare(c->db, sql, &st, &note) != 0)
        check_problem(c, ADVICE_FILE, "%s", note.text);
    return st;
}

bool check_step(struct check *c, sqlite3_stmt *st)
{
    struct err_note note;
    int rc = st ? sqlite3_step(st) : SQLITE_DONE;
    if (rc == SQLITE_ROW)
        return true;
    if (rc != SQLITE_DONE) {
        (void)!sql_error(c->db, "read", &note);
        check_problem(c, ADVICE_FILE, "%s", note.text);
    }
    return false;
}

void check_query(struct check *c, const char *sql)
{
    sqlite3_stmt *st = check_prepare(c, sql);
    if (st) /* nothing happens if the query has no such parameter */
        sqlite3_bind_int64(st, sqlite3_bind_parameter_index(st, ":blocked"), STATE_BLOCKED);
    while (check_step(c, st))
        problem_report(c, ADVICE_ROWS, sql, (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
}

/* The same for a scan by rising job, of which `last` was the one before. */
static bool scan_step(struct check *c, sqlite3_stmt *st, const char *table, int64_t last,
                      bool *ret_failed)
{
    struct err_note note;
    int rc = st ? sqlite3_step(st) : SQLITE_DONE;
    *ret_failed = !st || (rc != SQLITE_ROW && rc != SQLITE_DONE);
    if (st && *ret_failed) {
        (void)!sql_error(c->db, "read", &note);
        check_problem(c, ADVICE_FILE, "table %s could not be read beyond job %" PRId64 ": %s",
                      table, last, note.text);
    }
    return rc == SQLITE_ROW;
}

/* ---- the store itself ---- */

static void check_file(struct check *c)
{
    sqlite3_stmt *st = check_prepare(c, "PRAGMA integrity_check(100)");
    while (check_step(c, st)) {
        const char *line = (const char *)sqlite3_column_text(st, 0);
        if (line && strcmp(line, "ok") != 0)
            check_problem(c, ADVICE_FILE, "SQLite says: %s", line);
    }
    sqlite3_finalize(st);
}

static void check_meta(struct check *c)
{
    struct err_note note;
    if (sqlite_load_meta(c->db, &c->meta, &note) != 0) {
        check_problem(c, ADVICE_FILE, "%s", note.text);
        return;
    }
    c->has_meta = true;
    fprintf(c->out, "%s: format %d, %" PRIu64 " records applied, boot %" PRIu32 "\n", c->dir,
            STORE_FORMAT, c->meta.position, c->meta.epoch);
    if (c->meta.epoch >= 1 && c->meta.position == 0)
        check_problem(c, ADVICE_ROWS, "the server has been started, but no record was applied");
}

/* ---- queues ---- */

static int queue_add(struct check *c, uint32_t number, struct check_queue **ret)
{
    struct check_queue *queues =
        mem_more(c->queues, c->queue_count, &c->queue_room, sizeof *queues);
    if (!queues)
        return -ERR_NOMEM;
    c->queues = queues;
    *ret = &c->queues[c->queue_count++];
    **ret = (struct check_queue){.number = number};
    return 0;
}

struct check_queue *check_queue_of(struct check *c, uint32_t number)
{
    size_t low = SORTED_INDEX(c->queue_count, i, c->queues[i].number < number);
    return low < c->queue_count && c->queues[low].number == number ? &c->queues[low] : NULL;
}

static int check_queue_row(struct check *c, sqlite3_stmt *st)
{
    int64_t number = sqlite3_column_int64(st, 0), generation = sqlite3_column_int64(st, 2);
    int64_t gone = sqlite3_column_int64(st, 3);
    struct span name = column_span(st, 1), policy = column_span(st, 4);
    struct queue_policy p;
    struct check_queue *q;
    int rc = queue_add(c, (uint32_t)number, &q);
    if (rc != 0)
        return rc;
    bool named = validate_queue_name(name, NULL) == 0;
    q->name = named ? mem_text(name.at, name.len) : mem_text("?", 1);
    if (!q->name)
        return -ERR_NOMEM;
    q->generation = (uint32_t)generation;
    q->gone = gone != 0;
    if (policy_decode(policy, &p) == 0)
        q->unique_scope = p.unique_scope;
    return 0;
}

static int check_queues(struct check *c)
{
    int rc = 0;
    sqlite3_stmt *st = check_prepare(
        c, "SELECT number, name, generation, gone, policy FROM queues ORDER BY number");
    while (rc == 0 && check_step(c, st))
        rc = check_queue_row(c, st);
    sqlite3_finalize(st);
    return rc;
}

/* The index that forbids it may itself be damaged, so it is not asked. */
#define SAME_NAMES                                                                                 \
    "SELECT printf('queue %d and queue %d have the same name', min(number), max(number))"          \
    " FROM queues NOT INDEXED WHERE gone = 0 GROUP BY CAST(name AS BLOB) HAVING count(*) > 1"

static void print_queues(struct check *c)
{
    for (size_t i = 0; i < c->queue_count; i++) {
        const struct check_queue *q = &c->queues[i];
        fprintf(c->out, "queue %s%s:", q->name, q->gone ? " (deleted, not all removed yet)" : "");
        for (int s = STATE_SCHEDULED; s < STATE_COUNT; s++)
            fprintf(c->out, "%s %" PRIu64 " %s", s == STATE_SCHEDULED ? "" : ",", q->by_state[s],
                    state_name((enum job_state)s));
        if (q->purged)
            fprintf(c->out, "; %" PRIu64 " purged, not removed yet", q->purged);
        fputc('\n', c->out);
    }
}

/* ---- jobs ---- */

static const struct {
    const char *table, *sql;
} sides[SIDE_COUNT] = {
    [SIDE_PAYLOAD] = {"payload", "SELECT seq, body, crc FROM payload ORDER BY seq"},
    [SIDE_EXTRA] = {"extra", "SELECT " EXTRA_COLUMNS " FROM extra ORDER BY seq"},
    [SIDE_OUTCOME] = {"outcome",
                      "SELECT seq, result_kind, result, result_crc FROM outcome ORDER BY seq"},
    [SIDE_ASIDE] = {"aside", "SELECT seq, queue, state FROM aside ORDER BY seq"},
    [SIDE_LINK] = {"links", "SELECT item, job FROM links ORDER BY item"},
};

static void side_next(struct check *c, enum check_side_id id)
{
    struct check_side *s = &c->sides[id];
    bool row = scan_step(c, s->st, sides[id].table, s->seq, &s->failed);
    s->seq = row ? sqlite3_column_int64(s->st, 0) : INT64_MAX;
}

/* Moves the scan up to the job; rows before it belong to no job, or to one that cannot be read. */
static bool side_at(struct check *c, enum check_side_id id, int64_t seq)
{
    struct check_side *s = &c->sides[id];
    if (s->seen)
        side_next(c, id);
    for (s->seen = false; s->seq < seq; side_next(c, id))
        if (!c->jobs_lost)
            check_problem(c, ADVICE_ROWS,
                          "table %s has a row for job %" PRId64 ", which does not exist",
                          sides[id].table, s->seq);
    s->seen = s->seq == seq && seq != INT64_MAX;
    return s->seen;
}

static void check_bad_job(struct check *c, sqlite3_stmt *st)
{
    struct err_note note = {""};
    int64_t v[JOB_COLUMN_COUNT];
    for (int i = 0; i < JOB_COLUMN_COUNT; i++)
        v[i] = i == JOB_WORKER ? 0 : sqlite3_column_int64(st, i);
    int column = job_bad_number(v);
    if (column >= 0)
        (void)!job_refuse(v, column, &note);
    else
        (void)!row_refuse(TABLE_JOBS, st, 0, JOB_WORKER, &note);
    check_problem(c, ADVICE_ROWS, "%s", note.text);
}

static int check_row(struct check *c, sqlite3_stmt *st)
{
    struct check_row row = {.seq = sqlite3_column_int64(st, 0)};
    for (int i = 0; i < SIDE_COUNT; i++)
        row.sides[i] = side_at(c, (enum check_side_id)i, row.seq) ? c->sides[i].st : NULL;
    if (check_gone(c, row.seq)) {
        check_gone_row(c, &row);
        return 0;
    }
    c->jobs++;
    if (row_job(st, 0, &row.stored) != 0) {
        check_bad_job(c, st);
        return 0;
    }
    return check_job(c, &row);
}

static int job_row_cb(void *ctx, sqlite3_stmt *st)
{
    struct check *c = ctx;
    c->job_last = sqlite3_column_int64(st, JOB_SEQ);
    return check_row(c, st);
}

static void jobs_lost_cb(void *ctx, uint64_t from, uint64_t to)
{
    struct check *c = ctx;
    (void)from, (void)to;
    c->jobs_lost = true;
    check_problem(c, ADVICE_FILE, "table jobs could not be read beyond job %" PRId64 ": %s",
                  c->job_last, c->lost_why.text);
}

/* Rows whose sequence cannot be one come first. */
static int check_each_job(struct check *c)
{
    struct err_note note = {""};
    int rc = 0;
    sqlite3_stmt *st = check_prepare(c, JOB_ROWS);
    struct row_walk walk = {.st = st,
                            .row = job_row_cb,
                            .lost = jobs_lost_cb,
                            .ctx = c,
                            .patience = JOBS_PATIENCE,
                            .why = &c->lost_why};
    c->jobs_lost = !st;
    sqlite3_bind_int64(st, 1, INT64_MIN);
    sqlite3_bind_int64(st, 2, 0);
    while (rc == 0 && st && sqlite3_step(st) == SQLITE_ROW) /* the walk reports what is damaged */
        rc = job_row_cb(c, st);
    sqlite3_reset(st);
    if (rc == 0 && st)
        rc = row_walk(&walk, 1, INT64_MAX, &note);
    sqlite3_finalize(st);
    return rc;
}

/* The rows of the other tables that are left in the end are of no job, if all jobs are known. */
static int check_jobs(struct check *c)
{
    struct err_note note;
    for (int i = 0; i < SIDE_COUNT; i++) {
        c->sides[i].st = check_prepare(c, sides[i].sql);
        side_next(c, (enum check_side_id)i);
    }
    if (gone_scan_begin(&c->gone, c->db, &note) != 0)
        check_problem(c, ADVICE_FILE, "%s", note.text);
    int rc = check_each_job(c);
    gone_scan_end(&c->gone);
    for (int i = 0; i < SIDE_COUNT; i++) {
        if (rc == 0 && !c->jobs_lost)
            (void)side_at(c, (enum check_side_id)i, INT64_MAX);
        sqlite3_finalize(c->sides[i].st);
    }
    return rc;
}

/* ---- bulk actions and keys ---- */

static void check_bulks(struct check *c)
{
    sqlite3_stmt *st = check_prepare(c, "SELECT bulk, queue FROM bulks ORDER BY bulk");
    while (check_step(c, st)) {
        int64_t bulk = sqlite3_column_int64(st, 0), queue = sqlite3_column_int64(st, 1);
        if (queue != 0 && !check_queue_of(c, (uint32_t)queue))
            check_problem(c, ADVICE_ROWS,
                          "bulk action %" PRId64 " is about queue %" PRId64
                          ", which does not exist",
                          bulk, queue);
    }
    sqlite3_finalize(st);
}

static void check_keys(struct check *c)
{
    sqlite3_stmt *st = check_prepare(c, "SELECT seq, key_hi, key_lo FROM keys");
    while (check_step(c, st)) {
        int64_t seq = sqlite3_column_int64(st, 0);
        if ((sqlite3_column_int64(st, 1) | sqlite3_column_int64(st, 2)) == 0)
            check_problem(c, ADVICE_ROWS, "an idempotency key is 0");
        else if ((uint64_t)seq > c->meta.seq_upto && !id_spooled((uint64_t)seq))
            check_problem(c, ADVICE_ROWS,
                          "an idempotency key names job %" PRId64 ", a sequence not reserved yet",
                          seq);
    }
    sqlite3_finalize(st);
}

/* Rows are by expiry, so the same key could be there twice; the engine would not load it. */
#define SAME_KEYS                                                                                  \
    "SELECT printf('job %d and job %d have the same idempotency key', min(seq), max(seq))"         \
    " FROM keys GROUP BY key_hi, key_lo HAVING count(*) > 1"

/* ---- all of it ---- */

static enum check_result check_rows(struct check *c)
{
    check_meta(c);
    int rc = check_values(c);
    if (rc == 0)
        rc = check_queues(c);
    if (rc == 0)
        rc = check_jobs(c);
    c->error = rc;
    if (rc != 0)
        return not_done(c, err_text(rc));
    check_gones(c);
    check_attempts(c);
    check_hours(c);
    check_query(c, SAME_NAMES);
    check_bulks(c);
    check_keys(c);
    check_query(c, SAME_KEYS);
    check_kv(c);
    check_steps(c);
    check_dependencies(c);
    check_notices(c);
    print_queues(c);
    c->queues_told = c->queue_count;
    check_journal(c);
    return verdict(c);
}

/* Objects that are foreign, and indexes that are missing, do not keep the rows from being checked;
 * tables other than ours do. */
static int fault_cb(void *ctx, const char *type, const char *name, enum schema_fault fault,
                    struct err_note *note)
{
    struct check *c = ctx;
    if (!schema_matters(type, fault))
        return 0;
    int rc = schema_refuse(c->dir, type, name, fault, note);
    check_problem(c, ADVICE_FILE, "%s", note->text);
    bool readable =
        fault == SCHEMA_FOREIGN || (fault == SCHEMA_MISSING && strcmp(type, "index") == 0);
    return readable ? 0 : rc;
}

static enum check_result check_schema(struct check *c)
{
    struct err_note note = {""};
    int rc = schema_format(c->db, c->dir, &note);
    if (rc == -ERR_CORRUPT) {
        check_problem(c, ADVICE_FILE, "%s", note.text);
        return verdict(c);
    }
    if (rc != 0)
        return not_done(c, note.text);
    uint64_t before = c->problems;
    rc = schema_compare(c->db, fault_cb, c, &note);
    if (rc != 0 && c->problems == before)
        check_problem(c, ADVICE_FILE, "%s", note.text);
    return rc == 0 ? CHECK_GOOD : verdict(c);
}

static enum check_result check_db(struct check *c, const struct store_dir *dir)
{
    struct err_note note;
    enum check_result result = CHECK_GOOD;
    c->db_path = dir->db_path;
    c->error = check_pages_read(c, dir->db_path, &note);
    if (c->error == 0)
        c->error = reading_open(dir, false, &c->db, &note);
    if (c->error != 0)
        result = not_done(c, note.text);
    if (result == CHECK_GOOD)
        check_pages_tell(c, dir->db_path);
    if (result == CHECK_GOOD)
        result = check_schema(c);
    if (result == CHECK_GOOD) {
        check_file(c);
        result = check_rows(c);
    }
    sqlite3_close(c->db);
    return result;
}

/* What is wrong with the file as a whole; `rc` is that of schema_probe. */
static enum check_result check_unreadable(struct check *c, int rc, struct err_note *note)
{
    if (rc == -ERR_NOT_FOUND && !store_dir_journaled(c->dir))
        return not_done(c, "there is no store here: no file holdfast.db");
    if (rc != -ERR_NOT_FOUND && rc != -ERR_CORRUPT)
        return not_done(c, note->text[0] ? note->text : err_text(rc));
    if (rc == -ERR_NOT_FOUND)
        (void)!store_dir_lost(c->dir, note);
    check_problem(c, rc == -ERR_NOT_FOUND ? ADVICE_LOST : ADVICE_FILE, "%s", note->text);
    return verdict(c);
}

/* A directory without a store is left as it is. A backup has no lock, and gets none. */
static enum check_result check_dir(struct check *c)
{
    struct store_dir dir = STORE_DIR_NONE;
    struct err_note note = {""};
    int rc = store_dir_open_read(c->dir, &dir, &note);
    if (rc == -ERR_NOT_FOUND)
        return not_done(c, "there is no store here: no such directory");
    if (rc != 0)
        return not_done(c, note.text[0] ? note.text : err_text(rc));
    rc = schema_probe(&dir, &note);
    enum check_result result = rc == 0 ? check_db(c, &dir) : check_unreadable(c, rc, &note);
    store_dir_close(&dir);
    return result;
}

static void check_done(struct check *c)
{
    for (size_t i = 0; i < c->queue_count; i++)
        mem_free(c->queues[i].name);
    mem_free(c->queues);
    mem_free(c->faults);
    map128_done(&c->uniques);
}

int check_run(const char *dir, FILE *out)
{
    struct check c = {.dir = dir, .out = out};
    map128_init(&c.uniques);
    enum check_result result = check_dir(&c);
    check_done(&c);
    return result;
}

int check_file_run(const char *dir, const char *path, struct check_findings *ret)
{
    struct check c = {.dir = dir, .out = fopen("/dev/null", "we"), .alone = true};
    enum check_result result = CHECK_NOT_DONE;
    map128_init(&c.uniques);
    if (c.out) {
        /* No WAL belongs to the copy, so it is opened without one. */
        struct store_dir at = {.path = (char *)dir, .db_path = (char *)path, .fd = -1};
        result = check_db(&c, &at);
        fclose(c.out);
    } else {
        snprintf(c.sorts[0].first, sizeof c.sorts[0].first, "cannot open /dev/null");
    }
    ret->problems = c.problems;
    ret->error = c.error ? c.error : -ERR_IO;
    memcpy(ret->first, c.sorts[0].first, sizeof ret->first);
    check_done(&c);
    return result;
}
