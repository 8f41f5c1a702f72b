/* SPDX-License-Identifier: Apache-2.0 */
/* The bodies of the records about the key-value store. */
#include "core/jobs/job.h"
#include "core/kvkey.h"
#include "core/limits.h"
#include "core/records/record_impl.h"

static bool value_fits(uint8_t kind, uint64_t bytes)
{
    return kind <= PAYLOAD_BYTES && bytes <= LIMIT_PAYLOAD_BYTES &&
           (kind != PAYLOAD_NONE || bytes == 0);
}

static struct span take_key(struct wire_in *in)
{
    struct span key = take_span(in);
    if (!in->bad && kvkey_check(key) != 0)
        wire_spoil(in);
    return key;
}

/* ---- lists of keys ---- */

int record_span_append(struct buf *list, struct span s)
{
    int err = buf_reserve(list, WIRE_LENGTH + s.len);
    if (err < 0)
        return err;
    uint8_t *start = (uint8_t *)list->data + list->len;
    list->len += (size_t)(put_span(start, s) - start);
    return 0;
}

int record_span_next(struct span *list, struct span *ret)
{
    struct wire_in in = {*list, false};
    *ret = take_span(&in);
    if (in.bad)
        return -ERR_CORRUPT;
    *list = in.rest;
    return 0;
}

static void check_list(struct wire_in *in, struct span list, uint32_t count)
{
    struct span key;
    uint32_t n = 0;
    while (!in->bad && list.len > 0) {
        if (record_span_next(&list, &key) < 0 || kvkey_check(key) != 0)
            wire_spoil(in);
        n++;
    }
    if (n != count || n == 0)
        wire_spoil(in);
}

/* ---- set ---- */

static size_t set_span_bytes(const struct record *r)
{
    return r->kv_set.key.len + r->kv_set.value.len;
}

static bool set_fits(const struct record *r)
{
    const struct rec_kv_set *s = &r->kv_set;
    return s->version != 0 && wall_fits(s->expires_at) && value_fits(s->kind, s->value.len);
}

static uint8_t *set_encode(const struct record *r, uint8_t *at)
{
    at = put_span(at, r->kv_set.key);
    at = put_varint(at, r->kv_set.version);
    at = put_wall(at, r->kv_set.expires_at);
    at = put_u8(at, r->kv_set.kind);
    return put_span(at, r->kv_set.value);
}

static void set_decode(struct wire_in *in, struct record *ret)
{
    ret->kv_set.key = take_key(in);
    ret->kv_set.version = take_varint(in);
    ret->kv_set.expires_at = take_wall(in);
    ret->kv_set.kind = take_u8(in);
    ret->kv_set.value = take_span(in);
}

const struct record_type record_kv_set = {
    .name = "kv_set",
    .body_max = WIRE_U64 + WIRE_WALL + WIRE_U8 + 2 * WIRE_LENGTH,
    .span_bytes = set_span_bytes,
    .encode = set_encode,
    .decode = set_decode,
    .fits = set_fits,
};

/* ---- gone ---- */

static size_t gone_span_bytes(const struct record *r)
{
    return r->kv_gone.keys.len;
}

static bool gone_fits(const struct record *r)
{
    return r->kv_gone.version != 0 && r->kv_gone.count > 0;
}

static uint8_t *gone_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->kv_gone.version);
    at = put_varint(at, r->kv_gone.count);
    return put_span(at, r->kv_gone.keys);
}

static void gone_decode(struct wire_in *in, struct record *ret)
{
    ret->kv_gone.version = take_varint(in);
    ret->kv_gone.count = take_u32(in);
    ret->kv_gone.keys = take_span(in);
    check_list(in, ret->kv_gone.keys, ret->kv_gone.count);
}

const struct record_type record_kv_gone = {
    .name = "kv_gone",
    .body_max = WIRE_U64 + WIRE_U32 + WIRE_LENGTH,
    .span_bytes = gone_span_bytes,
    .encode = gone_encode,
    .decode = gone_decode,
    .fits = gone_fits,
};

/* ---- from a job ---- */

static size_t from_job_span_bytes(const struct record *r)
{
    return r->kv_from_job.key.len;
}

static bool from_job_fits(const struct record *r)
{
    const struct rec_kv_from_job *f = &r->kv_from_job;
    return seq_fits(f->seq) && f->version != 0 && value_fits(f->kind, f->bytes);
}

static uint8_t *from_job_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->kv_from_job.seq);
    at = put_span(at, r->kv_from_job.key);
    at = put_varint(at, r->kv_from_job.version);
    at = put_u8(at, r->kv_from_job.kind);
    return put_varint(at, r->kv_from_job.bytes);
}

static void from_job_decode(struct wire_in *in, struct record *ret)
{
    ret->kv_from_job.seq = take_varint(in);
    ret->kv_from_job.key = take_key(in);
    ret->kv_from_job.version = take_varint(in);
    ret->kv_from_job.kind = take_u8(in);
    ret->kv_from_job.bytes = take_u32(in);
}

const struct record_type record_kv_from_job = {
    .name = "kv_from_job",
    .body_max = WIRE_SEQ + WIRE_LENGTH + WIRE_U64 + WIRE_U8 + WIRE_U32,
    .span_bytes = from_job_span_bytes,
    .encode = from_job_encode,
    .decode = from_job_decode,
    .fits = from_job_fits,
};

/* ---- the keys of a job ---- */

static size_t keys_span_bytes(const struct record *r)
{
    return r->kv_keys.keys.len;
}

static bool keys_fits(const struct record *r)
{
    return seq_fits(r->kv_keys.seq) && r->kv_keys.count > 0 &&
           r->kv_keys.count <= LIMIT_KV_UNDELIVERED;
}

static uint8_t *keys_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->kv_keys.seq);
    at = put_varint(at, r->kv_keys.count);
    return put_span(at, r->kv_keys.keys);
}

static void keys_decode(struct wire_in *in, struct record *ret)
{
    ret->kv_keys.seq = take_varint(in);
    ret->kv_keys.count = take_u32(in);
    ret->kv_keys.keys = take_span(in);
    check_list(in, ret->kv_keys.keys, ret->kv_keys.count);
}

const struct record_type record_kv_keys = {
    .name = "kv_keys",
    .body_max = WIRE_SEQ + WIRE_U32 + WIRE_LENGTH,
    .span_bytes = keys_span_bytes,
    .encode = keys_encode,
    .decode = keys_decode,
    .fits = keys_fits,
};
