/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of Nomarr's table `queue` as queues and jobs in the format of an export. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

/* First the type of every row; then the objects of "queue" and "job" lines, queues first, jobs
 * in the order in which they were enqueued; `number` is the row's id. A result other than 0 ends
 * the reading. */
struct nomarr_take {
    void *ctx;
    int (*row_type)(void *ctx, uint64_t number, struct span queue_type);
    int (*queue)(void *ctx, struct span queue);
    int (*job)(void *ctx, uint64_t number, struct span job);
    void (*wrong)(void *ctx, uint64_t number, const char *why); /* a row that is left out */
};

/* The result of `take`, or the negative codes of nomarr_read. */
MUST_CHECK int import_nomarr(const char *file, const struct nomarr_take *take,
                             struct err_note *note);
