/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines for operators: text or JSON lines, levels, and a limit per call site.
 *
 * A line is an event word and fields: log_event(log, LOG_WARN, "queue_deep", LOG_INT("depth", n),
 * LOG_TEXT("queue", name)). Secrets and payloads never become fields. Values are escaped, so that
 * no value can forge a line. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/span.h"
#include "base/system/clock.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_AS_TEXT, LOG_AS_JSON };

enum log_field_kind { LOG_FIELD_END, LOG_FIELD_TEXT, LOG_FIELD_INT, LOG_FIELD_BOOL };
struct log_field {
    enum log_field_kind kind;
    const char *name;
    struct span text;
    int64_t number;
};

struct log {
    void (*write)(void *ctx, const char *line, size_t len); /* a whole line, '\n' included */
    void *ctx;
    struct clock clock;
    enum log_format format;
    enum log_level level;
    const struct log *inner; /* not NULL: lines go there, with the mark; of the rest none counts */
    struct log_field mark;
};

#define LOG_TEXT(name, value) ((struct log_field){LOG_FIELD_TEXT, (name), span_text(value), 0})
#define LOG_SPAN(name, value) ((struct log_field){LOG_FIELD_TEXT, (name), (value), 0})
#define LOG_INT(name, value)                                                                       \
    ((struct log_field){LOG_FIELD_INT, (name), {NULL, 0}, (int64_t)(value)})
#define LOG_BOOL(name, value) ((struct log_field){LOG_FIELD_BOOL, (name), {NULL, 0}, (value)})

/* At most `burst` lines a site in each window of ten seconds; what was left out is counted and said
 * with the first line of the next window (field "suppressed"). */
struct log_site {
    int64_t window; /* start, mono ms; touched with atomics, since threads share a site */
    uint32_t lines;
    uint32_t suppressed;
};

/* log may be NULL: nothing is written. */
void log_write(const struct log *log, enum log_level level, struct log_site *site,
               const char *event, const struct log_field *fields);

#define LOG_BURST 20
#define log_event(log, level, event, ...)                                                          \
    do {                                                                                           \
        static struct log_site log_site_here;                                                      \
        log_write((log), (level), &log_site_here, (event),                                         \
                  (const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){.kind = LOG_FIELD_END}});  \
    } while (0)

/* A log that writes to a stdio stream, one fwrite a line. */
struct log log_to_stream(FILE *stream, enum log_format format, enum log_level level,
                         struct clock clock);
/* A log whose lines go to inner, which must outlive it and have no mark itself, each with this
 * field before its own. Level and format are inner's, also when they change. */
struct log log_marked(const struct log *inner, struct log_field mark);
