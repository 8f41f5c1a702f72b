/* SPDX-License-Identifier: Apache-2.0 */
/* src/core/queues has the rules of queues: the policy, limits at the claim, counters, retention and
 * unique keys. It may use core and base, and does no I/O.
 *
 * The policy of a queue: retries, back-off, lease, uniqueness, capacity, retention; and the few of
 * these that a job may set itself. core/queues/policy_table.h has the default, the range and the
 * names of each member. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/digest/random.h"
#include "base/err.h"
#include "base/span.h"
#include "base/system/clock.h"
#include "core/limits.h"

/* "To add an option of a job" in ARCHITECTURE.md says what else a new kind needs. */
enum backoff_kind { BACKOFF_EXPONENTIAL = 0, BACKOFF_LIST = 1 };

/* Exponential: base_ms, doubling up to max_ms, each changed at random by ± jitter_percent. List:
 * step_ms[n] before retry n+1, exactly; after the end the last one again; empty = no wait. */
struct backoff {
    uint8_t kind;
    uint8_t jitter_percent;
    uint8_t step_count;
    uint32_t base_ms;
    uint32_t max_ms;
    uint32_t step_ms[LIMIT_BACKOFF_STEPS];
};

/* What happens to a running job whose lease expires (HF-17). */
enum lease_end {
    LEASE_END_REQUEUE = 0, /* ready again at once; crashes count towards max_crashes only */
    LEASE_END_COUNTED =
        1, /* like a failure: crashes and failures share max_attempts, back-off applies */
    LEASE_END_FAIL = 2, /* dead at once, reason lease_expired */
};

enum unique_mode {
    UNIQUE_QUEUE_DEFAULT = 0,
    UNIQUE_REJECT = 1,
    UNIQUE_RETURN = 2,
    UNIQUE_REPLACE = 3
};
/* Among which jobs a unique key must be unique: scheduled, ready, running; or every job still
 * stored; or none: then keys are only names, which several jobs may share. Cancelled jobs never
 * count. */
enum unique_scope { UNIQUE_LIVE = 0, UNIQUE_KEPT = 1, UNIQUE_NONE = 2 };
enum durability { DURABILITY_FSYNC = 0, DURABILITY_RELAXED = 1 };
/* Between whom the jobs of one priority are shared out, see core/queues/claim_limits.h. */
enum fair { FAIR_NONE = 0, FAIR_GROUP = 1 };

/* At most this many new jobs, or claimed ones, in a window for each key; jobs without the key share
 * one. See ops/jobs/rates.c and core/queues/claim_limits.h. */
enum rate_per { RATE_QUEUE = 0, RATE_GROUP = 1, RATE_CORRELATION = 2 };
struct rate_limit {
    uint8_t per;        /* enum rate_per */
    uint32_t count;     /* at once, and again over each window; 0 = no limit */
    uint32_t window_ms; /* 1 … LIMIT_RATE_WINDOW_MS */
};

struct queue_policy {
    uint32_t lease_ms;
    uint32_t timeout_ms;      /* longest run time of an attempt; 0 = no limit */
    uint32_t cancel_grace_ms; /* from the request to cancel a running job to the end of its lease */
    uint16_t max_attempts;    /* retries + 1; 1 … LIMIT_ATTEMPTS */
    uint16_t max_crashes;     /* the job is dead when this many leases have expired; 0 = no limit */
    struct backoff backoff;
    uint8_t lease_end;    /* enum lease_end */
    uint8_t unique_mode;  /* default for jobs that do not set it; not QUEUE_DEFAULT */
    uint8_t unique_scope; /* enum unique_scope */
    uint8_t durability;   /* enum durability */
    bool require_token;   /* APIs: never act on the current lease by id alone */
    bool refuse_new;      /* enqueues are refused; existing jobs are still claimed */
    bool ranked;          /* its jobs are counted, so that a page may begin at any offset */
    bool by_due;          /* within one priority the job that was due first comes first */
    int64_t priority;     /* for jobs that do not set it */
    uint64_t capacity;    /* limit of live jobs */
    uint32_t payload_max; /* bytes */
    uint32_t warn_depth;  /* 0 = never */
    int64_t keep_done_ms; /* retention of done and, separately, of cancelled jobs: age … */
    uint64_t keep_done;   /* … and count; 0 of either = keep none; INT64_MAX / UINT64_MAX = all */
    int64_t keep_dead_ms;
    uint64_t keep_dead;
    struct rate_limit enqueue_rate; /* imports are not counted */
    /* core/queues/claim_limits.h has the rules of the following */
    uint32_t max_running; /* 0 = no limit; likewise the next */
    uint32_t max_running_per_group;
    struct rate_limit claim_rate; /* per queue or group */
    uint8_t fair;                 /* enum fair */
    uint32_t ageing_ms;           /* 0 = priorities stay as they are */
};

/* What a job sets itself; otherwise the queue's. */
struct job_options {
    uint16_t max_attempts; /* 0 = the queue's */
    uint16_t max_crashes;  /* 0 = the queue's */
    uint32_t lease_ms;     /* 0 = the queue's */
    uint32_t timeout_ms;   /* 0 = the queue's */
    bool has_backoff;
    struct backoff backoff;
};

void policy_default(struct queue_policy *p);
/* 0, or -ERR_INVALID with a note that names the field, its value and what is allowed. */
MUST_CHECK int policy_check(const struct queue_policy *p, struct err_note *note);
MUST_CHECK int options_check(const struct job_options *o, struct err_note *note);

/* The stored form, for records and stores; decoding is strict (-ERR_CORRUPT). */
#define POLICY_BYTES_MAX 512
MUST_CHECK int policy_encode(const struct queue_policy *p, struct buf *out);
MUST_CHECK int policy_decode(struct span in, struct queue_policy *ret);
/* The same without a buffer; returns the number of bytes. */
size_t policy_bytes(const struct queue_policy *p, uint8_t out[POLICY_BYTES_MAX]);
MUST_CHECK int options_encode(const struct job_options *o, struct buf *out);
MUST_CHECK int options_decode(struct span in, struct job_options *ret);
bool options_empty(const struct job_options *o);

/* The wait before the retry that follows failure number `failure` (1 = the first). */
int64_t backoff_wait_ms(const struct backoff *b, uint32_t failure, struct random *random);
