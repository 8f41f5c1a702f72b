/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/redis/unit/row.h"

#include "backend/shared/row_check.h"
#include "core/jobs/job_texts.h"
#include "core/records/wire.h"

#define KEEP_MAX (INT64_C(1) << 52) /* scripts compute with doubles */

_Static_assert(ROW_AT(job, revision) == ROW_AT(queue, revision), "one way to check revisions");
_Static_assert(ROW_AT(job, revision) == ROW_AT(notice, revision), "one way to check revisions");

/* --- fixed fields --- */

uint32_t redis_revision(struct span packed)
{
    return packed.len >= ROW_REVISION_BYTES ? (uint32_t)ROW_GET(packed.at, job, revision) : 0;
}

uint64_t redis_seq_decode(struct span s)
{
    return s.len == ROW_HEAD(seq) ? sound_seq(ROW_GET(s.at, seq, number)) : 0;
}

void redis_seq_encode(uint64_t seq, char out[8])
{
    ROW_PUT(out, seq, number, seq);
}

void redis_token_encode(struct job_token t, char out[TOKEN_BYTES])
{
    struct job_layout row;
    ROW_PUT(&row, job, token_epoch, t.epoch);
    ROW_PUT(&row, job, token_counter, t.counter);
    memcpy(out, row.token_epoch, TOKEN_BYTES);
}

struct job_token redis_token_decode(const char in[TOKEN_BYTES])
{
    struct job_layout row;
    memcpy(row.token_epoch, in, TOKEN_BYTES);
    return (struct job_token){.counter = ROW_GET(&row, job, token_counter),
                              .epoch = (uint32_t)ROW_GET(&row, job, token_epoch)};
}

void redis_ready_member(int64_t priority, uint64_t seq, char out[READY_MEMBER_BYTES])
{
    ROW_PUT(out, ready, order, heap_order_desc(priority));
    ROW_PUT(out, ready, seq, seq);
}

static struct span done(const uint8_t *from, const uint8_t *to)
{
    return span_of(from, (size_t)(to - from));
}

static uint8_t *room(struct unit *u, size_t bytes)
{
    uint8_t *at = arena_alloc(&u->arena, bytes);
    if (!at)
        u->nomem = true;
    return at;
}

/* --- jobs --- */

uint8_t redis_packed_bits(struct span packed)
{
    return packed.len >= ROW_HEAD(job) ? (uint8_t)ROW_GET(packed.at, job, has) : 0;
}

static uint8_t row_bits(const struct row *r)
{
    uint8_t bits = redis_packed_bits(r->packed) & (ROW_RESULT | ROW_ERROR | ROW_ATTEMPTS);
    if (r->set_result || r->fresh)
        bits = (uint8_t)((bits & ~ROW_RESULT) | (r->result.len ? ROW_RESULT : 0));
    if (r->set_error || r->fresh)
        bits = (uint8_t)((bits & ~ROW_ERROR) | (r->error.len ? ROW_ERROR : 0));
    if (r->attempted || r->set_report)
        bits |= ROW_ATTEMPTS;
    if (r->extra.expires_at.ms)
        bits |= ROW_EXPIRES;
    if (r->job.payload_bytes)
        bits |= ROW_PAYLOAD;
    if (r->job.state == STATE_RUNNING && (r->job.flags & JOB_BOUND))
        bits |= ROW_BOUND;
    if (r->job.state == STATE_RUNNING && r->lease_ms == 0 && r->holder.seq)
        bits |= ROW_ITEM;
    return (uint8_t)(bits | (r->job.payload_bytes <= SMALL_PAYLOAD_BYTES ? ROW_SMALL : 0));
}

#define put_byte put_varint
#define take_byte(in) (uint8_t) take_upto(in, UINT8_MAX)
#define put_until(at, v) put_varint(at, (uint64_t)(v))
#define take_until(in) (int64_t) take_varint(in)
#define wire_max_byte(v) WIRE_U16
#define wire_max_until(v) WIRE_U64

#define JOB_REST(F)                                                                                \
    F(fixed64, job.id_hi)                                                                          \
    F(u8, job.reason)                                                                              \
    F(wall, job.run_at)                                                                            \
    F(u8, job.payload_kind)                                                                        \
    F(u32, job.payload_bytes)                                                                      \
    F(u16, job.failures)                                                                           \
    F(u16, job.crashes)                                                                            \
    F(u8, job.flags)                                                                               \
    F(u32, lease_ms)                                                                               \
    F(until, until_ms)                                                                             \
    F(u32, limits.timeout_ms)                                                                      \
    F(u32, limits.cancel_grace_ms)                                                                 \
    F(wall, limits.cancel_at)                                                                      \
    F(wall, started_at)                                                                            \
    F(u8, reply_kind)                                                                              \
    F(u8, reply_state)                                                                             \
    F(wall, reply_run_at)                                                                          \
    F(u16, outcome_counts.claims)                                                                  \
    F(u16, outcome_counts.timeouts)                                                                \
    F(u16, outcome_counts.releases)                                                                \
    F(byte, outcome_counts.rejections)                                                             \
    F(byte, outcome_counts.requeues)                                                               \
    F(span, worker)                                                                                \
    F(u8, result_kind)                                                                             \
    F(u8, error_kind)
#define JOB_END(F)                                                                                 \
    F(span, extra.undelivered) F(seq, holder.seq) F(fixed64, holder.hi) F(span, step_index)

static size_t job_bytes_max(const struct row *m)
{
    return ROW_HEAD(job) + m->extra.unique.len +
           job_extra_bytes_max(&m->extra) JOB_REST(WIRE_MAX) JOB_END(WIRE_MAX);
}

static uint8_t *put_job_rest(uint8_t *at, const struct row *m)
{
    struct job_extra rest = m->extra;
    rest.unique = (struct span){NULL, 0}; /* this and the next have fixed fields */
    rest.expires_at.ms = 0;
    JOB_REST(WIRE_PUT)
    at = job_extra_put(at, &rest);
    JOB_END(WIRE_PUT)
    return at;
}

static void put_job_fields(uint8_t *row, const struct row *r)
{
    const struct job *j = &r->job;
    ROW_PUT(row, job, version, ROW_VERSION);
    ROW_PUT(row, job, revision, redis_revision(r->packed) + 1);
    ROW_PUT(row, job, has, row_bits(r));
    ROW_PUT(row, job, state, j->state);
    ROW_PUT(row, job, queue, j->queue);
    ROW_PUT(row, job, order, heap_order_desc(j->priority));
    ROW_PUT(row, job, expires_at, r->extra.expires_at.ms);
    ROW_PUT(row, job, since, j->since.ms);
    ROW_PUT(row, job, token_epoch, r->token.epoch);
    ROW_PUT(row, job, token_counter, r->token.counter);
    ROW_PUT(row, job, nonce, r->nonce);
    ROW_PUT(row, job, generation, j->generation);
    ROW_PUT(row, job, unique_bytes, r->extra.unique.len);
}

struct span redis_row_encode(struct unit *u, const struct row *r)
{
    uint8_t *from = room(u, job_bytes_max(r));
    if (!from)
        return (struct span){NULL, 0};
    put_job_fields(from, r);
    uint8_t *at = from + ROW_HEAD(job);
    if (r->extra.unique.len)
        memcpy(at, r->extra.unique.at, r->extra.unique.len);
    return done(from, put_job_rest(at + r->extra.unique.len, r));
}

static void take_job_rest(struct wire_in *in, struct row *m)
{
    struct job_extra rest;
    JOB_REST(WIRE_TAKE)
    job_extra_take(in, &rest);
    rest.unique = m->extra.unique;
    rest.expires_at = m->extra.expires_at;
    m->extra = rest;
    JOB_END(WIRE_TAKE)
}

/* Converts the sortable form back. */
static int64_t priority_of(uint64_t order)
{
    return (int64_t)(~order ^ (UINT64_C(1) << 63));
}

static void take_job_fields(const char *row, struct row *r)
{
    struct job *j = &r->job;
    j->state = (uint8_t)ROW_GET(row, job, state);
    j->queue = (uint32_t)ROW_GET(row, job, queue);
    j->priority = priority_of(ROW_GET(row, job, order));
    r->extra.expires_at.ms = (int64_t)ROW_GET(row, job, expires_at);
    j->since.ms = (int64_t)ROW_GET(row, job, since);
    r->token.epoch = (uint32_t)ROW_GET(row, job, token_epoch);
    r->token.counter = ROW_GET(row, job, token_counter);
    r->nonce = ROW_GET(row, job, nonce);
    j->generation = (uint32_t)ROW_GET(row, job, generation);
}

int redis_row_decode(uint64_t seq, struct span packed, struct row *ret)
{
    if (packed.len < ROW_HEAD(job) || ROW_GET(packed.at, job, version) != ROW_VERSION)
        return -ERR_CORRUPT;
    size_t unique = ROW_GET(packed.at, job, unique_bytes), head = ROW_HEAD(job) + unique;
    if (packed.len < head)
        return -ERR_CORRUPT;
    struct wire_in in = {.rest = span_of(packed.at + head, packed.len - head)};
    take_job_fields(packed.at, ret);
    ret->job.seq = seq;
    ret->extra.unique = span_of(packed.at + ROW_HEAD(job), unique);
    take_job_rest(&in, ret);
    ret->packed = packed;
    return wire_ended(&in) && seq_fits(seq) && sound_row(ret) ? 0 : -ERR_CORRUPT;
}

/* --- queues --- */

static uint64_t kept(uint64_t v)
{
    return v > (uint64_t)KEEP_MAX ? (uint64_t)KEEP_MAX : v;
}

static void put_queue_fields(uint8_t *row, const struct wqueue *q)
{
    const struct queue_policy *p = &q->policy;
    ROW_PUT(row, queue, version, ROW_VERSION);
    ROW_PUT(row, queue, revision, redis_revision(q->packed) + 1);
    ROW_PUT(row, queue, generation, q->generation);
    ROW_PUT(row, queue, paused_until, q->paused_until.ms);
    ROW_PUT(row, queue, unique_scope, p->unique_scope);
    ROW_PUT(row, queue, keep_done, kept(p->keep_done));
    ROW_PUT(row, queue, keep_done_ms, kept((uint64_t)p->keep_done_ms));
    ROW_PUT(row, queue, keep_dead, kept(p->keep_dead));
    ROW_PUT(row, queue, keep_dead_ms, kept((uint64_t)p->keep_dead_ms));
}

#define QUEUE_REST(F)                                                                              \
    F(u32, number)                                                                                 \
    F(wall, created_at)                                                                            \
    F(wall, updated_at)                                                                            \
    F(span, name)                                                                                  \
    F(span, owner)                                                                                 \
    F(span, note)                                                                                  \
    F(span, attributes)

struct span redis_queue_encode(struct unit *u, const struct wqueue *m)
{
    struct buf policy;
    struct span packed = {NULL, 0};
    buf_init(&policy);
    uint8_t *from = policy_encode(&m->policy, &policy) == 0
                        ? room(u, ROW_HEAD(queue) + WIRE_LENGTH + policy.len QUEUE_REST(WIRE_MAX))
                        : NULL;
    if (from) {
        uint8_t *at = from + ROW_HEAD(queue);
        put_queue_fields(from, m);
        QUEUE_REST(WIRE_PUT)
        packed = done(from, put_span(at, buf_span(&policy)));
    }
    u->nomem |= !from;
    buf_done(&policy);
    return packed;
}

int redis_queue_decode(struct span packed, struct wqueue *ret)
{
    struct wqueue *m = ret;
    size_t head = ROW_HEAD(queue);
    if (packed.len < head || ROW_GET(packed.at, queue, version) != ROW_VERSION)
        return -ERR_CORRUPT;
    struct wire_in rest = {.rest = span_of(packed.at + head, packed.len - head)}, *in = &rest;
    m->generation = (uint32_t)ROW_GET(packed.at, queue, generation);
    m->paused_until.ms = (int64_t)ROW_GET(packed.at, queue, paused_until);
    QUEUE_REST(WIRE_TAKE)
    struct span policy = take_span(in);
    m->packed = packed;
    if (!wire_ended(in) || policy_decode(policy, &m->policy) != 0 || !sound_queue(m))
        return -ERR_CORRUPT;
    return 0;
}

/* --- replies, keys, attempts, bulk actions --- */

#define REPLY(F) F(seq, seq) F(u8, kind) F(u8, state) F(wall, run_at)

struct span redis_reply_encode(struct unit *u, const struct kept_reply *m)
{
    uint8_t *from = room(u, WIRE_U8 REPLY(WIRE_MAX)), *at = from;
    if (!from)
        return (struct span){NULL, 0};
    at = put_u8(at, ROW_VERSION);
    REPLY(WIRE_PUT)
    return done(from, at);
}

int redis_reply_decode(struct span packed, struct kept_reply *ret)
{
    struct kept_reply *m = ret;
    struct wire_in rest = {.rest = packed}, *in = &rest;
    if (take_u8(in) != ROW_VERSION)
        return -ERR_CORRUPT;
    REPLY(WIRE_TAKE)
    bool right = m->kind <= OP_KIND_COUNT && m->state < STATE_COUNT && m->seq <= LIMIT_SEQ;
    return wire_ended(in) && right ? 0 : -ERR_CORRUPT;
}

void redis_idem_encode(const struct idem *k, char out[IDEM_BYTES])
{
    ROW_PUT(out, idem, fingerprint, k->fingerprint);
    ROW_PUT(out, idem, seq, k->seq);
    ROW_PUT(out, idem, id_hi, k->id_hi);
    ROW_PUT(out, idem, expires_at, k->expires_at.ms);
}

int redis_idem_decode(struct span packed, struct idem *ret)
{
    if (packed.len != IDEM_BYTES)
        return -ERR_CORRUPT;
    ret->fingerprint = ROW_GET(packed.at, idem, fingerprint);
    ret->seq = ROW_GET(packed.at, idem, seq);
    ret->id_hi = ROW_GET(packed.at, idem, id_hi);
    ret->expires_at.ms = (int64_t)ROW_GET(packed.at, idem, expires_at);
    bool right = ret->seq > 0 && ret->seq <= LIMIT_SEQ &&
                 ret->expires_at.ms == sound_time(ret->expires_at.ms);
    return right ? 0 : -ERR_CORRUPT;
}

struct span redis_attempt_encode(struct unit *u, const struct ended *a)
{
    uint8_t *from = room(u, ROW_HEAD(attempt) + 16 + a->worker.len + a->error.len);
    if (!from)
        return (struct span){NULL, 0};
    ROW_PUT(from, attempt, started_at, a->started_at.ms);
    ROW_PUT(from, attempt, ended_at, a->at.ms);
    ROW_PUT(from, attempt, number, a->number);
    uint8_t *at = put_u8(from + ROW_HEAD(attempt), a->outcome);
    at = put_u8(at, a->error_kind);
    return done(from, put_span(put_span(at, a->worker), a->error));
}

int redis_attempt_decode(struct span packed, struct attempt_view *ret)
{
    size_t head = ROW_HEAD(attempt);
    if (packed.len < head)
        return -ERR_CORRUPT;
    struct wire_in in = {.rest = span_of(packed.at + head, packed.len - head)};
    ret->started_at.ms = (int64_t)ROW_GET(packed.at, attempt, started_at);
    ret->ended_at.ms = (int64_t)ROW_GET(packed.at, attempt, ended_at);
    ret->number = (uint32_t)ROW_GET(packed.at, attempt, number);
    ret->outcome = take_u8(&in);
    ret->error_kind = take_u8(&in);
    ret->worker = take_span(&in);
    ret->error = take_span(&in);
    bool right = ret->outcome < ATTEMPT_OUTCOME_COUNT && ret->error_kind <= ERROR_BUSINESS &&
                 ret->started_at.ms == sound_time(ret->started_at.ms) &&
                 ret->ended_at.ms == sound_time(ret->ended_at.ms);
    return wire_ended(&in) && right ? 0 : -ERR_CORRUPT;
}

#define BULK(F)                                                                                    \
    F(u8, action)                                                                                  \
    F(u32, queue)                                                                                  \
    F(u32, states)                                                                                 \
    F(seq, seq_max)                                                                                \
    F(wall, at)                                                                                    \
    F(seq, cursor)                                                                                 \
    F(u64, changed)                                                                                \
    F(u64, refused)

struct span redis_bulk_encode(struct unit *u, const struct bulk *m, uint32_t epoch)
{
    struct span group = span_text(m->group), kind = span_text(m->kind);
    uint8_t *from =
        room(u, WIRE_U8 + WIRE_U32 + wire_max_span(group) + wire_max_span(kind) BULK(WIRE_MAX));
    if (!from)
        return (struct span){NULL, 0};
    uint8_t *at = put_varint(put_u8(from, ROW_VERSION), epoch);
    BULK(WIRE_PUT)
    return done(from, put_span(put_span(at, group), kind));
}

int redis_bulk_decode(struct span packed, struct bulk *ret, struct span *ret_group,
                      struct span *ret_kind, uint32_t *ret_epoch)
{
    struct bulk *m = ret;
    struct wire_in rest = {.rest = packed}, *in = &rest;
    if (take_u8(in) != ROW_VERSION)
        return -ERR_CORRUPT;
    *ret_epoch = take_u32(in);
    BULK(WIRE_TAKE)
    *ret_group = take_span(in);
    *ret_kind = take_span(in);
    return wire_ended(in) && m->action >= BULK_REQUEUE && m->action <= BULK_CANCEL_NOW
               ? 0
               : -ERR_CORRUPT;
}

/* --- schedules --- */

#define SCHEDULE_REST(F)                                                                           \
    F(wall, state.next_at)                                                                         \
    F(wall, state.retry_at)                                                                        \
    F(wall, state.last_at)                                                                         \
    F(wall, state.fired_at)                                                                        \
    F(fixed64, state.id_hi)                                                                        \
    F(seq, state.item)                                                                             \
    F(u64, state.fired)                                                                            \
    F(u64, state.missed)                                                                           \
    F(u32, state.failures)                                                                         \
    F(u8, state.error)                                                                             \
    F(u32, number)                                                                                 \
    F(bool, paused)                                                                                \
    F(wall, created_at)                                                                            \
    F(wall, updated_at)                                                                            \
    F(span, name)                                                                                  \
    F(span, owner)                                                                                 \
    F(span, note)                                                                                  \
    F(span, attributes)                                                                            \
    F(span, text)

struct span redis_schedule_encode(struct unit *u, const struct wschedule *m)
{
    uint8_t *from = room(u, ROW_HEAD(schedule) SCHEDULE_REST(WIRE_MAX));
    if (!from)
        return (struct span){NULL, 0};
    ROW_PUT(from, schedule, version, ROW_VERSION);
    ROW_PUT(from, schedule, revision, 0);
    ROW_PUT(from, schedule, last_seq, m->state.seq);
    uint8_t *at = from + ROW_HEAD(schedule);
    SCHEDULE_REST(WIRE_PUT)
    return done(from, at);
}

int redis_schedule_decode(struct span packed, struct wschedule *ret)
{
    struct wschedule *m = ret;
    size_t head = ROW_HEAD(schedule);
    if (packed.len < head || ROW_GET(packed.at, schedule, version) != ROW_VERSION)
        return -ERR_CORRUPT;
    struct wire_in rest = {.rest = span_of(packed.at + head, packed.len - head)}, *in = &rest;
    m->state.seq = ROW_GET(packed.at, schedule, last_seq);
    SCHEDULE_REST(WIRE_TAKE)
    bool right = m->state.error < SCHEDULE_ERROR_COUNT && m->state.seq <= LIMIT_SEQ &&
                 m->state.item <= LIMIT_SEQ;
    return wire_ended(in) && right ? 0 : -ERR_CORRUPT;
}

/* --- what a job depends on --- */

void redis_dependent_encode(const struct dependent *d, char out[DEPENDENT_BYTES])
{
    ROW_PUT(out, dependent, rule, d->rule);
    ROW_PUT(out, dependent, open, d->open);
    ROW_PUT(out, dependent, total, d->counts[DEPENDENCY_END_NONE]);
    ROW_PUT(out, dependent, done, d->counts[DEPENDENCY_END_DONE]);
    ROW_PUT(out, dependent, dead, d->counts[DEPENDENCY_END_DEAD]);
    ROW_PUT(out, dependent, cancelled, d->counts[DEPENDENCY_END_CANCELLED]);
    ROW_PUT(out, dependent, removed, d->counts[DEPENDENCY_END_REMOVED]);
}

bool redis_dependent_decode(struct span packed, struct dependent *ret)
{
    if (packed.len != DEPENDENT_BYTES)
        return false;
    *ret = (struct dependent){.rule = (uint8_t)ROW_GET(packed.at, dependent, rule),
                              .open = ROW_GET(packed.at, dependent, open) != 0};
    ret->counts[DEPENDENCY_END_NONE] = (uint32_t)ROW_GET(packed.at, dependent, total);
    ret->counts[DEPENDENCY_END_DONE] = (uint32_t)ROW_GET(packed.at, dependent, done);
    ret->counts[DEPENDENCY_END_DEAD] = (uint32_t)ROW_GET(packed.at, dependent, dead);
    ret->counts[DEPENDENCY_END_CANCELLED] = (uint32_t)ROW_GET(packed.at, dependent, cancelled);
    ret->counts[DEPENDENCY_END_REMOVED] = (uint32_t)ROW_GET(packed.at, dependent, removed);
    return dependent_right(ret);
}
