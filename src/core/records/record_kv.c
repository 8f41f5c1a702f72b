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

#define put_key put_span
#define wire_max_key wire_max_span
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

static bool keys_readable(struct span list, uint32_t count)
{
    struct span key;
    uint32_t n = 0;
    for (; list.len > 0; n++)
        if (record_span_next(&list, &key) < 0 || kvkey_check(key) != 0)
            return false;
    return n == count && n > 0;
}

/* ---- set ---- */

static bool kv_set_fits(const struct record *r)
{
    const struct rec_kv_set *s = &r->kv_set;
    return s->version != 0 && wall_fits(s->expires_at) && value_fits(s->kind, s->value.len);
}

#define KV_SET(F) F(key, key) F(u64, version) F(wall, expires_at) F(u8, kind) F(span, value)
RECORD(kv_set, KV_SET);

/* ---- gone ---- */

static bool gone_fits(const struct record *r)
{
    return r->kv_gone.version != 0 && r->kv_gone.count > 0;
}

static bool gone_readable(const struct record *r)
{
    return keys_readable(r->kv_gone.keys, r->kv_gone.count);
}

#define KV_GONE(F) F(u64, version) F(u32, count) F(span, keys)
RECORD_BODY(gone, kv_gone, KV_GONE)
RECORD_TYPE(kv_gone, gone, gone_fits, gone_readable);

/* ---- from a job ---- */

static bool kv_from_job_fits(const struct record *r)
{
    const struct rec_kv_from_job *f = &r->kv_from_job;
    return seq_fits(f->seq) && f->version != 0 && value_fits(f->kind, f->bytes);
}

#define KV_FROM_JOB(F) F(seq, seq) F(key, key) F(u64, version) F(u8, kind) F(u32, bytes)
RECORD(kv_from_job, KV_FROM_JOB);

/* ---- the keys of a job ---- */

static bool job_keys_fits(const struct record *r)
{
    return seq_fits(r->kv_keys.seq) && r->kv_keys.count > 0 &&
           r->kv_keys.count <= LIMIT_KV_UNDELIVERED;
}

static bool job_keys_readable(const struct record *r)
{
    return keys_readable(r->kv_keys.keys, r->kv_keys.count);
}

#define KV_KEYS(F) F(seq, seq) F(u32, count) F(span, keys)
RECORD_BODY(job_keys, kv_keys, KV_KEYS)
RECORD_TYPE(kv_keys, job_keys, job_keys_fits, job_keys_readable);
