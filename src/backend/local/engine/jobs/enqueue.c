/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine does for enqueues: sequences, room for the records of new jobs, the records. */
#include "backend/local/engine/engine_impl.h"
#include "core/validate.h"
#include "ops/jobs/moved.h"

/* Sequences from ID_SPOOL_BIT on belong to spools: a store that has counted so far takes no more
 * jobs. */
enum outcome seqs_room(const struct engine *e, const struct op_enqueue *want, size_t ahead,
                       const char **note)
{
    uint64_t next = e->seq_next;
    if (want->id.seq ||
        (want->moved && id_spooled(want->moved->seq) && want->moved->seq < ID_SPOOL_BIT << 1))
        return OUT_OK;
    if (want->moved && want->moved->seq > next)
        next = want->moved->seq;
    if (next + ahead + e->config.seq_block < ID_SPOOL_BIT)
        return OUT_OK;
    if (want->moved && want->moved->seq == next) {
        *note = "the job's sequence is above what this store can count to";
        return OUT_INVALID;
    }
    *note = "the store has given all its sequences; move its jobs to a new store";
    return OUT_SERVER_FULL;
}

/* --- idempotency keys --- */

bool enqueue_key_find(struct engine *e, struct hash128 key, struct idempotency_state *ret)
{
    const struct key *k = keys_find(e, key);
    if (!k || (k->expires_at.ms <= e->now.wall.ms && !e->clock_suspect))
        return false;
    const struct live *l = jobs_find(e, (struct job_ref){k->seq, k->id_hi}, NULL);
    *ret =
        (struct idempotency_state){k->fingerprint, k->seq, k->id_hi, l ? l->job.state : STATE_NONE};
    return true;
}

/* A key that has expired but was not removed yet is replaced. */
enum outcome enqueue_key_room(struct engine *e, struct hash128 key, size_t ahead)
{
    const struct key *old = keys_find(e, key);
    if (old && !keys_emit_gone(e, old, 1))
        return OUT_UNAVAILABLE;
    if (e->keys.used + ahead >= e->config.keys_max)
        return OUT_KEYS_FULL;
    return keys_reserve(e, ahead + 1) == 0 ? OUT_OK : OUT_UNAVAILABLE;
}

/* New keys never expire before older ones, even when the wall clock is set back. */
void enqueue_key_keep(struct engine *e, struct hash128 key, uint64_t fingerprint,
                      const struct job *j)
{
    int64_t expires = e->now.wall.ms + (int64_t)e->config.key_ttl_ms;
    if (e->key_last) {
        const struct key *last = slab_at(&e->keys, e->key_last);
        if (last->expires_at.ms > expires)
            expires = last->expires_at.ms;
    }
    struct record rec = {
        .kind = REC_KEY_NEW,
        .key_new = {.key = key,
                    .fingerprint = fingerprint,
                    .seq = j->seq,
                    .id_hi = j->id_hi,
                    .expires_at = {expires}},
    };
    engine_emit(e, &rec);
}

/* --- room --- */

/* Sequence block, replaced job, key, an import's error and reports, and a job's keys, without their
 * texts: bounds of them all. */
#define SMALL_RECORDS_BYTES 736

static size_t past_bytes(const struct job_past *past)
{
    return past->error.len + past->progress.len + past->log.len + past->steps.len;
}

/* Bytes of everything an enqueue may write. */
static size_t enqueue_bytes(const struct op_enqueue *want, const struct record *rec)
{
    return record_bytes_max(rec) + SMALL_RECORDS_BYTES + want->extra.undelivered.len +
           (want->past ? past_bytes(want->past) : 0) + (want->moved ? moved_bytes(want->moved) : 0);
}

static int reserve_one(struct engine *e, const struct enqueue_plan *p, size_t jobs)
{
    const struct job_extra *x = &p->want->extra;
    int err = jobs_reserve(e, (struct queue *)p->q, jobs, 2 * jobs, 0);
    if (!err && p->rec.job_new.job.flags)
        err = names_reserve(e, jobs);
    if (!err && p->want->past && p->want->past->steps.len)
        err = steps_reserve(e, 0, p->want->past->steps);
    if (!err && x->undelivered.len)
        err = kv_reserve_bytes(e, x->undelivered.len);
    if (!err && x->undelivered.len)
        err = undelivered_reserve(e, jobs);
    if (!err && p->rate.share_us)
        err = rates_reserve(e, jobs);
    return err;
}

int enqueues_reserve(struct engine *e, const struct enqueue_plan *plans, size_t count, size_t bytes)
{
    size_t jobs = 0;
    for (size_t i = 0; i < count; i++) {
        if (plans[i].answered)
            continue;
        jobs++;
        bytes += enqueue_bytes(plans[i].want, &plans[i].rec);
    }
    /* A queue each, and that of a trigger's items. */
    int err = emit_reserve_for(e, jobs + 1, bytes);
    for (size_t i = 0; !err && i < count; i++)
        if (!plans[i].answered)
            err = reserve_one(e, &plans[i], jobs);
    return err;
}

/* --- records --- */

/* Its last error; see rec_job_back. It causes no event, because it did not happen here. */
static void emit_error(struct engine *e, const struct job_past *past, const struct job *j)
{
    struct record rec;
    if (past->state == STATE_DEAD) {
        rec.kind = REC_JOB_DEAD;
        rec.job_dead = (struct rec_job_dead){.seq = j->seq,
                                             .reason = j->reason,
                                             .failures = j->failures,
                                             .crashes = j->crashes,
                                             .at = j->since,
                                             .error_kind = past->error_kind,
                                             .error = past->error};
    } else if (past->state == STATE_BLOCKED) { /* it stays so: nothing gave it back */
        rec.kind = REC_JOB_NOTED;
        rec.job_noted = (struct rec_job_noted){
            .seq = j->seq, .has_error = true, .error_kind = past->error_kind, .error = past->error};
    } else {
        rec.kind = REC_JOB_BACK;
        rec.job_back = (struct rec_job_back){.seq = j->seq,
                                             .state = j->state,
                                             .reason = j->reason,
                                             .failures = j->failures,
                                             .crashes = j->crashes,
                                             .generation = j->generation,
                                             .run_at = j->run_at,
                                             .at = j->since,
                                             .error_kind = past->error_kind,
                                             .error = past->error};
    }
    engine_emit_silent(e, &rec);
}

static void emit_attempt(struct engine *e, uint64_t seq, const struct attempt_view *a)
{
    struct record rec = {.kind = REC_JOB_ATTEMPT,
                         .job_attempt = {.seq = seq,
                                         .number = a->number,
                                         .outcome = a->outcome,
                                         .error_kind = a->error_kind,
                                         .started_at = a->started_at,
                                         .ended_at = a->ended_at,
                                         .worker = a->worker,
                                         .error = a->error}};
    engine_emit_silent(e, &rec);
}

/* Its earlier attempts. None of this happened in this store. */
static void emit_moved(struct engine *e, const struct op_enqueue *want, uint64_t seq)
{
    const struct job_moved *m = want->moved;
    struct record rec = {.kind = REC_JOB_NOTED,
                         .job_noted = {.seq = seq,
                                       .has_result = m->result_kind != PAYLOAD_NONE,
                                       .has_error = want->past->error.len > 0,
                                       .result_kind = m->result_kind,
                                       .result = m->result,
                                       .error_kind = want->past->error_kind,
                                       .error = want->past->error}};
    if (rec.job_noted.has_result || rec.job_noted.has_error)
        engine_emit_silent(e, &rec);
    for (uint32_t i = 0; i < m->attempt_count; i++)
        emit_attempt(e, seq, &m->attempts[i]);
}

static void emit_report(struct engine *e, enum record_kind kind, uint64_t seq, struct span text)
{
    struct record rec = {.kind = kind, .job_report = {.seq = seq, .text = text}};
    if (text.len)
        engine_emit_silent(e, &rec);
}

static void emit_undelivered(struct engine *e, struct span keys, uint64_t seq)
{
    struct record rec = {.kind = REC_KV_KEYS, .kv_keys = {.seq = seq, .keys = keys}};
    CHECK(validate_undelivered(keys, &rec.kv_keys.count) == 0);
    engine_emit(e, &rec);
}

struct live *enqueue_emit(struct engine *e, struct enqueue_plan *p)
{
    const struct op_enqueue *want = p->want;
    struct job *j = &p->rec.job_new.job;
    if (want->moved && !id_spooled(j->seq) && j->seq > e->seq_next)
        e->seq_next = j->seq;
    seqs_ahead(e);
    if (j->seq == 0)
        j->seq = e->seq_next;
    if (want->moved) {
        engine_emit_silent(e, &p->rec);
        emit_moved(e, want, j->seq);
    } else {
        engine_emit(e, &p->rec);
        if (want->past && want->past->error.len)
            emit_error(e, want->past, j);
    }
    if (want->past) {
        emit_report(e, REC_JOB_PROGRESS, j->seq, want->past->progress);
        emit_report(e, REC_JOB_LOGGED, j->seq, want->past->log);
        emit_report(e, REC_JOB_STEPS, j->seq, want->past->steps);
    }
    if (want->extra.undelivered.len)
        emit_undelivered(e, want->extra.undelivered, j->seq);
    return jobs_by_seq(e, j->seq, NULL);
}
