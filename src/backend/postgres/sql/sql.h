/* SPDX-License-Identifier: Apache-2.0 */
/* The statements that the store sends, by name. Their text is in sql/, one file for each part of
 * the store; each says there what it takes and returns. The build turns the files into strings
 * (cmake/embed.c), with numbers in place of ${names}. */
#pragma once

#include "backend/postgres/sql_gen.h"
#include "base/err.h"
#include "core/jobs/job_texts.h"

struct sql_text {
    char *text[SQL_COUNT];
};

/* Writes each statement with the schema (already quoted) in place. */
MUST_CHECK int pg_sql_fill(struct sql_text *ret, const char *schema);
/* The same for any text; the caller owns the result (mem_free): "@" becomes the schema and a dot,
 * "@@" the schema. NULL = no memory. */
char *pg_sql_with_schema(const char *text, const char *schema);
void pg_sql_done(struct sql_text *t);

/* The columns of a job, in the order of the part job_columns (sql/parts.sql). */
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
    JOB_TOKEN_EPOCH,
    JOB_TOKEN_COUNTER,
    JOB_LEASE_MS,
    JOB_UNTIL,
    JOB_WORKER,
    JOB_NONCE,
    JOB_STARTED_AT,
    JOB_REPLY,
    JOB_REPLY_STATE,
    JOB_REPLY_RUN_AT,
    JOB_OUTCOME_COUNTS,
    JOB_TEXT, /* one for each of core/jobs/job_texts.h */
    JOB_HOLDS_KEY = JOB_TEXT + JOB_TEXTS,
    JOB_EXPIRES_AT,
    JOB_OPTIONS,
    JOB_UNDELIVERED,
    JOB_RESULT_KIND,
    JOB_ERROR_KIND,
    JOB_HOLDER,
    JOB_HOLDER_HI,
    JOB_TIMEOUT_MS,
    JOB_CANCEL_GRACE_MS,
    JOB_CANCEL_AT,
    JOB_STEP_INDEX,
    JOB_COLUMN_COUNT,
    /* if bodies are requested, too */
    JOB_PAYLOAD = JOB_COLUMN_COUNT,
    JOB_RESULT,
    JOB_ERROR,
    /* … and the queue */
    JOB_QUEUE_NAME,
    JOB_QUEUE_OWNER,
    JOB_QUEUE_POLICY,
    JOB_QUEUE_PAUSED,
    JOB_DEPENDENT, /* … and, with get_job, what it depends on */
};
