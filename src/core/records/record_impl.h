/* SPDX-License-Identifier: Apache-2.0 */
/* One descriptor per kind of record: for record.c, which frames them, and record_*.c, which fill
 * them in. */
#pragma once

#include "core/records/record.h"
#include "core/records/wire.h"

struct record_type {
    const char *name;
    size_t (*body_max)(const struct record *r); /* the most bytes that the body can take */
    uint8_t *(*encode)(const struct record *r, uint8_t *at); /* gives the end of what it wrote */
    void (*decode)(struct wire_in *in, struct record *ret);
    /* Whether numbers, enums and lengths are such as may be on disk. Decoding refuses what is not,
     * encoding asserts it: what was written must be readable. */
    bool (*fits)(const struct record *r);
    /* What is checked only when it is read, such as a list that its writer built with
     * record_seq_append; NULL = nothing. */
    bool (*readable)(const struct record *r);
};

/* The functions of a body whose members follow each other, at MEMBER of struct record. */
#define RECORD_BODY(body, member, LIST)                                                            \
    static size_t body##_body_max(const struct record *r)                                          \
    {                                                                                              \
        const __typeof__(r->member) *m = &r->member;                                               \
        (void)m;                                                                                   \
        return 0 LIST(WIRE_MAX);                                                                   \
    }                                                                                              \
    static uint8_t *body##_encode(const struct record *r, uint8_t *at)                             \
    {                                                                                              \
        const __typeof__(r->member) *m = &r->member;                                               \
        LIST(WIRE_PUT)                                                                             \
        return at;                                                                                 \
    }                                                                                              \
    static void body##_decode(struct wire_in *in, struct record *ret)                              \
    {                                                                                              \
        __typeof__(ret->member) *m = &ret->member;                                                 \
        *m = (__typeof__(ret->member)){0};                                                         \
        LIST(WIRE_TAKE)                                                                            \
    }

#define RECORD_TYPE(kind, body, fits_fn, readable_fn)                                              \
    const struct record_type record_##kind = {                                                     \
        .name = #kind,                                                                             \
        .body_max = body##_body_max,                                                               \
        .encode = body##_encode,                                                                   \
        .decode = body##_decode,                                                                   \
        .fits = (fits_fn),                                                                         \
        .readable = (readable_fn),                                                                 \
    }

/* A kind whose body, member and fits have its name. */
#define RECORD(name, LIST)                                                                         \
    RECORD_BODY(name, name, LIST)                                                                  \
    RECORD_TYPE(name, name, name##_fits, NULL)

/* Whether these are COUNT sequences, as record_seq_append writes them. */
bool record_seqs_readable(struct span list, uint64_t count);

#define RECORD_KINDS(K)                                                                            \
    K(EPOCH, epoch)                                                                                \
    K(SEQ_BLOCK, seq_block)                                                                        \
    K(QUEUE_PUT, queue_put)                                                                        \
    K(QUEUE_GONE, queue_gone)                                                                      \
    K(QUEUE_END, queue_end)                                                                        \
    K(PURGED, purged)                                                                              \
    K(COUNTERS, counters)                                                                          \
    K(BULK_BEGIN, bulk_begin)                                                                      \
    K(BULK_STEP, bulk_step)                                                                        \
    K(BULK_END, bulk_end)                                                                          \
    K(JOB_NEW, job_new)                                                                            \
    K(JOB_READY, job_ready)                                                                        \
    K(JOB_CLAIMED, job_claimed)                                                                    \
    K(JOB_EXTENDED, job_extended)                                                                  \
    K(JOB_BACK, job_back)                                                                          \
    K(JOB_DONE, job_done)                                                                          \
    K(JOB_DEAD, job_dead)                                                                          \
    K(JOB_CANCELLED, job_cancelled)                                                                \
    K(JOB_REQUEUED, job_requeued)                                                                  \
    K(JOB_PATCHED, job_patched)                                                                    \
    K(JOBS_GONE, jobs_gone)                                                                        \
    K(JOB_NOTED, job_noted)                                                                        \
    K(JOB_PRIORITY, job_priority)                                                                  \
    K(JOB_ATTEMPT, job_attempt)                                                                    \
    K(JOB_CANCEL_REQUESTED, job_cancel_requested)                                                  \
    K(KEY_NEW, key_new)                                                                            \
    K(KEYS_GONE, keys_gone)                                                                        \
    K(KV_SET, kv_set)                                                                              \
    K(KV_GONE, kv_gone)                                                                            \
    K(KV_FROM_JOB, kv_from_job)                                                                    \
    K(KV_KEYS, kv_keys)                                                                            \
    K(ALERT_PUT, alert_put)                                                                        \
    K(ALERT_GONE, alert_gone)                                                                      \
    K(ALERT_EDGE, alert_edge)                                                                      \
    K(NOTICE_NEW, notice_new)                                                                      \
    K(NOTICE_TRIED, notice_tried)                                                                  \
    K(NOTICE_GONE, notice_gone)                                                                    \
    K(BREAKER_PUT, breaker_put)                                                                    \
    K(BREAKER_GONE, breaker_gone)                                                                  \
    K(SCHEDULE_PUT, schedule_put)                                                                  \
    K(SCHEDULE_GONE, schedule_gone)                                                                \
    K(SCHEDULE_FIRED, schedule_fired)                                                              \
    K(SCHEDULE_PASSED, schedule_passed)                                                            \
    K(SCHEDULE_FAILED, schedule_failed)                                                            \
    K(JOB_LINKED, job_linked)                                                                      \
    K(JOB_PROGRESS, job_progress)                                                                  \
    K(JOB_LOGGED, job_logged)                                                                      \
    K(JOB_STEPS, job_steps)                                                                        \
    K(JOB_UNBLOCKED, job_unblocked)                                                                \
    K(DEPENDENT_PUT, dependent_put)                                                                \
    K(DEPENDENT_GONE, dependent_gone)                                                              \
    K(DEPENDENCIES_NEW, dependencies_new)                                                          \
    K(DEPENDENCY_END, dependency_end)                                                              \
    K(PARENT_ENDED, parent_ended)

#define TYPE_EXTERN(KIND, name) extern const struct record_type record_##name;
RECORD_KINDS(TYPE_EXTERN)
