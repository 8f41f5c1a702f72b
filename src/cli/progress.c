/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/system/clock.h"

#define EVERY_NS UINT64_C(200000000)

void progress_bar(double share)
{
    enum { BAR = 30 };
    int full = share < 1 ? (int)(share * BAR) : BAR;
    fprintf(stderr, "\r[%.*s%*s] ", full, "##############################", BAR - full, "");
}

void progress_begin(struct progress *p, const char *what)
{
    *p = (struct progress){.what = what, .terminal = isatty(STDERR_FILENO)};
}

void progress_show(struct progress *p, uint64_t done, uint64_t total, bool bytes)
{
    uint64_t now = clock_ns();
    if (!p->terminal || (p->shown_ns && now - p->shown_ns < EVERY_NS))
        return;
    p->shown_ns = now;
    if (total == 0) {
        fprintf(stderr, "\r%s …\033[K", p->what);
        return;
    }
    double share = (double)done / (double)total;
    progress_bar(share);
    fprintf(stderr, "%s %3.0f %%", p->what, share < 1 ? share * 100 : 100);
    if (bytes)
        fprintf(stderr, " of %.1f MiB", (double)total / (1 << 20));
    fputs("\033[K", stderr);
}

void progress_end(struct progress *p)
{
    if (p->shown_ns)
        fputs("\r\033[K", stderr);
    p->shown_ns = 0;
}
