/* SPDX-License-Identifier: Apache-2.0 */
/* The envelope of a record: kind, body length, body. The bodies are in record_job.c,
 * record_report.c, record_dependency.c, record_store.c, record_kv.c, record_notice.c and
 * record_schedule.c. */
#include "core/records/record.h"

#include "base/check.h"
#include "core/records/record_impl.h"

#define TYPE_AT(KIND, name) [REC_##KIND] = &record_##name,
static const struct record_type *const record_types[] = {RECORD_KINDS(TYPE_AT)};

#define TYPE_COUNT (sizeof record_types / sizeof record_types[0])
#define ENVELOPE_MAX (WIRE_U8 + WIRE_LENGTH)

static const struct record_type *type_of(unsigned kind)
{
    return kind < TYPE_COUNT ? record_types[kind] : NULL;
}

const char *record_name(enum record_kind kind)
{
    const struct record_type *type = type_of(kind);
    return type ? type->name : NULL;
}

size_t record_bytes_max(const struct record *r)
{
    const struct record_type *type = type_of(r->kind);
    CHECK(type);
    return ENVELOPE_MAX + type->body_max(r);
}

/* A record that cannot be read back would make the whole store unreadable: tests look at each one.
 */
static void check_readable(const struct record_type *type, const uint8_t *at, size_t len)
{
#ifdef HF_TEST_HOOKS
    struct span in = span_of(at, len);
    struct record again;
    if (record_decode(&in, &again) < 0 || in.len != 0)
        check_failed(type->name, __FILE__, __LINE__);
#else
    (void)type;
    (void)at;
    (void)len;
#endif
}

int record_encode(const struct record *r, struct buf *out)
{
    const struct record_type *type = type_of(r->kind);
    CHECK(type);
    if (!type->fits(r))
        check_failed(type->name, __FILE__, __LINE__);
    size_t body_max = type->body_max(r);
    int err = buf_reserve(out, ENVELOPE_MAX + body_max);
    if (err < 0)
        return err;

    /* The body goes where it belongs if its length is as wide as the bound's; it mostly is. */
    uint8_t *start = (uint8_t *)out->data + out->len;
    uint8_t *body = start + 1 + varint_bytes(body_max);
    size_t body_bytes = (size_t)(type->encode(r, body) - body);
    CHECK(body_bytes <= body_max);
    *start = (uint8_t)r->kind;
    uint8_t *at = put_varint(start + 1, body_bytes);
    if (at != body)
        memmove(at, body, body_bytes);
    size_t bytes = (size_t)(at - start) + body_bytes;
    out->len += bytes;
    check_readable(type, start, bytes);
    return 0;
}

int record_decode(struct span *in, struct record *ret)
{
    struct wire_in outer = {*in, false};
    uint8_t kind = 0;
    if (span_take_u8(&outer.rest, &kind) < 0)
        return -ERR_CORRUPT;
    const struct record_type *type = type_of(kind);
    if (!type)
        return kind == 0 ? -ERR_CORRUPT : -ERR_VERSION;
    struct wire_in body = {take_span(&outer), false};
    if (outer.bad)
        return -ERR_CORRUPT;
    ret->kind = kind;
    type->decode(&body, ret);
    if (!wire_ended(&body) || !type->fits(ret) || (type->readable && !type->readable(ret)))
        return -ERR_CORRUPT;
    *in = outer.rest;
    return 0;
}
