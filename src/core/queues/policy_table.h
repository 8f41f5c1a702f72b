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
      "a job becomes dead when it has failed this many times; 1 means no retry", Y)                \
    X(3, max_crashes, NUMBER, 5, 0, LIMIT_ATTEMPTS, "N",                                           \
      "a job becomes dead when its lease has expired this many times; 0 means no limit", Y)        \
    X(4, backoff, BACKOFF, BACKOFF_DEFAULT, 0, LIMIT_BACKOFF_MS, "",                               \
      "the wait before each retry: either it doubles from base_ms up to max_ms and "               \
      "varies at random by up to jitter_percent, or it is taken from a list, whose "               \
      "last element is repeated", Y)                                                               \
    X(5, lease_end, WORD, LEASE_END_REQUEUE, LEASE_END_REQUEUE, LEASE_END_FAIL,                    \
      "requeue|requeue_counted|fail",                                                              \
      "what happens to a job whose lease expires: it becomes ready (requeue), it "                 \
      "becomes ready and a failed attempt is counted (requeue_counted), or it becomes "            \
      "dead (fail)", Y)                                                                            \
    X(6, unique_mode, WORD, UNIQUE_REJECT, UNIQUE_REJECT, UNIQUE_REPLACE, "reject|return|replace", \
      "what happens to an enqueue whose unique key is taken: it is refused (reject), "             \
      "it returns the existing job (return), or it replaces the existing job (replace)", Y)        \
    X(7, unique_scope, WORD, UNIQUE_LIVE, UNIQUE_LIVE, UNIQUE_NONE, "live|kept|none",              \
      "which jobs hold their unique key: scheduled, ready and running jobs (live), all "           \
      "jobs that are stored (kept), or no jobs, so that several jobs can share a key "             \
      "(none)", Y)                                                                                 \
    X(8, durability, WORD, DURABILITY_FSYNC, DURABILITY_FSYNC, DURABILITY_RELAXED,                 \
      "fsync|relaxed",                                                                             \
      "whether a success means that the change is on stable storage (fsync), or only "             \
      "that it is in memory and will be written soon (relaxed), which the reply then "             \
      "states", Y)                                                                                 \
    X(9, require_token, BOOL, false, 0, 1, "",                                                     \
      "whether an ack, a fail and the other calls of a worker need the lease token in "            \
      "every API; otherwise some APIs accept the id of the job alone", Y)                          \
    X(10, refuse_new, BOOL, false, 0, 1, "",                                                       \
      "whether the queue refuses new jobs; the jobs in it can still be claimed", Y)                \
    X(11, priority, PRIORITY, 0, -INT64_MAX, INT64_MAX, "N",                                       \
      "the priority of jobs that are enqueued without one; jobs with a higher priority "           \
      "are claimed first", Y)                                                                      \
    X(12, capacity, NUMBER, 10000000, 1, INT64_MAX, "JOBS|none",                                   \
      "maximum number of scheduled, ready and running jobs; further enqueues are "                 \
      "refused", Y)                                                                                \
    X(13, payload_max, BYTES, 1 << 20, 0, LIMIT_PAYLOAD_BYTES, "SIZE",                             \
      "maximum size of a payload; jobs with a larger one are refused", Y)                          \
    X(14, warn_depth, NUMBER, 0, 0, UINT32_MAX, "JOBS",                                            \
      "number of waiting jobs at which the server emits the event queue_deep and logs "            \
      "a warning; 0 means never", Y)                                                               \
    X(15, keep_done_ms, MS, POLICY_DAY_MS, 0, INT64_MAX, "DURATION|all",                           \
      "how long done and cancelled jobs are kept; 0 means that none are kept", Y)                  \
    X(16, keep_done, NUMBER, 10000, 0, INT64_MAX, "JOBS|all",                                      \
      "how many done jobs, and how many cancelled jobs, the queue keeps; 0 means none", Y)         \
    X(17, keep_dead_ms, MS, 30 * POLICY_DAY_MS, 0, INT64_MAX, "DURATION|all",                      \
      "how long dead jobs are kept; 0 means that none are kept", Y)                                \
    X(18, keep_dead, NUMBER, 100000, 0, INT64_MAX, "JOBS|all",                                     \
      "how many dead jobs the queue keeps; 0 means none", Y)                                       \
    X(19, ranked, BOOL, false, 0, 1, "",                                                           \
      "whether the jobs of the queue are numbered, so that a page of them can begin at "           \
      "any offset (GET /v1/queues/{queue}/jobs)", Y)                                               \
    X(20, enqueue_rate, RATE, RATE_DEFAULT, 0, 0, "queue|group|correlation_id",                    \
      "how many new jobs the queue accepts in a time window: this many at once, and "              \
      "then at an even rate; further enqueues are refused. Jobs are counted for the "              \
      "whole queue, or for each group or correlation id (jobs without one are counted "            \
      "together). Repeats, duplicates and imports are not counted; after a restart, "              \
      "counting starts again", Y)                                                                  \
    X(21, timeout_ms, MS, 0, 0, LIMIT_TIMEOUT_MS, "DURATION",                                      \
      "how long an attempt may run, even if its lease is extended; after that it ends "            \
      "as timed_out and counts as a failed attempt; 0 means no limit", Y)                          \
    X(22, cancel_grace_ms, MS, 30000, 0, LIMIT_LEASE_MS, "DURATION",                               \
      "how long the worker of a running job may continue after a cancel is requested; "            \
      "then the lease ends and the job is cancelled; 0 cancels the job at once", Y)                \
    X(23, by_due, BOOL, false, 0, 1, "",                                                           \
      "within one priority, jobs start in the order of the time at which they were due (run_at, "  \
      "else the time of creation) instead of the order of enqueue. Priorities are then between "   \
      "-1,000,000 and 1,000,000", Y)                                                               \
    X(24, max_running, NUMBER, 0, 0, UINT32_MAX, "JOBS",                                           \
      "how many jobs of the queue may run at the same time; a claim beyond it waits; 0 means no "  \
      "limit", Y)                                                                                  \
    X(25, max_running_per_group, NUMBER, 0, 0, UINT32_MAX, "JOBS",                                 \
      "how many jobs of each group may run at the same time (jobs without a group are one "        \
      "group); jobs of other groups overtake those that wait for it; 0 means no limit", Y)         \
    X(26, claim_rate, RATE, RATE_DEFAULT, 0, 0, "queue|group",                                     \
      "how many jobs may be claimed in a window of time: this many at once, then evenly over the " \
      "window; a claim beyond it waits. They are counted for the whole queue or for each group. "  \
      "After a restart the count begins again, with the jobs that run", Y)                         \
    X(27, fair, WORD, FAIR_NONE, FAIR_NONE, FAIR_GROUP, "none|group",                              \
      "whether jobs of one priority start in the order of enqueue, or the groups that have ready " \
      "jobs take turns, however many jobs each of them has", Y)                                    \
    X(28, ageing_ms, MS, 0, 0, LIMIT_AGEING_MS, "DURATION",                                        \
      "a job counts as one priority higher for each such period that it has been ready, so that "  \
      "jobs of low priority do not wait for ever; 0 means that priorities do not change. It "       \
      "cannot be combined with by_due", Y)

/* The parts of a back-off whose waits double; the other type has a list of waits. Columns: name in
 * JSON and in C (`backoff_NAME` elsewhere), kind, least and largest value, value, meaning. */
#define BACKOFF_TABLE(X, Y)                                                                        \
    X(base_ms, MS, 0, LIMIT_BACKOFF_MS, "DURATION",                                                \
      "the wait before the first retry; it doubles each time", Y)                                  \
    X(max_ms, MS, 0, LIMIT_BACKOFF_MS, "DURATION", "the longest wait before a retry", Y)           \
    X(jitter_percent, NUMBER, 0, 100, "PERCENT",                                                   \
      "each wait varies at random by up to this much", Y)

#define BACKOFF_STEPS_DOC                                                                          \
    "a list of waits instead of doubling ones; the last is repeated; an empty list means no wait"
/* clang-format on */
