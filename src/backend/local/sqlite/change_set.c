/* SPDX-License-Identifier: Apache-2.0 */
/* The changes of a batch: all records about one job are merged into one change, which is written
 * once or not at all.
 *
 * Most records can be applied without reading the row. A claim, an ack and a lease extension
 * contain everything that they change (state, reason, since, JOB_BOUND, the lease), so they are
 * applied to a job of which only the possible initial states are assumed; the UPDATE then checks
 * that assumption. Any other record reads the row first (unless the job was created in this batch)
 * and is applied by the same rules to the whole job. */
#include <inttypes.h>

#include "backend/local/sqlite/store_sqlite.h"
#include "base/check.h"
#include "base/mem.h"
#include "core/jobs/moves.h"
#include "core/jobs/progress.h"

#define SLOTS_MIN 1024u

/* ---- the table of changes ---- */

void change_set_init(struct change_set *f)
{
    *f = (struct change_set){.max = CHANGE_SET_MAX};
    arena_init(&f->texts);
}

void change_set_done(struct change_set *f)
{
    mem_free(f->changes);
    mem_free(f->slots);
    mem_free(f->order);
    mem_free(f->merge);
    mem_free(f->ended);
    mem_free(f->counters);
    arena_done(&f->texts);
    *f = (struct change_set){0};
}

/* The slot of the sequence, or the free slot for it. */
static uint32_t *slot_of(const struct change_set *f, uint64_t seq)
{
    uint64_t hash = seq * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t at = (uint32_t)(hash >> 32) & f->slot_mask;
    while (f->slots[at] && f->changes[f->slots[at] - 1].seq != seq)
        at = (at + 1) & f->slot_mask;
    return &f->slots[at];
}

void change_set_clear(struct change_set *f)
{
    if (f->slots)
        memset(f->slots, 0, ((size_t)f->slot_mask + 1) * sizeof *f->slots);
    f->count = 0;
    f->ended_count = 0;
    f->counters_count = 0;
    arena_reset(&f->texts);
}

void change_set_trim(struct change_set *f)
{
    if (f->room > CHANGE_SET_KEPT) {
        uint32_t max = f->max;
        change_set_done(f);
        change_set_init(f);
        f->max = max;
    }
}

/* Twice as many slots as changes, so that probe sequences stay short. */
static int change_set_grow(struct change_set *f)
{
    uint32_t slots = f->slots ? (f->slot_mask + 1) * 2 : SLOTS_MIN;
    uint32_t *fresh = mem_array(slots, sizeof *fresh);
    struct change *changes = mem_regrow(f->changes, slots / 2, sizeof *changes);
    if (changes)
        f->changes = changes;
    uint32_t *order = mem_regrow(f->order, slots / 2, sizeof *order);
    if (order)
        f->order = order;
    uint32_t *merge = mem_regrow(f->merge, slots / 2, sizeof *merge);
    if (merge)
        f->merge = merge;
    if (!fresh || !changes || !order || !merge) {
        mem_free(fresh);
        return -ERR_NOMEM;
    }
    mem_free(f->slots);
    f->slots = fresh;
    f->slot_mask = slots - 1;
    f->room = slots / 2;
    for (uint32_t i = 0; i < f->count; i++)
        *slot_of(f, f->changes[i].seq) = i + 1;
    return 0;
}

/* The change of this job; created if it does not exist yet (then flags are 0). */
MUST_CHECK static int change_set_at(struct change_set *f, uint64_t seq, struct change **ret)
{
    if (f->count == f->room) {
        int rc = change_set_grow(f);
        if (rc != 0)
            return rc;
    }
    uint32_t *slot = slot_of(f, seq);
    if (*slot == 0) {
        f->changes[f->count] = (struct change){.seq = seq};
        *slot = ++f->count;
    }
    *ret = &f->changes[*slot - 1];
    return 0;
}

const struct change *change_set_find(const struct change_set *f, uint64_t seq)
{
    uint32_t at = f->count ? *slot_of(f, seq) : 0;
    return at ? &f->changes[at - 1] : NULL;
}

/* The job's attempt ends with the record at this position. */
MUST_CHECK static int merge_attempt_end(struct change_set *f, const struct change *c,
                                        const struct attempt_end *end, uint64_t position)
{
    struct ended_attempt *ended = mem_more(f->ended, f->ended_count, &f->ended_room, sizeof *ended);
    if (!ended)
        return -ERR_NOMEM;
    f->ended = ended;
    f->ended[f->ended_count++] = (struct ended_attempt){.change = (uint32_t)(c - f->changes),
                                                        .position = position,
                                                        .end = *end,
                                                        .started_at = c->started_at,
                                                        .worker = c->worker};
    return 0;
}

/* Records of one kind usually come by increasing sequence, so the order consists of a few
 * increasing runs: neighbouring runs are merged until one is left. */
static uint32_t run_end(const struct change_set *f, const uint32_t *order, uint32_t at)
{
    while (++at < f->count && f->changes[order[at]].seq > f->changes[order[at - 1]].seq)
        ;
    return at;
}

static void runs_merge(const struct change_set *f, const uint32_t *from, uint32_t a, uint32_t b,
                       uint32_t end, uint32_t *to)
{
    uint32_t mid = b;
    for (uint32_t i = a; i < end; i++) {
        bool left = b == end || (a < mid && f->changes[from[a]].seq < f->changes[from[b]].seq);
        to[i] = left ? from[a++] : from[b++];
    }
}

void change_set_sort(struct change_set *f)
{
    for (uint32_t i = 0; i < f->count; i++)
        f->order[i] = i;
    uint32_t runs;
    do {
        runs = 0;
        for (uint32_t a = 0; a < f->count; runs++) {
            uint32_t b = run_end(f, f->order, a);
            uint32_t end = b < f->count ? run_end(f, f->order, b) : b;
            runs_merge(f, f->order, a, b, end, f->merge);
            a = end;
        }
        uint32_t *sorted = f->merge;
        f->merge = f->order;
        f->order = sorted;
    } while (runs > 1);
}

/* ---- records about one job ---- */

/* Copies the name of the worker, which must be valid until the batch is written. */
static int worker_keep(struct store_sqlite *q, const struct stored_job *row, struct change *c)
{
    if ((c->flags & CHANGE_WORKER) || row->worker.len == 0)
        return 0;
    char *copy = arena_copy(&q->change_set.texts, row->worker.at, row->worker.len);
    c->worker = span_of(copy, copy ? row->worker.len : 0);
    return copy ? 0 : -ERR_NOMEM;
}

/* Reads the row and applies to it what the batch has already changed. */
static int change_complete(struct store_sqlite *q, struct change *c, struct err_note *note)
{
    if (c->flags & CHANGE_FULL)
        return 0;
    int rc = gone_none(q, c->seq, c->seq, note);
    if (rc != 0)
        return rc;
    struct job touched = c->job;
    struct stored_job row;
    sqlite3_stmt *st = q->stmts[STMT_JOB_GET];
    bind_number(st, 1, c->seq);
    rc = sqlite3_step(st);
    if (rc != SQLITE_ROW) {
        rc = rc == SQLITE_DONE
                 ? err_note_set(note, -ERR_CORRUPT,
                                "a record names job %" PRIu64 ", which does not exist", c->seq)
                 : sql_error(q->db, "read a job", note);
        sqlite3_reset(st);
        return rc;
    }
    rc = row_job(st, 0, &row);
    int kept = rc == 0 ? worker_keep(q, &row, c) : 0;
    sqlite3_reset(st);
    if (kept != 0)
        return kept;
    if (rc != 0 || (c->from && !(c->from & STATE_BIT(row.job.state))))
        return err_note_set(note, -ERR_CORRUPT, "the row of job %" PRIu64 " is damaged", c->seq);
    c->job = row.job;
    if (c->flags & CHANGE_STATE) {
        c->job.state = touched.state;
        c->job.reason = touched.reason;
        c->job.since = touched.since;
        c->job.flags = (uint8_t)((row.job.flags & JOB_HAS_EXTRA) | (touched.flags & JOB_BOUND));
    }
    if (!(c->flags & CHANGE_TOKEN)) {
        c->token = row.token;
        c->limits = row.limits;
        c->started_at = row.started_at;
    }
    if (!(c->flags & CHANGE_LEASE))
        c->lease_ms = row.lease_ms;
    c->from = 0;
    c->flags |= CHANGE_FULL;
    return 0;
}

/* For a record that contains everything it changes: assumes that the job is in an allowed initial
 * state. */
static void change_assume(struct change *c, enum job_move move)
{
    if (c->flags != 0)
        return;
    for (unsigned state = STATE_COUNT - 1; state > STATE_NONE; state--) {
        if (!move_starts_from(move, (enum job_state)state))
            continue;
        c->from |= STATE_BIT(state);
        c->job.state = (uint8_t)state;
    }
}

static void lease_drop(struct change *c)
{
    c->lease_ms = 0;
    c->limits = (struct lease_limits){0};
    c->worker = (struct span){NULL, 0};
    c->flags |= CHANGE_STATE | CHANGE_LEASE | CHANGE_WORKER;
}

static void error_set(struct change *c, uint8_t kind, struct span error)
{
    if (error.len == 0)
        return;
    c->error_kind = kind;
    c->error = error;
    c->flags |= CHANGE_ERROR;
}

static int merge_claimed(struct change *c, const struct rec_job_claimed *r)
{
    change_assume(c, MOVE_SEIZE);
    int rc = apply_claimed(&c->job, r);
    if (rc != 0)
        return rc;
    c->token = r->token;
    c->lease_ms = r->lease_ms;
    c->limits = (struct lease_limits){.timeout_ms = r->timeout_ms};
    c->worker = r->worker;
    c->started_at = r->at;
    c->flags |= CHANGE_STATE | CHANGE_TOKEN | CHANGE_LEASE | CHANGE_WORKER;
    return 0;
}

static int merge_extended(struct change *c, const struct rec_job_extended *r)
{
    change_assume(c, MOVE_EXTEND);
    int rc = apply_extended(&c->job, r);
    if (rc != 0)
        return rc;
    c->lease_ms = r->lease_ms;
    c->flags |= CHANGE_LEASE;
    return 0;
}

static int merge_acked(struct change *c, const struct rec_job_done *r)
{
    change_assume(c, MOVE_ACK);
    int rc = apply_done(&c->job, r);
    if (rc != 0)
        return rc;
    c->lease_ms = 0; /* the worker's name stays */
    c->flags |= CHANGE_STATE | CHANGE_LEASE;
    if (r->result_kind == PAYLOAD_NONE)
        return 0;
    c->result_kind = r->result_kind;
    c->result = r->result;
    c->flags |= CHANGE_RESULT;
    return 0;
}

static int merge_back(struct change *c, const struct rec_job_back *r)
{
    int rc = apply_back(&c->job, r);
    if (rc != 0)
        return rc;
    lease_drop(c);
    error_set(c, r->error_kind, r->error);
    return 0;
}

static int merge_dead(struct change *c, const struct rec_job_dead *r)
{
    int rc = apply_dead(&c->job, r);
    if (rc != 0)
        return rc;
    lease_drop(c);
    error_set(c, r->error_kind, r->error);
    return 0;
}

static int merge_cancelled(struct change *c, const struct rec_job_cancelled *r)
{
    int rc = apply_cancelled(&c->job, r);
    if (rc == 0)
        lease_drop(c);
    return rc;
}

static int merge_patched(struct change *c, const struct rec_job_patched *r)
{
    int rc = apply_patched(&c->job, r);
    if (rc != 0 || !r->has_payload)
        return rc;
    c->payload = r->payload;
    c->flags |= CHANGE_PAYLOAD;
    return 0;
}

static void merge_noted_extra(struct change *c, const struct rec_job_noted *r)
{
    if (r->has_label) {
        c->extra.label = r->label;
        c->flags |= CHANGE_LABEL;
    }
    if (r->has_attributes) {
        c->extra.attributes = r->attributes;
        c->flags |= CHANGE_ATTRIBUTES;
    }
}

static int merge_noted(struct change *c, const struct rec_job_noted *r)
{
    int rc = apply_noted(&c->job, r);
    if (rc != 0)
        return rc;
    merge_noted_extra(c, r);
    if (r->has_error) {
        c->error_kind = r->error_kind;
        c->error = r->error;
        c->flags |= CHANGE_ERROR;
    }
    if (r->has_result) {
        c->result_kind = r->result_kind;
        c->result = r->result;
        c->flags |= CHANGE_RESULT;
    }
    return 0;
}

/* The attempt happened in another store. If it ended with an ack, the job's own row describes it;
 * any other gets a row. The job gets a token, like every job that was claimed; no client has it,
 * because no claim has the epoch 0. */
static int merge_attempt(struct store_sqlite *q, struct change *c, const struct rec_job_attempt *r)
{
    struct change_set *f = &q->change_set;
    struct attempt_end end;
    struct wall_time started_at;
    c->token = (struct job_token){.counter = 1, .epoch = 0};
    if (attempt_import(&c->job, r, &end, &started_at)) {
        c->started_at = started_at;
        c->worker = r->worker;
        c->flags |= CHANGE_WORKER;
        return 0;
    }
    int rc = merge_attempt_end(f, c, &end, q->at);
    if (rc == 0) {
        f->ended[f->ended_count - 1].started_at = r->started_at;
        f->ended[f->ended_count - 1].worker = r->worker;
    }
    return rc;
}

static int log_add(struct change_set *f, struct change_report *to, struct span text)
{
    size_t len = to->log.len + text.len;
    char *log = to->log.len ? arena_alloc(&f->texts, len) : NULL;
    if (to->log.len == 0) {
        to->log = text;
        return 0;
    }
    if (!log)
        return -ERR_NOMEM;
    memcpy(log, to->log.at, to->log.len);
    memcpy(log + to->log.len, text.at, text.len);
    to->log = joblog_tail(span_of(log, len));
    return 0;
}

static int merge_report(struct change_set *f, struct change *c, const struct record *r)
{
    int rc = apply_reported(&c->job);
    if (rc == 0 && !(c->flags & CHANGE_REPORT))
        c->report = arena_array(&f->texts, 1, sizeof *c->report);
    if (rc != 0 || !c->report)
        return rc ? rc : -ERR_NOMEM;
    c->flags |= CHANGE_REPORT;
    if (r->kind == REC_JOB_LOGGED)
        return log_add(f, c->report, r->job_report.text);
    c->report->progress = r->job_report.text;
    return 0;
}

static int merge_steps(struct change_set *f, struct change *c, struct span list)
{
    struct change_steps **last = &c->steps;
    int rc = apply_reported(&c->job);
    struct change_steps *add = arena_array(&f->texts, 1, sizeof *add);
    if (rc != 0 || !add)
        return rc ? rc : -ERR_NOMEM;
    while (*last)
        last = &(*last)->next;
    *add = (struct change_steps){.list = list};
    *last = add;
    c->flags |= CHANGE_STEPS;
    return 0;
}

/* Whether a record contains everything that it changes. */
static bool is_self_contained(enum record_kind kind)
{
    return kind == REC_JOB_CLAIMED || kind == REC_JOB_DONE || kind == REC_JOB_EXTENDED;
}

/* Any other record reads the row first, and may end an attempt. */
static int merge_whole(struct store_sqlite *q, const struct record *r, struct change *c,
                       struct err_note *note)
{
    struct attempt_end end;
    int rc = change_complete(q, c, note);
    if (rc == 0 && attempt_ends(&c->job, r, &end))
        rc = merge_attempt_end(&q->change_set, c, &end, q->at);
    c->flags |= CHANGE_STATE | CHANGE_REST;
    return rc;
}

static int merge_job(struct store_sqlite *q, const struct record *r, struct change *c,
                     struct err_note *note)
{
    int rc = is_self_contained(r->kind) ? 0 : merge_whole(q, r, c, note);
    if (rc != 0)
        return rc;
    switch ((int)r->kind) {
    case REC_JOB_CLAIMED:
        return merge_claimed(c, &r->job_claimed);
    case REC_JOB_DONE:
        return merge_acked(c, &r->job_done);
    case REC_JOB_EXTENDED:
        return merge_extended(c, &r->job_extended);
    case REC_JOB_CANCEL_REQUESTED:
        return apply_cancel_requested(&c->job, &r->job_cancel_requested, &c->limits);
    case REC_JOB_READY:
        return apply_ready(&c->job, &r->job_ready);
    case REC_JOB_UNBLOCKED:
        return apply_unblocked(&c->job, &r->job_unblocked);
    case REC_JOB_BACK:
        return merge_back(c, &r->job_back);
    case REC_JOB_DEAD:
        return merge_dead(c, &r->job_dead);
    case REC_JOB_CANCELLED:
        return merge_cancelled(c, &r->job_cancelled);
    case REC_JOB_REQUEUED:
        return apply_requeued(&c->job, &r->job_requeued);
    case REC_JOB_PATCHED:
        return merge_patched(c, &r->job_patched);
    case REC_JOB_NOTED:
        return merge_noted(c, &r->job_noted);
    case REC_JOB_PRIORITY:
        return apply_priority(&c->job, &r->job_priority);
    case REC_JOB_ATTEMPT:
        return merge_attempt(q, c, &r->job_attempt);
    case REC_JOB_PROGRESS:
    case REC_JOB_LOGGED:
        return merge_report(&q->change_set, c, r);
    case REC_JOB_STEPS:
        return merge_steps(&q->change_set, c, r->job_report.text);
    default:
        return -ERR_VERSION;
    }
}

static int merge_one(struct store_sqlite *q, const struct record *r, uint64_t seq,
                     struct err_note *note)
{
    struct change *c;
    int rc = change_set_at(&q->change_set, seq, &c);
    if (rc != 0)
        return rc;
    if (c->flags & CHANGE_GONE)
        return err_note_set(note, -ERR_CORRUPT, "job %" PRIu64 " has been removed", seq);
    return merge_job(q, r, c, note);
}

/* ---- records about many jobs ---- */

static int merge_new(struct store_sqlite *q, const struct rec_job_new *r, struct err_note *note)
{
    struct change *c;
    int rc = change_set_at(&q->change_set, r->job.seq, &c);
    if (rc != 0)
        return rc;
    if (c->flags != 0)
        return err_note_set(note, -ERR_CORRUPT, "job %" PRIu64 " is created twice", c->seq);
    c->flags = CHANGE_NEW | CHANGE_FULL | (r->payload.len ? CHANGE_PAYLOAD : 0);
    c->job = r->job;
    c->payload = r->payload;
    if (r->job.flags & JOB_HAS_EXTRA)
        c->extra = r->extra;
    return 0;
}

static int merge_removed(struct store_sqlite *q, const struct rec_jobs_gone *r,
                         struct err_note *note)
{
    struct span list = r->seqs;
    uint64_t previous = 0, seq;
    for (uint32_t i = 0; i < r->count; i++) {
        struct change *c;
        int rc = record_seq_next(&list, &previous, &seq);
        if (rc == 0)
            rc = change_set_at(&q->change_set, seq, &c);
        if (rc != 0)
            return rc;
        if (c->flags & CHANGE_GONE)
            return err_note_set(note, -ERR_CORRUPT, "job %" PRIu64 " is removed twice", seq);
        c->flags |= CHANGE_GONE;
    }
    return 0;
}

int change_set_add(struct store_sqlite *q, const struct record *r, struct err_note *note)
{
    uint64_t seq = record_job_seq(r);
    int rc = 0;
    if (q->change_set.count >= q->change_set.max || q->change_set.ended_count >= q->change_set.max)
        rc = write_changes(q, note);
    if (rc != 0)
        return rc;
    if (seq != 0)
        return merge_one(q, r, seq, note);
    if (r->kind == REC_JOB_NEW)
        return merge_new(q, &r->job_new, note);
    if (r->kind == REC_JOBS_GONE)
        return merge_removed(q, &r->jobs_gone, note);
    if (r->kind >= REC_KV_SET && r->kind <= REC_KV_KEYS)
        return write_kv_record(q, r, note);
    if (r->kind == REC_COUNTERS)
        return change_set_count(q, &r->counters, note);
    return write_record(q, r, note);
}
