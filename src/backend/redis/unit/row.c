/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/redis/unit/row.h"

#include "backend/shared/row_check.h"
#include "core/jobs/job_texts.h"
#include "core/records/wire.h"

#define JOB_REST 224                /* what follows the fixed fields of a job, without its texts */
#define SCHEDULE_REST 200           /* of a schedule */
#define QUEUE_REST 64               /* of a queue, without its policy */
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

static struct span done(struct unit *u, const uint8_t *from, const uint8_t *to)
{
    (void)u;
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

static size_t texts_len(const struct row *r)
{
    const struct job_extra *x = &r->extra;
    return job_extra_bytes_max(x) + x->undelivered.len + r->worker.len;
}

static uint8_t *put_job(uint8_t *at, const struct row *r)
{
    const struct job *j = &r->job;
    at = put_fixed64(at, j->id_hi);
    at = put_u8(at, j->reason);
    at = put_wall(at, j->run_at);
    at = put_u8(at, j->payload_kind);
    at = put_varint(at, j->payload_bytes);
    at = put_varint(at, j->failures);
    at = put_varint(at, j->crashes);
    return put_u8(at, j->flags);
}

static uint8_t *put_lease(uint8_t *at, const struct row *r)
{
    const struct outcome_counts *f = &r->outcome_counts;
    at = put_varint(at, r->lease_ms);
    at = put_varint(at, (uint64_t)r->until_ms);
    at = put_varint(at, r->limits.timeout_ms);
    at = put_varint(at, r->limits.cancel_grace_ms);
    at = put_wall(at, r->limits.cancel_at);
    at = put_wall(at, r->started_at);
    at = put_u8(at, r->reply_kind);
    at = put_u8(at, r->reply_state);
    at = put_wall(at, r->reply_run_at);
    at = put_varint(at, f->claims);
    at = put_varint(at, f->timeouts);
    at = put_varint(at, f->releases);
    at = put_varint(at, f->rejections);
    at = put_varint(at, f->requeues);
    return put_span(at, r->worker);
}

static uint8_t *put_extra(uint8_t *at, const struct row *r)
{
    struct job_extra rest = r->extra;
    rest.unique = (struct span){NULL, 0}; /* this and the next have fixed fields */
    rest.expires_at.ms = 0;
    at = put_u8(at, r->result_kind);
    at = put_u8(at, r->error_kind);
    at = job_extra_put(at, &rest);
    at = put_span(at, rest.undelivered);
    at = put_varint(at, r->holder.seq);
    return put_fixed64(at, r->holder.hi);
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
    uint8_t *from = room(u, ROW_HEAD(job) + JOB_REST + texts_len(r));
    if (!from)
        return (struct span){NULL, 0};
    put_job_fields(from, r);
    uint8_t *at = from + ROW_HEAD(job);
    if (r->extra.unique.len)
        memcpy(at, r->extra.unique.at, r->extra.unique.len);
    at += r->extra.unique.len;
    at = put_extra(put_lease(put_job(at, r), r), r);
    return done(u, from, at);
}

static void take_job(struct wire_in *in, struct job *j)
{
    j->id_hi = take_fixed64(in);
    j->reason = take_u8(in);
    j->run_at = take_wall(in);
    j->payload_kind = take_u8(in);
    j->payload_bytes = take_u32(in);
    j->failures = take_u16(in);
    j->crashes = take_u16(in);
    j->flags = take_u8(in);
}

static void take_lease(struct wire_in *in, struct row *r)
{
    struct outcome_counts *f = &r->outcome_counts;
    r->lease_ms = take_u32(in);
    r->until_ms = (int64_t)take_varint(in);
    r->limits.timeout_ms = take_u32(in);
    r->limits.cancel_grace_ms = take_u32(in);
    r->limits.cancel_at = take_wall(in);
    r->started_at = take_wall(in);
    r->reply_kind = take_u8(in);
    r->reply_state = take_u8(in);
    r->reply_run_at = take_wall(in);
    f->claims = take_u16(in);
    f->timeouts = take_u16(in);
    f->releases = take_u16(in);
    f->rejections = (uint8_t)take_upto(in, UINT8_MAX);
    f->requeues = (uint8_t)take_upto(in, UINT8_MAX);
    r->worker = take_span(in);
}

static void take_extra(struct wire_in *in, struct row *r)
{
    struct job_extra rest;
    r->result_kind = take_u8(in);
    r->error_kind = take_u8(in);
    job_extra_take(in, &rest);
    rest.unique = r->extra.unique;
    rest.expires_at = r->extra.expires_at;
    rest.undelivered = take_span(in);
    r->extra = rest;
    r->holder.seq = take_varint(in);
    r->holder.hi = take_fixed64(in);
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
    take_job(&in, &ret->job);
    take_lease(&in, ret);
    take_extra(&in, ret);
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

struct span redis_queue_encode(struct unit *u, const struct wqueue *q)
{
    struct buf policy;
    struct span packed = {NULL, 0};
    buf_init(&policy);
    size_t texts = q->name.len + q->owner.len + q->note.len + q->attributes.len;
    uint8_t *from = policy_encode(&q->policy, &policy) == 0
                        ? room(u, ROW_HEAD(queue) + QUEUE_REST + texts + policy.len)
                        : NULL;
    if (from) {
        put_queue_fields(from, q);
        uint8_t *at = put_varint(from + ROW_HEAD(queue), q->number);
        at = put_wall(at, q->created_at);
        at = put_wall(at, q->updated_at);
        at = put_span(at, q->name);
        at = put_span(at, q->owner);
        at = put_span(at, q->note);
        at = put_span(at, q->attributes);
        packed = done(u, from, put_span(at, buf_span(&policy)));
    }
    u->nomem |= !from;
    buf_done(&policy);
    return packed;
}

int redis_queue_decode(struct span packed, struct wqueue *ret)
{
    size_t head = ROW_HEAD(queue);
    if (packed.len < head || ROW_GET(packed.at, queue, version) != ROW_VERSION)
        return -ERR_CORRUPT;
    struct wire_in in = {.rest = span_of(packed.at + head, packed.len - head)};
    ret->generation = (uint32_t)ROW_GET(packed.at, queue, generation);
    ret->paused_until.ms = (int64_t)ROW_GET(packed.at, queue, paused_until);
    ret->number = take_u32(&in);
    ret->created_at = take_wall(&in);
    ret->updated_at = take_wall(&in);
    ret->name = take_span(&in);
    ret->owner = take_span(&in);
    ret->note = take_span(&in);
    ret->attributes = take_span(&in);
    struct span policy = take_span(&in);
    ret->packed = packed;
    if (!wire_ended(&in) || policy_decode(policy, &ret->policy) != 0 || !sound_queue(ret))
        return -ERR_CORRUPT;
    return 0;
}

/* --- replies, keys, attempts, bulk actions --- */

struct span redis_reply_encode(struct unit *u, const struct kept_reply *w)
{
    uint8_t *from = room(u, 40), *at = from;
    if (!from)
        return (struct span){NULL, 0};
    at = put_u8(at, ROW_VERSION);
    at = put_varint(at, w->seq);
    at = put_u8(at, w->kind);
    at = put_u8(at, w->state);
    return done(u, from, put_wall(at, w->run_at));
}

int redis_reply_decode(struct span packed, struct kept_reply *ret)
{
    struct wire_in in = {.rest = packed};
    if (take_u8(&in) != ROW_VERSION)
        return -ERR_CORRUPT;
    ret->seq = take_varint(&in);
    ret->kind = take_u8(&in);
    ret->state = take_u8(&in);
    ret->run_at = take_wall(&in);
    bool right = ret->kind <= OP_KIND_COUNT && ret->state < STATE_COUNT && ret->seq <= LIMIT_SEQ;
    return wire_ended(&in) && right ? 0 : -ERR_CORRUPT;
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
    return done(u, from, put_span(put_span(at, a->worker), a->error));
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

struct span redis_bulk_encode(struct unit *u, const struct bulk *b, uint32_t epoch)
{
    struct span group = span_text(b->group), kind = span_text(b->kind);
    uint8_t *from = room(u, 128 + group.len + kind.len), *at = from;
    if (!from)
        return (struct span){NULL, 0};
    at = put_u8(at, ROW_VERSION);
    at = put_varint(at, epoch);
    at = put_u8(at, b->action);
    at = put_varint(at, b->queue);
    at = put_varint(at, b->states);
    at = put_varint(at, b->seq_max);
    at = put_wall(at, b->at);
    at = put_varint(at, b->cursor);
    at = put_varint(at, b->changed);
    at = put_varint(at, b->refused);
    return done(u, from, put_span(put_span(at, group), kind));
}

int redis_bulk_decode(struct span packed, struct bulk *ret, struct span *ret_group,
                      struct span *ret_kind, uint32_t *ret_epoch)
{
    struct wire_in in = {.rest = packed};
    if (take_u8(&in) != ROW_VERSION)
        return -ERR_CORRUPT;
    *ret_epoch = take_u32(&in);
    ret->action = take_u8(&in);
    ret->queue = take_u32(&in);
    ret->states = take_u32(&in);
    ret->seq_max = take_varint(&in);
    ret->at = take_wall(&in);
    ret->cursor = take_varint(&in);
    ret->changed = take_varint(&in);
    ret->refused = take_varint(&in);
    *ret_group = take_span(&in);
    *ret_kind = take_span(&in);
    return wire_ended(&in) && ret->action >= BULK_REQUEUE && ret->action <= BULK_CANCEL_NOW
               ? 0
               : -ERR_CORRUPT;
}

/* --- schedules --- */

static uint8_t *put_schedule_state(uint8_t *at, const struct schedule_state *s)
{
    at = put_wall(at, s->next_at);
    at = put_wall(at, s->retry_at);
    at = put_wall(at, s->last_at);
    at = put_wall(at, s->fired_at);
    at = put_fixed64(at, s->id_hi);
    at = put_varint(at, s->item);
    at = put_varint(at, s->fired);
    at = put_varint(at, s->missed);
    at = put_varint(at, s->failures);
    return put_u8(at, s->error);
}

struct span redis_schedule_encode(struct unit *u, const struct wschedule *s)
{
    size_t texts = s->name.len + s->owner.len + s->note.len + s->attributes.len + s->text.len;
    uint8_t *from = room(u, ROW_HEAD(schedule) + SCHEDULE_REST + texts);
    if (!from)
        return (struct span){NULL, 0};
    ROW_PUT(from, schedule, version, ROW_VERSION);
    ROW_PUT(from, schedule, revision, 0);
    ROW_PUT(from, schedule, last_seq, s->state.seq);
    uint8_t *at = put_schedule_state(from + ROW_HEAD(schedule), &s->state);
    at = put_varint(at, s->number);
    at = put_u8(at, s->paused);
    at = put_wall(at, s->created_at);
    at = put_wall(at, s->updated_at);
    at = put_span(at, s->name);
    at = put_span(at, s->owner);
    at = put_span(at, s->note);
    at = put_span(at, s->attributes);
    return done(u, from, put_span(at, s->text));
}

static void take_schedule_state(struct wire_in *in, struct schedule_state *s)
{
    s->next_at = take_wall(in);
    s->retry_at = take_wall(in);
    s->last_at = take_wall(in);
    s->fired_at = take_wall(in);
    s->id_hi = take_fixed64(in);
    s->item = take_varint(in);
    s->fired = take_varint(in);
    s->missed = take_varint(in);
    s->failures = take_u32(in);
    s->error = take_u8(in);
}

int redis_schedule_decode(struct span packed, struct wschedule *ret)
{
    size_t head = ROW_HEAD(schedule);
    if (packed.len < head || ROW_GET(packed.at, schedule, version) != ROW_VERSION)
        return -ERR_CORRUPT;
    struct wire_in in = {.rest = span_of(packed.at + head, packed.len - head)};
    ret->state.seq = ROW_GET(packed.at, schedule, last_seq);
    take_schedule_state(&in, &ret->state);
    ret->number = take_u32(&in);
    ret->paused = take_bool(&in);
    ret->created_at = take_wall(&in);
    ret->updated_at = take_wall(&in);
    ret->name = take_span(&in);
    ret->owner = take_span(&in);
    ret->note = take_span(&in);
    ret->attributes = take_span(&in);
    ret->text = take_span(&in);
    bool right = ret->state.error < SCHEDULE_ERROR_COUNT && ret->state.seq <= LIMIT_SEQ &&
                 ret->state.item <= LIMIT_SEQ;
    return wire_ended(&in) && right ? 0 : -ERR_CORRUPT;
}
