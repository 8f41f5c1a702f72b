/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/system/clock.h"

#define EVERY_NS UINT64_C(200000000)
#define COLUMNS_DEFAULT 80
#define TEXT_COLUMNS 32 /* beside the bar: its frame, the word, the share and the size */
enum { BAR_MAX = 30, BAR_MIN = 5 };

static int columns(void)
{
    struct winsize size = {0};
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : COLUMNS_DEFAULT;
}

/* "\r[#####     ] "; a narrow terminal has no room for it. */
static size_t bar_text(double share, char out[PROGRESS_TEXT_BYTES])
{
    int room = columns() - TEXT_COLUMNS;
    int width = room < BAR_MAX ? room : BAR_MAX;
    if (width < BAR_MIN)
        return (size_t)snprintf(out, PROGRESS_TEXT_BYTES, "\r");
    int full = share < 1 ? (int)(share * width) : width;
    return (size_t)snprintf(out, PROGRESS_TEXT_BYTES, "\r[%.*s%*s] ", full,
                            "##############################", width - full, "");
}

void progress_bar(double share)
{
    char text[PROGRESS_TEXT_BYTES];
    (void)fwrite(text, 1, bar_text(share, text), stderr);
}

void progress_begin(struct progress *p, const char *what)
{
    const char *term = getenv("TERM");
    bool dumb = term && strcmp(term, "dumb") == 0; /* it would show the escape sequences */
    *p = (struct progress){.what = what, .terminal = !dumb && isatty(STDERR_FILENO)};
}

size_t progress_text(struct progress *p, uint64_t done, uint64_t total, bool bytes,
                     char out[PROGRESS_TEXT_BYTES])
{
    uint64_t now = clock_ns();
    char size[32] = "";
    if (!p->terminal || (p->shown_ns && now - p->shown_ns < EVERY_NS))
        return 0;
    p->shown_ns = now;
    if (total == 0)
        return (size_t)snprintf(out, PROGRESS_TEXT_BYTES, "\r%.20s …\033[K", p->what);
    double share = done < total ? (double)done / (double)total : 1;
    if (bytes)
        snprintf(size, sizeof size, " of %.1f MiB", (double)total / (1 << 20));
    size_t len = bar_text(share, out);
    /* Rounded down: 100 % is shown at the end only. */
    return len + (size_t)snprintf(out + len, PROGRESS_TEXT_BYTES - len, "%.20s %3d %%%s\033[K",
                                  p->what, (int)(share * 100), size);
}

size_t progress_clear(struct progress *p, char out[PROGRESS_TEXT_BYTES])
{
    bool shown = p->shown_ns != 0;
    p->shown_ns = 0;
    return shown ? (size_t)snprintf(out, PROGRESS_TEXT_BYTES, "\r\033[K") : 0;
}

void progress_show(struct progress *p, uint64_t done, uint64_t total, bool bytes)
{
    char text[PROGRESS_TEXT_BYTES];
    (void)fwrite(text, 1, progress_text(p, done, total, bytes, text), stderr);
}

void progress_end(struct progress *p)
{
    char text[PROGRESS_TEXT_BYTES];
    (void)fwrite(text, 1, progress_clear(p, text), stderr);
}
