/* SPDX-License-Identifier: Apache-2.0 */
/* Random but legal histories of a store: frames of records such as the engine could write, made
 * with core's own rules, and a plain model of what is true after them. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/digest/random.h"
#include "core/filter.h"
#include "core/queues/policy.h"
#include "core/records/record.h"

#define HISTORY_KEYS 64
#define HISTORY_KV 40
#define HISTORY_QUEUES 8
#define HISTORY_JOBS 32768

struct history_job {
    struct job job; /* state none = not there (any more) */
    struct job_token token;
    uint32_t lease_ms;
    struct lease_limits limits;
    char unique[16], group[16], correlation[16]; /* "" = none */
    struct wall_time expires_at;
    uint32_t payload_crc, result_crc, error_crc; /* of the bytes; 0 = none */
    char kind[16];                               /* "" = none */
    uint32_t headers_crc;
    uint32_t progress_crc;           /* of the newest report … */
    struct job_token progress_token; /* … and of the lease under which it came */
    uint32_t log_crc;                /* of all that was logged: crc32c, not history_crc … */
    size_t log_bytes;                /* … and its length */
};

struct history_queue {
    uint32_t number; /* 0 = none */
    uint32_t generation;
    bool gone;
    char name[32];
    struct queue_policy policy;
};

#define HISTORY_SCHEDULES 8

struct history {
    struct random random;
    uint32_t hour; /* of the counters */
    struct wall_time now;
    uint64_t position; /* records so far */
    uint64_t seq, counter, bulk;
    uint32_t epoch, queue;
    unsigned delay_percent; /* of enqueued jobs become scheduled */
    uint32_t lease_ms;      /* of claims; 0 = 30,000 */
    unsigned jobs_max;      /* live rows to stay around */
    struct history_queue queues[HISTORY_QUEUES];
    struct history_job jobs[HISTORY_JOBS]; /* jobs[seq] */
    bool bulk_open;
    struct record_key keys[HISTORY_KEYS]; /* that are there, in no order */
    unsigned key_count;
    bool kv_there[HISTORY_KV];             /* keys [n] of the key-value store */
    bool keyed[HISTORY_JOBS];              /* jobs that got their keys for when they die */
    bool schedules[HISTORY_SCHEDULES + 1]; /* by number: it is there */
    /* the frame that is being built */
    struct buf frame;
    uint32_t count;
};

void history_init(struct history *h, uint64_t seed);
void history_done(struct history *h);
struct history *history_new(uint64_t seed, uint32_t epoch);
void history_free(struct history *h);
/* A frame of about n records; valid until the next. */
struct span history_frame(struct history *h, unsigned n);
/* Single steps, for tests that need a certain state: begin, records, end. */
void history_begin(struct history *h);
void history_add(struct history *h, const struct record *r);
struct span history_end(struct history *h);
/* Whether the job exists for readers. */
bool history_shown(const struct history *h, const struct history_job *j);
uint32_t history_crc(struct span bytes); /* as in history_job */
/* Makes queue `slot` (name "queue-N") unless it is there. */
void history_queue(struct history *h, unsigned slot);
/* Adds a job; extra and payload may be empty. Returns its sequence. */
uint64_t history_enqueue(struct history *h, unsigned slot, const struct job_extra *extra,
                         struct span payload);
void history_claim(struct history *h, uint64_t seq, struct span worker);
void history_ack(struct history *h, uint64_t seq, struct span result);
void history_bury(struct history *h, uint64_t seq, struct span error);
void history_cancel(struct history *h, uint64_t seq);
void history_remove(struct history *h, uint64_t first, uint64_t last); /* those that are there */
