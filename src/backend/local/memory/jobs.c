/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs in memory, and how records change them. */
#include "backend/local/memory/store_memory.h"

#include <inttypes.h>

#include "backend/local/store/store_attempts.h"
#include "base/check.h"
#include "base/mem.h"
#include "core/jobs/job_texts.h"
#include "core/jobs/moves.h"
#include "core/jobs/progress.h"
#include "core/jobs/steps.h"
#include "core/limits.h"
#include "core/records/wire.h"

void span_move(struct span *s, char **at)
{
    if (s->len == 0) {
        *s = (struct span){NULL, 0};
        return;
    }
    memcpy(*at, s->at, s->len);
    s->at = *at;
    *at += s->len;
}

int need_job(const struct store_memory *m, uint64_t seq, struct kept_job **ret,
             struct err_note *note)
{
    *ret = job_of(m, seq);
    if (*ret)
        return 0;
    return err_note_set(note, -ERR_CORRUPT, "a record names job %" PRIu64 ", which does not exist",
                        seq);
}

static void chain_in(struct store_memory *m, uint32_t handle, struct kept_job *k)
{
    uint32_t after = m->last;
    while (after && job_at(m, after)->job.seq > k->job.seq)
        after = job_at(m, after)->prev;
    k->prev = after;
    k->next = after ? job_at(m, after)->next : m->first;
    *(k->prev ? &job_at(m, k->prev)->next : &m->first) = handle;
    *(k->next ? &job_at(m, k->next)->prev : &m->last) = handle;
}

static void chain_out(struct store_memory *m, const struct kept_job *k)
{
    *(k->prev ? &job_at(m, k->prev)->next : &m->first) = k->next;
    *(k->next ? &job_at(m, k->next)->prev : &m->last) = k->prev;
}

/* ---- attempts ---- */

static void wrong_in(struct store_memory *m, struct kept_attempt *a)
{
    if (!attempt_went_wrong(a->view.outcome))
        return;
    a->wrong_older = m->wrong;
    if (m->wrong)
        m->wrong->wrong_newer = a;
    m->wrong = a;
}

static void wrong_out(struct store_memory *m, const struct kept_attempt *a)
{
    if (a->wrong_newer)
        a->wrong_newer->wrong_older = a->wrong_older;
    else if (m->wrong == a)
        m->wrong = a->wrong_older;
    if (a->wrong_older)
        a->wrong_older->wrong_newer = a->wrong_newer;
}

static void attempts_free(struct store_memory *m, struct kept_attempt *a)
{
    while (a) {
        struct kept_attempt *older = a->older;
        wrong_out(m, a);
        mem_free(a);
        a = older;
    }
}

static void attempts_trim(struct store_memory *m, struct kept_job *k)
{
    struct kept_attempt *last = k->attempts;
    for (int n = 1; n < LIMIT_ATTEMPTS_KEPT && last; n++)
        last = last->older;
    if (!last)
        return;
    attempts_free(m, last->older);
    last->older = NULL;
}

/* Copies the texts of the view. */
static int attempt_keep(struct store_memory *m, struct kept_job *k, const struct attempt_view *view)
{
    struct kept_attempt *a = mem_zalloc(sizeof *a + view->worker.len + view->error.len);
    if (!a)
        return -ERR_NOMEM;
    a->view = *view;
    char *at = (char *)(a + 1);
    span_move(&a->view.worker, &at);
    span_move(&a->view.error, &at);
    a->older = k->attempts;
    k->attempts = a;
    wrong_in(m, a);
    attempts_trim(m, k);
    return 0;
}

static struct attempt_view ended_view(const struct kept_job *k, const struct attempt_end *end)
{
    return (struct attempt_view){.seq = k->job.seq,
                                 .number = end->number,
                                 .worker = span_of(k->worker, k->worker_len),
                                 .started_at = k->started_at,
                                 .ended_at = end->at,
                                 .outcome = end->outcome,
                                 .error_kind = end->error_kind,
                                 .error = end->error};
}

/* Called before the record is applied: the job still names its worker. */
static int attempt_note(struct store_memory *m, struct kept_job *k, const struct record *r)
{
    struct attempt_end end;
    if (!attempt_ends(&k->job, r, &end))
        return 0;
    struct attempt_view view = ended_view(k, &end);
    return attempt_keep(m, k, &view);
}

/* ---- blocks that belong to a job ---- */

static void outcome_free(struct kept_outcome *o)
{
    if (!o)
        return;
    mem_free(o->result);
    mem_free(o->error);
    mem_free(o);
}

static void report_free(struct kept_report *r)
{
    if (!r)
        return;
    mem_free(r->progress);
    mem_free(r->log);
    buf_done(&r->steps);
    mem_free(r);
}

void job_blocks_free(struct store_memory *m, struct kept_job *k)
{
    mem_free(k->worker);
    mem_free(k->payload);
    mem_free(k->extra);
    mem_free(k->undelivered);
    outcome_free(k->outcome);
    report_free(k->report);
    attempts_free(m, k->attempts);
}

int bytes_replace(char **at, struct span bytes)
{
    char *copy = NULL;
    if (bytes.len > 0 && !(copy = mem_copy(bytes.at, bytes.len)))
        return -ERR_NOMEM;
    mem_free(*at);
    *at = copy;
    return 0;
}

static int worker_set(struct kept_job *k, struct span worker)
{
    int rc = bytes_replace(&k->worker, worker);
    if (rc == 0)
        k->worker_len = (uint32_t)worker.len;
    return rc;
}

static int lease_drop(struct kept_job *k)
{
    k->lease_ms = 0;
    k->limits = (struct lease_limits){0};
    return worker_set(k, (struct span){NULL, 0});
}

static struct kept_outcome *outcome_of(struct kept_job *k)
{
    if (!k->outcome)
        k->outcome = mem_zalloc(sizeof *k->outcome);
    return k->outcome;
}

static int error_set(struct kept_job *k, uint8_t kind, struct span error)
{
    struct kept_outcome *o = outcome_of(k);
    if (!o || bytes_replace(&o->error, error) != 0)
        return -ERR_NOMEM;
    o->error_kind = kind;
    o->error_len = error.len;
    return 0;
}

/* An attempt that ends without an error leaves the last error. */
static int error_ended(struct kept_job *k, uint8_t kind, struct span error)
{
    return error.len ? error_set(k, kind, error) : 0;
}

static int result_set(struct kept_job *k, uint8_t kind, struct span result)
{
    if (kind == PAYLOAD_NONE)
        return 0;
    struct kept_outcome *o = outcome_of(k);
    if (!o || bytes_replace(&o->result, result) != 0)
        return -ERR_NOMEM;
    o->result_kind = kind;
    o->result_len = result.len;
    return 0;
}

static struct kept_extra *extra_pack(const struct job_extra *x)
{
    struct kept_extra *kept = mem_alloc(sizeof *kept + job_extra_bytes_max(x));
    if (!kept)
        return NULL;
    kept->len = (uint32_t)(job_extra_put(kept->bytes, x) - kept->bytes);
    struct kept_extra *smaller = mem_realloc(kept, sizeof *kept + kept->len);
    if (!smaller)
        mem_free(kept);
    return smaller;
}

struct job_extra extra_of(const struct kept_job *k)
{
    struct job_extra x = {.expires_at = {0}};
    if (k->extra)
        job_extra_view(span_of(k->extra->bytes, k->extra->len), &x);
    return x;
}

/* ---- records about jobs ---- */

static int job_fill(struct kept_job *k, const struct rec_job_new *r)
{
    k->job = r->job;
    if ((r->job.flags & JOB_HAS_EXTRA) && !(k->extra = extra_pack(&r->extra)))
        return -ERR_NOMEM;
    return bytes_replace(&k->payload, r->payload);
}

int job_new(struct store_memory *m, const struct rec_job_new *r, struct err_note *note)
{
    uint64_t seq = r->job.seq;
    struct kept_queue *q;
    int rc = need_queue(m, r->job.queue, &q, note);
    if (rc != 0)
        return rc;
    if (job_of(m, seq) || r->payload.len != r->job.payload_bytes)
        return err_note_set(note, -ERR_CORRUPT, "job %" PRIu64 " is created twice or lacks bytes",
                            seq);
    uint32_t handle = slab_take(&m->jobs);
    if (!handle)
        return -ERR_NOMEM;
    struct kept_job *k = job_at(m, handle);
    rc = job_fill(k, r);
    if (rc == 0)
        rc = seqdir_put(&m->by_seq, seq, handle);
    if (rc != 0) {
        job_blocks_free(m, k);
        slab_give(&m->jobs, handle);
        return rc;
    }
    chain_in(m, handle, k);
    return 0;
}

static int job_claimed(struct kept_job *k, const struct rec_job_claimed *r)
{
    int rc = apply_claimed(&k->job, r);
    if (rc != 0)
        return rc;
    k->token = r->token;
    k->lease_ms = r->lease_ms;
    k->limits = (struct lease_limits){.timeout_ms = r->timeout_ms};
    k->started_at = r->at;
    return worker_set(k, r->worker);
}

static int job_extended(struct kept_job *k, const struct rec_job_extended *r)
{
    int rc = apply_extended(&k->job, r);
    if (rc == 0)
        k->lease_ms = r->lease_ms;
    return rc;
}

static int job_back(struct kept_job *k, const struct rec_job_back *r)
{
    int rc = apply_back(&k->job, r);
    if (rc == 0)
        rc = lease_drop(k);
    return rc ? rc : error_ended(k, r->error_kind, r->error);
}

static int job_done(struct kept_job *k, const struct rec_job_done *r)
{
    int rc = apply_done(&k->job, r);
    k->lease_ms = 0; /* the worker's name stays */
    k->limits = (struct lease_limits){0};
    return rc ? rc : result_set(k, r->result_kind, r->result);
}

static int job_dead(struct kept_job *k, const struct rec_job_dead *r)
{
    int rc = apply_dead(&k->job, r);
    if (rc == 0)
        rc = lease_drop(k);
    return rc ? rc : error_ended(k, r->error_kind, r->error);
}

static int job_cancelled(struct kept_job *k, const struct rec_job_cancelled *r)
{
    int rc = apply_cancelled(&k->job, r);
    return rc ? rc : lease_drop(k);
}

static int job_attempt(struct store_memory *m, struct kept_job *k, const struct rec_job_attempt *r)
{
    struct attempt_end end;
    if (attempt_import(&k->job, r, &end, &k->started_at))
        return worker_set(k, r->worker);
    k->started_at = r->started_at;
    struct attempt_view view = ended_view(k, &end);
    view.worker = r->worker;
    return attempt_keep(m, k, &view);
}

static int job_patched(struct kept_job *k, const struct rec_job_patched *r)
{
    int rc = apply_patched(&k->job, r);
    if (rc == 0 && r->has_payload)
        rc = bytes_replace(&k->payload, r->payload);
    return rc;
}

/* Builds a new block with the old texts where they do not change. */
static int job_noted(struct kept_job *k, const struct rec_job_noted *r)
{
    int rc = apply_noted(&k->job, r);
    if (rc == 0 && (r->has_label || r->has_attributes)) {
        struct job_extra x = extra_of(k);
        x.label = r->has_label ? r->label : x.label;
        x.attributes = r->has_attributes ? r->attributes : x.attributes;
        struct kept_extra *copy = extra_pack(&x);
        if (!copy)
            return -ERR_NOMEM;
        mem_free(k->extra);
        k->extra = copy;
    }
    if (rc == 0 && r->has_result)
        rc = result_set(k, r->result_kind, r->result);
    return rc || !r->has_error ? rc : error_set(k, r->error_kind, r->error);
}

static int log_add(struct kept_report *to, struct span text)
{
    size_t len = to->log_len + text.len;
    char *log = mem_alloc(len);
    if (!log)
        return -ERR_NOMEM;
    if (to->log_len)
        memcpy(log, to->log, to->log_len);
    memcpy(log + to->log_len, text.at, text.len);
    struct span kept = joblog_tail(span_of(log, len));
    int rc = bytes_replace(&to->log, kept);
    if (rc == 0)
        to->log_len = kept.len;
    mem_free(log);
    return rc;
}

static int steps_add(struct kept_report *to, struct span list)
{
    struct step s;
    int rc = 0;
    while (rc == 0 && steps_next(&list, &s))
        rc = steps_put(&to->steps, &s);
    return rc;
}

static int job_reported(struct kept_job *k, const struct record *r)
{
    int rc = apply_reported(&k->job);
    if (rc == 0 && !k->report && !(k->report = mem_zalloc(sizeof *k->report)))
        rc = -ERR_NOMEM;
    if (rc == 0 && r->kind == REC_JOB_STEPS)
        return steps_add(k->report, r->job_report.text);
    if (rc != 0 || r->kind == REC_JOB_LOGGED)
        return rc ? rc : log_add(k->report, r->job_report.text);
    rc = bytes_replace(&k->report->progress, r->job_report.text);
    if (rc == 0)
        k->report->progress_len = r->job_report.text.len;
    return rc;
}

int memory_load_steps(const struct store_memory *m, const struct store_sink *sink)
{
    struct step s;
    int rc = 0;
    for (uint32_t h = m->first; h && rc == 0; h = job_at(m, h)->next) {
        const struct kept_job *k = job_at(m, h);
        struct span list = k->report ? buf_span(&k->report->steps) : (struct span){NULL, 0};
        while (rc == 0 && steps_next(&list, &s))
            rc = sink->step(sink->ctx, k->job.seq, s.name, s.result.len);
    }
    return rc;
}

static void job_remove(struct store_memory *m, struct kept_job *k)
{
    uint32_t handle = seqdir_get(&m->by_seq, k->job.seq);
    chain_out(m, k);
    job_blocks_free(m, k);
    seqdir_drop(&m->by_seq, k->job.seq);
    slab_give(&m->jobs, handle);
}

/* All jobs of the list must exist before the first is removed. */
int jobs_gone(struct store_memory *m, const struct rec_jobs_gone *r, struct err_note *note)
{
    for (int removing = 0; removing < 2; removing++) {
        struct span list = r->seqs;
        uint64_t previous = 0, seq;
        for (uint32_t i = 0; i < r->count; i++) {
            struct kept_job *k;
            int rc = record_seq_next(&list, &previous, &seq);
            if (rc == 0)
                rc = need_job(m, seq, &k, note);
            if (rc != 0)
                return rc;
            if (removing)
                job_remove(m, k);
        }
    }
    return 0;
}

int apply_to_job(struct store_memory *m, struct kept_job *k, const struct record *r)
{
    int rc = attempt_note(m, k, r);
    if (rc != 0)
        return rc;
    switch ((int)r->kind) {
    case REC_JOB_UNBLOCKED:
        return apply_unblocked(&k->job, &r->job_unblocked);
    case REC_JOB_READY:
        return apply_ready(&k->job, &r->job_ready);
    case REC_JOB_CLAIMED:
        return job_claimed(k, &r->job_claimed);
    case REC_JOB_CANCEL_REQUESTED:
        return apply_cancel_requested(&k->job, &r->job_cancel_requested, &k->limits);
    case REC_JOB_EXTENDED:
        return job_extended(k, &r->job_extended);
    case REC_JOB_BACK:
        return job_back(k, &r->job_back);
    case REC_JOB_DONE:
        return job_done(k, &r->job_done);
    case REC_JOB_DEAD:
        return job_dead(k, &r->job_dead);
    case REC_JOB_CANCELLED:
        return job_cancelled(k, &r->job_cancelled);
    case REC_JOB_REQUEUED:
        return apply_requeued(&k->job, &r->job_requeued);
    case REC_JOB_PATCHED:
        return job_patched(k, &r->job_patched);
    case REC_JOB_NOTED:
        return job_noted(k, &r->job_noted);
    case REC_JOB_PRIORITY:
        return apply_priority(&k->job, &r->job_priority);
    case REC_JOB_ATTEMPT:
        return job_attempt(m, k, &r->job_attempt);
    case REC_JOB_PROGRESS:
    case REC_JOB_LOGGED:
    case REC_JOB_STEPS:
        return job_reported(k, r);
    }
    return -ERR_VERSION;
}
