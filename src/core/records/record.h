/* SPDX-License-Identifier: Apache-2.0 */
/* src/core/records has the records in which every change is stored, and their encoding. It may use
 * core and base, and does no I/O.
 *
 * Outcome records: every change to the store, as it turned out.
 *
 * A record says what is true afterwards, never what was asked: replaying it takes no decision and
 * reads no clock, policy or random number. The records of one batch travel in one frame (frame.h),
 * all or nothing. Kinds and field orders are on disk: never renumber, never reuse; a new field
 * needs a new kind or a new frame version.
 *
 * On the wire: kind (1 byte), body length (varint), body. Bodies are varints, zigzag varints (where
 * a number may be negative), eight bytes (hashes, halves of ids) and length-prefixed bytes in the
 * order of the struct. */
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
#include "core/jobs/job.h"
#include "core/queues/counters.h"
#include "core/schedules/schedule.h"

enum record_kind {
    /* store: 1 … 15 */
    REC_EPOCH = 1,     /* a boot: tokens carry this epoch from here on */
    REC_SEQ_BLOCK = 2, /* sequences up to this one may have been handed out */
    /* queues: 16 … 31 */
    REC_QUEUE_PUT = 16,  /* created or changed: the whole definition */
    REC_QUEUE_GONE = 17, /* deleted: the name is free, its jobs no longer exist */
    REC_QUEUE_END = 18,  /* the last of a deleted queue's jobs has been removed */
    REC_PURGED = 19,     /* what waits in this queue no longer exists; generation moves on */
    REC_COUNTERS = 20,   /* what this frame adds to the counters of a queue, by the hour */
    REC_BULK_BEGIN = 24, /* a bulk action's intent */
    REC_BULK_STEP = 25,  /* how far it has come */
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
    REC_JOBS_GONE = 42,    /* removed for good: retention, delete, slices of purge and bulk */
    REC_JOB_NOTED = 43,    /* label, attributes, result or error of a job that stays as it is */
    REC_JOB_PRIORITY = 44, /* of a running job, which fails or goes back with the next record */
    REC_JOB_ATTEMPT = 45,  /* behind JOB_NEW: an attempt that the job has brought along */
    REC_JOB_CANCEL_REQUESTED = 46, /* of a running job: its lease gets an end */
    /* idempotency keys: 48 … 55 */
    REC_KEY_NEW = 48,
    /* 49 was a kind that is not written any more. */
    REC_KEYS_GONE = 50, /* these keys have expired: a slice */
    /* key-value store: 64 … 79 */
    REC_KV_SET = 64,
    REC_KV_GONE = 65,     /* deleted, or expired: a slice */
    REC_KV_FROM_JOB = 66, /* a job that died left its payload here */
    REC_KV_KEYS = 67,     /* right behind JOB_NEW: the keys at which it would leave it */
    /* schedules and firings: 80 … 95 */
    REC_SCHEDULE_PUT = 80,    /* created or changed: definition and state */
    REC_SCHEDULE_GONE = 81,   /* deleted */
    REC_SCHEDULE_FIRED = 82,  /* made a job, or several times passed and one did */
    REC_SCHEDULE_PASSED = 83, /* a time passed without a job */
    REC_SCHEDULE_FAILED = 84, /* should have made a job and could not */
    REC_JOB_LINKED = 85,      /* these jobs, just claimed, are leased to that one */
    /* notifications: 96 … 111 */
    REC_ALERT_PUT = 96,     /* a rule, created or changed: the whole of it */
    REC_ALERT_GONE = 97,    /* a rule is deleted, with what it raised and its notices */
    REC_ALERT_EDGE = 98,    /* its condition holds in a queue, or does so no longer */
    REC_NOTICE_NEW = 100,   /* something to be delivered */
    REC_NOTICE_TRIED = 101, /* a delivery failed, or is to be repeated: the state of the notice */
    REC_NOTICE_GONE = 102,  /* delivered, dropped or discarded */
    /* breakers: 112 … 119 */
    REC_BREAKER_PUT = 112, /* how the breaker of a target stands */
    REC_BREAKER_GONE = 113,
    /* what the holder of a lease reports: 128 … 143 */
    REC_JOB_PROGRESS = 128, /* replaces what was reported before */
    REC_JOB_LOGGED = 129,   /* entries that are added to the job's log */
    /* reserved: schedules and firings 80 … 95, ledger 120 … 127, steps 130 … 143 */
};

struct rec_epoch {
    uint32_t epoch;
    struct wall_time at;
};

struct rec_seq_block {
    uint64_t upto; /* included */
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
    uint64_t seq_max;        /* the horizon: jobs that existed when it was asked for */
};

struct rec_bulk_step {
    uint64_t bulk;
    uint64_t cursor; /* sequences up to this one are dealt with */
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
    uint32_t lease_ms;   /* 0 = without end: a job holds it, as the JOB_LINKED behind it says */
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

/* An imported job that has an error text gets it by a record right behind its JOB_NEW: JOB_BACK
 * when it waits, JOB_DEAD when it is dead, which says again what the job is. */
struct rec_job_back {
    uint64_t seq;
    uint8_t state;  /* ready or scheduled */
    uint8_t reason; /* failed, timed_out, lease_expired, released, restarted */
    uint16_t failures, crashes;
    uint32_t generation;
    struct wall_time run_at; /* unchanged when ready at once */
    struct wall_time at;
    uint8_t error_kind;
    struct span error; /* empty = the last one stays */
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
    struct wall_time at; /* becomes since when the state changed, else since stays */
    uint32_t generation;
    bool has_payload;
    uint8_t payload_kind;
    struct span payload;
};

/* Members that are not given stay as they are. */
struct rec_job_noted {
    uint64_t seq;
    bool has_label, has_attributes, has_result, has_error;
    struct span label, attributes; /* empty = none any more */
    uint8_t result_kind;           /* enum payload_kind; not NONE */
    struct span result;
    uint8_t error_kind;
    struct span error;
};

struct rec_job_priority {
    uint64_t seq;
    int64_t priority;
};

/* It did not happen here: nothing is counted and there is no event. That of a done job which ended
 * well is its last one. */
struct rec_job_attempt {
    uint64_t seq;
    uint32_t number;             /* ≥ 1 */
    uint8_t outcome, error_kind; /* outcome: not running */
    struct wall_time started_at, ended_at;
    struct span worker, error;
};

/* PROGRESS: as progress_encode writes it; LOGGED: entries of the log (core/jobs/progress.h). */
struct rec_job_report {
    uint64_t seq;
    struct span text;
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
    struct span keys; /* by rising expiry; see record_key_* */
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
    uint64_t version; /* of the commit that took them */
    uint32_t count;
    struct span keys; /* see record_span_* */
};

/* The value is the job's payload, as it is at this record. */
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
    bool condition_changed; /* what it had raised is forgotten */
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
    uint64_t value, mark; /* what was measured, and against what */
};

struct rec_notice_new {
    uint64_t number; /* rises; with id_hi it is the notice's id, spelled like a job's */
    uint64_t id_hi;
    uint8_t on;   /* enum alert_on */
    uint8_t edge; /* enum notice_edge */
    struct wall_time at;
    struct span alert;
    struct span queue;        /* empty = none */
    uint64_t job_seq, job_hi; /* 0 = about no job */
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
    struct wall_time since; /* from when its age counts */
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

/* FIRED, PASSED, FAILED: the whole state as it is then. */
struct rec_schedule_state {
    uint32_t schedule;
    struct wall_time at;
    struct schedule_state state;
};

struct rec_job_linked {
    uint64_t seq, id_hi; /* the job that holds them */
    uint32_t count;
    struct span items; /* as the list of REC_JOBS_GONE */
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
        struct rec_job_report job_report; /* PROGRESS, LOGGED */
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
/* Appends; -ERR_NOMEM changes nothing. After buf_reserve(record_bytes_max) it cannot fail. Values
 * that could not be read back (out of range, over a limit) are programmer errors: the
 * operations have checked what clients sent. */
MUST_CHECK int record_encode(const struct record *r, struct buf *out);
/* Takes one record off the front. Spans point into the input. -ERR_CORRUPT for anything that
 * record_encode could not have written, -ERR_VERSION for an unknown kind; *in is then untouched,
 * *ret is not. */
MUST_CHECK int record_decode(struct span *in, struct record *ret);

/* The list inside REC_JOBS_GONE. */
MUST_CHECK int record_seq_append(struct buf *list, uint64_t *previous, uint64_t seq);
MUST_CHECK int record_seq_next(struct span *list, uint64_t *previous, uint64_t *ret_seq);

/* The list inside REC_KEYS_GONE: for each key its expiry (the difference to the one before) and its
 * hash, which together are its place in a store. Expiries rise or stay. */
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
