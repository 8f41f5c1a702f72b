/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/work/work_log.h"

#include <stdio.h>

static void line_write(void *ctx, const char *line, size_t len)
{
    struct work_log *l = ctx;
    if (l->has_bar)
        progress_end(&l->bar);
    (void)fwrite(line, 1, len, stderr);
}

void work_log_open(struct work_log *l, bool json, bool bar)
{
    *l = (struct work_log){.log = {.write = line_write,
                                   .ctx = l,
                                   .clock = clock_system(),
                                   .format = json ? LOG_AS_JSON : LOG_AS_TEXT,
                                   .level = LOG_INFO}};
    progress_begin(&l->bar, "jobs");
    l->has_bar = bar && l->bar.terminal;
}

void work_log_close(struct work_log *l)
{
    if (l->has_bar)
        progress_end(&l->bar);
}

void work_log_bar(struct work_log *l, uint64_t done, uint64_t total)
{
    if (l->has_bar)
        progress_show(&l->bar, done, total, false);
}
