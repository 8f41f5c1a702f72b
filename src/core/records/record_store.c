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

static uint8_t *epoch_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->epoch.epoch);
    return put_wall(at, r->epoch.at);
}

static void epoch_decode(struct wire_in *in, struct record *ret)
{
    ret->epoch.epoch = take_u32(in);
    ret->epoch.at = take_wall(in);
}

const struct record_type record_epoch = {
    .name = "epoch",
    .body_max = WIRE_U32 + WIRE_WALL,
    .encode = epoch_encode,
    .decode = epoch_decode,
    .fits = epoch_fits,
};

static bool seq_block_fits(const struct record *r)
{
    return seq_fits(r->seq_block.upto);
}

static uint8_t *seq_block_encode(const struct record *r, uint8_t *at)
{
    return put_varint(at, r->seq_block.upto);
}

static void seq_block_decode(struct wire_in *in, struct record *ret)
{
    ret->seq_block.upto = take_varint(in);
}

const struct record_type record_seq_block = {
    .name = "seq_block",
    .body_max = WIRE_SEQ,
    .encode = seq_block_encode,
    .decode = seq_block_decode,
    .fits = seq_block_fits,
};

/* ---- queues ---- */

static size_t queue_put_span_bytes(const struct record *r)
{
    const struct rec_queue_put *q = &r->queue_put;
    return q->name.len + q->policy.len + q->owner.len + q->note.len + q->attributes.len;
}

static bool queue_put_fits(const struct record *r)
{
    const struct rec_queue_put *q = &r->queue_put;
    return q->queue != 0 && wall_fits(q->created_at) && wall_fits(q->updated_at) &&
           wall_fits(q->paused_until) && q->name.len <= LIMIT_QUEUE_NAME_BYTES &&
           q->policy.len <= POLICY_BYTES_MAX && q->owner.len <= LIMIT_LABEL_BYTES &&
           q->note.len <= LIMIT_NOTE_BYTES && q->attributes.len <= LIMIT_NOTE_BYTES;
}

static uint8_t *queue_put_encode(const struct record *r, uint8_t *at)
{
    const struct rec_queue_put *q = &r->queue_put;
    at = put_varint(at, q->queue);
    at = put_varint(at, q->generation);
    at = put_wall(at, q->created_at);
    at = put_wall(at, q->updated_at);
    at = put_wall(at, q->paused_until);
    at = put_span(at, q->name);
    at = put_span(at, q->policy);
    at = put_span(at, q->owner);
    at = put_span(at, q->note);
    return put_span(at, q->attributes);
}

static void queue_put_decode(struct wire_in *in, struct record *ret)
{
    struct rec_queue_put *q = &ret->queue_put;
    struct queue_policy policy;
    q->queue = take_u32(in);
    q->generation = take_u32(in);
    q->created_at = take_wall(in);
    q->updated_at = take_wall(in);
    q->paused_until = take_wall(in);
    q->name = take_span(in);
    q->policy = take_span(in);
    q->owner = take_text(in, LIMIT_LABEL_BYTES);
    q->note = take_text(in, LIMIT_NOTE_BYTES);
    q->attributes = take_span(in);
    if (validate_queue_name(q->name, NULL) < 0 || policy_decode(q->policy, &policy) < 0)
        wire_spoil(in);
}

const struct record_type record_queue_put = {
    .name = "queue_put",
    .body_max = WIRE_U32 + WIRE_U32 + 3 * WIRE_WALL + 5 * WIRE_LENGTH,
    .span_bytes = queue_put_span_bytes,
    .encode = queue_put_encode,
    .decode = queue_put_decode,
    .fits = queue_put_fits,
};

static bool queue_fits(const struct record *r)
{
    return r->queue.queue != 0 && wall_fits(r->queue.at);
}

static uint8_t *queue_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->queue.queue);
    return put_wall(at, r->queue.at);
}

static void queue_decode(struct wire_in *in, struct record *ret)
{
    ret->queue.queue = take_u32(in);
    ret->queue.at = take_wall(in);
}

const struct record_type record_queue_gone = {
    .name = "queue_gone",
    .body_max = WIRE_U32 + WIRE_WALL,
    .encode = queue_encode,
    .decode = queue_decode,
    .fits = queue_fits,
};

const struct record_type record_queue_end = {
    .name = "queue_end",
    .body_max = WIRE_U32 + WIRE_WALL,
    .encode = queue_encode,
    .decode = queue_decode,
    .fits = queue_fits,
};

static bool purged_fits(const struct record *r)
{
    return r->purged.queue != 0 && wall_fits(r->purged.at);
}

static uint8_t *purged_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->purged.queue);
    at = put_varint(at, r->purged.generation);
    at = put_wall(at, r->purged.at);
    return put_varint(at, r->purged.count);
}

static void purged_decode(struct wire_in *in, struct record *ret)
{
    ret->purged.queue = take_u32(in);
    ret->purged.generation = take_u32(in);
    ret->purged.at = take_wall(in);
    ret->purged.count = take_varint(in);
}

const struct record_type record_purged = {
    .name = "purged",
    .body_max = WIRE_U32 + WIRE_U32 + WIRE_WALL + WIRE_U64,
    .encode = purged_encode,
    .decode = purged_decode,
    .fits = purged_fits,
};

/* ---- counters ---- */

/* Most frames add to a few fields: a mask says to which. */
static bool counters_fit(const struct record *r)
{
    uint64_t any = 0;
    for (int i = 0; i < COUNTER_COUNT; i++)
        any |= r->counters.add.of[i];
    return r->counters.queue != 0 && any != 0;
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

const struct record_type record_counters = {
    .name = "counters",
    .body_max = 3 * WIRE_U32 + COUNTER_COUNT * WIRE_U64,
    .encode = counters_encode,
    .decode = counters_decode,
    .fits = counters_fit,
};

/* ---- bulk actions ---- */

static size_t bulk_begin_span_bytes(const struct record *r)
{
    return r->bulk_begin.group.len + r->bulk_begin.kind.len;
}

static bool bulk_begin_fits(const struct record *r)
{
    const struct rec_bulk_begin *b = &r->bulk_begin;
    return b->bulk != 0 && b->action >= BULK_REQUEUE && b->action <= BULK_CANCEL_NOW &&
           wall_fits(b->at) && (b->states & ~STATES_ALL) == 0 && b->group.len <= LIMIT_KEY_BYTES &&
           b->kind.len <= LIMIT_KIND_BYTES && b->seq_max <= LIMIT_SEQ;
}

static uint8_t *bulk_begin_encode(const struct record *r, uint8_t *at)
{
    const struct rec_bulk_begin *b = &r->bulk_begin;
    at = put_varint(at, b->bulk);
    at = put_u8(at, b->action);
    at = put_wall(at, b->at);
    at = put_varint(at, b->queue);
    at = put_varint(at, b->states);
    at = put_span(at, b->group);
    at = put_span(at, b->kind);
    return put_varint(at, b->seq_max);
}

static void bulk_begin_decode(struct wire_in *in, struct record *ret)
{
    struct rec_bulk_begin *b = &ret->bulk_begin;
    b->bulk = take_varint(in);
    b->action = take_u8(in);
    b->at = take_wall(in);
    b->queue = take_u32(in);
    b->states = take_u32(in);
    b->group = take_text(in, LIMIT_KEY_BYTES);
    b->kind = take_text(in, LIMIT_KIND_BYTES);
    b->seq_max = take_varint(in);
}

const struct record_type record_bulk_begin = {
    .name = "bulk_begin",
    .body_max = WIRE_U64 + WIRE_U8 + WIRE_WALL + 2 * WIRE_U32 + 2 * WIRE_LENGTH + WIRE_SEQ,
    .span_bytes = bulk_begin_span_bytes,
    .encode = bulk_begin_encode,
    .decode = bulk_begin_decode,
    .fits = bulk_begin_fits,
};

static bool bulk_step_fits(const struct record *r)
{
    return r->bulk_step.bulk != 0 && r->bulk_step.cursor <= LIMIT_SEQ;
}

static uint8_t *bulk_step_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->bulk_step.bulk);
    at = put_varint(at, r->bulk_step.cursor);
    at = put_varint(at, r->bulk_step.changed);
    return put_varint(at, r->bulk_step.refused);
}

static void bulk_step_decode(struct wire_in *in, struct record *ret)
{
    ret->bulk_step.bulk = take_varint(in);
    ret->bulk_step.cursor = take_varint(in);
    ret->bulk_step.changed = take_varint(in);
    ret->bulk_step.refused = take_varint(in);
}

const struct record_type record_bulk_step = {
    .name = "bulk_step",
    .body_max = 3 * WIRE_U64 + WIRE_SEQ,
    .encode = bulk_step_encode,
    .decode = bulk_step_decode,
    .fits = bulk_step_fits,
};

const struct record_type record_bulk_end = {
    .name = "bulk_end",
    .body_max = 3 * WIRE_U64 + WIRE_SEQ,
    .encode = bulk_step_encode,
    .decode = bulk_step_decode,
    .fits = bulk_step_fits,
};

/* ---- idempotency keys ---- */

static bool key_new_fits(const struct record *r)
{
    return !hash128_none(r->key_new.key) && seq_fits(r->key_new.seq) &&
           wall_fits(r->key_new.expires_at);
}

static uint8_t *key_new_encode(const struct record *r, uint8_t *at)
{
    at = put_fixed64(at, r->key_new.key.hi);
    at = put_fixed64(at, r->key_new.key.lo);
    at = put_fixed64(at, r->key_new.fingerprint);
    at = put_varint(at, r->key_new.seq);
    at = put_fixed64(at, r->key_new.id_hi);
    return put_wall(at, r->key_new.expires_at);
}

static void key_new_decode(struct wire_in *in, struct record *ret)
{
    ret->key_new.key.hi = take_fixed64(in);
    ret->key_new.key.lo = take_fixed64(in);
    ret->key_new.fingerprint = take_fixed64(in);
    ret->key_new.seq = take_varint(in);
    ret->key_new.id_hi = take_fixed64(in);
    ret->key_new.expires_at = take_wall(in);
}

const struct record_type record_key_new = {
    .name = "key_new",
    .body_max = 4 * WIRE_FIXED64 + WIRE_SEQ + WIRE_WALL,
    .encode = key_new_encode,
    .decode = key_new_decode,
    .fits = key_new_fits,
};

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

static size_t keys_gone_span_bytes(const struct record *r)
{
    return r->keys_gone.keys.len;
}

/* The list is looked at when it is read; a caller makes it with record_key_append. */
static bool keys_gone_fits(const struct record *r)
{
    return r->keys_gone.count <= r->keys_gone.keys.len;
}

static uint8_t *keys_gone_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->keys_gone.count);
    return put_span(at, r->keys_gone.keys);
}

static void keys_gone_decode(struct wire_in *in, struct record *ret)
{
    ret->keys_gone.count = take_u32(in);
    ret->keys_gone.keys = take_span(in);
    struct span list = ret->keys_gone.keys;
    struct wall_time previous = {0};
    struct record_key key;
    uint64_t count = 0;
    while (list.len > 0) {
        if (record_key_next(&list, &previous, &key) < 0) {
            wire_spoil(in);
            return;
        }
        count++;
    }
    if (count != ret->keys_gone.count)
        wire_spoil(in);
}

const struct record_type record_keys_gone = {
    .name = "keys_gone",
    .body_max = WIRE_U32 + WIRE_LENGTH,
    .span_bytes = keys_gone_span_bytes,
    .encode = keys_gone_encode,
    .decode = keys_gone_decode,
    .fits = keys_gone_fits,
};
