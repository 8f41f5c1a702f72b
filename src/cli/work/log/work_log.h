/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/work/log writes the log of the runner. It may use base and libuv.
 *
 * The log of the runner on standard error, and the progress bar on the same terminal. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "cli/progress.h"
#include "cli/work/log/log_writer.h"

struct work_log {
    struct log log;
    struct progress bar;
    bool has_bar;
    struct log_writer *writer; /* NULL: written by the caller's thread */
    uint64_t dropped;          /* texts, because standard error was not read */
};

/* The log points to l, which must not move. `bar`: show a progress bar if standard error is a
 * terminal. */
void work_log_open(struct work_log *l, bool json, bool bar);
void work_log_close(struct work_log *l); /* removes the bar */
void work_log_bar(struct work_log *l, uint64_t done, uint64_t total);
/* All jobs are done: the bar is full, and stays. */
void work_log_bar_end(struct work_log *l);

/* Logs every line without a rate limit: each job has one. */
#define work_log_line(l, level, event, ...)                                                        \
    log_write(&(l)->log, (level), NULL, (event),                                                   \
              (const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){.kind = LOG_FIELD_END}})
