/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the salvage.
 *
 *   salvage.c          opening, queues, jobs
 *   salvage_gone.c     removed jobs whose rows are still there
 *   salvage_schedules.c  schedules
 *   salvage_alerts.c   alert rules
 *   salvage_reports.c  progress and log of a job
 *   salvage_steps.c    the steps of a job
 *   salvage_dependencies.c  what a job depends on
 *   salvage_journal.c  what the journal has and the database lacks */
#pragma once

#include "backend/local/offline/reading.h"
#include "backend/local/offline/row_walk.h"
#include "backend/local/offline/salvage/salvage.h"
#include "backend/local/sqlite/store_sqlite.h"
#include "base/containers/arena.h"
#include "base/containers/map.h"

/* ---- salvage.c ---- */

struct salvage_queue {
    struct rec_queue_put put; /* texts in the arena */
    bool gone;
    bool guessed; /* its row could not be read; only the number is true */
    bool by_due;  /* of its policy, if this can be read; known once the queue was given */
};

/* A job as the journal leaves it. Spans point into its frames, kept in the arena. */
struct salvage_job {
    uint64_t seq;
    struct job job;
    bool fresh;  /* made there: the database has no row */
    bool gone;   /* removed */
    bool broken; /* what it was before cannot be read */
    bool has_payload, has_result, has_error, has_label, has_attributes;
    uint8_t result_kind, error_kind;
    struct span payload, result, error;
    struct job_extra extra; /* fresh ones; of others label and attributes, where noted */
    bool claimed;           /* and this is the token of the last claim */
    struct job_token token;
    struct span progress, log; /* reported there; empty = nothing */
    struct span steps;         /* stored there: a list */
};

enum salvage_stmt {
    SALVAGE_QUEUES,
    SALVAGE_JOBS,
    SALVAGE_JOB,
    SALVAGE_PAYLOAD,
    SALVAGE_EXTRA,
    SALVAGE_OUTCOME,
    SALVAGE_REPORT,
    SALVAGE_STEPS,
    SALVAGE_DEPENDENT,
    SALVAGE_WAITS,
    SALVAGE_ENDED,
    SALVAGE_STMT_COUNT
};

struct salvage {
    struct store_dir dir;
    sqlite3 *db;
    sqlite3_stmt *stmts[SALVAGE_STMT_COUNT];
    struct store_meta meta;
    const struct salvage_sink *sink;
    struct salvage_report *report;
    struct err_note *note;
    struct arena arena;
    struct salvage_queue *queues;
    size_t queue_count, queue_room;
    struct map64 queue_places; /* number → index + 1 */
    struct salvage_job *jobs;  /* of the journal, in the order they turn up */
    size_t job_count, job_room;
    struct map64 job_places; /* sequence → index + 1 */
    uint64_t *gone;          /* marks of removed jobs, 64 sequences each */
    size_t gone_count, gone_room;
    struct map64 gone_places;           /* sequence >> 6, plus 1 → index + 1 */
    struct rec_schedule_put *schedules; /* texts in the arena; number 0 = deleted */
    size_t schedule_count, schedule_room;
    struct rec_alert_put *alerts; /* texts in the arena; an empty name = deleted */
    size_t alert_count, alert_room;
    struct salvage_key *keys; /* of the journal; sorted before they are given */
    size_t key_count, key_room;
    struct map128 key_places;             /* hash → index + 1 */
    struct salvage_dependent *dependents; /* of the journal */
    size_t dependent_count, dependent_room;
    struct map64 dependent_places; /* sequence → index + 1 */
    struct job_ref *waits;         /* of the job that is being given */
    size_t waits_room;
    struct map64 ended; /* of the journal: sequence → enum dependency_end + 1; NONE: forgotten */
};

/* What the journal says about a key of the key-value store. */
struct salvage_key {
    struct span key;
    struct wall_time expires_at;
    struct span value;
    uint64_t seq;   /* ≠ 0: the value is the payload that the database has of this job */
    uint32_t bytes; /* length of the value */
    uint8_t kind;
    bool gone;
};

/* ---- salvage_kv.c ---- */

/* A record of the journal about keys. */
MUST_CHECK int salvage_key_record(struct salvage *s, const struct record *r);
/* All of them, in their order. Damage is told and counted. */
MUST_CHECK int salvage_keys_give(struct salvage *s);
/* The payload of a job as the database has it, until the statement is reset; -ERR_NOT_FOUND … */
MUST_CHECK int salvage_payload(struct salvage *s, uint64_t seq, struct span *ret);

/* The row of the job in a side table, until the statement is reset. 0, -ERR_NOT_FOUND,
 * -ERR_CORRUPT, or trouble of another kind. */
MUST_CHECK int salvage_side_row(struct salvage *s, enum salvage_stmt which, uint64_t seq);
/* The next row of the same job, likewise. */
MUST_CHECK int salvage_row_next(struct salvage *s, enum salvage_stmt which);

/* ---- salvage_reports.c ---- */

/* A record of the journal with progress or log lines. */
MUST_CHECK int salvage_report_record(struct salvage *s, struct salvage_job *j,
                                     const struct record *r);
/* Fills in the reports about the job; lost: they cannot be read. */
MUST_CHECK int salvage_report_take(struct salvage *s, const struct salvage_job *over,
                                   struct job_view *v, bool *ret_lost);

/* ---- salvage_steps.c ---- */

/* A record of the journal with steps. */
MUST_CHECK int salvage_steps_record(struct salvage *s, struct salvage_job *j,
                                    const struct record *r);
/* Fills in the steps of the job; lost: some cannot be read. */
MUST_CHECK int salvage_steps_take(struct salvage *s, const struct salvage_job *over,
                                  struct job_view *v, bool *ret_lost);

/* ---- salvage_dependencies.c ---- */

/* A record of the journal about dependencies. */
MUST_CHECK int salvage_dependency_record(struct salvage *s, const struct record *r);
/* Fills in what the job depends on and, if it is blocked, waits for; lost: it cannot be read. */
MUST_CHECK int salvage_depends_take(struct salvage *s, struct job_view *v, bool *ret_lost);
void salvage_dependents_done(struct salvage *s);

/* Whether the job was purged, or its queue deleted, and its removal is due. */
bool salvage_was_purged(const struct salvage *s, const struct job *j);

/* The last sequence there can be: what was reserved, or, should that be damaged, what is there. */
uint64_t salvage_seq_last(struct salvage *s);

/* ---- salvage_gone.c ---- */

/* Which jobs have been removed, although their rows are there. Damage is told and counted. */
MUST_CHECK int salvage_gone_read(struct salvage *s);
bool salvage_is_gone(const struct salvage *s, uint64_t seq);

/* ---- salvage_schedules.c ---- */

/* Those that the database has. Damage is told and counted. */
MUST_CHECK int salvage_schedules_read(struct salvage *s);
/* A record of the journal about schedules. */
MUST_CHECK int salvage_schedule_record(struct salvage *s, const struct record *r);
MUST_CHECK int salvage_schedules_give(struct salvage *s);

/* ---- salvage_alerts.c: the same of alert rules ---- */

MUST_CHECK int salvage_alerts_read(struct salvage *s);
MUST_CHECK int salvage_alert_record(struct salvage *s, const struct record *r);
MUST_CHECK int salvage_alerts_give(struct salvage *s);

/* One line for the user. */
void salvage_problem(struct salvage *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The text, copied to where it lasts as long as s. */
MUST_CHECK int salvage_text_keep(struct salvage *s, struct span *text);
/* Copies the definition; replaces what it was. */
MUST_CHECK int salvage_queue_set(struct salvage *s, const struct rec_queue_put *put, bool gone);
struct salvage_queue *salvage_queue_of(const struct salvage *s, uint32_t number); /* NULL = none */

/* ---- salvage_journal.c ---- */

/* Reads DIR/journal, if it is there, over what the database has. Damage is told and counted, not
 * returned. */
MUST_CHECK int salvage_journal(struct salvage *s);
/* What the journal says about a job; NULL = nothing. */
const struct salvage_job *salvage_job_of(const struct salvage *s, uint64_t seq);
