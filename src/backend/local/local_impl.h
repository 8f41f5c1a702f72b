/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the local backend, shared by its own files.
 *
 *   local.c        one turn of the loop, the slots, close
 *   local_open.c   open, recover, start the threads
 *   local_reads.c  reads that wait for the sweeper
 *   local_upkeep.c backup and compacting */
#pragma once

#include "backend/backend_impl.h"
#include "backend/local/applier.h"
#include "backend/local/backup.h"
#include "backend/local/ballast.h"
#include "backend/local/commit_gate.h"
#include "backend/local/journal/journal.h"
#include "backend/local/journal/writer.h"
#include "backend/local/loop_wake.h"
#include "backend/local/reader.h"
#include "backend/local/watches.h"
#include "backend/settles.h"

/* A query whose records are not all applied yet. */
struct read_wait {
    void *request;
    struct store_query query;
    int64_t until; /* mono ms: a list is then read as it is, bodies are given up */
    struct read_wait *next;
};

struct local {
    struct backend base;
    struct backend_config config;
    struct wall_time opened_at;
    struct store *store;
    struct commit_gate *gate;
    struct journal *journal; /* this and the threads: NULL for memory: */
    unsigned torn_files;     /* saved copies of incomplete entries beside the journal */
    struct ballast *ballast;
    struct writer *writer;
    struct applier *applier;
    struct reader *reader; /* bodies */
    struct reader *lister; /* lists, which may take seconds, apart */
    struct span *frames;   /* of this turn, not given to the writer yet */
    size_t frame_count, frame_room;
    struct read_wait *waits;     /* oldest last */
    uint64_t applied;            /* position the store has */
    struct store_reader *direct; /* memory: read on the spot */
    size_t crowd;                /* replies that waited for the last commits, averaged */
    bool clock_suspect;          /* as last logged */
    uint64_t jobs_damaged;       /* set aside since the start */
    uint64_t read_errors;        /* since the start */
    char read_trouble[200];      /* why the last read failed; "" = it did not */
    struct watches watches;
    backend_news_fn news_fn;
    void *news_ctx;
    uint64_t news_told; /* the newest event that the listener may know of */
    struct settles settles;
    struct backup *backup;              /* under way, also when nobody waits for it any more */
    struct backup_request backup_for;   /* done = NULL: it was cancelled */
    uint64_t backup_need;               /* it begins when this position is applied; 0 = it has */
    struct compact_request compact_for; /* done = NULL: none under way */
    uint64_t compact_before;            /* bytes */
    bool closing;
    uint64_t closing_since; /* ns */
    bool gave_up;           /* closing without room in the journal: the rest is not durable */
    backend_closed_fn closed_fn;
    void *closed_ctx;
    unsigned open_handles;
    uv_prepare_t prepare;
    uv_timer_t timer;
    struct loop_wake wake; /* for the threads */
    uv_idle_t no_sleep;    /* active: the loop does not sleep before the next turn */
};

extern const struct backend_ops local_ops;
extern const struct backend_ops memory_ops;

struct now local_now(const struct local *l);
/* What the commit gate asks for. */
void local_frame(void *ctx, struct span frame, uint64_t last);
void local_reply(void *ctx, backend_reply_fn fn, void *fn_ctx, const struct reply *reply);
void local_wake(void *ctx, uint32_t queue);
/* For the threads. */
void local_wake_loop(void *ctx);
MUST_CHECK int local_handles_open(struct local *l);
void local_free(struct local *l);
/* The same for one that did not open: when handles are open it is freed once the loop has run. */
void local_abandon(struct local *l);

/* --- local_reads.c --- */
void local_read(void *ctx, void *request, const struct store_query *query);
/* Reads what no longer has to wait. */
void local_reads_go_on(struct local *l);
/* When the next of them gives up waiting; INT64_MAX = none waits. */
int64_t local_reads_wait_ms(const struct local *l);
void local_answer(struct local *l, const struct reader_job *j);
void local_damaged(void *ctx, const struct job_view *job);
void local_reads_free(struct local *l);

/* --- local_upkeep.c --- */
int local_backup(struct backend *b, const struct backup_request *request, struct err_note *note);
void local_backup_cancel(struct backend *b);
int local_compact(struct backend *b, const struct compact_request *request, struct err_note *note);
void local_compact_cancel(struct backend *b);
/* Once a turn: begins and ends what can be. */
void local_upkeep(struct local *l);
/* The backend closes: whoever waits is told so. */
void local_upkeep_end(struct local *l);
void local_upkeep_figures(const struct local *l, struct backend_figures *ret);
