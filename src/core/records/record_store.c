/* SPDX-License-Identifier: Apache-2.0 */
/* The bodies of the records about the store itself, queues, bulk actions and idempotency keys. */
#include "base/check.h"
#include "core/limits.h"
#include "core/queues/policy.h"
#include "core/records/record_impl.h"

/* ---- store ---- */

static bool epoch_fits(const struct record *r)
{
    return r->epoch.epoch != 0 && wall_fits(r->epoch.at);
}

#define EPOCH(F) F(u32, epoch) F(wall, at)
RECORD(epoch, EPOCH);

static bool seq_block_fits(const struct record *r)
{
    return seq_fits(r->seq_block.upto);
}

#define SEQ_BLOCK(F) F(seq, upto)
RECORD(seq_block, SEQ_BLOCK);

/* ---- queues ---- */

static bool queue_put_fits(const struct record *r)
{
    const struct rec_queue_put *q = &r->queue_put;
    return q->queue != 0 && wall_fits(q->created_at) && wall_fits(q->updated_at) &&
           wall_fits(q->paused_until) && q->name.len <= LIMIT_QUEUE_NAME_BYTES &&
           q->policy.len <= POLICY_BYTES_MAX && q->owner.len <= LIMIT_LABEL_BYTES &&
           q->note.len <= LIMIT_NOTE_BYTES && q->attributes.len <= LIMIT_NOTE_BYTES;
}

static bool queue_put_readable(const struct record *r)
{
    struct queue_policy policy;
    return validate_queue_name(r->queue_put.name, NULL) == 0 &&
           policy_decode(r->queue_put.policy, &policy) == 0;
}

#define QUEUE_PUT(F)                                                                               \
    F(u32, queue)                                                                                  \
    F(u32, generation)                                                                             \
    F(wall, created_at)                                                                            \
    F(wall, updated_at)                                                                            \
    F(wall, paused_until)                                                                          \
    F(span, name)                                                                                  \
    F(span, policy)                                                                                \
    F(text, owner, LIMIT_LABEL_BYTES)                                                              \
    F(text, note, LIMIT_NOTE_BYTES)                                                                \
    F(span, attributes)
RECORD_BODY(queue_put, queue_put, QUEUE_PUT)
RECORD_TYPE(queue_put, queue_put, queue_put_fits, queue_put_readable);

static bool queue_fits(const struct record *r)
{
    return r->queue.queue != 0 && wall_fits(r->queue.at);
}

#define QUEUE(F) F(u32, queue) F(wall, at)
RECORD_BODY(queue, queue, QUEUE)
RECORD_TYPE(queue_gone, queue, queue_fits, NULL);
RECORD_TYPE(queue_end, queue, queue_fits, NULL);

static bool purged_fits(const struct record *r)
{
    return r->purged.queue != 0 && wall_fits(r->purged.at);
}

#define PURGED(F) F(u32, queue) F(u32, generation) F(wall, at) F(u64, count)
RECORD(purged, PURGED);

/* ---- counters ---- */

/* Most frames add to a few fields: a mask says to which. */
static bool counters_fits(const struct record *r)
{
    uint64_t any = 0;
    for (int i = 0; i < COUNTER_COUNT; i++)
        any |= r->counters.add.of[i];
    return r->counters.queue != 0 && any != 0;
}

static size_t counters_body_max(const struct record *r)
{
    (void)r;
    return 3 * WIRE_U32 + COUNTER_COUNT * WIRE_U64;
}

static uint8_t *counters_encode(const struct record *r, uint8_t *at)
{
    const struct counters *t = &r->counters.add;
    uint64_t mask = 0;
    for (int i = 0; i < COUNTER_COUNT; i++)
        mask |= (uint64_t)(t->of[i] != 0) << i;
    at = put_varint(at, r->counters.queue);
    at = put_varint(at, r->counters.hour);
    at = put_varint(at, mask);
    for (int i = 0; i < COUNTER_COUNT; i++)
        if (t->of[i])
            at = put_varint(at, t->of[i]);
    return at;
}

static void counters_decode(struct wire_in *in, struct record *ret)
{
    ret->counters = (struct rec_counters){.queue = take_u32(in)};
    ret->counters.hour = take_u32(in);
    uint64_t mask = take_upto(in, (UINT64_C(1) << COUNTER_COUNT) - 1);
    for (int i = 0; i < COUNTER_COUNT; i++)
        if (mask >> i & 1 && (ret->counters.add.of[i] = take_varint(in)) == 0)
            wire_spoil(in);
}

RECORD_TYPE(counters, counters, counters_fits, NULL);

/* ---- bulk actions ---- */

static bool bulk_begin_fits(const struct record *r)
{
    const struct rec_bulk_begin *b = &r->bulk_begin;
    return b->bulk != 0 && b->action >= BULK_REQUEUE && b->action <= BULK_CANCEL_NOW &&
           wall_fits(b->at) && (b->states & ~STATES_ALL) == 0 && b->group.len <= LIMIT_KEY_BYTES &&
           b->kind.len <= LIMIT_KIND_BYTES && b->seq_max <= LIMIT_SEQ;
}

#define BULK_BEGIN(F)                                                                              \
    F(u64, bulk)                                                                                   \
    F(u8, action)                                                                                  \
    F(wall, at)                                                                                    \
    F(u32, queue)                                                                                  \
    F(u32, states)                                                                                 \
    F(text, group, LIMIT_KEY_BYTES)                                                                \
    F(text, kind, LIMIT_KIND_BYTES)                                                                \
    F(seq, seq_max)
RECORD(bulk_begin, BULK_BEGIN);

static bool bulk_step_fits(const struct record *r)
{
    return r->bulk_step.bulk != 0 && r->bulk_step.cursor <= LIMIT_SEQ;
}

#define BULK_STEP(F) F(u64, bulk) F(seq, cursor) F(u64, changed) F(u64, refused)
RECORD(bulk_step, BULK_STEP);
RECORD_TYPE(bulk_end, bulk_step, bulk_step_fits, NULL);

/* ---- idempotency keys ---- */

static bool key_new_fits(const struct record *r)
{
    return !hash128_none(r->key_new.key) && seq_fits(r->key_new.seq) &&
           wall_fits(r->key_new.expires_at);
}

#define KEY_NEW(F)                                                                                 \
    F(fixed64, key.hi)                                                                             \
    F(fixed64, key.lo)                                                                             \
    F(fixed64, fingerprint)                                                                        \
    F(seq, seq)                                                                                    \
    F(fixed64, id_hi)                                                                              \
    F(wall, expires_at)
RECORD(key_new, KEY_NEW);

int record_key_append(struct buf *list, struct wall_time *previous, const struct record_key *key)
{
    CHECK(key->expires_at.ms >= previous->ms);
    int err = buf_reserve(list, WIRE_WALL + 2 * WIRE_FIXED64);
    if (err < 0)
        return err;
    uint8_t *start = (uint8_t *)list->data + list->len;
    uint8_t *at = put_wall(start, (struct wall_time){key->expires_at.ms - previous->ms});
    at = put_fixed64(at, key->key.hi);
    at = put_fixed64(at, key->key.lo);
    list->len += (size_t)(at - start);
    *previous = key->expires_at;
    return 0;
}

int record_key_next(struct span *list, struct wall_time *previous, struct record_key *ret)
{
    struct wire_in in = {*list, false};
    struct wall_time step = take_wall(&in);
    ret->key.hi = take_fixed64(&in);
    ret->key.lo = take_fixed64(&in);
    ret->expires_at.ms = previous->ms + step.ms;
    if (in.bad || hash128_none(ret->key) || !wall_fits(step) || !wall_fits(ret->expires_at))
        return -ERR_CORRUPT;
    *list = in.rest;
    *previous = ret->expires_at;
    return 0;
}

/* The list is looked at when it is read; a caller makes it with record_key_append. */
static bool keys_gone_fits(const struct record *r)
{
    return r->keys_gone.count <= r->keys_gone.keys.len;
}

static bool keys_gone_readable(const struct record *r)
{
    struct span list = r->keys_gone.keys;
    struct wall_time previous = {0};
    struct record_key key;
    uint64_t count = 0;
    for (; list.len > 0; count++)
        if (record_key_next(&list, &previous, &key) < 0)
            return false;
    return count == r->keys_gone.count;
}

#define KEYS_GONE(F) F(u32, count) F(span, keys)
RECORD_BODY(keys_gone, keys_gone, KEYS_GONE)
RECORD_TYPE(keys_gone, keys_gone, keys_gone_fits, keys_gone_readable);
