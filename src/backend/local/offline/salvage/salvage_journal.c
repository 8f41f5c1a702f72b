/* SPDX-License-Identifier: Apache-2.0 */
/* The records that the journal has and the database lacks, laid over it in memory: a bounded part
 * of the journal, since the server applies it to the database continuously. A job that is changed
 * there is read from the database when its first record turns up; the rules are those of
 * core/moves. */
#include <inttypes.h>

#include "backend/local/offline/salvage/salvage_impl.h"
#include "backend/local/pages/dbfile.h"
#include "base/mem.h"
#include "core/jobs/moves.h"

const struct salvage_job *salvage_job_of(const struct salvage *s, uint64_t seq)
{
    uint32_t place = seq ? map64_get(&s->job_places, seq) : 0;
    return place ? &s->jobs[place - 1] : NULL;
}

/* ---- jobs ---- */

static int job_add(struct salvage *s, uint64_t seq, struct salvage_job **ret)
{
    struct salvage_job *jobs = mem_more(s->jobs, s->job_count, &s->job_room, sizeof *jobs);
    if (!jobs)
        return -ERR_NOMEM;
    s->jobs = jobs;
    if (map64_put(&s->job_places, seq, (uint32_t)s->job_count + 1) != 0)
        return -ERR_NOMEM;
    *ret = &s->jobs[s->job_count++];
    **ret = (struct salvage_job){.seq = seq};
    return 0;
}

/* As the database has it. */
static void job_read(struct salvage *s, struct salvage_job *j)
{
    sqlite3_stmt *st = s->stmts[SALVAGE_JOB];
    struct stored_job row;
    bind_number(st, 1, j->seq);
    j->broken = sqlite3_step(st) != SQLITE_ROW || row_job(st, 0, &row) != 0;
    if (!j->broken)
        j->job = row.job;
    sqlite3_reset(st);
}

static int job_for(struct salvage *s, uint64_t seq, struct salvage_job **ret)
{
    uint32_t place = map64_get(&s->job_places, seq);
    if (place) {
        *ret = &s->jobs[place - 1];
        return 0;
    }
    int rc = job_add(s, seq, ret);
    if (rc == 0)
        job_read(s, *ret);
    return rc;
}

static int take_new(struct salvage *s, const struct rec_job_new *r)
{
    struct salvage_job *j;
    int rc = job_add(s, r->job.seq, &j);
    if (rc != 0)
        return rc;
    j->fresh = true;
    j->job = r->job;
    j->extra = r->extra;
    j->has_payload = true;
    j->payload = r->payload;
    return 0;
}

static int take_gone(struct salvage *s, const struct rec_jobs_gone *r)
{
    struct span list = r->seqs;
    uint64_t previous = 0, seq;
    for (uint32_t i = 0; i < r->count; i++) {
        struct salvage_job *j;
        int rc = record_seq_next(&list, &previous, &seq);
        if (rc == 0)
            rc = job_for(s, seq, &j);
        if (rc != 0)
            return rc;
        j->gone = true;
    }
    return 0;
}

static void error_set(struct salvage_job *j, uint8_t kind, struct span error)
{
    if (error.len == 0)
        return;
    j->has_error = true;
    j->error_kind = kind;
    j->error = error;
}

static int take_done(struct salvage_job *j, const struct rec_job_done *r)
{
    if (r->result_kind != PAYLOAD_NONE) {
        j->has_result = true;
        j->result_kind = r->result_kind;
        j->result = r->result;
    }
    return apply_done(&j->job, r);
}

static int take_patched(struct salvage_job *j, const struct rec_job_patched *r)
{
    if (r->has_payload) {
        j->has_payload = true;
        j->payload = r->payload;
    }
    return apply_patched(&j->job, r);
}

static int take_noted(struct salvage_job *j, const struct rec_job_noted *r)
{
    if (r->has_label)
        j->extra.label = r->label;
    if (r->has_attributes)
        j->extra.attributes = r->attributes;
    j->has_label = j->has_label || r->has_label;
    j->has_attributes = j->has_attributes || r->has_attributes;
    if (r->has_result) {
        j->has_result = true;
        j->result_kind = r->result_kind;
        j->result = r->result;
    }
    if (r->has_error)
        error_set(j, r->error_kind, r->error);
    return apply_noted(&j->job, r);
}

static int take_claimed(struct salvage_job *j, const struct rec_job_claimed *r)
{
    j->claimed = true;
    j->token = r->token;
    return apply_claimed(&j->job, r);
}

static int take_change(struct salvage *s, struct salvage_job *j, const struct record *r)
{
    switch ((int)r->kind) {
    case REC_JOB_READY:
        return apply_ready(&j->job, &r->job_ready);
    case REC_JOB_UNBLOCKED:
        return apply_unblocked(&j->job, &r->job_unblocked);
    case REC_JOB_CLAIMED:
        return take_claimed(j, &r->job_claimed);
    case REC_JOB_PROGRESS:
    case REC_JOB_LOGGED:
        return salvage_report_record(s, j, r);
    case REC_JOB_STEPS:
        return salvage_steps_record(s, j, r);
    case REC_JOB_EXTENDED:
        return apply_extended(&j->job, &r->job_extended);
    case REC_JOB_CANCEL_REQUESTED:
        return 0; /* what is saved has no lease */
    case REC_JOB_BACK:
        error_set(j, r->job_back.error_kind, r->job_back.error);
        return apply_back(&j->job, &r->job_back);
    case REC_JOB_DONE:
        return take_done(j, &r->job_done);
    case REC_JOB_DEAD:
        error_set(j, r->job_dead.error_kind, r->job_dead.error);
        return apply_dead(&j->job, &r->job_dead);
    case REC_JOB_CANCELLED:
        return apply_cancelled(&j->job, &r->job_cancelled);
    case REC_JOB_REQUEUED:
        return apply_requeued(&j->job, &r->job_requeued);
    case REC_JOB_PATCHED:
        return take_patched(j, &r->job_patched);
    case REC_JOB_NOTED:
        return take_noted(j, &r->job_noted);
    case REC_JOB_PRIORITY:
        return apply_priority(&j->job, &r->job_priority);
    }
    return 0;
}

/* ---- queues ---- */

static void take_queue_word(struct salvage *s, const struct record *r)
{
    struct salvage_queue *q =
        salvage_queue_of(s, r->kind == REC_PURGED ? r->purged.queue : r->queue.queue);
    if (q && r->kind == REC_PURGED)
        q->put.generation = r->purged.generation;
    else if (q)
        q->gone = true; /* an ended one has no jobs; no one asks for it */
}

/* ---- records ---- */

static int record_cb(void *ctx, const struct record *r, uint64_t position, struct err_note *note)
{
    struct salvage *s = ctx;
    struct salvage_job *j;
    (void)position, (void)note;
    bool key = r->kind == REC_KV_SET || r->kind == REC_KV_GONE || r->kind == REC_KV_FROM_JOB;
    uint64_t seq = key ? 0 : record_job_seq(r);
    if (seq != 0) {
        int rc = job_for(s, seq, &j);
        if (rc == 0 && !j->broken && !j->gone)
            j->broken = take_change(s, j, r) != 0;
        return rc;
    }
    switch ((int)r->kind) {
    case REC_QUEUE_PUT:
        return salvage_queue_set(s, &r->queue_put, false);
    case REC_QUEUE_GONE:
    case REC_QUEUE_END:
    case REC_PURGED:
        take_queue_word(s, r);
        return 0;
    case REC_JOB_NEW:
        return take_new(s, &r->job_new);
    case REC_JOBS_GONE:
        return take_gone(s, &r->jobs_gone);
    case REC_SCHEDULE_PUT:
    case REC_SCHEDULE_GONE:
        return salvage_schedule_record(s, r);
    case REC_ALERT_PUT:
    case REC_ALERT_GONE:
        return salvage_alert_record(s, r);
    case REC_KV_SET:
    case REC_KV_GONE:
    case REC_KV_FROM_JOB:
        return salvage_key_record(s, r);
    case REC_DEPENDENT_PUT:
    case REC_DEPENDENT_GONE:
    case REC_DEPENDENCIES_NEW:
    case REC_DEPENDENCY_END:
    case REC_PARENT_ENDED:
        return salvage_dependency_record(s, r);
    default: /* epochs, sequences, idempotency keys, counters, bulk actions, firings: nothing an
                export shows */
        return 0;
    }
}

/* ---- the journal ---- */

static int frame_cb(void *ctx, struct span frame, uint64_t first, uint64_t last,
                    struct err_note *note)
{
    struct salvage *s = ctx;
    (void)first, (void)last;
    void *copy = arena_copy(&s->arena, frame.at, frame.len);
    frame = span_of(copy, frame.len);
    int rc = copy ? frames_walk(&frame, 1, &s->meta.position, record_cb, s, NULL) : -ERR_NOMEM;
    return rc == 0 ? 0 : err_note_set(note, rc, "the journal: %s", err_text(rc));
}

static void torn_tell(struct salvage *s, const struct journal_torn *torn)
{
    if (torn->bytes > 0)
        salvage_problem(s,
                        "the last entry of the journal (journal/%" PRIu32 " at %" PRIu64
                        ", %" PRIu64 " bytes, after record %" PRIu64
                        ") is incomplete and is ignored: either it was being written when the "
                        "server ended, and nothing in it was confirmed, or it was damaged later",
                        torn->segment, torn->at, torn->bytes, torn->after);
}

/* With all the checks of recovery, as a server reads it. */
static int journal_whole(struct salvage *s, struct files *files, struct err_note *why)
{
    struct journal *journal = NULL;
    struct journal_config config = reading_journal_config(&s->meta, files);
    int rc = journal_open(&config, frame_cb, s, &journal, why);
    if (rc == 0) {
        struct journal_torn torn = journal_torn(journal);
        torn_tell(s, &torn);
        journal_close(journal);
    }
    return rc;
}

static int journal_parts(struct salvage *s, const struct err_note *why)
{
    struct files *files;
    int rc = 0;
    s->report->journal = true;
    salvage_problem(s, "%s", why->text);
    if (reading_journal_files(s->dir.path, &files, NULL) == 0) {
        struct journal_config config = reading_journal_config(&s->meta, files);
        rc = journal_salvage(&config, frame_cb, s, NULL);
    }
    salvage_problem(s, "the journal was read up to record %" PRIu64, s->meta.position);
    return rc == -ERR_NOMEM ? rc : 0; /* whatever else: it ends there */
}

/* Without it what a store has is old; a backup has all of it. */
static void journal_missing(struct salvage *s)
{
    if (s->meta.journal_from < 0 || dbfile_is_alone(s->dir.db_path))
        return;
    s->report->journal = true;
    salvage_problem(s,
                    "the directory journal is missing; it holds what happened after record "
                    "%" PRIu64 ": put it back if you have it",
                    s->meta.position);
}

int salvage_journal(struct salvage *s)
{
    struct files *files;
    struct err_note why = {""};
    if (s->report->journal)
        return 0;
    int rc = reading_journal_files(s->dir.path, &files, &why);
    if (rc == -ERR_NOT_FOUND) {
        journal_missing(s);
        return 0;
    }
    if (rc == 0)
        rc = journal_whole(s, files, &why);
    return rc == 0 || rc == -ERR_NOMEM ? rc : journal_parts(s, &why);
}
