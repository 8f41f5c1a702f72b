/* SPDX-License-Identifier: Apache-2.0 */
/* One descriptor per kind of record: for record.c, which frames them, and record_*.c, which fill
 * them in. */
#pragma once

#include "core/records/record.h"
#include "core/records/wire.h"

struct record_type {
    const char *name;
    size_t body_max;                              /* bytes of the body, less those of its spans */
    size_t (*span_bytes)(const struct record *r); /* those of its spans; NULL = it has none */
    uint8_t *(*encode)(const struct record *r, uint8_t *at); /* gives the end of what it wrote */
    void (*decode)(struct wire_in *in, struct record *ret);
    /* Whether numbers, enums and lengths are such as may be on disk. Decoding refuses what is not,
     * encoding asserts it: what was written must be readable. */
    bool (*fits)(const struct record *r);
};

extern const struct record_type record_epoch, record_seq_block;
extern const struct record_type record_queue_put, record_queue_gone, record_queue_end;
extern const struct record_type record_purged, record_counters;
extern const struct record_type record_bulk_begin, record_bulk_step, record_bulk_end;
extern const struct record_type record_key_new, record_keys_gone;
extern const struct record_type record_kv_set, record_kv_gone;
extern const struct record_type record_kv_from_job, record_kv_keys;

extern const struct record_type record_job_new, record_job_ready, record_job_claimed;
extern const struct record_type record_job_extended, record_job_back, record_job_done;
extern const struct record_type record_job_dead, record_job_cancelled, record_job_requeued;
extern const struct record_type record_job_cancel_requested;
extern const struct record_type record_job_patched, record_jobs_gone;
extern const struct record_type record_job_noted, record_job_priority, record_job_attempt;

extern const struct record_type record_job_progress, record_job_logged;

extern const struct record_type record_job_unblocked, record_dependent_put, record_dependent_gone;
extern const struct record_type record_dependencies_new, record_dependency_end;
extern const struct record_type record_parent_ended;

extern const struct record_type record_alert_put, record_alert_gone, record_alert_edge;
extern const struct record_type record_notice_new, record_notice_tried, record_notice_gone;
extern const struct record_type record_breaker_put, record_breaker_gone;

extern const struct record_type record_schedule_put, record_schedule_gone;
extern const struct record_type record_schedule_fired, record_schedule_passed;
extern const struct record_type record_schedule_failed, record_job_linked;
