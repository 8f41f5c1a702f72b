/* SPDX-License-Identifier: Apache-2.0 */
/* Policies: defaults, checks, the compact encoding, and the back-off.
 *
 * Both encodings start with a version byte. Fields follow in the order of the struct; a new field
 * needs a new version, whose decoder also reads the older ones. A policy is written in the oldest
 * version that can hold it. */
#include "core/policy.h"

#include <inttypes.h>

#include "base/check.h"
#include "core/records/wire.h"

#define POLICY_PLAIN 1 /* neither ranked nor with a rate limit */
#define POLICY_VERSION 2
#define OPTIONS_VERSION 1

#define HOUR_MS INT64_C(3600000)

void policy_default(struct queue_policy *p)
{
    *p = (struct queue_policy){
        .lease_ms = 30000,
        .max_attempts = 10,
        .max_crashes = 5,
        .backoff = {.kind = BACKOFF_EXPONENTIAL,
                    .jitter_percent = 10,
                    .base_ms = 1000,
                    .max_ms = HOUR_MS},
        .lease_end = LEASE_END_REQUEUE,
        .unique_mode = UNIQUE_REJECT,
        .unique_scope = UNIQUE_LIVE,
        .durability = DURABILITY_FSYNC,
        .capacity = 10000000,
        .payload_max = 1u << 20,
        .keep_done_ms = 24 * HOUR_MS,
        .keep_done = 10000,
        .keep_dead_ms = 30 * 24 * HOUR_MS,
        .keep_dead = 100000,
    };
}

/* ---- checks ---- */

static int check_between(const char *field, uint64_t value, uint64_t min, uint64_t max,
                         struct err_note *note)
{
    if (value >= min && value <= max)
        return 0;
    return err_note_set(note, -ERR_INVALID,
                        "%s is %" PRIu64 "; it must be from %" PRIu64 " to %" PRIu64, field, value,
                        min, max);
}

static int check_not_negative(const char *field, int64_t value, struct err_note *note)
{
    if (value >= 0)
        return 0;
    return err_note_set(note, -ERR_INVALID, "%s is %" PRId64 "; it must be 0 or more", field,
                        value);
}

static int backoff_check(const struct backoff *b, struct err_note *note)
{
    int err;
    if ((err = check_between("backoff.kind", b->kind, 0, BACKOFF_LIST, note)) ||
        (err = check_between("backoff.jitter_percent", b->jitter_percent, 0, 100, note)) ||
        (err = check_between("backoff.base_ms", b->base_ms, 0, LIMIT_BACKOFF_MS, note)) ||
        (err = check_between("backoff.max_ms", b->max_ms, 0, LIMIT_BACKOFF_MS, note)) ||
        (err = check_between("the number of back-off steps", b->step_count, 0, LIMIT_BACKOFF_STEPS,
                             note)))
        return err;
    if (b->kind == BACKOFF_EXPONENTIAL && b->base_ms > b->max_ms)
        return err_note_set(note, -ERR_INVALID,
                            "backoff.base_ms is %" PRIu32 "; it must not be more than "
                            "backoff.max_ms, which is %" PRIu32,
                            b->base_ms, b->max_ms);
    for (size_t i = 0; i < b->step_count; i++) {
        if ((err = check_between("a step of backoff_ms", b->step_ms[i], 0, LIMIT_BACKOFF_MS, note)))
            return err;
    }
    return 0;
}

static int rate_check(const struct rate_limit *r, struct err_note *note)
{
    int err;
    if (r->count == 0)
        return 0;
    if ((err = check_between("rate_limit.per", r->per, 0, RATE_CORRELATION, note)) ||
        (err = check_between("rate_limit.count", r->count, 1, LIMIT_RATE_COUNT, note)))
        return err;
    return check_between("rate_limit.window_ms", r->window_ms, 1, LIMIT_RATE_WINDOW_MS, note);
}

int policy_check(const struct queue_policy *p, struct err_note *note)
{
    int err;
    if ((err = check_between("lease_ms", p->lease_ms, LIMIT_LEASE_MS_MIN, LIMIT_LEASE_MS, note)) ||
        (err = check_between("max_attempts", p->max_attempts, 1, LIMIT_ATTEMPTS, note)) ||
        (err = check_between("max_crashes", p->max_crashes, 0, LIMIT_ATTEMPTS, note)) ||
        (err = backoff_check(&p->backoff, note)) ||
        (err = check_between("lease_end", p->lease_end, 0, LEASE_END_FAIL, note)) ||
        (err = check_between("unique_mode", p->unique_mode, UNIQUE_REJECT, UNIQUE_REPLACE, note)) ||
        (err = check_between("unique_scope", p->unique_scope, 0, UNIQUE_NONE, note)) ||
        (err = check_between("durability", p->durability, 0, DURABILITY_RELAXED, note)) ||
        (err = check_between("capacity", p->capacity, 1, UINT64_MAX, note)) ||
        (err = check_between("payload_max", p->payload_max, 0, LIMIT_PAYLOAD_BYTES, note)) ||
        (err = check_not_negative("keep_done_ms", p->keep_done_ms, note)) ||
        (err = check_not_negative("keep_dead_ms", p->keep_dead_ms, note)) ||
        (err = rate_check(&p->rate_limit, note)))
        return err;
    return 0;
}

int options_check(const struct job_options *o, struct err_note *note)
{
    int err;
    if ((err = check_between("max_attempts", o->max_attempts, 0, LIMIT_ATTEMPTS, note)) ||
        (err = check_between("max_crashes", o->max_crashes, 0, LIMIT_ATTEMPTS, note)))
        return err;
    if (o->lease_ms != 0 &&
        (err = check_between("lease_ms", o->lease_ms, LIMIT_LEASE_MS_MIN, LIMIT_LEASE_MS, note)))
        return err;
    return o->has_backoff ? backoff_check(&o->backoff, note) : 0;
}

bool options_empty(const struct job_options *o)
{
    return o->max_attempts == 0 && o->max_crashes == 0 && o->lease_ms == 0 && !o->has_backoff;
}

/* ---- encoding ---- */

#define BACKOFF_BYTES_MAX (3 * WIRE_U8 + (2 + LIMIT_BACKOFF_STEPS) * WIRE_U32 + WIRE_U8)
_Static_assert(BACKOFF_BYTES_MAX + 8 * WIRE_U32 + 7 * WIRE_U64 + 10 * WIRE_U8 <= POLICY_BYTES_MAX,
               "POLICY_BYTES_MAX holds the largest policy");

static uint8_t *backoff_encode(const struct backoff *b, uint8_t *at)
{
    at = put_u8(at, b->kind);
    at = put_u8(at, b->jitter_percent);
    at = put_varint(at, b->base_ms);
    at = put_varint(at, b->max_ms);
    at = put_u8(at, b->step_count);
    for (size_t i = 0; i < b->step_count; i++)
        at = put_varint(at, b->step_ms[i]);
    return at;
}

static void backoff_decode(struct wire_in *in, struct backoff *b)
{
    *b = (struct backoff){0};
    b->kind = take_u8(in);
    b->jitter_percent = take_u8(in);
    b->base_ms = take_u32(in);
    b->max_ms = take_u32(in);
    b->step_count = (uint8_t)take_upto(in, LIMIT_BACKOFF_STEPS);
    for (size_t i = 0; i < b->step_count; i++)
        b->step_ms[i] = take_u32(in);
}

int policy_encode(const struct queue_policy *p, struct buf *out)
{
    CHECK(policy_check(p, NULL) == 0);
    int err = buf_reserve(out, POLICY_BYTES_MAX);
    if (err < 0)
        return err;
    uint8_t *start = (uint8_t *)out->data + out->len;
    uint8_t version = p->ranked || p->rate_limit.count ? POLICY_VERSION : POLICY_PLAIN;
    uint8_t *at = put_u8(start, version);
    at = put_varint(at, p->lease_ms);
    at = put_varint(at, p->max_attempts);
    at = put_varint(at, p->max_crashes);
    at = backoff_encode(&p->backoff, at);
    at = put_u8(at, p->lease_end);
    at = put_u8(at, p->unique_mode);
    at = put_u8(at, p->unique_scope);
    at = put_u8(at, p->durability);
    at = put_u8(at, p->require_token);
    at = put_u8(at, p->refuse_new);
    at = put_zigzag(at, p->priority);
    at = put_varint(at, p->capacity);
    at = put_varint(at, p->payload_max);
    at = put_varint(at, p->warn_depth);
    at = put_varint(at, (uint64_t)p->keep_done_ms);
    at = put_varint(at, p->keep_done);
    at = put_varint(at, (uint64_t)p->keep_dead_ms);
    at = put_varint(at, p->keep_dead);
    if (version > POLICY_PLAIN) {
        at = put_u8(at, p->ranked);
        at = put_u8(at, p->rate_limit.count > 0);
    }
    if (p->rate_limit.count) {
        at = put_u8(at, p->rate_limit.per);
        at = put_varint(at, p->rate_limit.count);
        at = put_varint(at, p->rate_limit.window_ms);
    }
    out->len += (size_t)(at - start);
    return 0;
}

int policy_decode(struct span encoded, struct queue_policy *ret)
{
    struct wire_in in = {encoded, false};
    struct queue_policy p = {0};
    uint8_t version = take_u8(&in);
    if (version != POLICY_PLAIN && version != POLICY_VERSION)
        return -ERR_CORRUPT;
    p.lease_ms = take_u32(&in);
    p.max_attempts = take_u16(&in);
    p.max_crashes = take_u16(&in);
    backoff_decode(&in, &p.backoff);
    p.lease_end = take_u8(&in);
    p.unique_mode = take_u8(&in);
    p.unique_scope = take_u8(&in);
    p.durability = take_u8(&in);
    p.require_token = take_bool(&in);
    p.refuse_new = take_bool(&in);
    p.priority = take_zigzag(&in);
    p.capacity = take_varint(&in);
    p.payload_max = take_u32(&in);
    p.warn_depth = take_u32(&in);
    p.keep_done_ms = (int64_t)take_upto(&in, INT64_MAX);
    p.keep_done = take_varint(&in);
    p.keep_dead_ms = (int64_t)take_upto(&in, INT64_MAX);
    p.keep_dead = take_varint(&in);
    p.ranked = version > POLICY_PLAIN && take_bool(&in);
    if (version > POLICY_PLAIN && take_bool(&in)) {
        p.rate_limit.per = take_u8(&in);
        p.rate_limit.count = take_u32(&in);
        p.rate_limit.window_ms = take_u32(&in);
        if (p.rate_limit.count == 0)
            return -ERR_CORRUPT;
    }
    if (version > POLICY_PLAIN && !p.ranked && p.rate_limit.count == 0)
        return -ERR_CORRUPT; /* there is one way to write a policy */
    if (!wire_ended(&in) || policy_check(&p, NULL) < 0)
        return -ERR_CORRUPT;
    *ret = p;
    return 0;
}

int options_encode(const struct job_options *o, struct buf *out)
{
    CHECK(options_check(o, NULL) == 0);
    int err = buf_reserve(out, POLICY_BYTES_MAX);
    if (err < 0)
        return err;
    uint8_t *start = (uint8_t *)out->data + out->len;
    uint8_t *at = put_u8(start, OPTIONS_VERSION);
    at = put_varint(at, o->max_attempts);
    at = put_varint(at, o->max_crashes);
    at = put_varint(at, o->lease_ms);
    at = put_u8(at, o->has_backoff);
    if (o->has_backoff)
        at = backoff_encode(&o->backoff, at);
    out->len += (size_t)(at - start);
    return 0;
}

int options_decode(struct span encoded, struct job_options *ret)
{
    struct wire_in in = {encoded, false};
    struct job_options o = {0};
    if (take_u8(&in) != OPTIONS_VERSION)
        return -ERR_CORRUPT;
    o.max_attempts = take_u16(&in);
    o.max_crashes = take_u16(&in);
    o.lease_ms = take_u32(&in);
    o.has_backoff = take_bool(&in);
    if (o.has_backoff)
        backoff_decode(&in, &o.backoff);
    if (!wire_ended(&in) || options_check(&o, NULL) < 0)
        return -ERR_CORRUPT;
    *ret = o;
    return 0;
}

/* ---- back-off ---- */

static int64_t list_wait_ms(const struct backoff *b, uint32_t failure)
{
    if (b->step_count == 0)
        return 0;
    uint32_t step = failure < b->step_count ? failure : b->step_count;
    return b->step_ms[step - 1];
}

static int64_t doubled_wait_ms(const struct backoff *b, uint32_t failure)
{
    uint32_t doublings = failure - 1;
    if (doublings >= 32 || (uint64_t)b->base_ms << doublings > b->max_ms)
        return b->base_ms == 0 ? 0 : b->max_ms;
    return (int64_t)b->base_ms << doublings;
}

int64_t backoff_wait_ms(const struct backoff *b, uint32_t failure, struct random *random)
{
    if (failure == 0)
        failure = 1;
    if (b->kind == BACKOFF_LIST)
        return list_wait_ms(b, failure);
    int64_t wait = doubled_wait_ms(b, failure);
    int64_t spread = wait * b->jitter_percent / 100;
    if (spread > 0)
        wait += random_between(random, -spread, spread);
    return wait > 0 ? wait : 0;
}
