/* SPDX-License-Identifier: Apache-2.0 */
/* The envelope of a record: kind, body length, body. The bodies are in record_job.c,
 * record_report.c, record_dependency.c, record_store.c, record_kv.c, record_notice.c and
 * record_schedule.c. */
#include "core/records/record.h"

#include "base/check.h"
#include "core/records/record_impl.h"

static const struct record_type *const record_types[] = {
    [REC_EPOCH] = &record_epoch,
    [REC_SEQ_BLOCK] = &record_seq_block,
    [REC_QUEUE_PUT] = &record_queue_put,
    [REC_QUEUE_GONE] = &record_queue_gone,
    [REC_QUEUE_END] = &record_queue_end,
    [REC_PURGED] = &record_purged,
    [REC_COUNTERS] = &record_counters,
    [REC_BULK_BEGIN] = &record_bulk_begin,
    [REC_BULK_STEP] = &record_bulk_step,
    [REC_BULK_END] = &record_bulk_end,
    [REC_JOB_NEW] = &record_job_new,
    [REC_JOB_READY] = &record_job_ready,
    [REC_JOB_CLAIMED] = &record_job_claimed,
    [REC_JOB_EXTENDED] = &record_job_extended,
    [REC_JOB_BACK] = &record_job_back,
    [REC_JOB_DONE] = &record_job_done,
    [REC_JOB_DEAD] = &record_job_dead,
    [REC_JOB_CANCELLED] = &record_job_cancelled,
    [REC_JOB_REQUEUED] = &record_job_requeued,
    [REC_JOB_PATCHED] = &record_job_patched,
    [REC_JOBS_GONE] = &record_jobs_gone,
    [REC_JOB_NOTED] = &record_job_noted,
    [REC_JOB_PRIORITY] = &record_job_priority,
    [REC_JOB_ATTEMPT] = &record_job_attempt,
    [REC_JOB_CANCEL_REQUESTED] = &record_job_cancel_requested,
    [REC_KEY_NEW] = &record_key_new,
    [REC_KEYS_GONE] = &record_keys_gone,
    [REC_KV_SET] = &record_kv_set,
    [REC_KV_GONE] = &record_kv_gone,
    [REC_KV_FROM_JOB] = &record_kv_from_job,
    [REC_KV_KEYS] = &record_kv_keys,
    [REC_ALERT_PUT] = &record_alert_put,
    [REC_ALERT_GONE] = &record_alert_gone,
    [REC_ALERT_EDGE] = &record_alert_edge,
    [REC_NOTICE_NEW] = &record_notice_new,
    [REC_NOTICE_TRIED] = &record_notice_tried,
    [REC_NOTICE_GONE] = &record_notice_gone,
    [REC_BREAKER_PUT] = &record_breaker_put,
    [REC_BREAKER_GONE] = &record_breaker_gone,
    [REC_SCHEDULE_PUT] = &record_schedule_put,
    [REC_SCHEDULE_GONE] = &record_schedule_gone,
    [REC_SCHEDULE_FIRED] = &record_schedule_fired,
    [REC_SCHEDULE_PASSED] = &record_schedule_passed,
    [REC_SCHEDULE_FAILED] = &record_schedule_failed,
    [REC_JOB_LINKED] = &record_job_linked,
    [REC_JOB_PROGRESS] = &record_job_progress,
    [REC_JOB_LOGGED] = &record_job_logged,
    [REC_JOB_UNBLOCKED] = &record_job_unblocked,
    [REC_DEPENDENT_PUT] = &record_dependent_put,
    [REC_DEPENDENT_GONE] = &record_dependent_gone,
    [REC_DEPENDENCIES_NEW] = &record_dependencies_new,
    [REC_DEPENDENCY_END] = &record_dependency_end,
    [REC_PARENT_ENDED] = &record_parent_ended,
};

#define TYPE_COUNT (sizeof record_types / sizeof record_types[0])
#define ENVELOPE_MAX (WIRE_U8 + WIRE_LENGTH)

static const struct record_type *type_of(unsigned kind)
{
    return kind < TYPE_COUNT ? record_types[kind] : NULL;
}

static size_t body_bytes_max(const struct record_type *type, const struct record *r)
{
    return type->body_max + (type->span_bytes ? type->span_bytes(r) : 0);
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
    return ENVELOPE_MAX + body_bytes_max(type, r);
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
    size_t body_max = body_bytes_max(type, r);
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
    if (!wire_ended(&body) || !type->fits(ret))
        return -ERR_CORRUPT;
    *in = outer.rest;
    return 0;
}
