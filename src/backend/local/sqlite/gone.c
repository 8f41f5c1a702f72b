/* SPDX-License-Identifier: Apache-2.0 */
/* Removed jobs whose rows still exist: marking them, and deleting the rows (see the header).
 *
 * A batch only marks a job if deleting its rows would be expensive: the batch removes many jobs,
 * few of them in the same block, and none of them so new that their pages are written with the
 * batch anyway. The marks are dense, so that a batch which removes ten thousand of a million jobs
 * writes some sixty pages and not thirty thousand.
 *
 * The rows are deleted block by block by increasing sequence: all marked ones while the thread is
 * idle, otherwise only as many as are needed to keep the marks below a quarter of the rows; then
 * every page that is written loses several rows. The number of deleted rows of jobs must be equal
 * to the number of marks.
 *
 * A row on a damaged page cannot be deleted. Once a batch has found one (sqlite/damage.h), every
 * removal is only marked, and no rows are deleted until the server has started again. */
#include "backend/local/sqlite/gone.h"

#include <inttypes.h>
#include <stdlib.h>

#include "backend/local/sqlite/damage.h"
#include "backend/local/sqlite/rules.h"
#include "backend/local/sqlite/store_sqlite.h"
#include "base/failpoint.h"

#define BLOCK_BITS 6
#define CHUNK 64             /* blocks read at a time */
#define SURPLUS_BLOCKS 4096u /* cleaned by one batch at most */

static const struct gone_rules rules = {
    .few = 256, .dense = 8, .recent = 4096, .kept_min = 100000, .kept_one_in = 4};

#ifdef HF_TEST_HOOKS
/* For tests: even a small store marks removals, and soon has too many marks. */
#define EAGER "HF_GONE_EAGER"
static const struct gone_rules eager = {
    .few = 1, .dense = 65, .recent = 0, .kept_min = 20, .kept_one_in = 1000};
#endif

struct gone_rules gone_rules(void)
{
#ifdef HF_TEST_HOOKS
    if (getenv(EAGER))
        return eager;
#endif
    return rules;
}

static unsigned bits_count(uint64_t bits)
{
    return (unsigned)__builtin_popcountll(bits);
}

static uint64_t bit_of(uint64_t seq)
{
    return UINT64_C(1) << (seq & 63);
}

/* ---- choosing ---- */

static bool removes_rows(const struct change *c)
{
    return (c->flags & (CHANGE_GONE | CHANGE_NEW)) == CHANGE_GONE;
}

/* For the change at `from` and those that follow in its block: returns where the block ends, and
 * how many of them remove rows. */
static uint32_t block_end(const struct change_set *f, uint32_t from, unsigned *ret_gone)
{
    uint64_t block = f->changes[f->order[from]].seq >> BLOCK_BITS;
    uint32_t at = from;
    *ret_gone = 0;
    for (; at < f->count && f->changes[f->order[at]].seq >> BLOCK_BITS == block; at++)
        *ret_gone += removes_rows(&f->changes[f->order[at]]);
    return at;
}

static uint32_t choose(struct store_sqlite *q, bool mark)
{
    const struct change_set *f = &q->change_set;
    uint64_t newest = f->count > 0 ? f->changes[f->order[f->count - 1]].seq : 0;
    uint32_t chosen = 0, end;
    newest = newest > q->jobs.max ? newest : q->jobs.max;
    for (uint32_t at = 0; at < f->count; at = end) {
        unsigned gone;
        uint64_t last = f->changes[f->order[at]].seq | 63;
        end = block_end(f, at, &gone);
        if (last + q->gone_rules.recent >= newest)
            break;
        if (gone == 0 || gone >= q->gone_rules.dense)
            continue;
        chosen += gone;
        for (uint32_t i = at; mark && i < end; i++) {
            struct change *c = &f->changes[f->order[i]];
            c->flags |= removes_rows(c) ? CHANGE_MARKED : 0;
        }
    }
    return chosen;
}

static void mark_all(struct change_set *f)
{
    for (uint32_t i = 0; i < f->count; i++)
        f->changes[i].flags |= removes_rows(&f->changes[i]) ? CHANGE_MARKED : 0;
}

void gone_choose(struct store_sqlite *q)
{
    if (q->damaged) {
        mark_all(&q->change_set);
        return;
    }
    uint32_t chosen = choose(q, false);
    if (chosen > 0 && chosen >= q->gone_rules.few)
        (void)choose(q, true);
}

/* ---- marking ---- */

static int marks_written(struct store_sqlite *q, int count, struct err_note *note)
{
    if (sqlite3_changes(q->db) == count)
        return 0;
    return err_note_set(note, -ERR_CORRUPT, "a record removes a job that has been removed");
}

int gone_group_end(struct store_sqlite *q, struct gone_group *g, struct err_note *note)
{
    bool whole = g->count == GONE_GROUP;
    sqlite3_stmt *st = q->stmts[whole ? STMT_GONES_PUT : STMT_GONE_PUT];
    int rc = 0;
    for (int i = 0; i < g->count && rc == 0; i++) {
        bind_number(st, whole ? 2 * i + 1 : 1, g->blocks[i]);
        bind_number(st, whole ? 2 * i + 2 : 2, g->bits[i]);
        q->next_figures.marks += bits_count(g->bits[i]);
        bounds_add(&q->gones, g->blocks[i]);
        if (whole && i + 1 < GONE_GROUP)
            continue;
        rc = sql_run(st, "write", note);
        if (rc == 0)
            rc = marks_written(q, whole ? GONE_GROUP : 1, note);
    }
    g->count = 0;
    return rc;
}

int gone_add(struct store_sqlite *q, struct gone_group *g, uint64_t seq, struct err_note *note)
{
    uint64_t block = seq >> BLOCK_BITS;
    if (g->count > 0 && g->blocks[g->count - 1] == block) {
        g->bits[g->count - 1] |= bit_of(seq);
        return 0;
    }
    int rc = g->count == GONE_GROUP ? gone_group_end(q, g, note) : 0;
    g->blocks[g->count] = block;
    g->bits[g->count++] = bit_of(seq);
    return rc;
}

/* ---- checking ---- */

/* The bits of a block that are between two sequences; the block contains at least one of these. */
static uint64_t bits_within(uint64_t block, uint64_t first, uint64_t last)
{
    uint64_t bits = UINT64_MAX;
    if (first >> BLOCK_BITS == block)
        bits &= UINT64_MAX << (first & 63);
    if (last >> BLOCK_BITS == block)
        bits &= UINT64_MAX >> (63 - (last & 63));
    return bits;
}

int gone_none(struct store_sqlite *q, uint64_t first, uint64_t last, struct err_note *note)
{
    if (q->next_figures.marks == 0 ||
        !bounds_meet(&q->gones, first >> BLOCK_BITS, last >> BLOCK_BITS))
        return 0;
    sqlite3_stmt *st = q->stmts[STMT_GONE_WITHIN];
    int step, rc = 0;
    bind_number(st, 1, first >> BLOCK_BITS);
    bind_number(st, 2, last >> BLOCK_BITS);
    while (rc == 0 && (step = sqlite3_step(st)) == SQLITE_ROW) {
        uint64_t block = (uint64_t)sqlite3_column_int64(st, 0);
        if ((uint64_t)sqlite3_column_int64(st, 1) & bits_within(block, first, last))
            rc = err_note_set(note, -ERR_CORRUPT,
                              "a record names a job from %" PRIu64 " to %" PRIu64
                              " that has been removed",
                              first, last);
    }
    if (rc == 0 && step != SQLITE_DONE)
        rc = sql_error(q->db, "read", note);
    sqlite3_reset(st);
    return rc;
}

int gone_count(sqlite3 *db, uint64_t *ret, struct err_note *note)
{
    sqlite3_stmt *st = NULL;
    *ret = 0;
    int step = SQLITE_DONE, rc = sql_prepare(db, "SELECT bits FROM gone", &st, note);
    while (rc == 0 && (step = sqlite3_step(st)) == SQLITE_ROW)
        *ret += bits_count((uint64_t)sqlite3_column_int64(st, 0));
    if (rc == 0 && step != SQLITE_DONE)
        rc = sql_error(db, "read", note);
    sqlite3_finalize(st);
    return rc;
}

/* ---- cleaning ---- */

struct chunk {
    uint64_t blocks[CHUNK], bits[CHUNK];
    uint64_t count;
};

/* The next blocks with marks, from where the last cleaning ended; after the last block it continues
 * with the first. */
static int chunk_read(struct store_sqlite *q, uint64_t most, struct chunk *c, struct err_note *note)
{
    sqlite3_stmt *st = q->stmts[STMT_GONE_FROM];
    int step = SQLITE_DONE;
    bool again = q->clean_from > 0;
    c->count = 0;
    do {
        bind_number(st, 1, q->clean_from);
        bind_number(st, 2, most < CHUNK ? most : CHUNK);
        while ((step = sqlite3_step(st)) == SQLITE_ROW && c->count < CHUNK) {
            c->blocks[c->count] = (uint64_t)sqlite3_column_int64(st, 0);
            c->bits[c->count++] = (uint64_t)sqlite3_column_int64(st, 1);
        }
        sqlite3_reset(st);
        if (step != SQLITE_DONE || c->count > 0 || !again)
            break;
        q->clean_from = 0;
        again = false;
    } while (true);
    return step == SQLITE_DONE ? 0 : sql_error(q->db, "read", note);
}

static int block_delete(struct store_sqlite *q, enum stmt_id id, uint64_t block, uint64_t bits,
                        struct err_note *note)
{
    bind_number(q->stmts[id], 1, block << BLOCK_BITS);
    bind_number(q->stmts[id], 2, bits);
    return sql_run(q->stmts[id], "clean", note);
}

static int block_clean(struct store_sqlite *q, uint64_t block, uint64_t bits, struct err_note *note)
{
    uint64_t first = block << BLOCK_BITS, last = first + 63;
    unsigned count = bits_count(bits);
    int rc = block_delete(q, STMT_BLOCK_JOBS, block, bits, note);
    if (rc == 0 && (unsigned)sqlite3_changes(q->db) != count)
        rc = err_note_set(note, -ERR_CORRUPT,
                          "of %u removed jobs from %" PRIu64 " to %" PRIu64 ", %d had a row", count,
                          first, last, sqlite3_changes(q->db));
    if (rc == 0)
        rc = block_delete(q, STMT_BLOCK_PAYLOADS, block, bits, note);
    if (rc == 0 && bounds_meet(&q->extras, first, last))
        rc = block_delete(q, STMT_BLOCK_EXTRAS, block, bits, note);
    if (rc == 0 && bounds_meet(&q->outcomes, first, last))
        rc = block_delete(q, STMT_BLOCK_OUTCOMES, block, bits, note);
    q->next_figures.marks -= count < q->next_figures.marks ? count : q->next_figures.marks;
    q->next_figures.rows -= count;
    return rc;
}

static int chunk_clean(struct store_sqlite *q, const struct chunk *c, struct err_note *note)
{
    int rc = 0;
    for (uint64_t i = 0; i < c->count && rc == 0; i++)
        rc = block_clean(q, c->blocks[i], c->bits[i], note);
    if (rc != 0 || c->count == 0)
        return rc;
    q->clean_from = c->blocks[c->count - 1] + 1;
    bind_number(q->stmts[STMT_GONE_END], 1, c->blocks[0]);
    bind_number(q->stmts[STMT_GONE_END], 2, c->blocks[c->count - 1]);
    return sql_run(q->stmts[STMT_GONE_END], "clean", note);
}

/* More marks than are allowed under load. */
static bool surplus(const struct store_sqlite *q, const struct gone_figures *f)
{
    uint64_t rows = f->rows > 0 ? (uint64_t)f->rows : 0, kept = rows / q->gone_rules.kept_one_in;
    return f->marks > (kept > q->gone_rules.kept_min ? kept : q->gone_rules.kept_min);
}

/* Cleaning continues until there are no marks. Marks that are counted but cannot be found would
 * keep it running forever. */
static int chunk_found(const struct store_sqlite *q, const struct chunk *c, struct err_note *note)
{
    if (c->count > 0 || q->next_figures.marks == 0)
        return 0;
    return err_note_set(note, -ERR_CORRUPT,
                        "%" PRIu64 " jobs are marked as removed, but table gone has no block that "
                        "names them",
                        q->next_figures.marks);
}

static int clean_blocks(struct store_sqlite *q, uint64_t blocks, bool all, struct err_note *note)
{
    struct chunk c = {.count = 1};
    int rc = 0;
    while (rc == 0 && c.count > 0 && blocks > 0 && (all || surplus(q, &q->next_figures))) {
        rc = chunk_read(q, blocks, &c, note);
        if (rc == 0)
            rc = chunk_found(q, &c, note);
        if (rc == 0)
            rc = chunk_clean(q, &c, note);
        blocks -= c.count;
    }
    return rc;
}

static int clean(struct store_sqlite *q, uint64_t blocks, bool all, struct err_note *note)
{
    q->next_figures = q->figures;
    int rc = sql_run(q->stmts[STMT_BEGIN], "begin a transaction", note);
    if (rc == 0)
        rc = clean_blocks(q, blocks, all, note);
    FAILPOINT("clean.commit");
    if (rc == 0)
        rc = sql_run(q->stmts[STMT_COMMIT], "commit", note);
    FAILPOINT("clean.synced");
    if (rc == 0)
        q->figures = q->next_figures;
    if (rc == 0 && q->figures.marks == 0)
        q->gones = (struct seq_bounds){UINT64_MAX, 0};
    if (!sqlite3_get_autocommit(q->db)) { /* report the first error */
        sqlite3_step(q->stmts[STMT_ROLLBACK]);
        sqlite3_reset(q->stmts[STMT_ROLLBACK]);
        return rc;
    }
    return damage_met(q, rc, note);
}

uint64_t gone_cleanable(const struct store_sqlite *q)
{
    return q->damaged ? 0 : q->figures.marks;
}

int gone_clean(struct store_sqlite *q, uint64_t blocks, struct err_note *note)
{
    return gone_cleanable(q) > 0 ? clean(q, blocks, true, note) : 0;
}

int gone_clean_surplus(struct store_sqlite *q, struct err_note *note)
{
    bool wanted = gone_cleanable(q) > 0 && surplus(q, &q->figures);
    return wanted ? clean(q, SURPLUS_BLOCKS, false, note) : 0;
}

/* ---- beside a scan of jobs ---- */

/* Marks whose row was not found are left over when the scan leaves their block. */
static int scan_met(const struct gone_scan *g, struct err_note *note)
{
    if (!g->strict || g->unmet == 0)
        return 0;
    return row_misfit(TABLE_GONE, "bits", g->block, "names jobs that have no row in table jobs",
                      note);
}

static int scan_row(struct gone_scan *g, struct err_note *note)
{
    g->block = sqlite3_column_int64(g->st, 0);
    g->bits = g->unmet = (uint64_t)sqlite3_column_int64(g->st, 1);
    if (!g->strict)
        return 0;
    int rc = row_check(TABLE_GONE, g->st, note);
    if (rc == 0 && g->bits == 0)
        rc = row_misfit(TABLE_GONE, "bits", g->block, "is 0", note);
    return rc;
}

static int scan_next(struct gone_scan *g, struct err_note *note)
{
    int rc = scan_met(g, note);
    if (rc != 0)
        return rc;
    int step = sqlite3_step(g->st);
    if (step == SQLITE_ROW)
        return scan_row(g, note);
    if (step != SQLITE_DONE)
        return sql_error(sqlite3_db_handle(g->st), "read", note);
    g->block = INT64_MAX;
    g->bits = g->unmet = 0;
    return 0;
}

int gone_scan_begin(struct gone_scan *g, sqlite3 *db, struct err_note *note)
{
    int rc = sql_prepare(db, "SELECT block, bits FROM gone ORDER BY block", &g->st, note);
    return rc ? rc : scan_next(g, note);
}

int gone_scan_at(struct gone_scan *g, int64_t seq, bool *ret, struct err_note *note)
{
    int rc = 0;
    while (rc == 0 && g->block < seq >> BLOCK_BITS)
        rc = scan_next(g, note);
    *ret = rc == 0 && g->block == seq >> BLOCK_BITS && (g->bits & bit_of((uint64_t)seq));
    if (*ret)
        g->unmet &= ~bit_of((uint64_t)seq);
    return rc;
}

int gone_scan_rest(struct gone_scan *g, struct err_note *note)
{
    int rc = 0;
    while (rc == 0 && g->block != INT64_MAX)
        rc = scan_next(g, note);
    return rc;
}

void gone_scan_end(struct gone_scan *g)
{
    sqlite3_finalize(g->st);
    g->st = NULL;
}
