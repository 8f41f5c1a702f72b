/* SPDX-License-Identifier: Apache-2.0 */
/* src/backend/local/store has the interface of the stores behind the journal, and what they share:
 * frames, attempts, the data directory. It may use core and base.
 *
 * The store behind the journal: it has what survives a restart and what queries read.
 *
 * A store applies frames, whole and in order, and can return everything that the engine needs to
 * start again, without payloads. There are two: memory (for memory: and the simulator) and SQLite.
 *
 * Threads: apply, tidy, compact and close belong to one thread, the applier's. load runs before
 * that thread starts. A store_reader belongs to the thread that uses it and sees what has been
 * applied. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/containers/arena.h"
#include "base/digest/hash.h"
#include "base/err.h"
#include "base/log.h"
#include "core/records/frame.h"
#include "core/records/record.h"
#include "ops/op.h"

struct store_meta {
    uint8_t store_id[16];
    /* for idempotency and unique keys; drawn when the store was created */
    struct hash_key hash_key;
    uint32_t epoch;       /* of the last boot; 0 = never booted */
    uint64_t seq_upto;    /* sequences up to this one may have been used */
    uint64_t position;    /* records applied */
    int64_t journal_from; /* position at which its journal began; -1 = it has none yet */
    struct wall_time created_at;
};

struct store_numbers {
    uint32_t queue, schedule;
};

static inline uint32_t number_max(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* A resident job as it is loaded: the row, its rare fields, and its lease if it is running. */
struct stored_job {
    struct job job;
    struct job_extra extra;      /* texts; JOB_HAS_EXTRA says whether */
    struct job_token token;      /* newest token ever issued for it; counter 0 = never claimed */
    uint32_t lease_ms;           /* running */
    struct lease_limits limits;  /* running */
    struct span worker;          /* running or done */
    struct wall_time started_at; /* running or done: of the newest attempt; 0 = not known */
};

struct stored_bulk {
    struct rec_bulk_begin begin;
    uint64_t cursor, changed, refused;
};

/* An item that a trigger took, and the newest job that it went to. */
struct stored_link {
    uint64_t item;
    uint64_t job, job_hi;
};

/* Called in this order: meta, every queue, the counters of queues that have any, every bulk, every
 * job by increasing sequence, every idempotency key by increasing expiry, every key of the
 * key-value store, every job's keys for the latter, every step by job; then, as the records that
 * would create them: alert rules, what they have raised, notices by increasing number (new, then
 * their present state), breakers; every schedule by increasing number, every link by increasing
 * item, dependents, dependencies, ends of parents. A non-zero return stops the load and is passed
 * on. A deleted queue whose jobs are not all removed yet comes with gone = true. */
struct store_sink {
    void *ctx;
    int (*meta)(void *ctx, const struct store_meta *meta);
    int (*queue)(void *ctx, const struct rec_queue_put *queue, bool gone);
    /* Totals since it was created. */
    int (*counters)(void *ctx, uint32_t queue, const struct counters *totals);
    int (*bulk)(void *ctx, const struct stored_bulk *bulk);
    int (*job)(void *ctx, const struct stored_job *job);
    int (*key)(void *ctx, const struct rec_key_new *key);
    int (*kv)(void *ctx, const struct rec_kv_set *kv, uint64_t bytes); /* without its value */
    int (*undelivered)(void *ctx, uint64_t seq, struct span keys);
    /* A step of a job, without its result. */
    int (*step)(void *ctx, uint64_t seq, struct span name, size_t result_bytes);
    int (*record)(void *ctx, const struct record *record);
    int (*schedule)(void *ctx, const struct rec_schedule_put *schedule);
    int (*link)(void *ctx, const struct stored_link *link);
    /* Every job that depends on others, the jobs for which it waits, and how jobs ended for which
     * others still wait. */
    int (*dependent)(void *ctx, const struct rec_dependent_put *dependent);
    int (*dependency)(void *ctx, uint64_t child, uint64_t parent);
    int (*parent_ended)(void *ctx, uint64_t parent, uint8_t how);
    /* The highest numbers ever used: the number of a deleted queue or schedule is not used
     * again. */
    int (*numbers)(void *ctx, const struct store_numbers *numbers);
};

/* A query for a reader: exactly one of these. What it points to stays valid until the answer. */
struct store_query {
    uint64_t need;        /* records up to this position must be applied before it is read */
    const uint64_t *seqs; /* the bodies of these jobs, increasing … */
    size_t count;
    bool texts_only;            /* … without payload and result … */
    bool ahead;                 /* … only of ready jobs that have just a payload and keys … */
    bool attempts;              /* … with their history and progress … */
    bool log;                   /* … and, with that, their log … */
    bool steps;                 /* … and their steps … */
    const struct op_list *list; /* … or this page … */
    const struct op_exceptions *exceptions; /* … or the newest failed attempts … */
    const struct op_kv_list *kv_list;       /* … or this page of keys … */
    struct kv_view *kvs;                    /* … or these keys, all of one moment: filled in */
    uint32_t kv_count;
    const struct op_history *history; /* … or the counters by the hour */
};

/* What is shown of a job beyond what the engine knows. Spans are in the given arena. */
struct stored_body {
    bool found;
    struct wall_time started_at;   /* of the newest attempt; 0 = never claimed, or not known */
    struct job_ref holder;         /* the job of the last trigger that took it; seq 0 = none */
    struct attempt_view *attempts; /* if requested: oldest first */
    uint32_t attempt_count;
    struct span progress; /* likewise: of the newest attempt */
    struct span log;      /* if requested */
    struct span steps;    /* if requested: their list (core/jobs/steps.h) */
    struct job_extra extra;
    struct span payload;
    uint8_t result_kind, error_kind;
    uint8_t damage; /* enum job_damage: parts that are damaged and therefore left out */
    bool not_json;  /* with `ahead`: the payload is not JSON, although the job says so */
    struct span result, error;
};

/* Sets has_body and what belongs to it in a view. */
static inline void stored_body_show(const struct stored_body *body, struct job_view *view)
{
    view->has_body = true;
    view->extra = body->extra;
    view->payload = body->payload;
    view->result_kind = body->result_kind;
    view->error_kind = body->error_kind;
    view->result = body->result;
    view->error = body->error;
}

struct store;
struct store_reader;

struct store_ops {
    const char *kind;
    const struct store_meta *(*meta)(struct store *s);
    int (*load)(struct store *s, const struct store_sink *sink, struct err_note *note);
    /* From now on a journal contains what comes after the applied position. Durable on return. */
    int (*journal_begun)(struct store *s, struct err_note *note);
    /* Applies the frames and makes them durable, all or none. A frame at or below the applied
     * position is skipped; a gap is -ERR_CORRUPT. -ERR_NO_SPACE: rolled back, may be tried again.
     * Any other failure is fatal: the caller stops the process. */
    int (*apply)(struct store *s, const struct span *frames, size_t count, struct err_note *note);
    /* A bounded step of housekeeping (deletes rows of removed jobs, returns pages); *more says
     * whether another step is worthwhile. */
    int (*tidy)(struct store *s, bool *more, struct err_note *note);
    /* A bounded step (some milliseconds) of deleting removed rows and returning every free page:
     * one commit, or one checkpoint. *left: free pages before it, plus one while rows are to be
     * deleted. At 0 the WAL has been emptied as well, unless a reader prevented it, and nothing is
     * left to do. Failures are those of apply. */
    int (*compact)(struct store *s, uint64_t *left, struct err_note *note);
    /* The directory with its files, valid until close, and the bytes that they use. From any
     * thread; NULL slots: it has no files. */
    const char *(*dir)(const struct store *s);
    uint64_t (*bytes)(const struct store *s);
    void (*close)(struct store *s);
    int (*reader_open)(struct store *s, struct store_reader **ret, struct err_note *note);
};

struct store {
    const struct store_ops *ops;
    const struct log *log; /* set after opening; may be NULL */
};

struct store_reader_ops {
    /* Fills bodies[i] for seqs[i] (increasing), all of one moment. found = false if the job does
     * not exist; with `ahead` (only for jobs that are known to be ready), also if it has no
     * payload, or more than payload and keys. */
    int (*read)(struct store_reader *r, const struct store_query *query, struct arena *arena,
                struct stored_body *bodies);
    /* A page of jobs by filter, without jobs of deleted queues and purged generations. Views of
     * running jobs come without lease_left_ms (-1). */
    int (*list)(struct store_reader *r, const struct op_list *query, struct arena *arena,
                struct job_view **ret_jobs, uint32_t *ret_count, uint64_t *ret_cursor,
                uint64_t *ret_as_of);
    /* The newest attempts that failed or crashed, newest first, of existing jobs. */
    int (*exceptions)(struct store_reader *r, const struct op_exceptions *query,
                      struct arena *arena, struct attempt_view **ret, uint32_t *ret_count);
    /* A page of keys, with their values if requested; the cursor is the last key, or empty. */
    int (*kv_list)(struct store_reader *r, const struct op_kv_list *query, struct arena *arena,
                   struct kv_view **ret, uint32_t *ret_count, struct span *ret_cursor,
                   uint64_t *ret_as_of);
    /* Fills in found, version, kind, value and expires_at of each view, whose keys are set. */
    int (*kv_get)(struct store_reader *r, struct kv_view *views, uint32_t count,
                  struct arena *arena);
    /* The hours in which something happened in a queue that exists, oldest first. */
    int (*history)(struct store_reader *r, const struct op_history *query, struct arena *arena,
                   struct hour_view **ret, uint32_t *ret_count);
    void (*close)(struct store_reader *r);
};

struct store_reader {
    const struct store_reader_ops *ops;
};

struct random;
/* The memory store: position 0, keys from the given seed. A single thread applies, reads and
 * loads. */
MUST_CHECK int store_open_memory(uint64_t seed, struct store **ret);
/* Memory only, before load: sets the epoch of the last boot, which it cannot remember. */
void store_memory_set_epoch(struct store *s, uint32_t epoch);
/* DIR/holdfast.db. Takes the lock of DIR (-ERR_LOCKED with a clear note) and creates the schema in
 * an empty directory; refuses a store of another format, or with foreign objects. */
MUST_CHECK int store_open_sqlite(const char *dir, struct wall_time now, struct store **ret,
                                 struct err_note *note);
