/* SPDX-License-Identifier: Apache-2.0 */
/* Policies: defaults, checks, the stored form, and the back-off.
 *
 * A stored policy is a version, the number of members, and for each member its tag and its value.
 * Members are in the order of the table, and those that are zero are left out, so that a policy has
 * one stored form. A new member therefore needs no new version. */
#include "core/queues/policy.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "core/queues/policy_fields.h"
#include "core/records/wire.h"

#define POLICY_VERSION 3
#define OPTIONS_VERSION 1

/* NOLINTNEXTLINE(bugprone-macro-parentheses): a default may be a list in braces */
#define DEFAULT(tag, name, kind, def, min, max, value, doc, y) .name = def,

void policy_default(struct queue_policy *p)
{
    *p = (struct queue_policy){POLICY_TABLE(DEFAULT, )};
}

/* ---- checks ---- */

static int check_between(const char *field, int64_t value, int64_t min, int64_t max,
                         struct err_note *note)
{
    if (value >= min && value <= max)
        return 0;
    if (max == INT64_MAX)
        return err_note_set(note, -ERR_INVALID, "%s is %" PRId64 "; it must be %" PRId64 " or more",
                            field, value, min);
    return err_note_set(note, -ERR_INVALID,
                        "%s is %" PRId64 "; it must be from %" PRId64 " to %" PRId64, field, value,
                        min, max);
}

#define CHECK_PART(name, kind, min, max, value, doc, y)                                            \
    if ((err = check_between("backoff." #name, b->name, min, max, note)))                          \
        return err;

static int backoff_check(const struct backoff *b, struct err_note *note)
{
    int err;
    if ((err = check_between("backoff.kind", b->kind, 0, BACKOFF_LIST, note)) ||
        (err = check_between("the number of back-off steps", b->step_count, 0, LIMIT_BACKOFF_STEPS,
                             note)))
        return err;
    BACKOFF_TABLE(CHECK_PART, )
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

static int rate_check(const struct policy_field *f, const struct rate_limit *r,
                      struct err_note *note)
{
    const struct {
        const char *name;
        int64_t value, min, max;
    } parts[] = {{"per", r->per, 0, policy_word_count(f->value) - 1},
                 {"count", r->count, 1, LIMIT_RATE_COUNT},
                 {"window_ms", r->window_ms, 1, LIMIT_RATE_WINDOW_MS}};
    char name[64];
    int err = 0;
    for (size_t i = 0; err == 0 && r->count > 0 && i < sizeof parts / sizeof *parts; i++) {
        snprintf(name, sizeof name, "%s.%s", f->name, parts[i].name);
        err = check_between(name, parts[i].value, parts[i].min, parts[i].max, note);
    }
    return err;
}

static int field_check(const struct policy_field *f, const struct queue_policy *p,
                       struct err_note *note)
{
    if (f->kind == POLICY_PRIORITY)
        return 0; /* any value is allowed */
    if (f->kind == POLICY_BACKOFF)
        return backoff_check(policy_backoff(f, p), note);
    if (f->kind == POLICY_RATE)
        return rate_check(f, policy_rate(f, p), note);
    return check_between(f->name, policy_number(f, p), f->min, f->max, note);
}

int policy_check(const struct queue_policy *p, struct err_note *note)
{
    int err = 0;
    for (size_t i = 0; err == 0 && i < POLICY_FIELDS; i++)
        err = field_check(&policy_fields[i], p, note);
    if (!err && p->by_due && p->ageing_ms > 0)
        return err_note_set(note, -ERR_INVALID,
                            "by_due and ageing_ms each set the order of jobs by their age; set "
                            "only one of them");
    return err;
}

/* 0 stands for the queue's value. */
static int own_check(size_t index, int64_t value, struct err_note *note)
{
    const struct policy_field *f = &policy_fields[index];
    return value == 0 ? 0 : check_between(f->name, value, f->min, f->max, note);
}

int options_check(const struct job_options *o, struct err_note *note)
{
    int err;
    if ((err = own_check(POLICY_INDEX_max_attempts, o->max_attempts, note)) ||
        (err = own_check(POLICY_INDEX_max_crashes, o->max_crashes, note)) ||
        (err = own_check(POLICY_INDEX_lease_ms, o->lease_ms, note)) ||
        (err = own_check(POLICY_INDEX_timeout_ms, o->timeout_ms, note)))
        return err;
    return o->has_backoff ? backoff_check(&o->backoff, note) : 0;
}

bool options_empty(const struct job_options *o)
{
    return o->max_attempts == 0 && o->max_crashes == 0 && o->lease_ms == 0 && o->timeout_ms == 0 &&
           !o->has_backoff;
}

/* ---- encoding ---- */

#define BACKOFF_BYTES_MAX (3 * WIRE_U8 + (2 + LIMIT_BACKOFF_STEPS) * WIRE_U32 + WIRE_U8)
/* NOLINTBEGIN(bugprone-macro-parentheses): the table puts one behind the other */
#define MEMBER_BYTES(tag, name, kind, def, min, max, value, doc, y)                                \
    +WIRE_U8 + (POLICY_##kind == POLICY_BACKOFF ? BACKOFF_BYTES_MAX                                \
                : POLICY_##kind == POLICY_RATE  ? WIRE_U8 + 2 * WIRE_U32                           \
                                                : WIRE_U64)
/* NOLINTEND(bugprone-macro-parentheses) */
_Static_assert(2 * WIRE_U8 POLICY_TABLE(MEMBER_BYTES, ) <= POLICY_BYTES_MAX,
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

static uint8_t *rate_encode(const struct rate_limit *r, uint8_t *at)
{
    at = put_u8(at, r->per);
    at = put_varint(at, r->count);
    return put_varint(at, r->window_ms);
}

static struct rate_limit rate_decode(struct wire_in *in)
{
    struct rate_limit r = {.per = take_u8(in)};
    r.count = take_u32(in);
    r.window_ms = take_u32(in);
    return r;
}

static bool field_is_set(const struct policy_field *f, const struct queue_policy *p)
{
    if (f->kind == POLICY_RATE)
        return policy_rate(f, p)->count > 0;
    if (f->kind != POLICY_BACKOFF)
        return policy_number(f, p) != 0;
    const struct backoff *b = policy_backoff(f, p);
    return b->kind || b->jitter_percent || b->base_ms || b->max_ms || b->step_count;
}

static uint8_t *field_encode(const struct policy_field *f, const struct queue_policy *p,
                             uint8_t *at)
{
    at = put_u8(at, f->tag);
    if (f->kind == POLICY_BACKOFF)
        return backoff_encode(policy_backoff(f, p), at);
    if (f->kind == POLICY_RATE)
        return rate_encode(policy_rate(f, p), at);
    if (f->kind == POLICY_PRIORITY)
        return put_zigzag(at, policy_number(f, p));
    return put_varint(at, (uint64_t)policy_number(f, p));
}

static void field_decode(const struct policy_field *f, struct wire_in *in, struct queue_policy *p)
{
    if (f->kind == POLICY_BACKOFF)
        backoff_decode(in, (struct backoff *)(void *)((char *)p + f->offset));
    else if (f->kind == POLICY_RATE)
        policy_rate_set(f, p, rate_decode(in));
    else if (f->kind == POLICY_PRIORITY)
        policy_number_set(f, p, take_zigzag(in));
    else
        policy_number_set(f, p, (int64_t)take_upto(in, (uint64_t)f->max));
}

size_t policy_bytes(const struct queue_policy *p, uint8_t out[POLICY_BYTES_MAX])
{
    CHECK(policy_check(p, NULL) == 0);
    uint8_t *at = put_u8(out, POLICY_VERSION), *count = at++;
    *count = 0;
    for (size_t i = 0; i < POLICY_FIELDS; i++) {
        if (!field_is_set(&policy_fields[i], p))
            continue;
        at = field_encode(&policy_fields[i], p, at);
        ++*count;
    }
    return (size_t)(at - out);
}

int policy_encode(const struct queue_policy *p, struct buf *out)
{
    int err = buf_reserve(out, POLICY_BYTES_MAX);
    if (err == 0)
        out->len += policy_bytes(p, (uint8_t *)out->data + out->len);
    return err;
}

int policy_decode(struct span encoded, struct queue_policy *ret)
{
    struct wire_in in = {encoded, false};
    struct queue_policy p = {0};
    const struct policy_field *f = policy_fields, *end = policy_fields + POLICY_FIELDS;
    if (take_u8(&in) != POLICY_VERSION)
        return -ERR_CORRUPT;
    for (uint8_t left = take_u8(&in); left > 0 && !in.bad; left--, f++) {
        uint8_t tag = take_u8(&in);
        while (f < end && f->tag != tag)
            f++;
        if (f == end)
            return -ERR_CORRUPT;
        field_decode(f, &in, &p);
        if (!field_is_set(f, &p))
            return -ERR_CORRUPT; /* there is only one way to write a policy */
    }
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
    at = put_varint(at, o->timeout_ms);
    at = put_u8(at, o->has_backoff);
    if (o->has_backoff)
        at = backoff_encode(&o->backoff, at);
    out->len += (size_t)(at - start);
    return 0;
}

int options_decode(struct span encoded, struct job_options *ret)
{
    struct wire_in in = {encoded, false};
    if (take_u8(&in) != OPTIONS_VERSION)
        return -ERR_CORRUPT;
    ret->max_attempts = take_u16(&in);
    ret->max_crashes = take_u16(&in);
    ret->lease_ms = take_u32(&in);
    ret->timeout_ms = take_u32(&in);
    ret->has_backoff = take_bool(&in);
    ret->backoff = (struct backoff){0};
    if (ret->has_backoff)
        backoff_decode(&in, &ret->backoff);
    return wire_ended(&in) && options_check(ret, NULL) == 0 ? 0 : -ERR_CORRUPT;
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
