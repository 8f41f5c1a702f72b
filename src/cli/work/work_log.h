/* SPDX-License-Identifier: Apache-2.0 */
/* The log of the runner on standard error, and the progress bar on the same terminal. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "cli/progress.h"

struct work_log {
    struct log log;
    struct progress bar;
    bool has_bar;
};

/* The log points to l, which must not move. `bar`: show a progress bar if standard error is a
 * terminal. */
void work_log_open(struct work_log *l, bool json, bool bar);
void work_log_close(struct work_log *l); /* removes the bar */
void work_log_bar(struct work_log *l, uint64_t done, uint64_t total);

/* Logs every line without a rate limit: each job has one. */
#define work_log_line(l, level, event, ...)                                                        \
    log_write(&(l)->log, (level), NULL, (event),                                                   \
              (const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){.kind = LOG_FIELD_END}})
