/* SPDX-License-Identifier: Apache-2.0 */
/* A reader of the SQLite store: bodies (sqlite/read.c), lists (sqlite/list.c), history
 * (sqlite/history.c). */
#pragma once

#include "backend/local/sqlite/read_gen.h"
#include "backend/local/sqlite/store_sqlite.h"

/* The source of a list's rows; see sqlite/list.c. Each exists for both directions. */
enum list_plan { PLAN_JOBS, PLAN_ASIDE, PLAN_ASIDE_QUEUE, PLAN_EXTRA, PLAN_COUNT };

/* The statements of sql/read.sql: those before the lists are prepared with the reader, a list
 * (READ_LIST + 2 * plan + newest_first) when it is first used. */
#define READ_LIST READ_LIST_JOBS
#define READ_FIXED READ_LIST_JOBS

struct reader_sqlite {
    struct store_reader base;
    sqlite3 *db;
    sqlite3_stmt *stmts[READ_COUNT];
    uint64_t limit_ms;
    uint64_t deadline_ns; /* of the current call, by clock_ns */
};

extern const struct store_reader_ops sqlite_reader_ops;
struct reader_sqlite *reader_sqlite_of(struct store_reader *r);

/* One snapshot for everything that is read between them. read_end takes the result of the caller
 * and returns it, or its own failure. */
MUST_CHECK int read_begin(struct reader_sqlite *r);
MUST_CHECK int read_end(struct reader_sqlite *r, int rc);
/* Steps; -ERR_NOT_FOUND at the end of the rows. */
MUST_CHECK int read_row(struct reader_sqlite *r, sqlite3_stmt *st);
/* Copies a column; NULL becomes empty. */
MUST_CHECK int read_span(sqlite3_stmt *st, int at, struct arena *arena, struct span *ret);
MUST_CHECK int read_body(struct reader_sqlite *r, uint64_t seq, bool texts_only,
                         struct arena *arena, struct stored_body *ret);

/* A queue's number by its name; 0 = the queue does not exist. */
MUST_CHECK int read_queue(struct reader_sqlite *r, struct span name, uint32_t *ret);
/* Adds the job's history to its body. */
MUST_CHECK int read_attempts(struct reader_sqlite *r, uint64_t seq, struct arena *arena,
                             struct stored_body *ret);
/* The position of the store, in the current transaction. */
MUST_CHECK int list_position(struct reader_sqlite *r, uint64_t *ret);
int sqlite_kv_get(struct store_reader *reader, struct kv_view *views, uint32_t count,
                  struct arena *arena);
int sqlite_kv_list(struct store_reader *reader, const struct op_kv_list *query, struct arena *arena,
                   struct kv_view **ret, uint32_t *ret_count, struct span *ret_cursor,
                   uint64_t *ret_as_of);
int sqlite_exceptions(struct store_reader *reader, const struct op_exceptions *query,
                      struct arena *arena, struct attempt_view **ret, uint32_t *ret_count);
int sqlite_history(struct store_reader *reader, const struct op_history *query, struct arena *arena,
                   struct hour_view **ret, uint32_t *ret_count);
int sqlite_list(struct store_reader *reader, const struct op_list *query, struct arena *arena,
                struct job_view **ret_jobs, uint32_t *ret_count, uint64_t *ret_cursor,
                uint64_t *ret_as_of);
