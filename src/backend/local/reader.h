/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that reads the store for the loop: bodies that are not in memory, history, lists.
 *
 * While answers with READER_BYTES_MAX wait for the loop, nothing is read. Otherwise many claims of
 * large jobs could have all their payloads in memory while the loop is busy. */
#pragma once

#include "backend/local/store/store.h"

#define READER_BYTES_MAX ((size_t)64 << 20)

struct reader;

/* One query; owned by the reader until it is returned by reader_done. */
struct reader_job {
    void *request; /* belongs to the caller, unchanged */
    struct store_query query;
    /* the answer */
    int error;
    struct arena arena;
    struct stored_body *bodies;
    struct job_view *jobs;
    uint32_t job_count;
    uint64_t cursor, as_of;
    struct attempt_view *attempts;
    uint32_t attempt_count;
    struct kv_view *kvs;
    uint32_t kv_count;
    struct span kv_cursor;
    struct hour_view *hours;
    uint32_t hour_count;
    size_t bytes; /* memory of the answer */
    struct reader_job *next;
};

/* Owns the store_reader. `notify` is called on the reader's thread when there are answers. */
MUST_CHECK int reader_start(struct store_reader *from, void (*notify)(void *ctx), void *ctx,
                            struct reader **ret);
MUST_CHECK int reader_ask(struct reader *r, void *request, const struct store_query *query);
/* The next answer, or NULL; free it with reader_job_free. */
struct reader_job *reader_done(struct reader *r);
void reader_job_free(struct reader_job *j);
/* Executes one query in the calling thread. */
void reader_work(struct store_reader *from, struct reader_job *j);
/* Drops the queries that are still queued, ends the thread, closes the store_reader and frees
 * everything. */
void reader_stop(struct reader *r);
