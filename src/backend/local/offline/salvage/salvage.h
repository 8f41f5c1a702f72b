/* SPDX-License-Identifier: Apache-2.0 */
/* src/backend/local/offline/salvage reads a store that may be damaged. It may use the rest of
 * backend/local.
 *
 * It returns what can still be read of a SQLite store, damaged or not, without changing a byte of
 * it.
 *
 * The lock of the directory is held during this time, so that no server can start; nothing else in
 * it is opened for writing. Rows that cannot be read are skipped and counted. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "ops/op.h"

/* The order: every queue by number, every key, every job by rising sequence, every schedule,
 * every alert rule. A return other than 0 ends the reading and is passed on. What is given lives
 * only during the call.
 */
struct salvage_sink {
    void *ctx;
    int (*queue)(void *ctx, const struct queue_view *queue);
    int (*key)(void *ctx, const struct kv_view *key);
    /* Whether the job's body shall be read and the job be given. */
    bool (*wanted)(void *ctx, const struct job *job, struct span queue);
    int (*job)(void *ctx, const struct job_view *job);
    int (*schedule)(void *ctx, const struct schedule_view *schedule); /* behind the jobs */
    void (*problem)(void *ctx, const char *sentence);        /* what is damaged, one line each */
    int (*alert)(void *ctx, const struct alert_view *alert); /* without its secret; may be NULL */
};

struct salvage_report {
    uint64_t jobs_damaged;   /* rows, payloads or texts that cannot be a job's */
    uint64_t jobs_partial;   /* given without their result, error text, reports or dependencies */
    uint64_t ranges;         /* of sequences in which nothing can be read … */
    uint64_t sequences;      /* … and how many these are: at most this many jobs */
    uint64_t queues;         /* that could not be read */
    uint64_t queues_partial; /* given without their owner, note or attributes */
    uint64_t schedules;      /* likewise */
    uint64_t alerts;         /* likewise; 1 when some cannot be read */
    uint64_t keys;           /* likewise; 1 at least when some cannot be read */
    uint64_t removals;       /* ranges in which it cannot be read which jobs have been removed */
    bool description;        /* of the store was used although its checksums do not match */
    bool wal;                /* of the database is damaged: transactions in it are missing */
    bool journal;            /* damaged: records behind the damage are missing */
};

/* 0 also when parts are damaged: the report says so. -ERR_NOT_FOUND (no such directory, no store in
 * it), -ERR_LOCKED, -ERR_INVALID (another program's file), -ERR_VERSION, -ERR_CORRUPT (nothing can
 * be read at all), -ERR_IO, -ERR_NOMEM, each with a note; or what the sink returned. */
MUST_CHECK int salvage_run(const char *dir, const struct salvage_sink *sink,
                           struct salvage_report *ret, struct err_note *note);
