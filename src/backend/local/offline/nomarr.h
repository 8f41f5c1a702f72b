/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the queue of another program, Nomarr, out of its SQLite database: one table `queue` of all
 * queue types. The file is only read; its own program may use it meanwhile. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

enum nomarr_status { NOMARR_PENDING, NOMARR_RUNNING, NOMARR_COMPLETED, NOMARR_ERROR };

struct nomarr_row {
    int64_t id, library_id, priority;
    int64_t enqueued_at, started_at, completed_at; /* Unix seconds; 0 = NULL of the last two */
    struct span path, queue_type;
    struct span error, results; /* empty = none; results: what should be JSON */
    enum nomarr_status status;
};

/* First the queue type of every row, so that a file can be refused as a whole; then every queue
 * type once, then every row in the order in which it was enqueued. A return other than 0 ends the
 * reading and is passed on. What is given lives only during the call. */
struct nomarr_sink {
    void *ctx;
    int (*row_type)(void *ctx, int64_t id, struct span queue_type);
    int (*type)(void *ctx, struct span queue_type);
    int (*row)(void *ctx, const struct nomarr_row *row);
    /* A row that is none of the table's; the rest goes on. */
    void (*wrong)(void *ctx, int64_t id, const char *sentence);
};

/* -ERR_NOT_FOUND (no such file), -ERR_INVALID (no database, or without that table), -ERR_IO,
 * -ERR_NOMEM, each with a note; or what the sink returned. */
MUST_CHECK int nomarr_read(const char *file, const struct nomarr_sink *sink, struct err_note *note);
