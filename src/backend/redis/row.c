/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/redis/row.h"

#include <endian.h>

#include "backend/shared/sound.h"
#include "core/records/wire.h"

#define ROW_HEAD 61 /* up to the unique key's bytes */
#define ROW_FIELDS 200
#define SCHEDULE_FIELDS 200 /* without its texts */
#define QUEUE_HEAD 50
#define QUEUE_FIELDS 64
#define KEEP_MAX (INT64_C(1) << 52) /* scripts count in doubles */

/* --- fixed places --- */

static uint8_t *put_be32(uint8_t *at, uint32_t v)
{
    v = htobe32(v);
    memcpy(at, &v, sizeof v);
    return at + sizeof v;
}

static uint8_t *put_be64(uint8_t *at, uint64_t v)
{
    v = htobe64(v);
    memcpy(at, &v, sizeof v);
    return at + sizeof v;
}

static uint32_t be32(const char *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return be32toh(v);
}

static uint64_t be64(const char *at)
{
    uint64_t v;
    memcpy(&v, at, sizeof v);
    return be64toh(v);
}

static uint8_t *put_head(uint8_t *at, struct span packed)
{
    uint32_t revision = packed.len >= ROW_REVISION_BYTES ? be32(packed.at + 1) : 0;
    at = put_u8(at, ROW_VERSION);
    return put_be32(at, revision + 1);
}

uint64_t redis_seq_decode(struct span s)
{
    return s.len == 8 ? sound_seq(be64(s.at)) : 0;
}

void redis_seq_encode(uint64_t seq, char out[8])
{
    put_be64((uint8_t *)out, seq);
}

void redis_token_encode(struct job_token t, char out[TOKEN_BYTES])
{
    put_be64(put_be32((uint8_t *)out, t.epoch), t.counter);
}

struct job_token redis_token_decode(const char in[TOKEN_BYTES])
{
    return (struct job_token){.counter = be64(in + 4), .epoch = be32(in)};
}

void redis_ready_member(int64_t priority, uint64_t seq, char out[READY_MEMBER_BYTES])
{
    put_be64(put_be64((uint8_t *)out, heap_order_desc(priority)), seq);
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
    return packed.len > ROW_REVISION_BYTES ? (uint8_t)packed.at[ROW_REVISION_BYTES] : 0;
}

uint8_t redis_row_bits(const struct row *r)
{
    uint8_t bits = redis_packed_bits(r->packed) & (ROW_RESULT | ROW_ERROR | ROW_ATTEMPTS);
    if (r->set_result || r->fresh)
        bits = (uint8_t)((bits & ~ROW_RESULT) | (r->result.len ? ROW_RESULT : 0));
    if (r->set_error || r->fresh)
        bits = (uint8_t)((bits & ~ROW_ERROR) | (r->error.len ? ROW_ERROR : 0));
    if (r->attempted)
        bits |= ROW_ATTEMPTS;
    if (r->extra.expires_at.ms)
        bits |= ROW_EXPIRES;
    if (r->job.payload_bytes)
        bits |= ROW_PAYLOAD;
    if (r->job.state == STATE_RUNNING && (r->job.flags & JOB_BOUND))
        bits |= ROW_BOUND;
    if (r->job.state == STATE_RUNNING && r->lease_ms == 0 && r->holder.seq)
        bits |= ROW_ITEM;
    return (uint8_t)(bits | (r->job.payload_bytes <= ROW_SMALL_PAYLOAD ? ROW_SMALL : 0));
}

static size_t texts_len(const struct row *r)
{
    const struct job_extra *x = &r->extra;
    return x->unique.len + x->group.len + x->correlation.len + x->label.len + x->attributes.len +
           x->options.len + x->undelivered.len + r->worker.len;
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
    const struct job_fates *f = &r->fates;
    at = put_varint(at, r->lease_ms);
    at = put_varint(at, (uint64_t)r->until_ms);
    at = put_wall(at, r->started_at);
    at = put_u8(at, r->word);
    at = put_u8(at, r->word_state);
    at = put_wall(at, r->word_run_at);
    at = put_varint(at, f->claims);
    at = put_varint(at, f->timeouts);
    at = put_varint(at, f->releases);
    at = put_varint(at, f->rejections);
    at = put_varint(at, f->requeues);
    return put_span(at, r->worker);
}

static uint8_t *put_extra(uint8_t *at, const struct row *r)
{
    const struct job_extra *x = &r->extra;
    at = put_u8(at, r->result_kind);
    at = put_u8(at, r->error_kind);
    at = put_span(at, x->group);
    at = put_span(at, x->correlation);
    at = put_span(at, x->label);
    at = put_span(at, x->attributes);
    at = put_span(at, x->options);
    at = put_span(at, x->undelivered);
    at = put_varint(at, r->holder.seq);
    return put_fixed64(at, r->holder.hi);
}

struct span redis_row_encode(struct unit *u, const struct row *r)
{
    const struct job *j = &r->job;
    uint8_t *from = room(u, ROW_HEAD + ROW_FIELDS + texts_len(r));
    if (!from)
        return (struct span){NULL, 0};
    uint8_t *at = put_head(from, r->packed);
    at = put_u8(at, redis_row_bits(r));
    at = put_u8(at, j->state);
    at = put_be32(at, j->queue);
    at = put_be64(at, heap_order_desc(j->priority));
    at = put_be64(at, (uint64_t)r->extra.expires_at.ms);
    at = put_be64(at, (uint64_t)j->since.ms);
    redis_token_encode(r->token, (char *)at);
    at = put_be64(at + TOKEN_BYTES, r->nonce);
    at = put_be32(at, j->generation);
    at = put_u8(at, (uint8_t)(r->extra.unique.len >> 8));
    at = put_u8(at, (uint8_t)r->extra.unique.len);
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
    struct job_fates *f = &r->fates;
    r->lease_ms = take_u32(in);
    r->until_ms = (int64_t)take_varint(in);
    r->started_at = take_wall(in);
    r->word = take_u8(in);
    r->word_state = take_u8(in);
    r->word_run_at = take_wall(in);
    f->claims = take_u16(in);
    f->timeouts = take_u16(in);
    f->releases = take_u16(in);
    f->rejections = (uint8_t)take_upto(in, UINT8_MAX);
    f->requeues = (uint8_t)take_upto(in, UINT8_MAX);
    r->worker = take_span(in);
}

static void take_extra(struct wire_in *in, struct row *r)
{
    struct job_extra *x = &r->extra;
    r->result_kind = take_u8(in);
    r->error_kind = take_u8(in);
    x->group = take_span(in);
    x->correlation = take_span(in);
    x->label = take_span(in);
    x->attributes = take_span(in);
    x->options = take_span(in);
    x->undelivered = take_span(in);
    r->holder.seq = take_varint(in);
    r->holder.hi = take_fixed64(in);
}

/* Back from what sorts to what it was. */
static int64_t priority_of(uint64_t order)
{
    return (int64_t)(~order ^ (UINT64_C(1) << 63));
}

static void take_head(const char *at, struct row *r)
{
    struct job *j = &r->job;
    j->state = (uint8_t)at[6];
    j->queue = be32(at + 7);
    j->priority = priority_of(be64(at + ROW_ORDER_AT));
    r->extra.expires_at.ms = (int64_t)be64(at + 19);
    j->since.ms = (int64_t)be64(at + 27);
    r->token = redis_token_decode(at + 35);
    r->nonce = be64(at + 47);
    j->generation = be32(at + 55);
}

int redis_row_decode(uint64_t seq, struct span packed, struct row *ret)
{
    if (packed.len < ROW_HEAD || packed.at[0] != ROW_VERSION)
        return -ERR_CORRUPT;
    size_t unique = (size_t)(uint8_t)packed.at[59] << 8 | (uint8_t)packed.at[60];
    if (packed.len < ROW_HEAD + unique)
        return -ERR_CORRUPT;
    struct wire_in in = {
        .rest = span_of(packed.at + ROW_HEAD + unique, packed.len - ROW_HEAD - unique)};
    take_head(packed.at, ret);
    ret->job.seq = seq;
    ret->extra.unique = span_of(packed.at + ROW_HEAD, unique);
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

static uint8_t *put_queue_head(uint8_t *at, const struct wqueue *q)
{
    const struct queue_policy *p = &q->policy;
    at = put_head(at, q->packed);
    at = put_be32(at, q->generation);
    at = put_be64(at, (uint64_t)q->paused_until.ms);
    at = put_u8(at, p->unique_scope);
    at = put_be64(at, kept(p->keep_done));
    at = put_be64(at, kept((uint64_t)p->keep_done_ms));
    at = put_be64(at, kept(p->keep_dead));
    return put_be64(at, kept((uint64_t)p->keep_dead_ms));
}

struct span redis_queue_encode(struct unit *u, const struct wqueue *q)
{
    struct buf policy;
    struct span packed = {NULL, 0};
    buf_init(&policy);
    size_t texts = q->name.len + q->owner.len + q->note.len + q->attributes.len;
    uint8_t *from = policy_encode(&q->policy, &policy) == 0
                        ? room(u, QUEUE_HEAD + QUEUE_FIELDS + texts + policy.len)
                        : NULL;
    if (from) {
        uint8_t *at = put_queue_head(from, q);
        at = put_varint(at, q->number);
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
    if (packed.len < QUEUE_HEAD || packed.at[0] != ROW_VERSION)
        return -ERR_CORRUPT;
    struct wire_in in = {.rest = span_of(packed.at + QUEUE_HEAD, packed.len - QUEUE_HEAD)};
    ret->generation = be32(packed.at + 5);
    ret->paused_until.ms = (int64_t)be64(packed.at + 9);
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

/* --- words, keys, attempts, bulk work --- */

struct span redis_word_encode(struct unit *u, const struct word *w)
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

int redis_word_decode(struct span packed, struct word *ret)
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

/* Its second eight bytes are the job: scripts look at them. */
void redis_idem_encode(const struct idem *k, char out[IDEM_BYTES])
{
    uint8_t *at = put_be64((uint8_t *)out, k->fingerprint);
    at = put_be64(at, k->seq);
    at = put_be64(at, k->id_hi);
    put_be64(at, (uint64_t)k->expires_at.ms);
}

int redis_idem_decode(struct span packed, struct idem *ret)
{
    if (packed.len != IDEM_BYTES)
        return -ERR_CORRUPT;
    ret->fingerprint = be64(packed.at);
    ret->seq = be64(packed.at + 8);
    ret->id_hi = be64(packed.at + 16);
    ret->expires_at.ms = (int64_t)be64(packed.at + 24);
    bool right = ret->seq > 0 && ret->seq <= LIMIT_SEQ &&
                 ret->expires_at.ms == sound_time(ret->expires_at.ms);
    return right ? 0 : -ERR_CORRUPT;
}

/* Its first ATTEMPT_IDENT_BYTES tell it from the job's others. */
struct span redis_attempt_encode(struct unit *u, const struct ended *a)
{
    uint8_t *from = room(u, ATTEMPT_IDENT_BYTES + 16 + a->worker.len + a->error.len), *at = from;
    if (!from)
        return (struct span){NULL, 0};
    at = put_be64(at, (uint64_t)a->started_at.ms);
    at = put_be64(at, (uint64_t)a->at.ms);
    at = put_be32(at, a->number);
    at = put_u8(at, a->outcome);
    at = put_u8(at, a->error_kind);
    return done(u, from, put_span(put_span(at, a->worker), a->error));
}

int redis_attempt_decode(struct span packed, struct attempt_view *ret)
{
    if (packed.len < ATTEMPT_IDENT_BYTES)
        return -ERR_CORRUPT;
    struct wire_in in = {
        .rest = span_of(packed.at + ATTEMPT_IDENT_BYTES, packed.len - ATTEMPT_IDENT_BYTES)};
    ret->started_at.ms = (int64_t)be64(packed.at);
    ret->ended_at.ms = (int64_t)be64(packed.at + 8);
    ret->number = be32(packed.at + 16);
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
    struct span group = span_text(b->group);
    uint8_t *from = room(u, 128 + group.len), *at = from;
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
    return done(u, from, put_span(at, group));
}

int redis_bulk_decode(struct span packed, struct bulk *ret, struct span *ret_group,
                      uint32_t *ret_epoch)
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
    return wire_ended(&in) && ret->action >= BULK_REQUEUE && ret->action <= BULK_REMOVE
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
    uint8_t *from = room(u, SCHEDULE_FIELDS + texts), *at = from;
    if (!from)
        return (struct span){NULL, 0};
    at = put_be32(put_u8(at, ROW_VERSION), 0);
    at = put_be64(at, s->state.seq);
    at = put_schedule_state(at, &s->state);
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
    size_t head = ROW_REVISION_BYTES + 8;
    if (packed.len < head || packed.at[0] != ROW_VERSION)
        return -ERR_CORRUPT;
    struct wire_in in = {.rest = span_of(packed.at + head, packed.len - head)};
    ret->state.seq = be64(packed.at + ROW_REVISION_BYTES);
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
