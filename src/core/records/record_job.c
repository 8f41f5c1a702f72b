/* SPDX-License-Identifier: Apache-2.0 */
/* The bodies of the job records. JOB_NEW, JOB_CLAIMED and JOB_DONE are written once for every job
 * that goes through the server: nothing here allocates or looks twice. */
#include "core/jobs/job_error.h"
#include "core/jobs/job_texts.h"
#include "core/limits.h"
#include "core/queues/policy.h"
#include "core/records/record_impl.h"

static bool waiting(uint8_t state)
{
    return state == STATE_SCHEDULED || state == STATE_READY;
}

static bool lease_fits(uint32_t lease_ms)
{
    return lease_ms >= LIMIT_LEASE_MS_MIN && lease_ms <= LIMIT_LEASE_MS;
}

static bool body_fits(uint8_t kind, struct span bytes)
{
    return kind <= PAYLOAD_BYTES && bytes.len <= LIMIT_PAYLOAD_BYTES &&
           (kind != PAYLOAD_NONE || bytes.len == 0);
}

static bool error_fits(uint8_t kind, struct span text)
{
    return kind <= ERROR_BUSINESS && text.len <= JOB_ERROR_PACKED_MAX;
}

/* ---- new ---- */

static bool new_fits(const struct record *r)
{
    const struct job *j = &r->job_new.job;
    return seq_fits(j->seq) && wall_fits(j->run_at) && wall_fits(j->since) && j->queue != 0 &&
           move_allowed(MOVE_IMPORT, STATE_NONE, j->state) && j->reason < REASON_COUNT &&
           body_fits(j->payload_kind, r->job_new.payload) && job_extra_fits(&r->job_new.extra);
}

/* What can be told from the rest (payload_bytes, JOB_HAS_EXTRA) is not taken from the job, and what
 * only a lease has (JOB_BOUND) is left out. */
#define JOB(F)                                                                                     \
    F(seq, seq)                                                                                    \
    F(fixed64, id_hi)                                                                              \
    F(zigzag, priority)                                                                            \
    F(wall, run_at)                                                                                \
    F(wall, since)                                                                                 \
    F(u32, queue)                                                                                  \
    F(u16, failures)                                                                               \
    F(u16, crashes)                                                                                \
    F(u32, generation)                                                                             \
    F(u8, state)                                                                                   \
    F(u8, reason)                                                                                  \
    F(u8, payload_kind)

static size_t new_body_max(const struct record *r)
{
    const struct job *m = &r->job_new.job;
    const struct job_extra *x = &r->job_new.extra;
    (void)m;
    return 0 JOB(WIRE_MAX) + WIRE_U8 + (job_extra_present(x) ? job_extra_bytes_max(x) : 0) +
           wire_max_span(r->job_new.payload);
}

static uint8_t *new_encode(const struct record *r, uint8_t *at)
{
    const struct job *m = &r->job_new.job;
    bool extra = job_extra_present(&r->job_new.extra);
    JOB(WIRE_PUT)
    at = put_u8(at, extra ? JOB_HAS_EXTRA : 0);
    if (extra)
        at = job_extra_put(at, &r->job_new.extra);
    return put_span(at, r->job_new.payload);
}

static void new_decode(struct wire_in *in, struct record *ret)
{
    struct job *m = &ret->job_new.job;
    JOB(WIRE_TAKE)
    ret->job_new.extra = (struct job_extra){.expires_at = {0}};
    m->flags = take_bool(in) ? JOB_HAS_EXTRA : 0;
    if (m->flags)
        job_extra_take(in, &ret->job_new.extra);
    if (m->flags && !job_extra_present(&ret->job_new.extra))
        wire_spoil(in);
    ret->job_new.payload = take_span(in);
    m->payload_bytes = (uint32_t)ret->job_new.payload.len;
}

RECORD_TYPE(job_new, new, new_fits, NULL);

/* ---- ready ---- */

static bool job_ready_fits(const struct record *r)
{
    return seq_fits(r->job_ready.seq) && wall_fits(r->job_ready.at);
}

#define JOB_READY(F) F(seq, seq) F(wall, at)
RECORD(job_ready, JOB_READY);

/* ---- claimed ---- */

static bool job_claimed_fits(const struct record *r)
{
    const struct rec_job_claimed *c = &r->job_claimed;
    return seq_fits(c->seq) && c->token.counter != 0 &&
           (c->lease_ms == 0 || lease_fits(c->lease_ms)) && c->timeout_ms <= LIMIT_TIMEOUT_MS &&
           wall_fits(c->at) && c->worker.len <= LIMIT_WORKER_BYTES;
}

#define JOB_CLAIMED(F)                                                                             \
    F(seq, seq)                                                                                    \
    F(u64, token.counter)                                                                          \
    F(u32, token.epoch)                                                                            \
    F(u32, lease_ms)                                                                               \
    F(u32, timeout_ms)                                                                             \
    F(bool, bound)                                                                                 \
    F(wall, at)                                                                                    \
    F(text, worker, LIMIT_WORKER_BYTES)
RECORD(job_claimed, JOB_CLAIMED);

/* ---- extended ---- */

static bool job_extended_fits(const struct record *r)
{
    return seq_fits(r->job_extended.seq) && lease_fits(r->job_extended.lease_ms);
}

#define JOB_EXTENDED(F) F(seq, seq) F(u32, lease_ms)
RECORD(job_extended, JOB_EXTENDED);

/* ---- cancel requested ---- */

static bool job_cancel_requested_fits(const struct record *r)
{
    const struct rec_job_cancel_requested *c = &r->job_cancel_requested;
    return seq_fits(c->seq) && wall_fits(c->at) && c->at.ms > 0 && c->grace_ms <= LIMIT_LEASE_MS;
}

#define JOB_CANCEL_REQUESTED(F) F(seq, seq) F(wall, at) F(u32, grace_ms)
RECORD(job_cancel_requested, JOB_CANCEL_REQUESTED);

/* ---- priority ---- */

static bool job_priority_fits(const struct record *r)
{
    return seq_fits(r->job_priority.seq);
}

#define JOB_PRIORITY(F) F(seq, seq) F(zigzag, priority)
RECORD(job_priority, JOB_PRIORITY);

/* ---- back ---- */

/* None: only where it repeats what an imported job is. */
#define BACK_REASONS                                                                               \
    (1u << REASON_NONE | 1u << REASON_FAILED | 1u << REASON_LEASE_EXPIRED |                        \
     1u << REASON_TIMED_OUT | 1u << REASON_RELEASED | 1u << REASON_RESTARTED)

static bool job_back_fits(const struct record *r)
{
    const struct rec_job_back *b = &r->job_back;
    return seq_fits(b->seq) && waiting(b->state) && b->reason < REASON_COUNT &&
           (1u << b->reason & BACK_REASONS) && wall_fits(b->run_at) && wall_fits(b->at) &&
           error_fits(b->error_kind, b->error);
}

#define JOB_BACK(F)                                                                                \
    F(seq, seq)                                                                                    \
    F(u8, state)                                                                                   \
    F(u8, reason)                                                                                  \
    F(u16, failures)                                                                               \
    F(u16, crashes)                                                                                \
    F(u32, generation)                                                                             \
    F(wall, run_at)                                                                                \
    F(wall, at)                                                                                    \
    F(u8, error_kind)                                                                              \
    F(span, error)
RECORD(job_back, JOB_BACK);

/* ---- done ---- */

static bool job_done_fits(const struct record *r)
{
    const struct rec_job_done *d = &r->job_done;
    return seq_fits(d->seq) && wall_fits(d->at) && body_fits(d->result_kind, d->result);
}

#define JOB_DONE(F) F(seq, seq) F(wall, at) F(u8, result_kind) F(span, result)
RECORD(job_done, JOB_DONE);

/* ---- dead ---- */

static bool job_dead_fits(const struct record *r)
{
    const struct rec_job_dead *d = &r->job_dead;
    return seq_fits(d->seq) && reason_fits(STATE_DEAD, d->reason) && wall_fits(d->at) &&
           error_fits(d->error_kind, d->error);
}

#define JOB_DEAD(F)                                                                                \
    F(seq, seq)                                                                                    \
    F(u8, reason)                                                                                  \
    F(u16, failures)                                                                               \
    F(u16, crashes)                                                                                \
    F(wall, at)                                                                                    \
    F(u8, error_kind)                                                                              \
    F(span, error)
RECORD(job_dead, JOB_DEAD);

/* ---- cancelled ---- */

static bool job_cancelled_fits(const struct record *r)
{
    const struct rec_job_cancelled *c = &r->job_cancelled;
    return seq_fits(c->seq) && wall_fits(c->at) && reason_fits(STATE_CANCELLED, c->reason);
}

#define JOB_CANCELLED(F) F(seq, seq) F(u8, reason) F(wall, at)
RECORD(job_cancelled, JOB_CANCELLED);

/* ---- requeued ---- */

static bool job_requeued_fits(const struct record *r)
{
    const struct rec_job_requeued *q = &r->job_requeued;
    return seq_fits(q->seq) && waiting(q->state) && wall_fits(q->run_at) && wall_fits(q->at);
}

#define JOB_REQUEUED(F) F(seq, seq) F(u8, state) F(u32, generation) F(wall, run_at) F(wall, at)
RECORD(job_requeued, JOB_REQUEUED);

/* ---- patched ---- */

static bool patched_fits(const struct record *r)
{
    const struct rec_job_patched *p = &r->job_patched;
    return seq_fits(p->seq) && (waiting(p->state) || p->state == STATE_BLOCKED) &&
           wall_fits(p->run_at) && wall_fits(p->at) &&
           (!p->has_payload || body_fits(p->payload_kind, p->payload));
}

#define JOB_PATCHED(F)                                                                             \
    F(seq, seq)                                                                                    \
    F(u8, state)                                                                                   \
    F(zigzag, priority)                                                                            \
    F(wall, run_at)                                                                                \
    F(wall, at)                                                                                    \
    F(u32, generation)                                                                             \
    F(bool, has_payload)
#define PATCHED_PAYLOAD(F) F(u8, payload_kind) F(span, payload)

static size_t patched_body_max(const struct record *r)
{
    const struct rec_job_patched *m = &r->job_patched;
    return 0 JOB_PATCHED(WIRE_MAX) + (m->has_payload ? 0 PATCHED_PAYLOAD(WIRE_MAX) : 0);
}

static uint8_t *patched_encode(const struct record *r, uint8_t *at)
{
    const struct rec_job_patched *m = &r->job_patched;
    JOB_PATCHED(WIRE_PUT)
    if (m->has_payload) {
        PATCHED_PAYLOAD(WIRE_PUT)
    }
    return at;
}

static void patched_decode(struct wire_in *in, struct record *ret)
{
    struct rec_job_patched *m = &ret->job_patched;
    *m = (struct rec_job_patched){0};
    JOB_PATCHED(WIRE_TAKE)
    if (m->has_payload) {
        PATCHED_PAYLOAD(WIRE_TAKE)
    }
}

RECORD_TYPE(job_patched, patched, patched_fits, NULL);

/* ---- gone ---- */

int record_seq_append(struct buf *list, uint64_t *previous, uint64_t seq)
{
    int err = buf_reserve(list, BUF_VARINT_MAX);
    if (err < 0)
        return err;
    buf_put_zigzag(list, (int64_t)(seq - *previous));
    *previous = seq;
    return 0;
}

int record_seq_next(struct span *list, uint64_t *previous, uint64_t *ret_seq)
{
    struct span rest = *list;
    int64_t step;
    if (span_take_zigzag(&rest, &step) < 0)
        return -ERR_CORRUPT;
    uint64_t seq = *previous + (uint64_t)step;
    if (step == 0 || !seq_fits(seq))
        return -ERR_CORRUPT;
    *list = rest;
    *previous = seq;
    *ret_seq = seq;
    return 0;
}

bool record_seqs_readable(struct span list, uint64_t count)
{
    uint64_t previous = 0, seq, n = 0;
    for (; list.len > 0; n++)
        if (record_seq_next(&list, &previous, &seq) < 0)
            return false;
    return n == count;
}

/* The list is looked at when it is read; a caller makes it with record_seq_append. */
static bool gone_fits(const struct record *r)
{
    return r->jobs_gone.count <= r->jobs_gone.seqs.len;
}

static bool gone_readable(const struct record *r)
{
    return record_seqs_readable(r->jobs_gone.seqs, r->jobs_gone.count);
}

#define JOBS_GONE(F) F(u32, count) F(span, seqs)
RECORD_BODY(gone, jobs_gone, JOBS_GONE)
RECORD_TYPE(jobs_gone, gone, gone_fits, gone_readable);

/* ---- noted ---- */

enum noted_bit { NOTED_LABEL = 1, NOTED_ATTRIBUTES = 2, NOTED_RESULT = 4, NOTED_ERROR = 8 };

static uint8_t noted_bits(const struct rec_job_noted *n)
{
    return (uint8_t)((n->has_label ? NOTED_LABEL : 0) | (n->has_attributes ? NOTED_ATTRIBUTES : 0) |
                     (n->has_result ? NOTED_RESULT : 0) | (n->has_error ? NOTED_ERROR : 0));
}

static size_t noted_body_max(const struct record *r)
{
    const struct rec_job_noted *n = &r->job_noted;
    return WIRE_SEQ + 3 * WIRE_U8 + 4 * WIRE_LENGTH + (n->has_label ? n->label.len : 0) +
           (n->has_attributes ? n->attributes.len : 0) + (n->has_result ? n->result.len : 0) +
           (n->has_error ? n->error.len : 0);
}

static bool noted_fits(const struct record *r)
{
    const struct rec_job_noted *n = &r->job_noted;
    return seq_fits(n->seq) && noted_bits(n) != 0 &&
           (!n->has_label || n->label.len <= LIMIT_LABEL_BYTES) &&
           (!n->has_attributes || n->attributes.len <= LIMIT_ATTRIBUTES_BYTES) &&
           (!n->has_result ||
            (n->result_kind != PAYLOAD_NONE && body_fits(n->result_kind, n->result))) &&
           (!n->has_error || error_fits(n->error_kind, n->error));
}

static uint8_t *noted_encode(const struct record *r, uint8_t *at)
{
    const struct rec_job_noted *n = &r->job_noted;
    at = put_varint(at, n->seq);
    at = put_u8(at, noted_bits(n));
    if (n->has_label)
        at = put_span(at, n->label);
    if (n->has_attributes)
        at = put_span(at, n->attributes);
    if (n->has_result)
        at = put_span(put_u8(at, n->result_kind), n->result);
    if (n->has_error)
        at = put_span(put_u8(at, n->error_kind), n->error);
    return at;
}

static void noted_decode(struct wire_in *in, struct record *ret)
{
    struct rec_job_noted *n = &ret->job_noted;
    *n = (struct rec_job_noted){.seq = take_varint(in)};
    uint8_t bits = take_u8(in);
    if (bits > (NOTED_LABEL | NOTED_ATTRIBUTES | NOTED_RESULT | NOTED_ERROR))
        wire_spoil(in);
    n->has_label = bits & NOTED_LABEL;
    n->has_attributes = bits & NOTED_ATTRIBUTES;
    n->has_result = bits & NOTED_RESULT;
    n->has_error = bits & NOTED_ERROR;
    if (n->has_label)
        n->label = take_text(in, LIMIT_LABEL_BYTES);
    if (n->has_attributes)
        n->attributes = take_span(in);
    if (n->has_result) {
        n->result_kind = take_u8(in);
        n->result = take_span(in);
    }
    if (n->has_error) {
        n->error_kind = take_u8(in);
        n->error = take_span(in);
    }
}

RECORD_TYPE(job_noted, noted, noted_fits, NULL);

/* ---- attempt ---- */

static bool job_attempt_fits(const struct record *r)
{
    const struct rec_job_attempt *a = &r->job_attempt;
    return seq_fits(a->seq) && a->number != 0 && a->outcome > ATTEMPT_RUNNING &&
           a->outcome < ATTEMPT_OUTCOME_COUNT && wall_fits(a->started_at) &&
           wall_fits(a->ended_at) && a->worker.len <= LIMIT_WORKER_BYTES &&
           error_fits(a->error_kind, a->error);
}

#define JOB_ATTEMPT(F)                                                                             \
    F(seq, seq)                                                                                    \
    F(u32, number)                                                                                 \
    F(u8, outcome)                                                                                 \
    F(u8, error_kind)                                                                              \
    F(wall, started_at)                                                                            \
    F(wall, ended_at)                                                                              \
    F(text, worker, LIMIT_WORKER_BYTES)                                                            \
    F(span, error)
RECORD(job_attempt, JOB_ATTEMPT);
