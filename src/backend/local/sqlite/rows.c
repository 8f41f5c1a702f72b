/* SPDX-License-Identifier: Apache-2.0 */
/* Converts rows of jobs and queues to structs. Values are checked against their rules first. */
#include "backend/local/sqlite/rules.h"
#include "core/limits.h"
#include "core/validate.h"

/* When the newest attempt began, as far as the row says. */
static int64_t started_at(const int64_t v[JOB_COLUMN_COUNT])
{
    if (v[JOB_STATE] == STATE_RUNNING)
        return v[JOB_SINCE];
    bool known = v[JOB_STATE] == STATE_DONE && v[JOB_LEASE_MS] != 0;
    return known ? v[JOB_SINCE] - (v[JOB_LEASE_MS] >> 1) : 0;
}

int job_from(const int64_t v[JOB_COLUMN_COUNT], struct span worker, struct stored_job *ret)
{
    bool done = v[JOB_STATE] == STATE_DONE;
    int64_t marks = v[JOB_MARKS], counts = v[JOB_COUNTS], payload = v[JOB_PAYLOAD];
    if (job_bad_number(v) >= 0 ||
        (worker.len > 0 && validate_text("worker", worker, LIMIT_WORKER_BYTES, NULL) != 0)) {
        *ret = (struct stored_job){.job = {.seq = (uint64_t)v[JOB_SEQ]}};
        return -ERR_CORRUPT;
    }
    *ret = (struct stored_job){
        .job = {.seq = (uint64_t)v[JOB_SEQ],
                .id_hi = (uint64_t)v[JOB_ID_HI],
                .priority = v[JOB_PRIORITY],
                .run_at = {v[JOB_RUN_AT]},
                .since = {v[JOB_SINCE]},
                .queue = (uint32_t)v[JOB_QUEUE],
                .payload_bytes = (uint32_t)(payload >> 2),
                .failures = (uint16_t)counts,
                .crashes = (uint16_t)(counts >> 16),
                .generation = (uint32_t)(counts >> 32),
                .state = (uint8_t)v[JOB_STATE],
                .reason = (uint8_t)(marks & 15),
                .payload_kind = (uint8_t)(payload & 3),
                .flags = (uint8_t)(marks >> 4)},
        .token = {.counter = (uint64_t)v[JOB_TOKEN_COUNTER], .epoch = (uint32_t)v[JOB_TOKEN_EPOCH]},
        .lease_ms = done ? 0 : (uint32_t)v[JOB_LEASE_MS],
        .worker = worker,
        .started_at = {started_at(v)},
    };
    if (v[JOB_STATE] == STATE_RUNNING)
        ret->limits = (struct lease_limits){
            .timeout_ms = (uint32_t)(v[JOB_LIMITS] >> LIMITS_TIMEOUT_SHIFT),
            .cancel_grace_ms = (uint32_t)v[JOB_LIMITS] & ((1u << LIMITS_TIMEOUT_SHIFT) - 1),
            .cancel_at = {v[JOB_CANCEL_AT]}};
    return 0;
}

int row_job(sqlite3_stmt *st, int first, struct stored_job *ret)
{
    int64_t v[JOB_COLUMN_COUNT];
    for (int i = 0; i < JOB_COLUMN_COUNT; i++)
        v[i] = i == JOB_WORKER ? 0 : sqlite3_column_int64(st, first + i);
    return job_from(v, column_span(st, first + JOB_WORKER), ret);
}

int row_extra(sqlite3_stmt *st, int first, struct job_extra *ret)
{
    *ret = (struct job_extra){
        .expires_at = {sqlite3_column_int64(st, first + JOB_TEXTS)},
        .options = column_span(st, first + JOB_TEXTS + 1),
    };
    for (int i = 0; i < JOB_TEXTS; i++)
        *job_text_at(ret, (size_t)i) = column_span(st, first + i);
    return row_bad_among(TABLE_EXTRA, st, first, 1, EXTRA_COLUMN_COUNT) < 0 ? 0 : -ERR_CORRUPT;
}

struct rec_queue_put row_queue(sqlite3_stmt *st, bool *ret_gone)
{
    *ret_gone = sqlite3_column_int64(st, 6) != 0;
    return (struct rec_queue_put){
        .queue = (uint32_t)sqlite3_column_int64(st, 0),
        .name = column_span(st, 1),
        .generation = (uint32_t)sqlite3_column_int64(st, 2),
        .created_at = {sqlite3_column_int64(st, 3)},
        .updated_at = {sqlite3_column_int64(st, 4)},
        .paused_until = {sqlite3_column_int64(st, 5)},
        .policy = column_span(st, 7),
        .owner = column_span(st, 8),
        .note = column_span(st, 9),
        .attributes = column_span(st, 10),
    };
}
