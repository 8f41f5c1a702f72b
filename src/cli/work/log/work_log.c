/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/work/log/work_log.h"

#include <stdio.h>

static void text_write(struct work_log *l, struct span text)
{
    if (l->writer)
        l->dropped += !log_writer_add(l->writer, text);
    else
        (void)fwrite(text.at, 1, text.len, stderr);
}

static void bar_clear(struct work_log *l)
{
    char text[PROGRESS_TEXT_BYTES];
    if (l->has_bar)
        text_write(l, span_of(text, progress_clear(&l->bar, text)));
}

/* Says how many lines are missing before the first one that follows them. */
static void dropped_write(struct work_log *l)
{
    uint64_t lines = l->dropped;
    l->dropped = 0;
    if (lines > 0)
        work_log_line(l, LOG_WARN, "log_lines_dropped", LOG_INT("lines", lines));
}

static void line_write(void *ctx, const char *line, size_t len)
{
    struct work_log *l = ctx;
    uint64_t before = l->dropped;
    bar_clear(l);
    text_write(l, span_of(line, len));
    if (before > 0 && l->dropped == before)
        dropped_write(l);
}

void work_log_open(struct work_log *l, bool json, bool bar)
{
    *l = (struct work_log){.log = {.write = line_write,
                                   .ctx = l,
                                   .clock = clock_system(),
                                   .format = json ? LOG_AS_JSON : LOG_AS_TEXT,
                                   .level = LOG_INFO},
                           .writer = log_writer_open()};
    progress_begin(&l->bar, "jobs");
    l->has_bar = bar && l->bar.terminal;
}

void work_log_close(struct work_log *l)
{
    bar_clear(l);
    dropped_write(l);
    if (l->writer)
        log_writer_close(l->writer);
}

void work_log_bar(struct work_log *l, uint64_t done, uint64_t total)
{
    char text[PROGRESS_TEXT_BYTES];
    if (l->has_bar)
        text_write(l, span_of(text, progress_text(&l->bar, done, total, false, text)));
}

void work_log_bar_end(struct work_log *l)
{
    l->bar.shown_ns = 0; /* drawn at once */
    work_log_bar(l, 1, 1);
    if (l->has_bar)
        text_write(l, SPAN_LITERAL("\n"));
    l->has_bar = false;
}
