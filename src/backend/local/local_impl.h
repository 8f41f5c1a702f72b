/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the local backend, shared by its own files.
 *
 *   local.c        one iteration of the loop, the slots, close
 *   local_open.c   open, recover, start the threads
 *   local_reads.c  reads that wait for the applier
 *   local_upkeep.c backup and compacting
 *   commit_gate.c  replies that wait until their records are durable
 *   applier.c      the thread that writes frames of the journal to the store;  backup.c  copies it
 *   reader.c       the threads that read the store
 *   watches.c, loop_wake.c  clients that wait for a queue, and threads that wake the loop
 *
 *   engine/        the state in memory, and every decision
 *   journal/       the log that makes records durable
 *   payloads/      payloads in memory (cache.c), and those that claims will need (prefetch.c)
 *   store/         the interface of a store (store.h), and what both stores share: frames,
 *                  attempts, reserved disk space, the data directory with its lock
 *   sqlite/        the store in a file
 *   pages/         the checksums of its pages
 *   memory/        the store of memory:
 *   offline/       check, restore and export of a store that no server uses */
#pragma once

#include "backend/backend_impl.h"
#include "backend/local/applier.h"
#include "backend/local/backup.h"
#include "backend/local/commit_gate.h"
#include "backend/local/journal/journal.h"
#include "backend/local/journal/writer.h"
#include "backend/local/loop_wake.h"
#include "backend/local/reader.h"
#include "backend/local/store/disk_reserve.h"
#include "backend/local/watches.h"
#include "backend/settle_calls.h"

/* A query that needs records which are not all applied yet. */
struct read_wait {
    void *request;
    struct store_query query;
    int64_t until; /* mono ms: then a list is read as it is, and bodies are given up */
    struct read_wait *next;
};

struct local {
    struct backend base;
    struct backend_config config;
    struct wall_time opened_at;
    struct store *store;
    struct commit_gate *gate;
    struct journal *journal; /* this and the threads are NULL for memory: */
    unsigned torn_files;     /* saved copies of incomplete entries beside the journal */
    struct disk_reserve *reserve;
    struct writer *writer;
    struct applier *applier;
    struct reader *reader; /* bodies */
    struct reader *lister; /* lists, which may take seconds, have a separate thread */
    struct span *frames;   /* frames of this iteration that the writer does not have yet */
    size_t frame_count, frame_room;
    struct read_wait *waits;     /* oldest last */
    uint64_t applied;            /* position up to which the store has applied records */
    struct store_reader *direct; /* memory: reads are done on the loop thread */
    size_t waiting_average;      /* replies that waited for the last commits, as a moving average */
    bool clock_suspect;          /* as last logged */
    uint64_t jobs_damaged;       /* set aside since the start */
    uint64_t read_errors;        /* failed reads since the start */
    char read_trouble[200];      /* why the last read failed; "" = it succeeded */
    struct watches watches;
    backend_news_fn news_fn;
    void *news_ctx;
    uint64_t news_told; /* the newest event that was reported to the listener */
    struct settle_calls settle_calls;
    struct backup *backup;            /* running, also after it was cancelled */
    struct backup_request backup_for; /* done = NULL: it was cancelled */
    /* it starts when this position is applied; 0 = it has started */
    uint64_t backup_need;
    struct compact_request compact_for; /* done = NULL: none is running */
    uint64_t compact_before;            /* bytes */
    bool closing;
    uint64_t closing_since; /* ns */
    bool gave_up;           /* closing without space in the journal: the rest is not durable */
    backend_closed_fn closed_fn;
    void *closed_ctx;
    unsigned open_handles;
    uv_prepare_t prepare;
    uv_timer_t timer;
    struct loop_wake wake; /* for the threads */
    uv_idle_t no_sleep;    /* active: the loop does not sleep before the next iteration */
};

extern const struct backend_ops local_ops;
extern const struct backend_ops memory_ops;

struct now local_now(const struct local *l);
/* Callbacks of the commit gate. */
void local_frame(void *ctx, struct span frame, uint64_t last);
void local_reply(void *ctx, backend_reply_fn fn, void *fn_ctx, const struct reply *reply);
void local_wake(void *ctx, uint32_t queue);
/* Called by the threads. */
void local_wake_loop(void *ctx);
MUST_CHECK int local_handles_open(struct local *l);
void local_free(struct local *l);
/* Frees a backend that could not be opened; if handles are open, after the loop has run. */
void local_abandon(struct local *l);

/* --- local_reads.c --- */
void local_read(void *ctx, void *request, const struct store_query *query);
/* Starts the reads that no longer have to wait. */
void local_reads_go_on(struct local *l);
/* Time until the next of them stops waiting; INT64_MAX = none waits. */
int64_t local_reads_wait_ms(const struct local *l);
void local_answer(struct local *l, const struct reader_job *j);
void local_damaged(void *ctx, const struct job_view *job);
void local_reads_free(struct local *l);

/* --- local_upkeep.c --- */
int local_backup(struct backend *b, const struct backup_request *request, struct err_note *note);
void local_backup_cancel(struct backend *b);
int local_compact(struct backend *b, const struct compact_request *request, struct err_note *note);
void local_compact_cancel(struct backend *b);
/* Called in each iteration: starts and ends what can be. */
void local_upkeep(struct local *l);
/* The backend closes: callers that wait get -ERR_CLOSED. */
void local_upkeep_end(struct local *l);
void local_upkeep_figures(const struct local *l, struct backend_figures *ret);
