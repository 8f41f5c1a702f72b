/* SPDX-License-Identifier: Apache-2.0 */
/* The table of queue settings: one row for each member of struct queue_policy. To add one: the
 * member in core/queues/policy.h, a row here, the code that uses it, and `make docs`. Everything
 * else comes from the row: the check and the stored form (core/queues/policy_fields.c), JSON
 * (api/v1/queues/policy_fields.c), the options of `holdfast queues create|set`, the setting
 * `queue_defaults.NAME` of the server, help, man page and docs/reference/policy.md.
 *
 * Columns:
 * - tag: names the member in stored policies, 1 to 127, ascending. Never reuse or change one. A
 *   member is stored unless it is zero, and one that is not stored is zero: zero must therefore
 *   mean that the queue works as it did before the member existed.
 * - name: of the member, in C, in JSON, on the command line and in the settings.
 * - kind: MS, BYTES, NUMBER, BOOL, WORD, PRIORITY, BACKOFF or RATE (enum policy_kind).
 * - default, least and largest value; of a WORD the values of its words. The largest value of a
 *   NUMBER or MS without a limit is INT64_MAX; "no limit" is null in JSON and a word elsewhere.
 * - value: what help texts call the value; behind a '|' the word for "no limit". Of a WORD its
 *   words, of a RATE what it can be counted by.
 * - meaning: a phrase that says what it controls and what its special values mean.
 * Y is passed on to each row, for tables that are built inside other tables. */
#pragma once

#include "core/limits.h"

#define POLICY_HOUR_MS INT64_C(3600000)
#define POLICY_DAY_MS (24 * POLICY_HOUR_MS)
#define BACKOFF_DEFAULT                                                                            \
    ((struct backoff){.kind = BACKOFF_EXPONENTIAL,                                                 \
                      .jitter_percent = 10,                                                        \
                      .base_ms = 1000,                                                             \
                      .max_ms = POLICY_HOUR_MS})
#define RATE_DEFAULT ((struct rate_limit){0})

/* clang-format off */
#define POLICY_TABLE(X, Y)                                                                         \
    X(1, lease_ms, MS, 30000, LIMIT_LEASE_MS_MIN, LIMIT_LEASE_MS, "DURATION",                      \
      "how long a claim holds a job unless the claim is extended", Y)                              \
    X(2, max_attempts, NUMBER, 10, 1, LIMIT_ATTEMPTS, "N",                                         \
      "a job that has failed this many times is dead: retries + 1", Y)                             \
    X(3, max_crashes, NUMBER, 5, 0, LIMIT_ATTEMPTS, "N",                                           \
      "a job whose lease has expired this many times is dead; 0 means no limit", Y)                \
    X(4, backoff, BACKOFF, BACKOFF_DEFAULT, 0, LIMIT_BACKOFF_MS, "",                                \
      "the wait before each retry: it doubles from base_ms to max_ms, and each wait is changed "   \
      "at random by up to jitter_percent; or the exact waits, of which the last is used again", Y) \
    X(5, lease_end, WORD, LEASE_END_REQUEUE, LEASE_END_REQUEUE, LEASE_END_FAIL,                    \
      "requeue|requeue_counted|fail",                                                              \
      "what happens to a job whose lease expires: it is ready again, the same but counted as a "   \
      "failed attempt, or it is dead", Y)                                                          \
    X(6, unique_mode, WORD, UNIQUE_REJECT, UNIQUE_REJECT, UNIQUE_REPLACE, "reject|return|replace", \
      "what an enqueue with a unique key that is taken gets: a refusal, the job that has the "     \
      "key, or the place of that job", Y)                                                          \
    X(7, unique_scope, WORD, UNIQUE_LIVE, UNIQUE_LIVE, UNIQUE_NONE, "live|kept|none",              \
      "which jobs take a unique key: scheduled, ready and running ones, every job that is still "  \
      "kept, or none, so that several jobs may share a key", Y)                                    \
    X(8, durability, WORD, DURABILITY_FSYNC, DURABILITY_FSYNC, DURABILITY_RELAXED,                 \
      "fsync|relaxed",                                                                             \
      "whether a success means that the change is on stable storage, or only that it is in "       \
      "memory and will be written soon; the reply says so", Y)                                     \
    X(9, require_token, BOOL, false, 0, 1, "",                                                     \
      "no API may act on a running job by its id alone; each call needs the lease token", Y)       \
    X(10, refuse_new, BOOL, false, 0, 1, "",                                                       \
      "refuse new jobs; the jobs in the queue can still be claimed", Y)                             \
    X(11, priority, PRIORITY, 0, -INT64_MAX, INT64_MAX, "N",                                       \
      "the priority of jobs that set none; higher ones come first", Y)                              \
    X(12, capacity, NUMBER, 10000000, 1, INT64_MAX, "JOBS|none",                                   \
      "the limit of live jobs; an enqueue beyond it is refused", Y)                                  \
    X(13, payload_max, BYTES, 1 << 20, 0, LIMIT_PAYLOAD_BYTES, "SIZE", "the largest payload", Y)   \
    X(14, warn_depth, NUMBER, 0, 0, UINT32_MAX, "JOBS",                                            \
      "an event and a log line warn when this many jobs wait; 0 means never", Y)                   \
    X(15, keep_done_ms, MS, POLICY_DAY_MS, 0, INT64_MAX, "DURATION|all",                           \
      "how long done jobs are kept, and cancelled ones; 0 keeps none", Y)                          \
    X(16, keep_done, NUMBER, 10000, 0, INT64_MAX, "JOBS|all",                                      \
      "how many done jobs of the queue are kept, and how many cancelled ones; 0 keeps none", Y)    \
    X(17, keep_dead_ms, MS, 30 * POLICY_DAY_MS, 0, INT64_MAX, "DURATION|all",                      \
      "how long dead jobs are kept; 0 keeps none", Y)                                              \
    X(18, keep_dead, NUMBER, 100000, 0, INT64_MAX, "JOBS|all",                                     \
      "how many dead jobs of the queue are kept; 0 keeps none", Y)                                 \
    X(19, ranked, BOOL, false, 0, 1, "",                                                           \
      "number the jobs of the queue, so that a page of them can begin at any offset (GET "          \
      "/v1/queues/{queue}/jobs)", Y)           \
    X(20, enqueue_rate, RATE, RATE_DEFAULT, 0, 0, "queue|group|correlation_id",                  \
      "how many new jobs are accepted in a window of time: this many at once, then evenly over the " \
      "window; an enqueue beyond it is refused. They are counted for the whole queue, or for each "  \
      "group or correlation id (jobs without one are counted together). Repeats, duplicates and "  \
      "imports are not counted; after a restart the count begins again", Y) \
    X(21, timeout_ms, MS, 0, 0, LIMIT_TIMEOUT_MS, "DURATION",                                      \
      "how long an attempt may run, however often its lease is extended; beyond it the attempt "   \
      "ends as timed_out and counts as a failed one; 0 means no limit", Y)                         \
    X(22, cancel_grace_ms, MS, 30000, 0, LIMIT_LEASE_MS, "DURATION",                               \
      "how long the worker of a running job may continue after a cancel was requested; then the "    \
      "lease ends and the job is cancelled; 0 ends the lease with the request", Y)                         \
    X(23, by_due, BOOL, false, 0, 1, "",                                                           \
      "within one priority, jobs start in the order of the time at which they were due (run_at, "  \
      "else the time of creation) instead of the order of enqueue. Priorities are then between "   \
      "-1,000,000 and 1,000,000", Y)

/* The parts of a back-off whose waits double; the other type has a list of waits. Columns: name in
 * JSON and in C (`backoff_NAME` elsewhere), kind, least and largest value, value, meaning. */
#define BACKOFF_TABLE(X, Y)                                                                        \
    X(base_ms, MS, 0, LIMIT_BACKOFF_MS, "DURATION",                                                \
      "the wait before the first retry; it doubles each time", Y)                                  \
    X(max_ms, MS, 0, LIMIT_BACKOFF_MS, "DURATION", "the longest wait before a retry", Y)           \
    X(jitter_percent, NUMBER, 0, 100, "PERCENT",                                                   \
      "each wait is changed at random by up to this much", Y)

#define BACKOFF_STEPS_DOC                                                                          \
    "the exact waits instead of doubling ones; the last is used again; an empty list means no wait"
/* clang-format on */
