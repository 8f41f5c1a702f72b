/* SPDX-License-Identifier: Apache-2.0 */
/* Every statement the store sends while it runs, by name. '@' stands for the schema. */
#pragma once

#include "base/err.h"

enum sql_id {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ROLLBACK,
    /* a unit of work: what it needs */
    SQL_NOW,
    SQL_LOCK_SHARED,
    SQL_LOCK_ALONE,
    SQL_SEQS,
    SQL_NUMBERS,
    SQL_QUEUES,
    SQL_COUNTS,
    SQL_JOBS,
    SQL_CLAIM,
    SQL_HOLDERS,
    SQL_RIVALS,
    SQL_NONCE,
    SQL_NONCE_QUEUES,
    SQL_NONCE_LOCK,
    SQL_IDEM,
    SQL_LIVE,
    SQL_WORDS,
    SQL_SEQ_HIGH,
    /* … and what it leaves */
    SQL_QUEUE_PUT,
    SQL_QUEUE_GONE,
    SQL_QUEUE_PURGED,
    SQL_JOB_LETS_GO,
    SQL_JOB_SET,
    SQL_JOB_NEW,
    SQL_JOB_DEL,
    SQL_JOB_PAYLOAD,
    SQL_JOB_RESULT,
    SQL_JOB_ERROR,
    SQL_JOB_NOTE,
    SQL_ATTEMPT_NEW,
    SQL_ATTEMPT_TRIM,
    SQL_ATTEMPT_DEL,
    SQL_WORD_NEW,
    SQL_IDEM_DEL,
    SQL_IDEM_NEW,
    SQL_DELTA,
    SQL_BODIES,
    SQL_SHARED,
    SQL_HOLD,
    /* bulk actions */
    SQL_BULK_NEW,
    SQL_BULK_JOBS,
    SQL_BULK_RIVALS,
    SQL_LOCK_NUMBER,
    SQL_BULK_STEP,
    SQL_BULK_END,
    SQL_BULK_ORPHANS,
    /* the leader's */
    SQL_LEADER_TAKE,
    SQL_LEADER_LOCK,
    SQL_NODE_SEEN,
    SQL_NODES,
    SQL_SYNC,
    SQL_NODE_GONE,
    SQL_DUE_LEASES,
    SQL_DUE_JOBS,
    SQL_DUE_EXPIRY,
    SQL_DUE_BOUND,
    SQL_DUE_DOOMED,
    SQL_DOOMED_END,
    SQL_DUE_TRIM,
    SQL_DUE_KEYS,
    SQL_DUE_WORDS,
    SQL_DUE_HOURS,
    SQL_RESUMED,
    SQL_FOLD,
    SQL_NEXT,
    SQL_FIGURES,
    /* questions */
    SQL_GET,
    SQL_ATTEMPTS,
    SQL_PEEK_READY,
    SQL_PEEK_SCHEDULED,
    SQL_PEEK_RUNNING,
    SQL_PEEK_KEPT,
    SQL_PEEK_NEWEST,
    SQL_QUEUE_VIEWS,
    SQL_GROUP,
    SQL_LIST,
    SQL_LIST_NEWEST,
    SQL_LIST_KEPT,
    SQL_LIST_KEPT_NEWEST,
    SQL_WORKERS,
    SQL_EXCEPTIONS,
    SQL_HISTORY,
    SQL_PAGE,
    SQL_PAGE_COUNT,
    /* keys and values */
    SQL_KV_LOCK,
    SQL_KV_LOAD,
    SQL_KV_VERSIONS,
    SQL_KV_SUMS,
    SQL_KV_SET,
    SQL_KV_FROM_JOB,
    SQL_KV_DEL,
    SQL_KV_EXPIRED,
    SQL_KV_GET,
    SQL_KV_LIST,
    SQL_KV_LIST_BACK,
    /* schedules */
    SQL_SCHEDULE_LOCK,
    SQL_SCHEDULES,
    SQL_SCHEDULE_NUMBER,
    SQL_SCHEDULE_FLOWS,
    SQL_SCHEDULE_PUT,
    SQL_SCHEDULE_STATE,
    SQL_SCHEDULE_DEL,
    SQL_SCHEDULE_GET,
    SQL_SCHEDULE_LIST,
    SQL_SCHEDULE_CHANGES,
    SQL_DUE_HELD,
    /* others are told */
    SQL_NOTIFY,
    SQL_COUNT
};

struct sql_text {
    char *text[SQL_COUNT];
};

/* Writes each statement with the schema (already quoted) in place. */
MUST_CHECK int pg_sql_fill(struct sql_text *ret, const char *schema);
/* The same for any text; the caller's, from mem_alloc. NULL = no memory. */
char *pg_sql_with_schema(const char *text, const char *schema);
void pg_sql_done(struct sql_text *t);

/* The columns of a job, in the order of JOB in sql_impl.h. */
enum job_column {
    JOB_SEQ,
    JOB_ID_HI,
    JOB_QUEUE,
    JOB_STATE,
    JOB_REASON,
    JOB_PRIORITY,
    JOB_RUN_AT,
    JOB_SINCE,
    JOB_GENERATION,
    JOB_FAILURES,
    JOB_CRASHES,
    JOB_PAYLOAD_KIND,
    JOB_PAYLOAD_BYTES,
    JOB_FLAGS,
    JOB_TOK_EPOCH,
    JOB_TOK_COUNTER,
    JOB_LEASE_MS,
    JOB_UNTIL,
    JOB_WORKER,
    JOB_NONCE,
    JOB_STARTED_AT,
    JOB_WORD,
    JOB_WORD_STATE,
    JOB_WORD_RUN_AT,
    JOB_FATE,
    JOB_UKEY,
    JOB_HELD,
    JOB_GRP,
    JOB_CORRELATION,
    JOB_LABEL,
    JOB_ATTRIBUTES,
    JOB_EXPIRES_AT,
    JOB_OPTIONS,
    JOB_UNDELIVERED,
    JOB_RESULT_KIND,
    JOB_ERROR_KIND,
    JOB_HOLDER,
    JOB_HOLDER_HI,
    JOB_COLUMN_COUNT,
    /* where bodies are asked for, too */
    JOB_PAYLOAD = JOB_COLUMN_COUNT,
    JOB_RESULT,
    JOB_ERROR,
    /* … and the queue */
    JOB_QUEUE_NAME,
    JOB_QUEUE_OWNER,
    JOB_QUEUE_POLICY,
    JOB_QUEUE_PAUSED,
};

/* The sums of a queue: columns of total and delta. */
#define SUMS                                                                                       \
    "s1", "s2", "s3", "s4", "s5", "s6", "urgent", "removed", "t0", "t1", "t2", "t3", "t4", "t5",   \
        "t6", "t7", "t8", "t9", "t10", "t11", "t12"
