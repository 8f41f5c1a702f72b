/* SPDX-License-Identifier: Apache-2.0 */
/* src/core/records defines the records in which every change is stored, and their encoding. It may
 * use core and base, and does no I/O.
 *
 * A record holds the outcome of an operation, never its inputs: replaying it makes no decision and
 * reads no clock, policy or random number. The records of one batch are written in one frame
 * (frame.h) and applied all or not at all. Kinds and the order of fields are on disk: never
 * renumber a kind and never reuse one. A new field needs a new kind or a new version of the frame.
 *
 * Encoding: kind (1 byte), length of the body (varint), body. A body consists of varints, zigzag
 * varints (for numbers that can be negative), 8-byte values (hashes, halves of ids) and byte
 * strings with their length in front, in the order of the struct. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/digest/hash.h"
#include "base/err.h"
#include "base/span.h"
#include "core/alerts/alert.h"
#include "core/alerts/breaker.h"
#include "core/filter.h"
#include "core/jobs/dependency.h"
#include "core/jobs/job.h"
#include "core/queues/counters.h"
#include "core/schedules/schedule.h"

enum record_kind {
    /* store: 1 … 15 */
    REC_EPOCH = 1,     /* the server started: tokens have this epoch from here on */
    REC_SEQ_BLOCK = 2, /* sequences up to this one may have been assigned */
    /* queues: 16 … 31 */
    REC_QUEUE_PUT = 16,  /* created or changed: the whole definition */
    REC_QUEUE_GONE = 17, /* deleted: the name is free, its jobs no longer exist */
    REC_QUEUE_END = 18,  /* the last of a deleted queue's jobs has been removed */
    REC_PURGED = 19,     /* the waiting jobs of the queue no longer exist; its generation changes */
    REC_COUNTERS = 20,   /* what this frame adds to the counters of a queue, by the hour */
    REC_BULK_BEGIN = 24, /* a bulk action begins */
    REC_BULK_STEP = 25,  /* its progress */
    REC_BULK_END = 26,
    /* jobs: 32 … 47 */
    REC_JOB_NEW = 32,
    REC_JOB_READY = 33, /* scheduled → ready */
    REC_JOB_CLAIMED = 34,
    REC_JOB_EXTENDED = 35,
    REC_JOB_BACK = 36, /* running → ready | scheduled: retry, crash, release */
    REC_JOB_DONE = 37,
    REC_JOB_DEAD = 38,
    REC_JOB_CANCELLED = 39,
    REC_JOB_REQUEUED = 40,
    REC_JOB_PATCHED = 41,
    REC_JOBS_GONE = 42, /* removed for good: retention, delete, slices of purge and bulk */
    REC_JOB_NOTED = 43, /* label, attributes, result or error of a job; its state does not change */
    REC_JOB_PRIORITY = 44, /* of a running job; the next record is its JOB_BACK or JOB_DEAD */
    REC_JOB_ATTEMPT = 45,  /* after JOB_NEW: an attempt that an imported job has made elsewhere */
    REC_JOB_CANCEL_REQUESTED = 46, /* of a running job: its lease is limited */
    /* idempotency keys: 48 … 55 */
    REC_KEY_NEW = 48,
    /* 49 must not be used: an earlier kind. */
    REC_KEYS_GONE = 50, /* these keys have expired (a part of them) */
    /* key-value store: 64 … 79 */
    REC_KV_SET = 64,
    REC_KV_GONE = 65,     /* deleted, or expired (a part of them) */
    REC_KV_FROM_JOB = 66, /* the payload of a job that died was stored at this key */
    REC_KV_KEYS = 67,     /* directly after JOB_NEW: the keys for that payload */
    /* schedules and firings: 80 … 95 */
    REC_SCHEDULE_PUT = 80,    /* created or changed: definition and state */
    REC_SCHEDULE_GONE = 81,   /* deleted */
    REC_SCHEDULE_FIRED = 82,  /* a time was fired and created a job; earlier ones may have passed */
    REC_SCHEDULE_PASSED = 83, /* a time passed without a job */
    REC_SCHEDULE_FAILED = 84, /* a time was fired and the job could not be created */
    REC_JOB_LINKED = 85,      /* these jobs, which were just claimed, are leased to that job */
    /* notifications: 96 … 111 */
    REC_ALERT_PUT = 96,   /* a rule, created or changed: the whole of it */
    REC_ALERT_GONE = 97,  /* a rule is deleted, with what it raised and its notices */
    REC_ALERT_EDGE = 98,  /* its condition begins or ceases to hold in a queue */
    REC_NOTICE_NEW = 100, /* a notice is to be delivered */
    REC_NOTICE_TRIED =
        101, /* the state of a notice after a failed delivery, or when it is delivered again */
    REC_NOTICE_GONE = 102, /* delivered, dropped or discarded */
    /* breakers: 112 … 119 */
    REC_BREAKER_PUT = 112, /* the state of the breaker of a target */
    REC_BREAKER_GONE = 113,
    /* what the holder of a lease reports: 128 … 143 */
    REC_JOB_PROGRESS = 128, /* replaces what was reported before */
    REC_JOB_LOGGED = 129,   /* entries that are added to the job's log */
    REC_JOB_STEPS = 130,    /* results of steps, which replace those of the same names */
    /* dependencies: 144 … 151 */
    REC_JOB_UNBLOCKED = 144,    /* blocked → ready | scheduled */
    REC_DEPENDENT_PUT = 145,    /* the rule and the counts of a job that depends on others */
    REC_DEPENDENT_GONE = 146,   /* they are no longer needed: the job was removed */
    REC_DEPENDENCIES_NEW = 147, /* from now on the job waits for these jobs, too */
    REC_DEPENDENCY_END = 148,   /* it no longer waits for this one */
    REC_PARENT_ENDED = 149,     /* how a job ended on which others still depend */
    /* reserved: 120 … 127 ledger */
};

struct rec_epoch {
    uint32_t epoch;
    struct wall_time at;
};

struct rec_seq_block {
    uint64_t upto; /* inclusive */
};

struct rec_queue_put {
    uint32_t queue;
    uint32_t generation;
    struct wall_time created_at, updated_at;
    struct wall_time paused_until; /* 0 = not paused; LIMIT_WALL_MS = until resumed */
    struct span name;
    struct span policy;     /* policy_encode */
    struct span owner;      /* API that owns it; empty = native */
    struct span note;       /* description */
    struct span attributes; /* the API's own fields, JSON */
};

struct rec_queue {
    uint32_t queue;
    struct wall_time at;
};

struct rec_purged {
    uint32_t queue;
    uint32_t generation; /* the queue's from now on */
    struct wall_time at;
    uint64_t count; /* jobs that ceased to exist */
};

/* What the records of this frame add to the counters of a queue. */
struct rec_counters {
    uint32_t queue;
    uint32_t hour; /* since 1970 */
    struct counters add;
};

enum bulk_action {
    BULK_REQUEUE = 1,
    BULK_CANCEL = 2, /* running jobs: a cancel is requested */
    BULK_REMOVE = 3,
    BULK_CANCEL_NOW = 4, /* running jobs: their leases end at once */
};

struct rec_bulk_begin {
    uint64_t bulk; /* number */
    uint8_t action;
    struct wall_time at;
    uint32_t queue;
    unsigned states;
    struct span group, kind; /* empty = any */
    uint64_t seq_max;        /* only jobs that existed at the request: sequences up to this one */
};

struct rec_bulk_step {
    uint64_t bulk;
    uint64_t cursor; /* sequences up to this one are done */
    uint64_t changed, refused;
};

/* payload_bytes and JOB_HAS_EXTRA are not written: reading sets them from payload and extra. */
struct rec_job_new {
    struct job job; /* state scheduled or ready; one that was imported may have ended before */
    struct job_extra extra;
    struct span payload;
};

struct rec_job_ready {
    uint64_t seq;
    struct wall_time at;
};

struct rec_job_claimed {
    uint64_t seq;
    struct job_token token;
    uint32_t
        lease_ms; /* 0 = no end: another job holds the lease, see the JOB_LINKED that follows */
    uint32_t timeout_ms; /* of this attempt; 0 = no limit */
    bool bound;
    struct wall_time at;
    struct span worker;
};

struct rec_job_extended {
    uint64_t seq;
    uint32_t lease_ms;
};

struct rec_job_cancel_requested {
    uint64_t seq;
    struct wall_time at;
    uint32_t grace_ms;
};

/* The error text of an imported job is in a record directly after its JOB_NEW: JOB_BACK if the job
 * waits, JOB_DEAD if it is dead. That record repeats the state of the job. */
struct rec_job_back {
    uint64_t seq;
    uint8_t state;  /* ready or scheduled */
    uint8_t reason; /* failed, timed_out, lease_expired, released, restarted */
    uint16_t failures, crashes;
    uint32_t generation;
    struct wall_time run_at; /* unchanged if it is ready immediately */
    struct wall_time at;
    uint8_t error_kind;
    struct span error; /* empty = the previous one is kept */
};

struct rec_job_done {
    uint64_t seq;
    struct wall_time at;
    uint8_t result_kind; /* enum payload_kind */
    struct span result;
};

struct rec_job_dead {
    uint64_t seq;
    uint8_t reason;
    uint16_t failures, crashes;
    struct wall_time at;
    uint8_t error_kind;
    struct span error;
};

struct rec_job_cancelled {
    uint64_t seq;
    uint8_t reason;
    struct wall_time at;
};

struct rec_job_requeued {
    uint64_t seq;
    uint8_t state;
    uint32_t generation;
    struct wall_time run_at;
    struct wall_time at;
}; /* failures and crashes become 0 */

struct rec_job_patched {
    uint64_t seq;
    uint8_t state;
    int64_t priority;
    struct wall_time run_at;
    struct wall_time at; /* the new `since` if the state changed; otherwise ignored */
    uint32_t generation;
    bool has_payload;
    uint8_t payload_kind;
    struct span payload;
};

/* Members that are not given stay as they are. */
struct rec_job_noted {
    uint64_t seq;
    bool has_label, has_attributes, has_result, has_error;
    struct span label, attributes; /* empty = removed */
    uint8_t result_kind;           /* enum payload_kind; not NONE */
    struct span result;
    uint8_t error_kind;
    struct span error;
};

struct rec_job_priority {
    uint64_t seq;
    int64_t priority;
};

/* An attempt in another store: it is not counted and causes no event. The attempt with which a done
 * job succeeded is its last one. */
struct rec_job_attempt {
    uint64_t seq;
    uint32_t number;             /* ≥ 1 */
    uint8_t outcome, error_kind; /* outcome: not running */
    struct wall_time started_at, ended_at;
    struct span worker, error;
};

/* PROGRESS: as progress_encode writes it; LOGGED: entries of the log (core/jobs/progress.h); STEPS:
 * a list of steps (core/jobs/steps.h). */
struct rec_job_report {
    uint64_t seq;
    struct span text;
};

struct rec_job_unblocked {
    uint64_t seq;
    uint8_t state; /* ready or scheduled */
    struct wall_time at;
};

struct rec_dependent_put {
    uint64_t seq;
    struct dependent dependent;
};

/* GONE: the dependent; PARENT_ENDED: the job on which others depend. */
struct rec_dependent {
    uint64_t seq;
    uint8_t how; /* PARENT_ENDED: enum dependency_end, not NONE */
};

struct rec_dependencies_new {
    uint64_t seq; /* of the dependent, which exists */
    uint32_t count;
    struct span parents; /* as the list of REC_JOBS_GONE */
};

struct rec_dependency_end {
    uint64_t seq; /* of the dependent */
    uint64_t parent;
    uint8_t how; /* enum dependency_end; NONE: it is not counted, for the job waits no more */
    bool last;   /* no other job waits for the parent: its PARENT_ENDED is no longer needed */
};

struct rec_jobs_gone {
    uint32_t count;
    struct span seqs; /* zigzag varints: the first, then differences; see record_seq_* */
};

struct rec_key_new {
    struct hash128 key;
    uint64_t fingerprint;
    uint64_t seq;
    uint64_t id_hi;
    struct wall_time expires_at;
};

struct rec_keys_gone {
    uint32_t count;
    struct span keys; /* in order of expiry; see record_key_* */
};

/* Keys are encoded (kvkey.h). A version is the position of the first record of its commit. */
struct rec_kv_set {
    struct span key;
    uint64_t version;
    struct wall_time expires_at; /* 0 = never */
    uint8_t kind;                /* enum payload_kind */
    struct span value;
};

struct rec_kv_gone {
    uint64_t version; /* of the commit that deleted them */
    uint32_t count;
    struct span keys; /* see record_span_* */
};

/* The value is the payload that the job has at this record. */
struct rec_kv_from_job {
    uint64_t seq;
    struct span key;
    uint64_t version;
    uint8_t kind;
    uint32_t bytes;
};

struct rec_kv_keys {
    uint64_t seq;
    uint32_t count;
    struct span keys;
};

struct rec_alert_put {
    struct span name;
    bool condition_changed; /* the alerts that it had raised are removed */
    struct wall_time created_at, updated_at;
    struct alert_rule rule;
};

struct rec_alert_gone {
    struct span name;
    struct wall_time at;
};

struct rec_alert_edge {
    struct span alert;
    struct span queue; /* empty = the whole server */
    bool raised;
    struct wall_time at;
    uint64_t value, mark; /* the measured value, and the threshold */
};

struct rec_notice_new {
    uint64_t
        number; /* increases; with id_hi it is the id of the notice, written like that of a job */
    uint64_t id_hi;
    uint8_t on;   /* enum alert_on */
    uint8_t edge; /* enum notice_edge */
    struct wall_time at;
    struct span alert;
    struct span queue;        /* empty = none */
    uint64_t job_seq, job_hi; /* 0 = no job */
    uint8_t reason;           /* enum job_reason */
    uint32_t attempts;        /* of the job */
    uint64_t value, mark;     /* conditions */
    struct span subject;      /* schedule_failed: its name */
    struct span text;         /* the error */
};

struct rec_notice_tried {
    uint64_t number;
    uint8_t state;          /* enum notice_state */
    uint32_t tries;         /* deliveries that failed */
    struct wall_time since; /* its age counts from this time */
    struct wall_time due;   /* pending: not before */
    uint16_t status;        /* of the last answer; 0 = no answer */
    struct span error;      /* why the last delivery failed */
};

struct rec_notice_gone {
    uint64_t number;
    uint8_t end; /* enum notice_end */
    struct wall_time at;
};

struct rec_breaker_put {
    struct span target;
    struct breaker breaker;
};

struct rec_breaker_gone {
    struct span target;
};

struct rec_schedule_put {
    uint32_t schedule; /* number, ≥ 1 */
    bool paused;
    struct wall_time created_at, updated_at;
    struct schedule_state state;
    struct span name;
    struct span spec;       /* schedule_encode */
    struct span owner;      /* API that owns it; empty = native */
    struct span note;       /* description */
    struct span attributes; /* the API's own fields, JSON */
};

struct rec_schedule_gone {
    uint32_t schedule;
    struct wall_time at;
};

/* FIRED, PASSED, FAILED: the whole state afterwards. */
struct rec_schedule_state {
    uint32_t schedule;
    struct wall_time at;
    struct schedule_state state;
};

struct rec_job_linked {
    uint64_t seq, id_hi; /* the job that holds them */
    uint32_t count;
    struct span items; /* encoded like the list of REC_JOBS_GONE */
};

struct record {
    enum record_kind kind;
    union {
        struct rec_epoch epoch;
        struct rec_seq_block seq_block;
        struct rec_queue_put queue_put;
        struct rec_queue queue; /* GONE, END */
        struct rec_purged purged;
        struct rec_counters counters;
        struct rec_bulk_begin bulk_begin;
        struct rec_bulk_step bulk_step; /* STEP, END */
        struct rec_job_new job_new;
        struct rec_job_ready job_ready;
        struct rec_job_claimed job_claimed;
        struct rec_job_extended job_extended;
        struct rec_job_cancel_requested job_cancel_requested;
        struct rec_job_back job_back;
        struct rec_job_done job_done;
        struct rec_job_dead job_dead;
        struct rec_job_cancelled job_cancelled;
        struct rec_job_requeued job_requeued;
        struct rec_job_patched job_patched;
        struct rec_job_priority job_priority;
        struct rec_jobs_gone jobs_gone;
        struct rec_job_noted job_noted;
        struct rec_job_attempt job_attempt;
        struct rec_job_report job_report; /* PROGRESS, LOGGED, STEPS */
        struct rec_job_unblocked job_unblocked;
        struct rec_dependent_put dependent_put;
        struct rec_dependent dependent; /* GONE, PARENT_ENDED */
        struct rec_dependencies_new dependencies_new;
        struct rec_dependency_end dependency_end;
        struct rec_key_new key_new;
        struct rec_keys_gone keys_gone;
        struct rec_kv_set kv_set;
        struct rec_kv_gone kv_gone;
        struct rec_kv_from_job kv_from_job;
        struct rec_kv_keys kv_keys;
        struct rec_alert_put alert_put;
        struct rec_alert_gone alert_gone;
        struct rec_alert_edge alert_edge;
        struct rec_notice_new notice_new;
        struct rec_notice_tried notice_tried;
        struct rec_notice_gone notice_gone;
        struct rec_breaker_put breaker_put;
        struct rec_breaker_gone breaker_gone;
        struct rec_schedule_put schedule_put;
        struct rec_schedule_gone schedule_gone;
        struct rec_schedule_state schedule_state; /* FIRED, PASSED, FAILED */
        struct rec_job_linked job_linked;
    };
};

const char *record_name(enum record_kind kind); /* "job_new" …; NULL when unknown */
/* An upper bound of the encoded size, for reserving. */
size_t record_bytes_max(const struct record *r);
/* Appends; -ERR_NOMEM changes nothing. After buf_reserve(record_bytes_max) it cannot fail. A value
 * that record_decode would refuse (out of range, over a limit) is a programmer error, because the
 * operations have checked everything that clients sent. */
MUST_CHECK int record_encode(const struct record *r, struct buf *out);
/* Reads the first record and removes it from *in. Spans point into the input. -ERR_CORRUPT for
 * anything that record_encode could not have written, -ERR_VERSION for an unknown kind; *in is then
 * unchanged, *ret is not. */
MUST_CHECK int record_decode(struct span *in, struct record *ret);

/* The job that a record changes, if it changes exactly one existing job; otherwise 0. The structs
 * of these records all begin with the sequence. */
static inline uint64_t record_job_seq(const struct record *r)
{
    bool one = (r->kind >= REC_JOB_READY && r->kind <= REC_JOB_PATCHED) ||
               r->kind == REC_JOB_NOTED || r->kind == REC_JOB_PRIORITY ||
               r->kind == REC_JOB_ATTEMPT || r->kind == REC_JOB_PROGRESS ||
               r->kind == REC_JOB_LOGGED || r->kind == REC_JOB_STEPS ||
               r->kind == REC_JOB_CANCEL_REQUESTED || r->kind == REC_JOB_UNBLOCKED;
    return one ? r->job_ready.seq : 0;
}

/* The list inside REC_JOBS_GONE. */
MUST_CHECK int record_seq_append(struct buf *list, uint64_t *previous, uint64_t seq);
MUST_CHECK int record_seq_next(struct span *list, uint64_t *previous, uint64_t *ret_seq);

/* The list inside REC_KEYS_GONE: for each key its expiry (as the difference from the previous one)
 * and its hash, by which a store finds it. Expiries never decrease. */
struct record_key {
    struct hash128 key;
    struct wall_time expires_at;
};
MUST_CHECK int record_key_append(struct buf *list, struct wall_time *previous,
                                 const struct record_key *key);
MUST_CHECK int record_key_next(struct span *list, struct wall_time *previous,
                               struct record_key *ret);

/* The list inside REC_KV_GONE and REC_KV_KEYS: each with its length in front. */
MUST_CHECK int record_span_append(struct buf *list, struct span s);
MUST_CHECK int record_span_next(struct span *list, struct span *ret);
