/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the memory store, shared by its own files.
 *
 *   store_memory.c         open, close, load
 *   memory/jobs.c    jobs and the records about them
 *   memory/apply.c   queues, bulk actions, keys; the loop over the records of a frame
 *   memory/notices.c alert rules, notices, breakers
 *   memory/schedules.c  schedules, links
 *   memory/dependencies.c  jobs that depend on others
 *   memory/read.c    bodies, lists, history
 *   memory/kv.c      the key-value store: all of it
 *
 * Jobs are slab records found by sequence and linked by increasing sequence; the fields that few
 * jobs have are in separate blocks. A job that no longer exists (purged generation, deleted queue)
 * stays in the list, is loaded, and is hidden from readers until REC_JOBS_GONE removes it.
 *
 * This folder implements local/store/store.h in memory. It may use core and base, and does no I/O.
 */
#pragma once

#include "backend/local/store/store.h"
#include "base/containers/heap.h"
#include "base/containers/map.h"
#include "base/containers/seqdir.h"
#include "base/containers/slab.h"

struct kept_outcome {
    uint8_t result_kind, error_kind;
    char *result, *error; /* NULL = none */
    size_t result_len, error_len;
};

/* What its workers reported during the attempt (core/jobs/progress.h), and steps. */
struct kept_report {
    char *progress, *log; /* NULL = none */
    size_t progress_len, log_len;
    struct buf steps; /* their list (core/jobs/steps.h) */
};

/* An attempt that did not end by an ack; worker and error follow the struct. */
struct kept_attempt {
    struct attempt_view view;   /* without queue and id */
    struct kept_attempt *older; /* of the same job */
    /* Failed and crashed attempts of all jobs, in the order in which they ended; NULL = end, or not
     * in this list. */
    struct kept_attempt *wrong_older, *wrong_newer;
};

/* The fields that few jobs have, as job_extra_put writes them. */
struct kept_extra {
    uint32_t len;
    uint8_t bytes[];
};

struct kept_job {
    struct job job;
    struct job_token token;
    uint32_t lease_ms;
    struct lease_limits limits;  /* running */
    uint32_t prev, next;         /* handles, by increasing sequence; 0 = end */
    struct wall_time started_at; /* of the newest attempt; 0 = never claimed */
    struct job_ref holder;       /* the job of the last trigger that took it; seq 0 = none */
    uint32_t worker_len;
    char *worker;                  /* NULL = none */
    char *payload;                 /* job.payload_bytes; NULL = none */
    struct kept_extra *extra;      /* NULL = none */
    struct kept_outcome *outcome;  /* NULL = no result, no error */
    struct kept_report *report;    /* NULL = no progress, log or steps */
    struct kept_attempt *attempts; /* newest first, at most LIMIT_ATTEMPTS_KEPT */
    char *undelivered;             /* keys of the key-value store; NULL = none */
    uint32_t undelivered_len;
};

struct kept_kv {
    uint64_t version;
    struct wall_time expires_at;
    uint8_t kind;
    uint32_t key_len, value_len;
    char *key, *value; /* value: NULL = empty */
};

/* Keys in order, in blocks of at most KV_BLOCK: a change moves no more than a block and the list of
 * blocks. */
#define KV_BLOCK 512
struct kv_block {
    uint32_t count; /* ≥ 1 */
    struct kept_kv *items[KV_BLOCK];
};

struct kept_queue {
    struct rec_queue_put put;
    char *texts; /* what put's spans point to */
    bool gone;
    struct counters totals;  /* since it was created */
    struct hour_view *hours; /* by increasing hour, the newest HISTORY_HOURS */
    uint32_t hour_count;
};

struct kept_bulk {
    struct stored_bulk bulk;
    char *texts; /* what begin.group and begin.kind point to; NULL = both are empty */
};

struct kept_schedule {
    struct rec_schedule_put put; /* in the state after the newest record */
    char *texts;                 /* what put's spans point to */
};

struct kept_key {
    struct rec_key_new key;
    size_t place; /* index in keys_by_expiry */
};

/* An alert rule, what one has raised, a notice or a breaker: the record that created it. */
struct kept_record {
    struct record record;
    struct record tried; /* notices: the newest result; kind 0 = never tried */
    char *error;         /* what tried's span points to; NULL = empty */
    char texts[];        /* what the record's spans point to */
};

struct kept_records {
    struct kept_record **list; /* by name, rule and queue, number, target */
    size_t count, room;
};

/* A job that depends on others. */
struct kept_dependent {
    struct rec_dependent_put put;
    uint64_t *parents; /* those for which it waits, rising */
    uint32_t count, room;
};

/* How a job ended for which others still wait. */
struct kept_end {
    uint64_t seq;
    uint8_t how;
};

struct kept_dependencies {
    struct kept_dependent *list; /* by rising sequence */
    size_t count, room;
    struct kept_end *ends; /* likewise */
    size_t end_count, end_room;
};

enum kept_kind { KEPT_ALERTS, KEPT_RAISED, KEPT_NOTICES, KEPT_BREAKERS, KEPT_KIND_COUNT };

struct store_memory {
    struct store base;
    struct store_meta meta;
    struct store_numbers numbers;
    struct slab jobs; /* struct kept_job */
    struct seqdir by_seq;
    uint32_t first, last;      /* ends of the chain */
    struct kept_queue *queues; /* by increasing number */
    size_t queue_count, queue_room;
    struct kept_bulk *bulks; /* by increasing number */
    size_t bulk_count, bulk_room;
    struct kept_key *keys; /* slots; a free one has the next free slot + 1 in `place` */
    size_t key_slots, key_room, key_free;
    struct heap keys_by_expiry; /* seq = slot */
    struct map128 keys_by_hash; /* → slot + 1 */
    struct kept_records records[KEPT_KIND_COUNT];
    struct kept_schedule *schedules; /* by increasing number */
    size_t schedule_count, schedule_room;
    struct kept_dependencies dependencies;
    struct kept_attempt *wrong; /* the newest that failed or crashed */
    struct kv_block **kv_blocks;
    size_t kv_block_count, kv_block_room;
    size_t readers;
};

/* ---- store_memory.c ---- */

struct store_memory *store_memory_of(struct store *s);

/* ---- memory/jobs.c ---- */

static inline struct kept_job *job_at(const struct store_memory *m, uint32_t handle)
{
    return handle ? slab_at(&m->jobs, handle) : NULL;
}

static inline struct kept_job *job_of(const struct store_memory *m, uint64_t seq)
{
    return job_at(m, seqdir_get(&m->by_seq, seq));
}

/* When the attempt began, as far as the row alone says it: only for running and done jobs. */
static inline struct wall_time job_started_at(const struct kept_job *k)
{
    bool told = k->job.state == STATE_RUNNING || k->job.state == STATE_DONE;
    return told ? k->started_at : (struct wall_time){0};
}

MUST_CHECK int need_job(const struct store_memory *m, uint64_t seq, struct kept_job **ret,
                        struct err_note *note);
/* Replaces *at by a copy of the bytes; none for an empty span. */
MUST_CHECK int bytes_replace(char **at, struct span bytes);
/* Copies the span's bytes to *at and points the span there. */
void span_move(struct span *s, char **at);
/* Frees the blocks of a job. */
void job_blocks_free(struct store_memory *m, struct kept_job *k);
/* Its texts point into the job. */
struct job_extra extra_of(const struct kept_job *k);
MUST_CHECK int job_new(struct store_memory *m, const struct rec_job_new *r, struct err_note *note);
MUST_CHECK int jobs_gone(struct store_memory *m, const struct rec_jobs_gone *r,
                         struct err_note *note);
MUST_CHECK int memory_load_steps(const struct store_memory *m, const struct store_sink *sink);
/* A record about one job that exists. */
MUST_CHECK int apply_to_job(struct store_memory *m, struct kept_job *k, const struct record *r);

/* ---- memory/notices.c ---- */

/* A record about alerts, notices or breakers; -ERR_VERSION if it is about something else. */
MUST_CHECK int memory_apply_notice(struct store_memory *m, const struct record *r,
                                   struct err_note *note);
MUST_CHECK int memory_load_notices(const struct store_memory *m, const struct store_sink *sink);
void memory_free_notices(struct store_memory *m);

/* ---- memory/apply.c ---- */

struct kept_queue *queue_of(const struct store_memory *m, uint32_t number); /* NULL = none */
MUST_CHECK int need_queue(const struct store_memory *m, uint32_t number, struct kept_queue **ret,
                          struct err_note *note);
/* For keys_by_expiry.moved. */
void store_memory_key_moved(void *ctx, struct heap_entry e, size_t index);
int memory_apply(struct store *s, const struct span *frames, size_t count, struct err_note *note);

/* ---- memory/kv.c ---- */

/* One of the records of the key-value store. */
MUST_CHECK int memory_kv_apply(struct store_memory *m, const struct record *r,
                               struct err_note *note);
MUST_CHECK int memory_kv_load(const struct store_memory *m, const struct store_sink *sink);
void memory_kv_free(struct store_memory *m);
int memory_kv_list(struct store_reader *r, const struct op_kv_list *query, struct arena *arena,
                   struct kv_view **ret, uint32_t *ret_count, struct span *ret_cursor,
                   uint64_t *ret_as_of);
int memory_kv_get(struct store_reader *r, struct kv_view *views, uint32_t count,
                  struct arena *arena);

/* ---- memory/schedules.c ---- */

/* Records about schedules, and links; -ERR_VERSION for any other. */
MUST_CHECK int memory_schedule_record(struct store_memory *m, const struct record *r,
                                      struct err_note *note);
MUST_CHECK int memory_load_schedules(const struct store_memory *m, const struct store_sink *sink);
void memory_schedules_free(struct store_memory *m);

/* ---- memory/dependencies.c ---- */

/* Records about dependents and what they wait for; -ERR_VERSION for any other. */
MUST_CHECK int memory_dependency_record(struct store_memory *m, const struct record *r,
                                        struct err_note *note);
MUST_CHECK int memory_load_dependencies(const struct store_memory *m,
                                        const struct store_sink *sink);
void memory_dependencies_free(struct store_memory *m);

/* ---- memory/read.c ---- */

struct store_memory *memory_of_reader(struct store_reader *r);

int memory_reader_open(struct store *s, struct store_reader **ret, struct err_note *note);
