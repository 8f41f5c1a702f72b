/* SPDX-License-Identifier: Apache-2.0 */
/* Every name that a .sql or .lua file may use in place of a number. The values come from the enums
 * and macros of the C code, so that both sides always agree. */
#include "embed.h"

#include "backend/local/sqlite/bounds.h"
#include "backend/postgres/sql/inbox_limits.h"
#include "backend/postgres/sql/version.h"
#include "backend/redis/unit/row_fields.h"
#include "backend/shared/unit.h"
#include "core/alerts/alert.h"
#include "core/jobs/dependency.h"
#include "core/jobs/id.h"
#include "core/jobs/job.h"
#include "core/jobs/job_error.h"
#include "core/jobs/job_texts.h"
#include "core/jobs/state.h"
#include "core/limits.h"
#include "core/queues/policy.h"
#include "core/schedules/schedule.h"
#include "ops/op.h"

const struct embed_constant embed_constants[] = {
    /* the states of a job */
    {"scheduled", STATE_SCHEDULED},
    {"ready", STATE_READY},
    {"running", STATE_RUNNING},
    {"done", STATE_DONE},
    {"dead", STATE_DEAD},
    {"cancelled", STATE_CANCELLED},
    {"blocked", STATE_BLOCKED},
    /* how the parents of a dependent end */
    {"dependency_done", DEPENDENCY_END_DONE},
    {"dependency_dead", DEPENDENCY_END_DEAD},
    {"dependency_cancelled", DEPENDENCY_END_CANCELLED},
    {"dependency_removed", DEPENDENCY_END_REMOVED},
    /* bits of a job's flags */
    {"flag_bound", JOB_BOUND},
    {"flag_pending", JOB_PENDING},
    {"flag_slot", FLAG_SLOT},
    {"group_rows", GROUP_ROWS},
    {"limited_shown", LIMITED_SHOWN},
    /* outcomes of an attempt */
    {"attempt_running", ATTEMPT_RUNNING},
    {"attempt_done", ATTEMPT_DONE},
    {"log_bytes", LIMIT_LOG_BYTES},
    {"held_shown", WORKER_HELD_SHOWN},
    {"workers_max", WORKERS_MAX},
    {"attempt_failed", ATTEMPT_FAILED},
    {"attempt_lease_expired", ATTEMPT_LEASE_EXPIRED},
    {"attempt_timed_out", ATTEMPT_TIMED_OUT},
    {"attempt_released", ATTEMPT_RELEASED},
    {"attempt_released_with_error", ATTEMPT_RELEASED_WITH_ERROR},
    {"attempt_cancelled", ATTEMPT_CANCELLED},
    /* reasons of a state */
    {"reason_failed", REASON_FAILED},
    {"reason_rejected", REASON_REJECTED},
    {"reason_crash_loop", REASON_CRASH_LOOP},
    {"reason_lease_expired", REASON_LEASE_EXPIRED},
    {"reason_expired", REASON_EXPIRED},
    {"reason_cancelled", REASON_CANCELLED},
    {"reason_replaced", REASON_REPLACED},
    {"reason_released", REASON_RELEASED},
    {"reason_restarted", REASON_RESTARTED},
    {"reason_discarded", REASON_DISCARDED},
    {"reason_damaged", REASON_DAMAGED},
    {"reason_timed_out", REASON_TIMED_OUT},
    {"reason_dependency_failed", REASON_DEPENDENCY_FAILED},
    /* kinds of bodies and errors */
    {"payload_json", PAYLOAD_JSON},
    {"payload_bytes", PAYLOAD_BYTES},
    {"error_business", ERROR_BUSINESS},
    {"error_separator", JOB_ERROR_SEPARATOR_CODE},
    /* bits of the column marks (store_sqlite.h): the reason, and whether there is a row in extra */
    {"marks_reason", MARKS_REASON},
    {"marks_extra", JOB_HAS_EXTRA << MARKS_FLAGS_SHIFT},
    /* states of a notice */
    {"notice_pending", NOTICE_PENDING},
    {"notice_dead", NOTICE_DEAD},
    /* scopes of unique keys */
    {"unique_live", UNIQUE_LIVE},
    {"unique_kept", UNIQUE_KEPT},
    /* kinds of a schedule */
    {"schedule_queue", SCHEDULE_QUEUE},
    /* what to do about a unique key that is held */
    {"unique_reject", UNIQUE_REJECT},
    {"unique_return", UNIQUE_RETURN},
    {"unique_replace", UNIQUE_REPLACE},
    /* which ready jobs a page shows */
    {"page_all", PAGE_ALL},
    {"page_pending", PAGE_PENDING},
    /* limits */
    {"answer_bytes_max", LIMIT_ANSWER_BYTES},
    {"attempts_kept", LIMIT_ATTEMPTS_KEPT},
    {"notices_max", LIMIT_NOTICES},
    {"spool_seq_min", ID_SPOOL_BIT},
    {"queue_name_bytes", LIMIT_QUEUE_NAME_BYTES},
    {"key_bytes", LIMIT_KEY_BYTES},
    {"label_bytes", LIMIT_LABEL_BYTES},
    {"kind_bytes", LIMIT_KIND_BYTES},
    {"headers_bytes", LIMIT_HEADERS_BYTES},
    {"idempotency_key_bytes", LIMIT_IDEMPOTENCY_KEY_BYTES},
    {"payload_bytes_max", LIMIT_PAYLOAD_BYTES},
    {"attempts_max", LIMIT_ATTEMPTS},
    {"lease_ms_min", LIMIT_LEASE_MS_MIN},
    {"lease_ms_max", LIMIT_LEASE_MS},
    {"timeout_ms_max", LIMIT_TIMEOUT_MS},
    {"backoff_steps", LIMIT_BACKOFF_STEPS},
    {"backoff_ms_max", LIMIT_BACKOFF_MS},
    {"wall_ms", LIMIT_WALL_MS},
    {"inbox_batch_bytes", INBOX_BATCH_BYTES},
    {"inbox_refused_max", INBOX_REFUSED_MAX},
    {"inbox_kept_bytes", INBOX_KEPT_BYTES},
    {"inbox_counted_max", INBOX_COUNTED_MAX},
    {"count_max", STORE_COUNT_MAX},
    {"small_payload_bytes", SMALL_PAYLOAD_BYTES},
    /* the sums of a queue */
    {"sum_count", SUM_COUNT},
    {"sum_scheduled", STATE_SCHEDULED - 1},
    {"sum_ready", STATE_READY - 1},
    {"sum_running", STATE_RUNNING - 1},
    {"sum_done", STATE_DONE - 1},
    {"sum_dead", STATE_DEAD - 1},
    {"sum_cancelled", STATE_CANCELLED - 1},
    {"sum_blocked", STATE_BLOCKED - 1},
    /* what a row of Redis has */
    {"has_expiry", ROW_EXPIRES},
    {"has_small_payload", ROW_SMALL},
    {"has_payload", ROW_PAYLOAD},
    {"has_result", ROW_RESULT},
    {"has_error", ROW_ERROR},
    /* bytes up to what has no fixed place */
    {"job_bytes", ROW_HEAD(job)},
    {"notice_bytes", ROW_HEAD(notice)},
    {"seq_bytes", ROW_HEAD(seq)},
    {"ready_bytes", ROW_HEAD(ready)},
    {"place_bytes", ROW_HEAD(place)},
    {"use_bytes", ROW_HEAD(use)},
    {"slice", LIMIT_SLICE},
    {"wrong_bytes", ROW_HEAD(wrong)},
    /* formats */
    {"schema_version", PG_SCHEMA_VERSION},
    {NULL, 0},
};

#define JOB_TEXT_COLUMN(member, name, column, ...) ", " #column
/* Without the comma in front. */
const struct embed_list embed_lists[] = {
    {"job_texts", JOB_TEXT_TABLE(JOB_TEXT_COLUMN) + 2},
    {NULL, NULL},
};

#define FIELD(row, name, bytes, kind) {#row "." #name, ROW_AT(row, name), bytes, kind},
#define SPAN(row, name, first, last)                                                               \
    {#row "." #name, ROW_AT(row, first), ROW_END(row, last) - ROW_AT(row, first), FIELD_BYTES},

const struct embed_field embed_fields[] = {ROW_LAYOUTS(FIELD, SPAN){NULL, 0, 0, FIELD_BYTE}};
