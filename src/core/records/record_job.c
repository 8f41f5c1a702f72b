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

#define NEW_MAX                                                                                    \
    (WIRE_SEQ + WIRE_FIXED64 + WIRE_U64 + 2 * WIRE_WALL + WIRE_U32 + 3 * WIRE_U32 + 4 * WIRE_U8 +  \
     WIRE_LENGTH)

static size_t new_span_bytes(const struct record *r)
{
    const struct job_extra *x = &r->job_new.extra;
    size_t bytes = r->job_new.payload.len;
    if (job_extra_present(x))
        bytes += job_extra_bytes_max(x);
    return bytes;
}

static bool new_fits(const struct record *r)
{
    const struct job *j = &r->job_new.job;
    return seq_fits(j->seq) && wall_fits(j->run_at) && wall_fits(j->since) && j->queue != 0 &&
           move_allowed(MOVE_IMPORT, STATE_NONE, j->state) && j->reason < REASON_COUNT &&
           body_fits(j->payload_kind, r->job_new.payload) && job_extra_fits(&r->job_new.extra);
}

/* What can be told from the rest (payload_bytes, JOB_HAS_EXTRA) is not taken from the job, and what
 * only a lease has (JOB_BOUND) is left out. */
static uint8_t *new_encode(const struct record *r, uint8_t *at)
{
    const struct job *j = &r->job_new.job;
    const struct job_extra *x = &r->job_new.extra;
    bool extra = job_extra_present(x);
    at = put_varint(at, j->seq);
    at = put_fixed64(at, j->id_hi);
    at = put_zigzag(at, j->priority);
    at = put_wall(at, j->run_at);
    at = put_wall(at, j->since);
    at = put_varint(at, j->queue);
    at = put_varint(at, j->failures);
    at = put_varint(at, j->crashes);
    at = put_varint(at, j->generation);
    at = put_u8(at, j->state);
    at = put_u8(at, j->reason);
    at = put_u8(at, j->payload_kind);
    at = put_u8(at, extra ? JOB_HAS_EXTRA : 0);
    if (extra)
        at = job_extra_put(at, x);
    return put_span(at, r->job_new.payload);
}

static void new_decode(struct wire_in *in, struct record *ret)
{
    struct job *j = &ret->job_new.job;
    j->seq = take_varint(in);
    j->id_hi = take_fixed64(in);
    j->priority = take_zigzag(in);
    j->run_at = take_wall(in);
    j->since = take_wall(in);
    j->queue = take_u32(in);
    j->failures = take_u16(in);
    j->crashes = take_u16(in);
    j->generation = take_u32(in);
    j->state = take_u8(in);
    j->reason = take_u8(in);
    j->payload_kind = take_u8(in);
    ret->job_new.extra = (struct job_extra){.expires_at = {0}};
    j->flags = take_bool(in) ? JOB_HAS_EXTRA : 0;
    if (j->flags)
        job_extra_take(in, &ret->job_new.extra);
    if (j->flags && !job_extra_present(&ret->job_new.extra))
        wire_spoil(in);
    ret->job_new.payload = take_span(in);
    j->payload_bytes = (uint32_t)ret->job_new.payload.len;
}

const struct record_type record_job_new = {
    .name = "job_new",
    .body_max = NEW_MAX,
    .span_bytes = new_span_bytes,
    .encode = new_encode,
    .decode = new_decode,
    .fits = new_fits,
};

/* ---- ready ---- */

static bool ready_fits(const struct record *r)
{
    return seq_fits(r->job_ready.seq) && wall_fits(r->job_ready.at);
}

static uint8_t *ready_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->job_ready.seq);
    return put_wall(at, r->job_ready.at);
}

static void ready_decode(struct wire_in *in, struct record *ret)
{
    ret->job_ready.seq = take_varint(in);
    ret->job_ready.at = take_wall(in);
}

const struct record_type record_job_ready = {
    .name = "job_ready",
    .body_max = WIRE_SEQ + WIRE_WALL,
    .encode = ready_encode,
    .decode = ready_decode,
    .fits = ready_fits,
};

/* ---- claimed ---- */

static size_t claimed_span_bytes(const struct record *r)
{
    return r->job_claimed.worker.len;
}

static bool claimed_fits(const struct record *r)
{
    const struct rec_job_claimed *c = &r->job_claimed;
    return seq_fits(c->seq) && c->token.counter != 0 &&
           (c->lease_ms == 0 || lease_fits(c->lease_ms)) && c->timeout_ms <= LIMIT_TIMEOUT_MS &&
           wall_fits(c->at) && c->worker.len <= LIMIT_WORKER_BYTES;
}

static uint8_t *claimed_encode(const struct record *r, uint8_t *at)
{
    const struct rec_job_claimed *c = &r->job_claimed;
    at = put_varint(at, c->seq);
    at = put_varint(at, c->token.counter);
    at = put_varint(at, c->token.epoch);
    at = put_varint(at, c->lease_ms);
    at = put_varint(at, c->timeout_ms);
    at = put_u8(at, c->bound);
    at = put_wall(at, c->at);
    return put_span(at, c->worker);
}

static void claimed_decode(struct wire_in *in, struct record *ret)
{
    struct rec_job_claimed *c = &ret->job_claimed;
    c->seq = take_varint(in);
    c->token.counter = take_varint(in);
    c->token.epoch = take_u32(in);
    c->lease_ms = take_u32(in);
    c->timeout_ms = take_u32(in);
    c->bound = take_bool(in);
    c->at = take_wall(in);
    c->worker = take_text(in, LIMIT_WORKER_BYTES);
}

const struct record_type record_job_claimed = {
    .name = "job_claimed",
    .body_max = WIRE_SEQ + WIRE_U64 + 3 * WIRE_U32 + WIRE_U8 + WIRE_WALL + WIRE_LENGTH,
    .span_bytes = claimed_span_bytes,
    .encode = claimed_encode,
    .decode = claimed_decode,
    .fits = claimed_fits,
};

/* ---- extended ---- */

static bool extended_fits(const struct record *r)
{
    return seq_fits(r->job_extended.seq) && lease_fits(r->job_extended.lease_ms);
}

static uint8_t *extended_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->job_extended.seq);
    return put_varint(at, r->job_extended.lease_ms);
}

static void extended_decode(struct wire_in *in, struct record *ret)
{
    ret->job_extended.seq = take_varint(in);
    ret->job_extended.lease_ms = take_u32(in);
}

const struct record_type record_job_extended = {
    .name = "job_extended",
    .body_max = WIRE_SEQ + WIRE_U32,
    .encode = extended_encode,
    .decode = extended_decode,
    .fits = extended_fits,
};

/* ---- cancel requested ---- */

static bool cancel_requested_fits(const struct record *r)
{
    const struct rec_job_cancel_requested *c = &r->job_cancel_requested;
    return seq_fits(c->seq) && wall_fits(c->at) && c->at.ms > 0 && c->grace_ms <= LIMIT_LEASE_MS;
}

static uint8_t *cancel_requested_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->job_cancel_requested.seq);
    at = put_wall(at, r->job_cancel_requested.at);
    return put_varint(at, r->job_cancel_requested.grace_ms);
}

static void cancel_requested_decode(struct wire_in *in, struct record *ret)
{
    ret->job_cancel_requested.seq = take_varint(in);
    ret->job_cancel_requested.at = take_wall(in);
    ret->job_cancel_requested.grace_ms = take_u32(in);
}

const struct record_type record_job_cancel_requested = {
    .name = "job_cancel_requested",
    .body_max = WIRE_SEQ + WIRE_WALL + WIRE_U32,
    .encode = cancel_requested_encode,
    .decode = cancel_requested_decode,
    .fits = cancel_requested_fits,
};

/* ---- priority ---- */

static bool priority_fits(const struct record *r)
{
    return seq_fits(r->job_priority.seq);
}

static uint8_t *priority_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->job_priority.seq);
    return put_zigzag(at, r->job_priority.priority);
}

static void priority_decode(struct wire_in *in, struct record *ret)
{
    ret->job_priority.seq = take_varint(in);
    ret->job_priority.priority = take_zigzag(in);
}

const struct record_type record_job_priority = {
    .name = "job_priority",
    .body_max = WIRE_SEQ + WIRE_U64,
    .encode = priority_encode,
    .decode = priority_decode,
    .fits = priority_fits,
};

/* ---- back ---- */

/* None: only where it repeats what an imported job is. */
#define BACK_REASONS                                                                               \
    (1u << REASON_NONE | 1u << REASON_FAILED | 1u << REASON_LEASE_EXPIRED |                        \
     1u << REASON_TIMED_OUT | 1u << REASON_RELEASED | 1u << REASON_RESTARTED)

static size_t back_span_bytes(const struct record *r)
{
    return r->job_back.error.len;
}

static bool back_fits(const struct record *r)
{
    const struct rec_job_back *b = &r->job_back;
    return seq_fits(b->seq) && waiting(b->state) && b->reason < REASON_COUNT &&
           (1u << b->reason & BACK_REASONS) && wall_fits(b->run_at) && wall_fits(b->at) &&
           error_fits(b->error_kind, b->error);
}

static uint8_t *back_encode(const struct record *r, uint8_t *at)
{
    const struct rec_job_back *b = &r->job_back;
    at = put_varint(at, b->seq);
    at = put_u8(at, b->state);
    at = put_u8(at, b->reason);
    at = put_varint(at, b->failures);
    at = put_varint(at, b->crashes);
    at = put_varint(at, b->generation);
    at = put_wall(at, b->run_at);
    at = put_wall(at, b->at);
    at = put_u8(at, b->error_kind);
    return put_span(at, b->error);
}

static void back_decode(struct wire_in *in, struct record *ret)
{
    struct rec_job_back *b = &ret->job_back;
    b->seq = take_varint(in);
    b->state = take_u8(in);
    b->reason = take_u8(in);
    b->failures = take_u16(in);
    b->crashes = take_u16(in);
    b->generation = take_u32(in);
    b->run_at = take_wall(in);
    b->at = take_wall(in);
    b->error_kind = take_u8(in);
    b->error = take_span(in);
}

const struct record_type record_job_back = {
    .name = "job_back",
    .body_max = WIRE_SEQ + 3 * WIRE_U8 + 3 * WIRE_U32 + 2 * WIRE_WALL + WIRE_LENGTH,
    .span_bytes = back_span_bytes,
    .encode = back_encode,
    .decode = back_decode,
    .fits = back_fits,
};

/* ---- done ---- */

static size_t done_span_bytes(const struct record *r)
{
    return r->job_done.result.len;
}

static bool done_fits(const struct record *r)
{
    const struct rec_job_done *d = &r->job_done;
    return seq_fits(d->seq) && wall_fits(d->at) && body_fits(d->result_kind, d->result);
}

static uint8_t *done_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->job_done.seq);
    at = put_wall(at, r->job_done.at);
    at = put_u8(at, r->job_done.result_kind);
    return put_span(at, r->job_done.result);
}

static void done_decode(struct wire_in *in, struct record *ret)
{
    ret->job_done.seq = take_varint(in);
    ret->job_done.at = take_wall(in);
    ret->job_done.result_kind = take_u8(in);
    ret->job_done.result = take_span(in);
}

const struct record_type record_job_done = {
    .name = "job_done",
    .body_max = WIRE_SEQ + WIRE_WALL + WIRE_U8 + WIRE_LENGTH,
    .span_bytes = done_span_bytes,
    .encode = done_encode,
    .decode = done_decode,
    .fits = done_fits,
};

/* ---- dead ---- */

static size_t dead_span_bytes(const struct record *r)
{
    return r->job_dead.error.len;
}

static bool dead_fits(const struct record *r)
{
    const struct rec_job_dead *d = &r->job_dead;
    return seq_fits(d->seq) && reason_fits(STATE_DEAD, d->reason) && wall_fits(d->at) &&
           error_fits(d->error_kind, d->error);
}

static uint8_t *dead_encode(const struct record *r, uint8_t *at)
{
    const struct rec_job_dead *d = &r->job_dead;
    at = put_varint(at, d->seq);
    at = put_u8(at, d->reason);
    at = put_varint(at, d->failures);
    at = put_varint(at, d->crashes);
    at = put_wall(at, d->at);
    at = put_u8(at, d->error_kind);
    return put_span(at, d->error);
}

static void dead_decode(struct wire_in *in, struct record *ret)
{
    struct rec_job_dead *d = &ret->job_dead;
    d->seq = take_varint(in);
    d->reason = take_u8(in);
    d->failures = take_u16(in);
    d->crashes = take_u16(in);
    d->at = take_wall(in);
    d->error_kind = take_u8(in);
    d->error = take_span(in);
}

const struct record_type record_job_dead = {
    .name = "job_dead",
    .body_max = WIRE_SEQ + 2 * WIRE_U8 + 2 * WIRE_U32 + WIRE_WALL + WIRE_LENGTH,
    .span_bytes = dead_span_bytes,
    .encode = dead_encode,
    .decode = dead_decode,
    .fits = dead_fits,
};

/* ---- cancelled ---- */

static bool cancelled_fits(const struct record *r)
{
    const struct rec_job_cancelled *c = &r->job_cancelled;
    return seq_fits(c->seq) && wall_fits(c->at) && reason_fits(STATE_CANCELLED, c->reason);
}

static uint8_t *cancelled_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->job_cancelled.seq);
    at = put_u8(at, r->job_cancelled.reason);
    return put_wall(at, r->job_cancelled.at);
}

static void cancelled_decode(struct wire_in *in, struct record *ret)
{
    ret->job_cancelled.seq = take_varint(in);
    ret->job_cancelled.reason = take_u8(in);
    ret->job_cancelled.at = take_wall(in);
}

const struct record_type record_job_cancelled = {
    .name = "job_cancelled",
    .body_max = WIRE_SEQ + WIRE_U8 + WIRE_WALL,
    .encode = cancelled_encode,
    .decode = cancelled_decode,
    .fits = cancelled_fits,
};

/* ---- requeued ---- */

static bool requeued_fits(const struct record *r)
{
    const struct rec_job_requeued *q = &r->job_requeued;
    return seq_fits(q->seq) && waiting(q->state) && wall_fits(q->run_at) && wall_fits(q->at);
}

static uint8_t *requeued_encode(const struct record *r, uint8_t *at)
{
    const struct rec_job_requeued *q = &r->job_requeued;
    at = put_varint(at, q->seq);
    at = put_u8(at, q->state);
    at = put_varint(at, q->generation);
    at = put_wall(at, q->run_at);
    return put_wall(at, q->at);
}

static void requeued_decode(struct wire_in *in, struct record *ret)
{
    struct rec_job_requeued *q = &ret->job_requeued;
    q->seq = take_varint(in);
    q->state = take_u8(in);
    q->generation = take_u32(in);
    q->run_at = take_wall(in);
    q->at = take_wall(in);
}

const struct record_type record_job_requeued = {
    .name = "job_requeued",
    .body_max = WIRE_SEQ + WIRE_U8 + WIRE_U32 + 2 * WIRE_WALL,
    .encode = requeued_encode,
    .decode = requeued_decode,
    .fits = requeued_fits,
};

/* ---- patched ---- */

static size_t patched_span_bytes(const struct record *r)
{
    return r->job_patched.has_payload ? r->job_patched.payload.len : 0;
}

static bool patched_fits(const struct record *r)
{
    const struct rec_job_patched *p = &r->job_patched;
    return seq_fits(p->seq) && (waiting(p->state) || p->state == STATE_BLOCKED) &&
           wall_fits(p->run_at) && wall_fits(p->at) &&
           (!p->has_payload || body_fits(p->payload_kind, p->payload));
}

static uint8_t *patched_encode(const struct record *r, uint8_t *at)
{
    const struct rec_job_patched *p = &r->job_patched;
    at = put_varint(at, p->seq);
    at = put_u8(at, p->state);
    at = put_zigzag(at, p->priority);
    at = put_wall(at, p->run_at);
    at = put_wall(at, p->at);
    at = put_varint(at, p->generation);
    at = put_u8(at, p->has_payload);
    if (!p->has_payload)
        return at;
    at = put_u8(at, p->payload_kind);
    return put_span(at, p->payload);
}

static void patched_decode(struct wire_in *in, struct record *ret)
{
    struct rec_job_patched *p = &ret->job_patched;
    p->seq = take_varint(in);
    p->state = take_u8(in);
    p->priority = take_zigzag(in);
    p->run_at = take_wall(in);
    p->at = take_wall(in);
    p->generation = take_u32(in);
    p->has_payload = take_bool(in);
    p->payload_kind = p->has_payload ? take_u8(in) : PAYLOAD_NONE;
    p->payload = p->has_payload ? take_span(in) : (struct span){NULL, 0};
}

const struct record_type record_job_patched = {
    .name = "job_patched",
    .body_max = WIRE_SEQ + 3 * WIRE_U8 + WIRE_U64 + 2 * WIRE_WALL + WIRE_U32 + WIRE_LENGTH,
    .span_bytes = patched_span_bytes,
    .encode = patched_encode,
    .decode = patched_decode,
    .fits = patched_fits,
};

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

static size_t gone_span_bytes(const struct record *r)
{
    return r->jobs_gone.seqs.len;
}

/* The list is looked at when it is read; a caller makes it with record_seq_append. */
static bool gone_fits(const struct record *r)
{
    return r->jobs_gone.count <= r->jobs_gone.seqs.len;
}

static uint8_t *gone_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->jobs_gone.count);
    return put_span(at, r->jobs_gone.seqs);
}

static void gone_decode(struct wire_in *in, struct record *ret)
{
    ret->jobs_gone.count = take_u32(in);
    ret->jobs_gone.seqs = take_span(in);
    struct span list = ret->jobs_gone.seqs;
    uint64_t previous = 0, seq, count = 0;
    while (list.len > 0) {
        if (record_seq_next(&list, &previous, &seq) < 0) {
            wire_spoil(in);
            return;
        }
        count++;
    }
    if (count != ret->jobs_gone.count)
        wire_spoil(in);
}

const struct record_type record_jobs_gone = {
    .name = "jobs_gone",
    .body_max = WIRE_U32 + WIRE_LENGTH,
    .span_bytes = gone_span_bytes,
    .encode = gone_encode,
    .decode = gone_decode,
    .fits = gone_fits,
};

/* ---- noted ---- */

enum noted_bit { NOTED_LABEL = 1, NOTED_ATTRIBUTES = 2, NOTED_RESULT = 4, NOTED_ERROR = 8 };

static uint8_t noted_bits(const struct rec_job_noted *n)
{
    return (uint8_t)((n->has_label ? NOTED_LABEL : 0) | (n->has_attributes ? NOTED_ATTRIBUTES : 0) |
                     (n->has_result ? NOTED_RESULT : 0) | (n->has_error ? NOTED_ERROR : 0));
}

static size_t noted_span_bytes(const struct record *r)
{
    const struct rec_job_noted *n = &r->job_noted;
    return (n->has_label ? n->label.len : 0) + (n->has_attributes ? n->attributes.len : 0) +
           (n->has_result ? n->result.len : 0) + (n->has_error ? n->error.len : 0);
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

const struct record_type record_job_noted = {
    .name = "job_noted",
    .body_max = WIRE_SEQ + 3 * WIRE_U8 + 4 * WIRE_LENGTH,
    .span_bytes = noted_span_bytes,
    .encode = noted_encode,
    .decode = noted_decode,
    .fits = noted_fits,
};

/* ---- attempt ---- */

static size_t attempt_span_bytes(const struct record *r)
{
    return r->job_attempt.worker.len + r->job_attempt.error.len;
}

static bool attempt_fits(const struct record *r)
{
    const struct rec_job_attempt *a = &r->job_attempt;
    return seq_fits(a->seq) && a->number != 0 && a->outcome > ATTEMPT_RUNNING &&
           a->outcome < ATTEMPT_OUTCOME_COUNT && wall_fits(a->started_at) &&
           wall_fits(a->ended_at) && a->worker.len <= LIMIT_WORKER_BYTES &&
           error_fits(a->error_kind, a->error);
}

static uint8_t *attempt_encode(const struct record *r, uint8_t *at)
{
    const struct rec_job_attempt *a = &r->job_attempt;
    at = put_varint(at, a->seq);
    at = put_varint(at, a->number);
    at = put_u8(at, a->outcome);
    at = put_u8(at, a->error_kind);
    at = put_wall(at, a->started_at);
    at = put_wall(at, a->ended_at);
    at = put_span(at, a->worker);
    return put_span(at, a->error);
}

static void attempt_decode(struct wire_in *in, struct record *ret)
{
    struct rec_job_attempt *a = &ret->job_attempt;
    a->seq = take_varint(in);
    a->number = take_u32(in);
    a->outcome = take_u8(in);
    a->error_kind = take_u8(in);
    a->started_at = take_wall(in);
    a->ended_at = take_wall(in);
    a->worker = take_text(in, LIMIT_WORKER_BYTES);
    a->error = take_span(in);
}

const struct record_type record_job_attempt = {
    .name = "job_attempt",
    .body_max = WIRE_SEQ + WIRE_U32 + 2 * WIRE_U8 + 2 * WIRE_WALL + 2 * WIRE_LENGTH,
    .span_bytes = attempt_span_bytes,
    .encode = attempt_encode,
    .decode = attempt_decode,
    .fits = attempt_fits,
};
